/*
 * blocktiled.cu - matmul with TM x TN outputs of a thread in registers.
 *
 * Shared memory delivers 32 words a clock where the arithmetic units want factors for 128
 * multiply-adds: a thread that keeps TM x TN outputs reads TM + TN values for TM * TN of them.
 */
#include "cuda/matmul/tiles.h"

/* Blocks of an SM: while one waits at its barrier, another multiplies. Only where
 * half of the registers are enough for a block. */
template <typename T> struct resident {
    enum { BLOCKS = 1 };
};
template <> struct resident<uint8_t> {
    enum { BLOCKS = 2 };
};
template <> struct resident<uint16_t> : resident<uint8_t> {
};
template <> struct resident<uint32_t> : resident<uint8_t> {
};
template <> struct resident<float> : resident<uint8_t> {
};
template <> struct resident<double> : resident<uint8_t> {
};

/* A thread's share of loading a tile of `lines` lines (rows of a, columns of b): its first
 * element, and the distance from one to the next. Neighbouring threads follow the operand's
 * contiguous direction: along l, or from line to line. */
struct loading {
    int line, l, line_step, l_step;
};

GOP_DEVICE loading loading_of(int lines, int64_t line_stride, int64_t l_stride)
{
    const int64_t line_far = line_stride < 0 ? -line_stride : line_stride;
    const int64_t l_far = l_stride < 0 ? -l_stride : l_stride;
    const int t = threadIdx.x;
    if (l_far < line_far) return {t / BK, t % BK, THREADS / BK, 0};
    return {t % lines, t / lines, 0, THREADS / lines};
}

/* A bit for each of a thread's elements whose line exists. */
template <int EACH> GOP_DEVICE unsigned lines_inside(const loading &at, int64_t lines)
{
    unsigned inside = 0;
#pragma unroll
    for (int e = 0; e < EACH; e++)
        inside |= (unsigned)(at.line + e * at.line_step < lines) << e;
    return inside;
}

/* Loads a thread's share of a tile of which `left` terms exist; 0 stands for the others. */
template <typename T, int EACH> GOP_DEVICE void fetch(sum_t<T> (&next)[EACH], const T *from,
                                                      int64_t step, const loading &at,
                                                      unsigned inside, int64_t left)
{
    const sum_t<T> zero = {};
#pragma unroll
    for (int e = 0; e < EACH; e++, from += step)
        next[e] = (inside >> e & 1) && at.l + e * at.l_step < left ? widen(*from) : zero;
}

/* Where a block's outputs go, and how many of them exist. */
template <typename O> struct output {
    O *out;
    int2 exist; /* columns and rows */
};

/* A tile is loaded into registers while the one before is multiplied, and then stored to the
 * half of shared memory that is not being read: one barrier a tile. */
