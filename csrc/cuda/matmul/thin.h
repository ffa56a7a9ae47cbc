/*
 * thin.h - products with few columns: what gemv_row and gemv_col share.
 *
 * One operand is large and is read once; the other, with at most 64 columns, is small. Where a
 * has the few rows, a and b change places: out is transposed by its strides. From here on a is
 * the large operand, and there are g.n columns.
 */
#ifndef GOP_CUDA_MATMUL_THIN_H
#define GOP_CUDA_MATMUL_THIN_H

#include "cuda/matmul/tiling.h"

enum { THIN_COLUMNS = 64 };

/* The layout of the small operand's copy: bands of `columns` columns. In a band `terms` terms
 * of a column are followed by those of the next one. What does not exist is 0. */
struct thin_layout {
    int64_t terms, columns;
};

/* What a plan decides. */
struct thin_cut : matmul_tiling {
    int swapped;    /* a and b have changed places */
    size_t pack_at; /* in scratch, behind the partial sums */
    thin_layout layout;
};

/* What a block computes: a tile of columns, rows from i0 on, terms [begin, end) of the sums. */
struct thin_block {
    int64_t tile, i0, chunk, batch, begin, end;
};

/* The order of blocks, fastest first: tiles of columns (there are `across`), rows, chunks of
 * the sums, products. */
template <typename T> GOP_DEVICE thin_block thin_block_of(const matmul_product<T> &p, int64_t i,
                                                          int64_t across, int rows)
{
    const int64_t down = (p.g.m + rows - 1) / rows;
    thin_block block;
    block.tile = i % across;
    i /= across;
    block.i0 = i % down * rows;
    i /= down;
    block.chunk = i % p.part.split, block.batch = i / p.part.split;
    block.begin = block.chunk * p.part.chunk;
    block.end = block.begin + p.part.chunk < p.g.k ? block.begin + p.part.chunk : p.g.k;
    return block;
}

/* Sums that a thread keeps are some 64 registers. */
template <typename S, int COLUMNS> struct thin_rows {
    enum { ROWS = thin_rows_of(COLUMNS, sizeof(S)) };
};

/* The product with its operands in place: the large one is a. */
template <typename T>
static inline matmul_product<T> thin_product_of(const gop_task *task, const thin_cut &cut)
{
    const gop_gemm &g = task->geometry.gemm;
    matmul_product<T> p =
        matmul_product_of<T>(task, {0, g.batches, 0, g.m, cut.split, cut.chunk, 0});
    p.part.split_stride = g.batches * g.m * g.n;
    if (cut.split > 1) p = matmul_partials_of(p, task->scratch);
    if (!cut.swapped) return p;
    const T *const a = p.a;
    p.a = p.b;
    p.b = a;
    p.g = matmul_swapped(p.g);
    p.part.rows = p.g.m;
    return p;
}

/* The geometry with the large operand first, for plans. */
static inline gop_gemm thin_geometry(const gop_task *task, int *swapped)
{
    const gop_gemm &g = task->geometry.gemm;
    *swapped = g.m < g.n;
    return *swapped ? matmul_swapped(g) : g;
}

/* Whether outputs of a column lie nearer to each other than those of a row. */
GOP_DEVICE bool thin_down_first(const matmul_geometry &g)
{
    return (g.out_row < 0 ? -g.out_row : g.out_row) < (g.out_col < 0 ? -g.out_col : g.out_col);
}

/* ---- folding the lanes of a warp ---- */

template <typename S> GOP_DEVICE S lane_across(S value, int d)
{
    return __shfl_xor_sync(0xffffffffu, value, d);
}
GOP_DEVICE logic lane_across(logic value, int d)
{
    return {lane_across(value.bit, d)};
}
template <typename R> GOP_DEVICE complex<R> lane_across(complex<R> value, int d)
{
    return {lane_across(value.re, d), lane_across(value.im, d)};
}

/* Adds N sums across WIDTH lanes. As long as a lane has two or more, it gives half of them away
 * and keeps the other half: N + 4 exchanges instead of 5 N. Lane l ends with the EACH sums from
 * first(l) on. Lanes that end with the same sums have added them in different orders, so their
 * NaNs may differ; the one to store is_first. */
