/*
 * straight.h - operands as tensor maps want them: one axis contiguous, the rest at multiples of
 * 16 bytes. Operands that are laid out otherwise are copied first: straight_copies.h.
 */
#ifndef GOP_CUDA_MATMUL_STRAIGHT_H
#define GOP_CUDA_MATMUL_STRAIGHT_H

#include "cuda/common/tma.h"
#include "cuda/matmul/product.h"

/* Lines are rows of a or columns of b. A transposed operand is contiguous from line to line,
 * others along their terms. */
struct straight_operand {
    int64_t inner, outer, batches;  /* extents; 1 of the batch where it is the same for all */
    int64_t line, batch;            /* strides of the last two */
    int64_t from_inner, from_outer; /* strides before a copy */
    bool transposed, copied;
    int item = 2;         /* bytes */
    bool rounded = false; /* TMA rounds it to 11 bits (TF32) */
};

static inline bool straight_strides(const void *data, const straight_operand &o)
{
    return (uintptr_t)data % 16 == 0 && o.line > 0 && o.line * o.item % 16 == 0 &&
           o.batch > 0 && o.batch * o.item % 16 == 0 && o.line < INT64_C(1) << 36 &&
           o.batch < INT64_C(1) << 36;
}

static inline straight_operand straight_operand_of(const gop_gemm &g, const int64_t *batch,
                                                   const void *data, int64_t lines,
                                                   int64_t from_line, int64_t from_term,
                                                   int item = 2)
{
    const int64_t unit = 16 / item;
    straight_operand o;
    o.item = item;
    const int64_t uniform = uniform_batch(g, batch);
    const bool by_term = from_term == 1 || g.k == 1;
    o.transposed = !by_term && (from_line == 1 || lines == 1);
    o.inner = o.transposed ? lines : g.k;
    o.outer = o.transposed ? g.k : lines;
    o.batches = uniform == 0 ? 1 : g.batches;
    o.from_inner = o.transposed ? from_line : from_term;
    o.from_outer = o.transposed ? from_term : from_line;
    o.line = o.outer > 1 ? o.from_outer : (o.inner + unit - 1) / unit * unit;
    o.batch = uniform == 0 ? o.line * o.outer : uniform;
    o.copied = (o.inner > 1 && o.from_inner != 1) || !straight_strides(data, o);
    if (o.copied) {
        o.line = (o.inner + unit - 1) / unit * unit;
        o.batch = o.line * o.outer;
    }
    return o;
}

/* The output, by lines of neighbours: `copied` says that no map can write it. A map writes to
 * the end of the 16 bytes that a line ends in, which a slice of a wider array shares. */
static inline straight_operand straight_result(const gop_gemm &g, const void *data)
{
    const bool transposed = g.out_col != 1 && g.out_row == 1;
    straight_operand o = {};
    o.transposed = transposed, o.batches = g.batches;
    o.inner = transposed ? g.m : g.n, o.outer = transposed ? g.n : g.m;
    o.from_inner = transposed ? g.out_row : g.out_col;
    o.line = transposed ? g.out_col : g.out_row;
    if (o.outer == 1) o.line = (o.inner + 7) / 8 * 8;
    o.batch = g.batches == 1 ? o.line * o.outer : uniform_batch(g, g.out);
    o.copied =
        (o.inner > 1 && o.from_inner != 1) || o.inner % 8 != 0 || !straight_strides(data, o);
    return o;
}

/* Whether two neighbours of a line can be written as one word. */
static inline bool straight_pairs(const straight_operand &o, const void *data)
{
    return o.from_inner == 1 && (uintptr_t)data % 4 == 0 && o.line % 2 == 0 && o.batch % 2 == 0;
}

/* A product whose batch has its operands, and its results, at equal distances: what a kernel is
 * told that fetches by maps. matmul_product has axes for a batch. */
template <typename T> struct straight_product {
    const T *a, *b;
    T *out;
    int64_t m, n, k;
    int64_t a_row, a_col, b_row, b_col, out_row, out_col;
    int64_t a_batch, b_batch, out_batch;
};

template <typename T>
static inline straight_product<T> straight_product_of(const matmul_product<T> &p)
{
    const matmul_geometry &g = p.g;
    straight_product<T> s = {p.a, p.b, (T *)p.out, g.m, g.n, g.k};
    s.a_row = g.a_row, s.a_col = g.a_col, s.a_batch = uniform_batch(g, g.a);
    s.b_row = g.b_row, s.b_col = g.b_col, s.b_batch = uniform_batch(g, g.b);
    s.out_row = g.out_row, s.out_col = g.out_col, s.out_batch = uniform_batch(g, g.out);
    return s;
}

static inline size_t straight_bytes(const straight_operand &o)
{
    return o.copied ? ((size_t)(o.batches * o.batch * o.item) + 255) / 256 * 256 : 0;
}

#if GOP_SM90

static inline gop_status straight_map(gop_cuda_tensor_map *map, const straight_operand &o,
                                      const void *data, int box, int sharers = 1)
{
    gop_cuda_tensor t = {};
    t.data = (void *)(uintptr_t)data, t.item = o.item, t.rounded = o.rounded;
    t.extent[0] = o.inner, t.extent[1] = o.outer, t.extent[2] = o.batches;
    t.stride[0] = 1, t.stride[1] = o.line, t.stride[2] = o.batch;
    t.box[0] = 128 / o.item, t.box[1] = box / sharers, t.box[2] = 1;
    return gop_cuda_map(map, &t);
}

#endif
#endif
