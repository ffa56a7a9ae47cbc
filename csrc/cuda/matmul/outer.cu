/*
 * outer.cu - matmul of few terms and many outputs, bound by the store.
 *
 * The sum of few outer products takes as long as memory for the outputs. A warp has whole rows
 * of a tile, and neighbouring lanes have neighbouring columns: each of its stores is of whole
 * lines, wherever in a line a row begins. A lane reads its columns' factors from shared memory,
 * once for ROWS rows, and those of a row all lanes read at once. Blocks are small: while one
 * waits for its operands, others of its SM store.
 */
#include "cuda/matmul/tiling.h"

enum { OUTER_THREADS = 256, OUTER_WARPS = OUTER_THREADS / 32 };

/* A lane has ROWS x COLUMNS outputs, of which PAIR are neighbours: a store is of 4 bytes or more. */
template <typename T> struct outer_shape {
    typedef sum_t<T> S;
    enum { PAIR = sizeof(T) == 2 ? 2 : 1, SUM = sizeof(S) };
    enum { ROWS = SUM == 16 ? 4 : 8, COLUMNS = SUM == 4 ? 4 : SUM == 8 ? 2 : 1 };
    enum { M = OUTER_WARPS * ROWS, N = 32 * COLUMNS };
    enum { DEPTH = 16 }; /* terms in shared memory at once */
    enum { V = vec128<S>::N, BLOCKS = SUM == 16 ? 2 : SUM == 8 ? 3 : 4 }; /* of an SM */
    /* Padded by a row's vector: less of a conflict where lines of a are turned. */
    enum { A_LINE = M + V, B_LINE = N + V };
};

/* Widens LINES lines of DEPTH terms into shared memory, term by term; 0 stands for those that
 * do not exist. Neighbouring threads follow the direction in which items are neighbours. */
template <int LINES, int DEPTH, int LINE, typename S, typename T>
GOP_DEVICE void outer_fetch(S *to, const T *from, int64_t line, int64_t term, bool along,
                            int lines, int terms)
{
    enum { EACH = LINES * DEPTH / OUTER_THREADS };
    enum { LINES_STEP = OUTER_THREADS / DEPTH, TERMS_STEP = OUTER_THREADS / LINES };
    const int t = threadIdx.x;
    const int i = along ? t / DEPTH : t % LINES, l = along ? t % DEPTH : t / LINES;
    const int i_step = along ? +LINES_STEP : 0, l_step = along ? 0 : +TERMS_STEP;
    const int64_t step = i_step * line + l_step * term;
    const S zero = {};
    S next[EACH];
    from += i * line + l * term;
#pragma unroll
    for (int e = 0; e < EACH; e++, from += step)
        next[e] = i + e * i_step < lines && l + e * l_step < terms ? widen(*from) : zero;
    to += l * LINE + i;
#pragma unroll
    for (int e = 0; e < EACH; e++) to[e * (l_step * LINE + i_step)] = next[e];
}

/* sum += so many terms of the warp's rows and the lane's columns. */
template <typename shape, typename S, int ROWS, int COLUMNS>
GOP_DEVICE void outer_multiply(S (&sum)[ROWS][COLUMNS], const S *a, const S *b, int terms)
{
    enum { V = shape::V, PAIR = shape::PAIR };
#pragma unroll 2
    for (int l = 0; l < terms; l++) {
        S row[ROWS], column[COLUMNS];
#pragma unroll
        for (int r = 0; r < ROWS; r += V)
            __builtin_memcpy(row + r, __builtin_assume_aligned(a + l * shape::A_LINE + r, 16), 16);
#pragma unroll
        for (int c = 0; c < COLUMNS; c += PAIR)
            __builtin_memcpy(column + c,
                             __builtin_assume_aligned(b + l * shape::B_LINE + c * 32,
                                                      PAIR * sizeof(S)),
                             PAIR * sizeof(S));
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int c = 0; c < COLUMNS; c++)
                sum[r][c] = accumulate(row[r], column[c], sum[r][c]);
    }
}

/* A row's two neighbours of each lane of a warp, of which the first is column 2 lane. Where that
 * is no multiple of 4 bytes a lane stores its second one and the next lane's first. */
template <typename T> GOP_DEVICE void outer_store_pairs(T *out, float first, float second,
                                                        int exist, int lane)
{
    const bool odd = (uintptr_t)out % 4 != 0;
    const float after = __shfl_down_sync(0xffffffffu, first, 1);
    const int at = 2 * lane + odd;
    T two[2];
    put(two, odd ? second : first);
    put(two + 1, odd ? after : second);
    if (odd && lane == 0 && exist > 0) put(out, first);
    if (at + 1 < exist && !(odd && lane == 31)) {
        uint32_t word;
        __builtin_memcpy(&word, two, 4);
        *reinterpret_cast<uint32_t *>(out + at) = word;
    } else if (at < exist) {
        out[at] = two[0];
    }
}

