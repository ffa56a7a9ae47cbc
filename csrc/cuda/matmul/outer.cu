/*
 * outer.cu - matmul of few terms and many outputs, bound by the store.
 *
 * The sum of a few outer products takes as long as memory for the outputs. A warp has whole
 * rows of a tile, and neighbouring lanes have neighbouring columns: each of its stores is of
 * whole lines, wherever in a line of memory a row begins. A lane reads the factors of its
 * columns from shared memory once for ROWS rows; those of a row all lanes read at once. Blocks
 * are small: while one waits for its operands, others of its SM store. Where a row is shorter
 * than a warp, lanes that would have no column take rows of their own.
 */
#include "cuda/common/sm80.h"
#include "cuda/matmul/outer.h"

enum { OUTER_THREADS = 256, OUTER_WARPS = OUTER_THREADS / 32 };
enum { OUTER_DEPTH = 16 }; /* terms in shared memory at once */

/* A lane has ROWS x COLUMNS outputs, of 4 x 1 at least. */
template <typename T, int MANY> struct outer_shape {
    typedef sum_t<T> S;
    enum { SUM = sizeof(S), V = vec128<S>::N };
    enum { ROWS = SUM == 16 ? 4 : MANY, COLUMNS = SUM == 4 ? 4 : SUM == 8 ? 2 : 1 };
    enum { M = OUTER_WARPS * ROWS, N = 32 * COLUMNS };
    enum { A_LINE = M + V, B_LINE = N + V }; /* padded: fewer bank conflicts */
    enum { BLOCKS = SUM == 16 || MANY > 8 ? 2 : SUM == 8 ? 3 : 4 }; /* of an SM */
};

/* Brings so many terms of LINES lines into shared memory, term by term; 0 stands for what does
 * not exist. Neighbouring threads follow the direction in which items are neighbours. */
template <int LINES, int LINE, typename T>
GOP_DEVICE void outer_fetch(sum_t<T> *to, const T *from, int64_t line, int64_t term, bool along,
                            int lines, int terms)
{
    enum { EACH = LINES * OUTER_DEPTH / OUTER_THREADS };
    enum { LINES_STEP = OUTER_THREADS / OUTER_DEPTH, TERMS_STEP = OUTER_THREADS / LINES };
    const int t = threadIdx.x;
    const int i = along ? t / OUTER_DEPTH : t % LINES, l = along ? t % OUTER_DEPTH : t / LINES;
    const int i_step = along ? +LINES_STEP : 0, l_step = along ? 0 : +TERMS_STEP;
    const int64_t step = i_step * line + l_step * term;
    const T zero = {};
    T next[EACH];
    from += i * line + l * term;
#pragma unroll
    for (int e = 0; e < EACH; e++, from += step)
        next[e] = i + e * i_step < lines && l + e * l_step < terms ? *from : zero;
    to += l * LINE + i;
#pragma unroll
    for (int e = 0; e < EACH; e++) to[e * (l_step * LINE + i_step)] = widen(next[e]);
}

/* sum += so many terms of the warp's rows and SOME of the lane's columns. */
template <typename shape, int SOME, typename S, int ROWS, int COLUMNS>
GOP_DEVICE void outer_multiply(S (&sum)[ROWS][COLUMNS], const S *a, const S *b, int terms)
{
    enum { V = shape::V };
#pragma unroll(shape::SUM == 4 ? 2 : 1)
    for (int l = 0; l < terms; l++) {
        vec128<S> row[ROWS / V];
        S column[SOME];
#pragma unroll
        for (int r = 0; r < ROWS / V; r++) row[r] = load128(a + l * shape::A_LINE + r * V);
#pragma unroll
        for (int c = 0; c < SOME; c++) column[c] = b[l * shape::B_LINE + c * 32];
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int c = 0; c < SOME; c++)
                sum[r][c] = accumulate(row[r / V].at[r % V], column[c], sum[r][c]);
    }
}