template <typename T, typename O>
__global__ void __launch_bounds__(THREADS, resident<T>::BLOCKS)
    matmul_blocktiled_kernel(const matmul_product<T> p)
{
    typedef sum_t<T> S;
    typedef block_tile<sizeof(S)> shape;
    enum { BM = shape::BM, BN = shape::BN, TM = shape::TM, TN = shape::TN, N = vec128<S>::N };
    enum { ROWS = BM / TM, COLUMNS = BN / TN }; /* of threads */
    enum { A_EACH = BM * BK / THREADS, B_EACH = BN * BK / THREADS };
    enum { A_LINE = BM + N, B_LINE = BN + N }; /* padded: no bank conflicts in stores */
    static_assert(ROWS * COLUMNS == THREADS, "every thread has TM x TN outputs");
    static_assert(BM % (THREADS / BK) == 0 && BN % (THREADS / BK) == 0, "whole loads");
    __shared__ vec128<S> a_tile[2][BK][A_LINE / N];
    __shared__ vec128<S> b_tile[2][BK][B_LINE / N];

    __shared__ output<O> place; /* waits here: registers are for sums */

    if (p.part.wanted && *p.part.wanted == 0) return;

    const matmul_geometry &g = p.g;
    const int x = threadIdx.x % COLUMNS, y = threadIdx.x / COLUMNS;
    const loading la = loading_of(BM, g.a_row, g.a_col), lb = loading_of(BN, g.b_col, g.b_row);
    const int64_t a_step = la.line_step * g.a_row + la.l_step * g.a_col;
    const int64_t b_step = lb.line_step * g.b_col + lb.l_step * g.b_row;
    const int a_to = la.l * A_LINE + la.line, a_to_step = la.l_step * A_LINE + la.line_step;
    const int b_to = lb.l * B_LINE + lb.line, b_to_step = lb.l_step * B_LINE + lb.line_step;

    const matmul_tile<T> tile = matmul_tile_of<BM, BN, RASTER>(p);
    const unsigned a_inside = lines_inside<A_EACH>(la, tile.rows);
    const unsigned b_inside = lines_inside<B_EACH>(lb, tile.columns);
    const T *a = tile.a + la.line * g.a_row + la.l * g.a_col;
    const T *b = tile.b + lb.line * g.b_col + lb.l * g.b_row;
    if (threadIdx.x == 0) place = {(O *)p.out + tile.out, make_int2(tile.columns, tile.rows)};

    /* Main loop: what is multiplied stands in one half of shared memory, what comes next waits
     * in registers. */
    int64_t left = tile.terms;
    S a_next[A_EACH], b_next[B_EACH], sum[TM][TN] = {};
    fetch<T>(a_next, a, a_step, la, a_inside, left);
    fetch<T>(b_next, b, b_step, lb, b_inside, left);
    int half = 0;
    do {
        S *const a_write = reinterpret_cast<S *>(a_tile[half]) + a_to;
        S *const b_write = reinterpret_cast<S *>(b_tile[half]) + b_to;
#pragma unroll
        for (int e = 0; e < A_EACH; e++) a_write[e * a_to_step] = a_next[e];
#pragma unroll
        for (int e = 0; e < B_EACH; e++) b_write[e * b_to_step] = b_next[e];
        __syncthreads();
        left -= BK, a += BK * g.a_col, b += BK * g.b_row;
        if (left > 0) {
            fetch<T>(a_next, a, a_step, la, a_inside, left);
            fetch<T>(b_next, b, b_step, lb, b_inside, left);
        }
#pragma unroll 2 /* more would hold more values ahead than there are registers */
        for (int l = 0; l < BK; l++) {
            vec128<S> a_part[TM / N], b_part[TN / N];
#pragma unroll
            for (int v = 0; v < TM / N; v++) a_part[v] = a_tile[half][l][v * ROWS + y];
#pragma unroll
            for (int v = 0; v < TN / N; v++) b_part[v] = b_tile[half][l][v * COLUMNS + x];
            add_products(sum, a_part, b_part);
        }
        half ^= 1;
    } while (left > 0);

    /* Epilogue: store the sums. */
    const output<O> to = place;
#pragma unroll
    for (int r = 0; r < TM; r++)
#pragma unroll
        for (int c = 0; c < TN; c++) {
            const int i = (r / N * ROWS + y) * N + r % N;
            const int j = (c / N * COLUMNS + x) * N + c % N;
            if (i < to.exist.y && j < to.exist.x)
                put(to.out + i * g.out_row + j * g.out_col, sum[r][c]);
        }
}

template <typename T, typename O>
gop_status matmul_launch_blocks(gop_ctx *ctx, const matmul_product<T> &p)
{
    typedef block_tile<sizeof(sum_t<T>)> shape;
    return GOP_LAUNCH(ctx, (matmul_blocktiled_kernel<T, O>),
                      (matmul_tile_count<shape::BM, shape::BN>(p)), THREADS, 0, p);
}

template <typename T>
static gop_status matmul_blocktiled(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    return matmul_launch_blocks<T, T>(ctx,
                                      matmul_product_of<T>(task, matmul_part_of(task, step)));
}

extern const gop_row matmul_blocktiled_row = {
    .name = "blocktiled",
    .note = "a thread keeps 8 x 8 outputs in registers: 16 values from shared memory feed 64 "
            "multiply-adds, and the next tile loads meanwhile",
    .role = GOP_CONFORMING,
    .launch = MATMUL_LAUNCHES(matmul_blocktiled),
    .plan = matmul_steps_plan<1>,
    .before = "asynchronous",
};

/* For splitk. */
#define PARTIAL(T)                                                                             \
    template gop_status matmul_launch_blocks<T, sum_t<T>>(gop_ctx *, const matmul_product<T> &);
MATMUL_TYPES(PARTIAL)
