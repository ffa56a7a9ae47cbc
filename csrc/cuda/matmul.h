/*
 * matmul.h - what the kernels of matmul share: arithmetic, operands, and steps.
 */
#ifndef GOP_CUDA_MATMUL_H
#define GOP_CUDA_MATMUL_H

#include "cuda/device.h"

/* ---- arithmetic: one term of the sum ---- */

/* A truth value that is or-ed, where a count of true terms could wrap to 0. */
struct logic {
    uint32_t bit;
};

/* What a sum of products is kept in. Signed integers run as unsigned ones: the low bits of a
 * product are the same, and unsigned numbers may wrap. */
template <typename T> struct sum_of {
    typedef compute_t<T> type;
};
template <> struct sum_of<boolean> {
    typedef logic type;
};
template <> struct sum_of<uint8_t> {
    typedef uint32_t type;
};
template <> struct sum_of<uint16_t> {
    typedef uint32_t type;
};
template <typename T> using sum_t = typename sum_of<T>::type;

template <typename T> GOP_DEVICE sum_t<T> widen(T value)
{
    return load(value);
}
template <> GOP_DEVICE logic widen<boolean>(boolean value)
{
    return {value.byte != 0};
}

/* To a sum's own type, or with one rounding or the low bits to the output's. */
template <typename O> GOP_DEVICE void put(O *to, O sum)
{
    *to = sum;
}
GOP_DEVICE void put(boolean *to, logic sum)
{
    to->byte = (uint8_t)sum.bit;
}
GOP_DEVICE void put(uint8_t *to, uint32_t sum)
{
    *to = (uint8_t)sum;
}
GOP_DEVICE void put(uint16_t *to, uint32_t sum)
{
    *to = (uint16_t)sum;
}
GOP_DEVICE void put(float16 *to, float sum)
{
    *to = store<float16>(sum);
}
GOP_DEVICE void put(bfloat16 *to, float sum)
{
    *to = store<bfloat16>(sum);
}

/* a * b + sum: one rounding for a float, four for a complex number. */
GOP_DEVICE float accumulate(float a, float b, float sum)
{
    return fmaf(a, b, sum);
}
GOP_DEVICE double accumulate(double a, double b, double sum)
{
    return fma(a, b, sum);
}
GOP_DEVICE uint32_t accumulate(uint32_t a, uint32_t b, uint32_t sum)
{
    return a * b + sum;
}
GOP_DEVICE uint64_t accumulate(uint64_t a, uint64_t b, uint64_t sum)
{
    return a * b + sum;
}
GOP_DEVICE logic accumulate(logic a, logic b, logic sum)
{
    return {sum.bit | (a.bit & b.bit)};
}
template <typename R>
GOP_DEVICE complex<R> accumulate(complex<R> a, complex<R> b, complex<R> sum)
{
    return {accumulate(-a.im, b.im, accumulate(a.re, b.re, sum.re)),
            accumulate(a.im, b.re, accumulate(a.re, b.im, sum.im))};
}

template <typename S> GOP_DEVICE S plus(S a, S b)
{
    return a + b;
}
GOP_DEVICE logic plus(logic a, logic b)
{
    return {a.bit | b.bit};
}
template <typename R> GOP_DEVICE complex<R> plus(complex<R> a, complex<R> b)
{
    return {a.re + b.re, a.im + b.im};
}

/* ---- the operands of one launch ---- */

struct matmul_part {
    int64_t batch, batches; /* the products of the batch it computes */
    int64_t row, rows;      /* and which rows of them */
    int64_t split, chunk;   /* sums over l are cut into `split` pieces of `chunk` terms */
    int64_t split_stride;   /* between the results of two pieces */
};

template <typename T> struct matmul_product {
    gop_gemm g;
    const T *a, *b;
    void *out;
    matmul_part part;
};

template <typename T>
static inline matmul_product<T> matmul_product_of(const gop_task *task, const matmul_part &part)
{
    matmul_product<T> p;
    p.g = task->geometry.gemm;
    p.a = (const T *)task->in[0].data;
    p.b = (const T *)task->in[1].data;
    p.out = task->out[0].data;
    p.part = part;
    return p;
}