/* Brings DEPTH terms of a tile after the other into shared memory, and multiplies: so many. */
template <typename shape, typename T, typename step>
GOP_DEVICE void outer_each(const matmul_geometry &g, const matmul_tile<T> &tile,
                           sum_t<T> *a_tile, sum_t<T> *b_tile, bool a_along, bool b_along,
                           const step &multiply)
{
    enum { DEPTH = OUTER_DEPTH };
    const T *a = tile.a, *b = tile.b;
    for (int64_t l = 0; l < tile.terms; l += DEPTH) {
        const int terms = tile.terms - l < DEPTH ? (int)(tile.terms - l) : DEPTH;
        if (l > 0) __syncthreads();
        outer_fetch<shape::M, shape::A_LINE>(a_tile, a, g.a_row, g.a_col, a_along, tile.rows,
                                             terms);
        outer_fetch<shape::N, shape::B_LINE>(b_tile, b, g.b_col, g.b_row, b_along, tile.columns,
                                             terms);
        __syncthreads();
        multiply(terms);
        a += DEPTH * g.a_col, b += DEPTH * g.b_row;
    }
}

template <typename T, int MANY>
__global__ void __launch_bounds__(OUTER_THREADS, outer_shape<T, MANY>::BLOCKS)
    matmul_outer_kernel(const matmul_product<T> p, const bool a_along, const bool b_along)
{
    typedef outer_shape<T, MANY> shape;
    enum { ROWS = shape::ROWS, COLUMNS = shape::COLUMNS };
    __shared__ __align__(16) T a_tile[OUTER_DEPTH * shape::A_LINE];
    __shared__ __align__(16) T b_tile[OUTER_DEPTH * shape::B_LINE];
    const matmul_geometry &g = p.g;
    const int lane = threadIdx.x % 32, first = threadIdx.x / 32 * ROWS;
    const matmul_tile<T> tile = outer_tile_of<shape::M, shape::N>(p);

    T sum[ROWS][COLUMNS] = {};
    outer_each<shape>(g, tile, a_tile, b_tile, a_along, b_along, [&](int terms) {
        /* What a tile at the edge does not have is not computed. */
        if (first >= tile.rows) return;
        const T *const of_a = a_tile + first, *const of_b = b_tile + lane;
        if (COLUMNS > 1 && tile.columns <= 32) outer_multiply<shape, 1>(sum, of_a, of_b, terms);
        else if (COLUMNS > 2 && tile.columns <= 64)
            outer_multiply<shape, 2>(sum, of_a, of_b, terms);
        else outer_multiply<shape, COLUMNS>(sum, of_a, of_b, terms);
    });

    T *out = (T *)p.out + tile.out + first * g.out_row + lane;
#pragma unroll
    for (int r = 0; r < ROWS; r++, out += g.out_row) {
        if (first + r >= tile.rows) break;
#pragma unroll
        for (int c = 0; c < COLUMNS; c++)
            if (c * 32 + lane < tile.columns) out[c * 32] = sum[r][c];
    }
}

/* Up to 32 columns: a lane has one, of ROWS rows. */
template <typename T> struct outer_narrow {
    typedef sum_t<T> S;
    enum { M = OUTER_NARROW_M, N = OUTER_NARROW_N, V = vec128<S>::N };
    enum { A_LINE = M + V, B_LINE = N + V, ROWS = M / OUTER_WARPS, SUM = sizeof(S) };
    enum { MOST = GOP_CODE_SM80 ? 6 : 4 }; /* as an SM has threads for */
    enum { BLOCKS = SUM < 8 ? +MOST : SUM < 16 ? 4 : 3 };
};

/* sum += so many terms of the tile; WIDTH lanes have the columns of a row. */
template <typename T, int WIDTH>
GOP_DEVICE void outer_narrow_tile(const matmul_product<T> &p, const matmul_tile<T> &tile,
                                  sum_t<T> *a_tile, sum_t<T> *b_tile, bool a_along,
                                  bool b_along)
{
    typedef outer_narrow<T> shape;
    enum { ROWS = shape::ROWS * WIDTH / 32 };
    const matmul_geometry &g = p.g;
    const int first = threadIdx.x / WIDTH * ROWS, column = threadIdx.x % WIDTH;
    sum_t<T> sum[ROWS][1] = {};
    outer_each<shape>(g, tile, a_tile, b_tile, a_along, b_along, [&](int terms) {
        outer_multiply<shape, 1>(sum, a_tile + first, b_tile + column, terms);
    });
    T *out = (T *)p.out + tile.out + first * g.out_row + column;
#pragma unroll
    for (int r = 0; r < ROWS; r++, out += g.out_row)
        if (first + r < tile.rows && column < tile.columns) put(out, sum[r][0]);
}