template <int N, int WIDTH> struct lane_fold {
    enum { SPREAD = N < WIDTH ? N : WIDTH, EACH = N / SPREAD };
    static GOP_DEVICE int first(int lane) { return lane / (WIDTH / SPREAD) * EACH; }
    static GOP_DEVICE bool is_first(int lane) { return lane % (WIDTH / SPREAD) == 0; }
};
template <int WIDTH, int N, typename S> GOP_DEVICE void fold_lanes(S (&sum)[N], int lane)
{
    int left = N;
#pragma unroll
    for (int d = WIDTH / 2; d > 0; d /= 2) {
        if (left > 1) {
            left /= 2;
            const bool upper = lane & d;
#pragma unroll
            for (int i = 0; i < N / 2; i++) {
                if (i >= left) break;
                const S give = upper ? sum[i] : sum[i + left];
                const S keep = upper ? sum[i + left] : sum[i];
                sum[i] = plus(keep, lane_across(give, d));
            }
        } else {
            sum[0] = plus(sum[0], lane_across(sum[0], d));
        }
    }
}

/* Neighbours in memory, which one load fetches. */
template <typename T, int V> struct alignas(V * sizeof(T)) thin_group {
    T at[V];
};

/* Stores to the output, or to scratch if the sum is of a chunk. */
template <typename T>
GOP_DEVICE void thin_put(const matmul_product<T> &p, int64_t at, int64_t chunk, sum_t<T> sum)
{
    if (p.part.split == 1) put((T *)p.out + at, sum);
    else put((sum_t<T> *)p.out + chunk * p.part.split_stride + at, sum);
}

/* Enqueues the adding of the chunks' sums, if sums are split. */
template <typename T> static inline gop_status
thin_add_partials(gop_ctx *ctx, const gop_task *task, const matmul_part &part)
{
    if (part.split == 1) return GOP_OK;
    return matmul_add_partials(ctx, matmul_product_of<T>(task, part), task->scratch);
}

/* ---- the copy of the small operand ---- */

static inline int64_t thin_padded(int64_t count, int64_t to)
{
    return (count + to - 1) / to * to;
}

/* Elements of a product's copy. */
template <typename G> static inline int64_t thin_packed(const G &g, const thin_layout &to)
{
    return thin_padded(g.k, to.terms) * thin_padded(g.n, to.columns);
}

template <typename T>
__global__ void matmul_thin_pack_kernel(const matmul_product<T> p, T *to, thin_layout layout)
{
    const matmul_geometry &g = p.g;
    const int64_t l = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    const int64_t line = (g.k + layout.terms - 1) / layout.terms * layout.terms;
    const int64_t columns = (g.n + layout.columns - 1) / layout.columns * layout.columns;
    if (l >= line) return;
    const int64_t at = l / layout.terms * layout.terms * layout.columns + l % layout.terms;
    for (int64_t batch = blockIdx.y; batch < p.part.batches; batch += gridDim.y) {
        const T *from = p.b + matmul_batch(g, batch).b + l * g.b_row;
        for (int64_t c = 0; c < columns; c++) {
            T value = {};
            if (l < g.k && c < g.n) value = from[c * g.b_col];
            to[(batch * columns + c / layout.columns * layout.columns) * line + at +
               c % layout.columns * layout.terms] = value;
        }
    }
}

/* Enqueues the copying; b is the copy from then on. Two kernels become one graph: this one and
 * the next, or, where chunks are added, the next and that one. */
template <typename T> static inline gop_status
thin_pack(gop_ctx *ctx, const gop_task *task, const thin_cut &cut, matmul_product<T> *p)
{
    T *const to = (T *)((char *)task->scratch + cut.pack_at);
    const dim3 grid((unsigned)blocks_for(thin_padded(p->g.k, cut.layout.terms), 256),
                    (unsigned)(p->g.batches < 65535 ? p->g.batches : 65535));
    GOP_TRY(GOP_LAUNCH_FOLLOWED(ctx, cut.split == 1, matmul_thin_pack_kernel<T>, grid, 256, 0,
                                *p, to, cut.layout));
    p->b = to;
    p->g.b_row = 1;
    p->g.b_col = thin_padded(p->g.k, cut.layout.terms);
    for (int axis = p->g.batch_rank - 1, inner = axis; axis >= 0; axis--)
        p->g.b[axis] = axis == inner ? thin_packed(p->g, cut.layout)
                                     : p->g.b[axis + 1] * p->g.extent[axis + 1];
    return GOP_OK;
}