struct matmul_offsets {
    int64_t a, b, out;
};

GOP_DEVICE matmul_offsets matmul_batch(const gop_gemm &g, int64_t batch)
{
    matmul_offsets at = {0, 0, 0};
    for (int axis = g.batch_rank - 1; axis >= 0; axis--) {
        const int64_t index = batch % g.extent[axis];
        batch /= g.extent[axis];
        at.a += index * g.a[axis];
        at.b += index * g.b[axis];
        at.out += index * g.out[axis];
    }
    return at;
}

static inline int64_t matmul_item(const gop_task *task)
{
#define X(enumerator, word, bytes) bytes,
    static const int item_bytes[] = {GOP_DTYPES(X)};
#undef X
    return item_bytes[task->out[0].dtype];
}

/* ---- steps: pieces of about the same time ---- */

/* Terms a multiprocessor adds in some 20 ms at a quarter of its float32 rate; wide types have
 * fewer units. `slower` is how far a kernel stays behind the best one. */
static inline double matmul_step_terms(const gop_ctx *ctx, const gop_task *task, double slower)
{
    const double processors = ctx->info.processors > 0 ? ctx->info.processors : 1;
    const int64_t item = matmul_item(task);
    const double wide = item == 16 ? 16 : item == 8 ? 4 : 1;
    return processors * 2.4e9 / (slower * wide);
}

/* Cuts a task where it is long: by rows if one product is, else by products of the batch.
 * Returns how many steps there are and fills `part` for one of them. */
static inline int64_t matmul_cut(const gop_ctx *ctx, const gop_task *task, double slower,
                                 int64_t step, matmul_part *part)
{
    enum { PANEL = 128 }; /* a whole number of every kernel's tiles */
    const gop_gemm *g = &task->geometry.gemm;
    const double budget = matmul_step_terms(ctx, task, slower);
    const double row = (double)g->n * (double)(g->k ? g->k : 1), product = row * (double)g->m;
    *part = {0, g->batches, 0, g->m, 1, g->k, 0};
    if (g->batches == 0) return 0;
    if (product > budget) {
        const int64_t pieces = 1 + (int64_t)(product / budget);
        const int64_t even = (g->m + pieces - 1) / pieces;
        const int64_t rows = (even + PANEL - 1) / PANEL * PANEL;
        const int64_t panels = (g->m + rows - 1) / rows, first = step % panels * rows;
        part->batch = step / panels;
        part->batches = 1;
        part->row = first;
        part->rows = g->m - first < rows ? g->m - first : rows;
        return panels * g->batches;
    }
    /* A grid has at most 2^31 - 1 blocks, and no kernel's tile is smaller than 64 x 64. */
    const double grid = 2147483647.0 / (double)((g->m + 63) / 64 * ((g->n + 63) / 64));
    const int64_t fit = (int64_t)(budget / product < grid ? budget / product : grid);
    const int64_t each = fit < 1 ? 1 : fit < g->batches ? fit : g->batches;
    const int64_t first = step * each;
    part->batch = first;
    part->batches = g->batches - first < each ? g->batches - first : each;
    return (g->batches + each - 1) / each;
}

/* One function per dtype, signed integers by their unsigned twin. */
#define MATMUL_LAUNCHES(f)                                                                     \
    {                                                                                          \
        f<boolean>, f<uint8_t>, f<uint16_t>, f<uint32_t>, f<uint64_t>, f<uint8_t>,             \
            f<uint16_t>, f<uint32_t>, f<uint64_t>, f<float16>, f<bfloat16>, f<float>,          \
            f<double>, f<complex64>, f<complex128>                                             \
    }

/* ---- launchers in files of their own ---- */

/* matmul_blocktiled.cu */
template <typename T>
gop_status matmul_blocktiled(gop_ctx *ctx, const gop_task *task, int64_t step);
int64_t matmul_blocktiled_steps(const gop_ctx *ctx, const gop_task *task);
template <typename T>
gop_status matmul_splitk(gop_ctx *ctx, const gop_task *task, int64_t step);
gop_status matmul_splitk_accepts(const gop_ctx *ctx, const gop_task *task);
size_t matmul_splitk_scratch(const gop_ctx *ctx, const gop_task *task);

#endif
