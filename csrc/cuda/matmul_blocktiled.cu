/*
 * matmul_blocktiled.cu - matmul with outputs in registers, and long sums cut among blocks.
 *
 * Shared memory delivers 32 words a clock where the arithmetic units want factors for 128
 * multiply-adds: a thread that keeps TM x TN outputs reads TM + TN values for TM * TN of them.
 */
#include "cuda/matmul.h"

/* Outputs of a block and of a thread: as many as registers hold without spilling. */
template <int SUM_BYTES> struct tiling {
    enum { BM = 128, BN = 128, TM = 8, TN = 8 };
};
template <> struct tiling<8> {
    enum { BM = 128, BN = 64, TM = 8, TN = 4 };
};
template <> struct tiling<16> {
    enum { BM = 64, BN = 64, TM = 4, TN = 4 };
};

/* Blocks of a multiprocessor: while one waits at its barrier, another multiplies. Only where
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

enum { BK = 8, THREADS = 256 }; /* terms a tile holds; threads of a block */
enum { GROUP = 8 };             /* rows of tiles whose blocks run together and share b in L2 */

/* ---- blocktiled: TM x TN outputs of a thread in registers ---- */

/* How a thread takes part in loading a tile of `lines` lines (rows of a, columns of b): its
 * first element, and from one of its elements to the next. Neighbouring threads follow the
 * operand's contiguous direction: along l, or from line to line. */
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

/* O is the output's type, or the sum's own for pieces of a sum. A tile travels from memory to
 * registers while the one before it is multiplied, and then to the half of shared memory that
 * is not being read: one barrier a tile. */
template <typename T, typename O>
__global__ void __launch_bounds__(THREADS, resident<T>::BLOCKS)
    matmul_blocktiled_kernel(const matmul_product<T> p)
{
    typedef sum_t<T> S;
    typedef tiling<sizeof(S)> shape;
    enum { BM = shape::BM, BN = shape::BN, TM = shape::TM, TN = shape::TN, N = vec128<S>::N };
    enum { ROWS = BM / TM, COLUMNS = BN / TN }; /* of threads */
    enum { A_EACH = BM * BK / THREADS, B_EACH = BN * BK / THREADS };
    enum { A_LINE = BM + N, B_LINE = BN + N }; /* padded: no bank conflicts in stores */
    static_assert(ROWS * COLUMNS == THREADS, "every thread has TM x TN outputs");
    static_assert(BM % (THREADS / BK) == 0 && BN % (THREADS / BK) == 0, "whole loads");
    __shared__ vec128<S> a_tile[2][BK][A_LINE / N];
    __shared__ vec128<S> b_tile[2][BK][B_LINE / N];

    __shared__ output<O> place; /* waits here: registers are for sums */

    const gop_gemm &g = p.g;
    const int x = threadIdx.x % COLUMNS, y = threadIdx.x / COLUMNS;
    const loading la = loading_of(BM, g.a_row, g.a_col), lb = loading_of(BN, g.b_col, g.b_row);
    const int64_t a_step = la.line_step * g.a_row + la.l_step * g.a_col;
    const int64_t b_step = lb.line_step * g.b_col + lb.l_step * g.b_row;
    const int a_to = la.l * A_LINE + la.line, a_to_step = la.l_step * A_LINE + la.line_step;
    const int b_to = lb.l * B_LINE + lb.line, b_to_step = lb.l_step * B_LINE + lb.line_step;

    /* which tile of which product, and which piece of its sum */
    const unsigned tiles_m = (unsigned)((p.part.rows + BM - 1) / BM);
    const unsigned tiles_n = (unsigned)((g.n + BN - 1) / BN), group = GROUP * tiles_n;
    const unsigned product = blockIdx.x / (tiles_m * tiles_n);
    const unsigned tile = blockIdx.x % (tiles_m * tiles_n), top = tile / group * GROUP;
    const unsigned height = tiles_m - top < GROUP ? tiles_m - top : GROUP;
    const int64_t i0 = (int64_t)(top + tile % group % height) * BM;
    const int64_t j0 = (int64_t)(tile % group / height) * BN;
    const int64_t piece = product % (unsigned)p.part.split, l0 = piece * p.part.chunk;
    const matmul_offsets of = matmul_batch(g, p.part.batch + product / (unsigned)p.part.split);
    const int rows = (int)(p.part.rows - i0 < BM ? p.part.rows - i0 : BM);
    const int columns = (int)(g.n - j0 < BN ? g.n - j0 : BN);
    const unsigned a_inside = lines_inside<A_EACH>(la, rows);
    const unsigned b_inside = lines_inside<B_EACH>(lb, columns);
    int64_t left = g.k - l0 < p.part.chunk ? g.k - l0 : p.part.chunk;

    /* multiply */
    const T *a = p.a + of.a + (p.part.row + i0 + la.line) * g.a_row + (l0 + la.l) * g.a_col;
    const T *b = p.b + of.b + (j0 + lb.line) * g.b_col + (l0 + lb.l) * g.b_row;
    if (threadIdx.x == 0)
        place = {(O *)p.out + of.out + piece * p.part.split_stride +
                     (p.part.row + i0) * g.out_row + j0 * g.out_col,
                 make_int2(columns, rows)};
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
#pragma unroll
            for (int r = 0; r < TM; r++)
#pragma unroll
                for (int c = 0; c < TN; c++)
                    sum[r][c] =
                        accumulate(a_part[r / N].at[r % N], b_part[c / N].at[c % N], sum[r][c]);
        }
        half ^= 1;
    } while (left > 0);

    /* store */
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

template <typename T> static int64_t tiles_of(int64_t rows, int64_t columns)
{
    typedef tiling<sizeof(sum_t<T>)> shape;
    return (rows + shape::BM - 1) / shape::BM * ((columns + shape::BN - 1) / shape::BN);
}