template <typename T> __global__ void __launch_bounds__(OUTER_THREADS, outer_narrow<T>::BLOCKS)
    matmul_outer_narrow_kernel(const matmul_product<T> p, const bool a_along,
                               const bool b_along)
{
    typedef outer_narrow<T> shape;
    __shared__ __align__(16) typename shape::S a_tile[OUTER_DEPTH * shape::A_LINE];
    __shared__ typename shape::S b_tile[OUTER_DEPTH * shape::B_LINE];
    const matmul_tile<T> tile = outer_tile_of<shape::M, shape::N>(p);
    if (tile.columns > 16) outer_narrow_tile<T, 32>(p, tile, a_tile, b_tile, a_along, b_along);
    else if (tile.columns > 8)
        outer_narrow_tile<T, 16>(p, tile, a_tile, b_tile, a_along, b_along);
    else outer_narrow_tile<T, 8>(p, tile, a_tile, b_tile, a_along, b_along);
}

/* More rows of a lane reuse its factors more often, but let fewer blocks wait at a time. */
template <typename shape, typename T, typename kernel> static gop_status
outer_enqueue(gop_ctx *ctx, const gop_task *task, const matmul_product<T> &p, kernel multiply)
{
    const tiling_of of = tiling_of_task(ctx, task);
    return GOP_LAUNCH(ctx, multiply, (matmul_tile_count<shape::M, shape::N>(p)), OUTER_THREADS,
                      0, p, of.a_along, of.b_along);
}

template <typename T>
static gop_status matmul_outer(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const matmul_product<T> p = matmul_product_of<T>(task, matmul_part_of(task, step));
    if (sizeof(T) < 4 || p.g.n <= OUTER_NARROW_N)
        return outer_enqueue<outer_narrow<T>>(ctx, task, p, matmul_outer_narrow_kernel<T>);
    if constexpr (sizeof(T) >= 4) {
        /* Tiles of twice the rows, unless too many warps would have none. */
        typedef outer_shape<T, 8> few;
        typedef outer_shape<T, 16> many;
        const int64_t rows = p.part.rows;
        const bool fits =
            3 * blocks_for(rows, many::M) * many::M <= 4 * blocks_for(rows, few::M) * few::M;
        if (p.g.k > OUTER_DEPTH && fits)
            return outer_enqueue<many>(ctx, task, p, matmul_outer_kernel<T, 16>);
        return outer_enqueue<few>(ctx, task, p, matmul_outer_kernel<T, 8>);
    }
}

static gop_status matmul_outer_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    enum { SLOWER = 2 }; /* than the best kernel, cautiously */
    const gop_gemm &g = task->geometry.gemm;
    GOP_TRY(outer_takes(g, "outer"));
    if (matmul_item(task) < 4 && g.n > OUTER_NARROW_N)
        return gop_fail(GOP_REFUSED,
                        "matmul: kernel 'outer' takes halves of up to %d columns, got %lld",
                        (int)OUTER_NARROW_N, (long long)g.n);
    matmul_plan_steps(ctx, task, SLOWER, plan, 32);
    return GOP_OK;
}

extern const gop_row matmul_outer_row = {
    .name = "outer",
    .note =
        "few terms and many outputs: a warp stores whole lines of a row, wherever in a line "
        "it begins",
    .role = GOP_CONFORMING,
    .launch = {nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
               matmul_outer<float16>, matmul_outer<bfloat16>, matmul_outer<float>,
               matmul_outer<double>, matmul_outer<complex64>, matmul_outer<complex128>},
    .plan = matmul_outer_plan,
};