/* ---- plans ---- */

/* What the tiling depends on; `wide`: thin_wide of the large operand. */
static inline tiling_of thin_tiling_of(const gop_ctx *ctx, const gop_task *task,
                                       const gop_gemm &g, bool wide)
{
    tiling_of p = tiling_of_shape(ctx, g, matmul_item(task));
    p.a_along = gop_magnitude(g.a_col) <= gop_magnitude(g.a_row);
    p.a_wide = wide;
    return p;
}

/* Whether `bytes` bytes hold neighbours of the large operand wherever a kernel looks. */
static inline int thin_wide(const gop_task *task, const gop_gemm &g, int operand, int along,
                            int64_t bytes = 16)
{
    const int64_t vector = bytes / matmul_item(task);
    const int64_t length = along ? g.k : g.m, near = along ? g.a_col : g.a_row;
    const int64_t lines = along ? g.m : g.k, line = along ? g.a_row : g.a_col;
    int wide = vector > 1 && near == 1 && length % vector == 0 &&
               (lines == 1 || line % vector == 0) &&
               (uintptr_t)task->in[operand].data % (uintptr_t)bytes == 0;
    for (int axis = 0; axis < g.batch_rank; axis++) wide &= g.a[axis] % vector == 0;
    return wide;
}

/* Scratch: the partial sums, then the copy. */
static inline void thin_scratch(const gop_task *task, const gop_gemm &g, thin_cut *cut,
                                gop_plan *plan)
{
    const int64_t item = matmul_item(task), sum = item < 4 ? 4 : item;
    const int64_t partials = cut->split > 1 ? cut->split * g.batches * g.m * g.n * sum : 0;
    cut->pack_at = (size_t)thin_padded(partials, 256);
    plan->scratch =
        cut->packed ? cut->pack_at + (size_t)(g.batches * thin_packed(g, cut->layout) * item)
                    : (size_t)partials;
}

/* Refuses products with more than `most` columns, or without a clearly larger operand. */
static inline gop_status thin_takes(const gop_gemm &g, const char *who, int most = THIN_COLUMNS)
{
    GOP_TRY(matmul_takes_batch(g, who));
    enum { FLATTER = 4 }; /* the large operand, than the outputs */
    const bool large = g.n == 1 || g.m >= FLATTER * g.n || g.k >= FLATTER * FLATTER * g.m;
    if (g.n <= most && g.k > 0 && large) return GOP_OK;
    return gop_fail(GOP_REFUSED,
                    "matmul: kernel '%s' takes few rows or columns, at most %d, beside a far "
                    "larger operand, got %lld of (%lld, %lld) outputs of %lld terms",
                    who, most, (long long)g.batches, (long long)g.m, (long long)g.n,
                    (long long)g.k);
}

enum {
    THIN_DTYPES = 1 << GOP_FLOAT16 | 1 << GOP_BFLOAT16 | 1 << GOP_FLOAT32 | 1 << GOP_FLOAT64 |
                  1 << GOP_COMPLEX64 | 1 << GOP_COMPLEX128
};

/* Kernels of integers and booleans take one column: these have few users, and each width would
 * be five kernels more. Signed integers run as unsigned ones. */
static inline bool thin_is_whole(gop_dtype dtype)
{
    return dtype < GOP_FLOAT16;
}
static inline int thin_most(gop_dtype dtype)
{
    return thin_is_whole(dtype) ? 1 : THIN_COLUMNS;
}
/* clang-format off */
#define THIN_WHOLE(f) {f(boolean), f(uint8_t), f(uint16_t), f(uint32_t), f(uint64_t)}
/* clang-format on */
static inline int thin_whole_index(gop_dtype dtype)
{
    return dtype == GOP_BOOL ? 0 : 1 + (dtype - GOP_INT8) % 4;
}

#endif