int64_t matmul_blocktiled_steps(const gop_ctx *ctx, const gop_task *task)
{
    matmul_part part;
    return matmul_cut(ctx, task, 1, 0, &part);
}

template <typename T>
gop_status matmul_blocktiled(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    matmul_part part;
    matmul_cut(ctx, task, 1, step, &part);
    const int64_t blocks = tiles_of<T>(part.rows, task->geometry.gemm.n) * part.batches;
    if (blocks == 0) return GOP_OK;
    return GOP_LAUNCH(ctx, (matmul_blocktiled_kernel<T, T>), (unsigned)blocks, THREADS, 0,
                      matmul_product_of<T>(task, part));
}

/* ---- splitk: the pieces of a sum in blocks of their own ---- */

/* The blocks above fill the device only when there are many tiles. Here `split` blocks sum
 * pieces of the same outputs into scratch, and this kernel adds the pieces, first to last. */
template <typename T>
__global__ void matmul_splitk_kernel(const matmul_product<T> p, const sum_t<T> *pieces)
{
    const gop_gemm &g = p.g;
    const int64_t count = g.batches * g.m * g.n, threads = (int64_t)gridDim.x * blockDim.x;
    for (int64_t at = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; at < count;
         at += threads) {
        sum_t<T> sum = pieces[at];
        for (int64_t s = 1; s < p.part.split; s++)
            sum = plus(sum, pieces[at + s * p.part.split_stride]);
        const int64_t j = at % g.n, i = at / g.n % g.m;
        const matmul_offsets of = matmul_batch(g, at / g.n / g.m);
        put((T *)p.out + of.out + i * g.out_row + j * g.out_col, sum);
    }
}

enum { SHORTEST = 256, PIECES = 1024 }; /* terms of a piece at least, pieces of a sum at most */

/* Two blocks a multiprocessor, pieces of whole tiles. The same for the same device and shape,
 * so the bits are, too. */
static int64_t matmul_split(const gop_ctx *ctx, const gop_gemm &g, int64_t tiles)
{
    const int64_t wanted = 2 * (int64_t)ctx->info.processors / (tiles > 0 ? tiles : 1);
    const int64_t most = g.k / SHORTEST < PIECES ? g.k / SHORTEST : PIECES;
    return wanted < most ? wanted : most;
}

/* Tiles, counted as 64 x 64, which no dtype's tile is smaller than. */
static int64_t splitk_tiles(const gop_gemm &g)
{
    return (g.m + 63) / 64 * ((g.n + 63) / 64) * g.batches;
}

gop_status matmul_splitk_accepts(const gop_ctx *ctx, const gop_task *task)
{
    const gop_gemm &g = task->geometry.gemm;
    if (g.batches > 0 && matmul_split(ctx, g, splitk_tiles(g)) >= 2) return GOP_OK;
    return gop_fail(GOP_REFUSED,
                    "matmul: kernel 'splitk' takes sums of at least %d terms and fewer outputs "
                    "than fill the device, got (%lld, %lld) outputs of %lld terms",
                    2 * SHORTEST, (long long)g.m, (long long)g.n, (long long)g.k);
}

/* A sum is never wider than 16 bytes, nor than twice its dtype or 4 bytes. */
size_t matmul_splitk_scratch(const gop_ctx *ctx, const gop_task *task)
{
    const gop_gemm &g = task->geometry.gemm;
    const int64_t item = matmul_item(task) < 4 ? 4 : matmul_item(task);
    return (size_t)(matmul_split(ctx, g, splitk_tiles(g)) * g.batches * g.m * g.n * item);
}

template <typename T> gop_status matmul_splitk(gop_ctx *ctx, const gop_task *task, int64_t)
{
    const gop_gemm &g = task->geometry.gemm;
    const int64_t split = matmul_split(ctx, g, splitk_tiles(g)),
                  even = (g.k + split - 1) / split;
    matmul_part part = {0, g.batches, 0, g.m, split, (even + BK - 1) / BK * BK, 0};
    part.split = (g.k + part.chunk - 1) / part.chunk;
    part.split_stride = g.batches * g.m * g.n;
    const int64_t blocks = tiles_of<T>(g.m, g.n) * g.batches * part.split;
    const matmul_product<T> p = matmul_product_of<T>(task, part);

    matmul_product<T> pieces = p; /* the same product, into contiguous scratch */
    pieces.out = task->scratch;
    pieces.g.out_row = g.n;
    pieces.g.out_col = 1;
    for (int axis = g.batch_rank - 1, inner = axis; axis >= 0; axis--)
        pieces.g.out[axis] =
            axis == inner ? g.m * g.n : pieces.g.out[axis + 1] * g.extent[axis + 1];
    GOP_TRY(GOP_LAUNCH(ctx, (matmul_blocktiled_kernel<T, sum_t<T>>), (unsigned)blocks, THREADS,
                       0, pieces));
    return GOP_LAUNCH(ctx, matmul_splitk_kernel<T>,
                      (unsigned)blocks_for(part.split_stride, THREADS), THREADS, 0, p,
                      (const sum_t<T> *)task->scratch);
}

#define INSTANCES(T)                                                                           \
    template gop_status matmul_blocktiled<T>(gop_ctx *, const gop_task *, int64_t);            \
    template gop_status matmul_splitk<T>(gop_ctx *, const gop_task *, int64_t);
INSTANCES(boolean)
INSTANCES(uint8_t)
INSTANCES(uint16_t)
INSTANCES(uint32_t)
INSTANCES(uint64_t)
INSTANCES(float16)
INSTANCES(bfloat16)
INSTANCES(float)
INSTANCES(double)
INSTANCES(complex64)
INSTANCES(complex128)