template <typename T>
__global__ void __launch_bounds__(OUTER_THREADS, outer_shape<T>::BLOCKS)
    matmul_outer_kernel(const matmul_product<T> p, const bool a_along, const bool b_along)
{
    typedef outer_shape<T> shape;
    typedef typename shape::S S;
    enum { M = shape::M, N = shape::N, ROWS = shape::ROWS, COLUMNS = shape::COLUMNS };
    enum { DEPTH = shape::DEPTH, A_LINE = shape::A_LINE, B_LINE = shape::B_LINE };
    __shared__ __align__(16) S a_tile[DEPTH * A_LINE], b_tile[DEPTH * B_LINE];
    const matmul_geometry &g = p.g;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

    /* Which tile: those of a row of tiles follow each other. */
    const unsigned across = (unsigned)((g.n + N - 1) / N);
    const unsigned down = (unsigned)((p.part.rows + M - 1) / M);
    const unsigned product = blockIdx.x / (across * down), tile = blockIdx.x % (across * down);
    const matmul_offsets of = matmul_batch(g, p.part.batch + product);
    const int64_t i0 = (int64_t)(tile / across) * M, j0 = (int64_t)(tile % across) * N;
    const int rows = (int)(p.part.rows - i0 < M ? p.part.rows - i0 : M);
    const int columns = (int)(g.n - j0 < N ? g.n - j0 : N);
    const T *a = p.a + of.a + (p.part.row + i0) * g.a_row, *b = p.b + of.b + j0 * g.b_col;

    S sum[ROWS][COLUMNS] = {};
    for (int64_t l = 0; l < g.k; l += DEPTH) {
        const int terms = g.k - l < DEPTH ? (int)(g.k - l) : DEPTH;
        if (l > 0) __syncthreads();
        outer_fetch<M, DEPTH, A_LINE>(a_tile, a, g.a_row, g.a_col, a_along, rows, terms);
        outer_fetch<N, DEPTH, B_LINE>(b_tile, b, g.b_col, g.b_row, b_along, columns, terms);
        __syncthreads();
        outer_multiply<shape>(sum, a_tile + warp * ROWS, b_tile + lane * shape::PAIR, terms);
        a += DEPTH * g.a_col, b += DEPTH * g.b_row;
    }

    T *out = (T *)p.out + of.out + (p.part.row + i0 + warp * ROWS) * g.out_row + j0 * g.out_col;
#pragma unroll
    for (int r = 0; r < ROWS; r++, out += g.out_row) {
        if (warp * ROWS + r >= rows) break;
#pragma unroll
        for (int c = 0; c < COLUMNS; c += shape::PAIR) {
            const int j = c * 32 + lane;
            if constexpr (shape::PAIR == 2)
                outer_store_pairs(out + c * 32, sum[r][c], sum[r][c + 1], columns - c * 32, lane);
            else if (j < columns) put(out + j, sum[r][c]);
        }
    }
}

template <typename T>
static gop_status matmul_outer(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    typedef outer_shape<T> shape;
    const tiling_of of = tiling_of_task(ctx, task);
    const matmul_product<T> p = matmul_product_of<T>(task, matmul_part_of(task, step));
    const int64_t blocks = blocks_for(p.part.rows, shape::M) * blocks_for(p.g.n, shape::N);
    return GOP_LAUNCH(ctx, matmul_outer_kernel<T>, (unsigned)(blocks * p.part.batches),
                      OUTER_THREADS, 0, p, of.a_along, of.b_along);
}

static gop_status matmul_outer_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    const gop_gemm &g = task->geometry.gemm;
    if (g.n > 1 && g.out_col != 1)
        return gop_fail(GOP_REFUSED, "matmul: kernel 'outer' takes outputs whose rows are "
                                     "contiguous, got a stride of %lld items",
                        (long long)g.out_col);
    matmul_plan_steps(ctx, task, 2, plan, 32);
    return GOP_OK;
}

#define NONE nullptr
extern const gop_row matmul_outer_row = {
    .name = "outer",
    .note = "few terms and many outputs: a warp stores whole lines of a row, wherever in a line "
            "it begins",
    .role = GOP_CANDIDATE,
    .launch = {NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, matmul_outer<float16>,
               matmul_outer<bfloat16>, matmul_outer<float>, matmul_outer<double>,
               matmul_outer<complex64>, matmul_outer<complex128>},
    .plan = matmul_outer_plan,
};
