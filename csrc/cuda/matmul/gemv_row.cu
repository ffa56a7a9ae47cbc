/*
 * gemv_row.cu - matmul with few columns, where the large operand's rows are contiguous.
 *
 * A matrix times a few vectors is memory-bound: it is read once. Warps read 128 bits a lane
 * along ROWS rows at once; a value of the small operand, which L1 holds, serves all of them.
 * Then the lanes add up, the warps that share a row, and the chunks of long rows in scratch.
 */
#include <type_traits>

#include "cuda/matmul/thin.h"

/* Steps of the sum that are loaded at once, and blocks of an SM: what was the fastest on an
 * H200, as far as registers go. */
template <typename T, int COLUMNS, int V> struct rows_shape {
    enum { ROWS = thin_rows<sum_t<T>, COLUMNS>::ROWS, SUM = sizeof(sum_t<T>) };
    enum { DOUBLES = V > 1 && std::is_same<T, double>::value };
    enum { FEW = COLUMNS == 1 && SUM < 16, SHORT = FEW && V >= 8 };
    enum { SOME = V == 4 && COLUMNS == 4 };
    enum { SINGLE = FEW && sizeof(T) == 2 ? 8 : COLUMNS == 1 || SUM < 16 ? 4 : 2 };
    enum { AHEAD = V == 1 ? +SINGLE : SOME || SHORT ? 1 : 2 };
    enum { BLOCKS = SHORT ? 4 : FEW || SOME ? 3 : 2 };
};

/* V neighbours along the sum. */
template <typename T, int V> GOP_DEVICE thin_group<T, V> gemv_row_load(const T *from)
{
    thin_group<T, V> group;
    if constexpr (V > 1) {
        const vec128<T> word = load128(from);
        __builtin_memcpy(&group, &word, sizeof group);
    } else {
        group.at[0] = *from;
    }
    return group;
}

/* sum += a step of rows times that of the small operand's columns. */
template <int COLUMNS, int LANES, typename S, int SUMS, typename T, int V, int ROWS>
GOP_DEVICE void gemv_row_add(S (&sum)[SUMS], const thin_group<T, V> (&group)[ROWS], const T *b)
{
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) {
        const thin_group<T, V> of_b = gemv_row_load<T, V>(b + c * LANES * V);
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int v = 0; v < V; v++)
                sum[r * COLUMNS + c] =
                    accumulate(widen(group[r].at[v]), widen(of_b.at[v]), sum[r * COLUMNS + c]);
    }
}

/* A block's columns, chunk of the sums, and groups of ROWS rows. The groups of all products
 * follow each other, so that short products leave no warp idle. The order of blocks, fastest
 * first: tiles of columns, groups, chunks. */
template <int COLUMNS, int ROWS> struct gemv_rows {
    int64_t c0, first, groups, all, chunk; /* groups: of a product; all: of the batch */

    template <typename T> GOP_DEVICE gemv_rows(const matmul_product<T> &p, int teams)
    {
        /* There are fewer than 2^31 blocks, and 2^k teams. */
        const uint32_t across = (uint32_t)((p.g.n + COLUMNS - 1) / COLUMNS);
        const uint32_t block = blockIdx.x / across;
        groups = (p.g.m + ROWS - 1) / ROWS;
        all = groups * p.part.batches;
        const uint32_t down = (uint32_t)((all + teams - 1) >> (31 - __clz(teams)));
        const uint32_t before = block / down;
        c0 = (int64_t)(blockIdx.x - block * across) * COLUMNS;
        chunk = before;
        first = (int64_t)(block - before * down) * teams;
    }
    /* The first row of the block's group number `at`, of which product. */
    GOP_DEVICE int64_t row(int at, int64_t &batch) const
    {
        const int64_t group = first + at < all ? first + at : all - 1;
        batch = all > groups ? (int64_t)((uint64_t)group / (uint64_t)groups) : 0;
        return (group - batch * groups) * ROWS;
    }
};

/* LANES lanes, a team, share rows. The small operand stands in blocks of LANES * V terms. */
template <typename T, int COLUMNS, int V, int LANES>
__global__ void __launch_bounds__(THIN_THREADS, (rows_shape<T, COLUMNS, V>::BLOCKS))
    matmul_gemv_row_kernel(const matmul_product<T> p, const int parts)
{
    typedef sum_t<T> S;
    typedef rows_shape<T, COLUMNS, V> shape;
    enum { ROWS = shape::ROWS, SUMS = ROWS * COLUMNS, AHEAD = shape::AHEAD };
    enum { TEAMS = 32 / LANES }; /* of a warp */
    __shared__ S meet[THIN_WARPS * TEAMS][SUMS];
    const matmul_geometry &g = p.g;
    const int lane = threadIdx.x % LANES, team = threadIdx.x / LANES;
    const int warp = threadIdx.x / 32, teams = THIN_WARPS / parts * TEAMS;
    const gemv_rows<COLUMNS, ROWS> block(p, teams);
    const int64_t begin = block.chunk * p.part.chunk;
    const int64_t end = begin + p.part.chunk < g.k ? begin + p.part.chunk : g.k;
    grid_dependency_sync();

    int64_t batch;
    const int64_t i0 = block.row(warp / parts * TEAMS + team % TEAMS, batch);
    const matmul_offsets of = matmul_batch(g, batch);
    const int step = parts * LANES * V; /* a power of two */
    const int64_t l = begin + (warp % parts * LANES + lane) * V;
    int left = l < end ? (int)((end - l + step - 1) >> (31 - __clz(step))) : 0;
    const T *a[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) { /* beyond the edge the last row is loaded instead */
        const int64_t i = i0 + r < g.m ? i0 + r : g.m - 1;
        a[r] = p.a + of.a + i * g.a_row + l * (V > 1 ? 1 : g.a_col);
    }
    const T *b = p.b + of.b + block.c0 * g.b_col +
                 (l * COLUMNS - (COLUMNS - 1) * lane * V) * (V > 1 ? 1 : g.b_row);
    typedef std::conditional_t<(V > 1), int, int64_t> apart; /* from step to step */
    const apart a_step = V > 1 ? step : step * g.a_col;
    const apart b_step = V > 1 ? step * COLUMNS : step * COLUMNS * g.b_row;

    /* Main loop: load rows AHEAD steps at once, as far as there are any, multiply. */
    S sum[SUMS] = {};
    for (; left > 0; left -= AHEAD, b += AHEAD * b_step) {
        thin_group<T, V> group[AHEAD][ROWS];
#pragma unroll
        for (int u = 0; u < AHEAD; u++)
            if ((u == 0 && !shape::DOUBLES) || u < left)
#pragma unroll
                for (int r = 0; r < ROWS; r++)
                    group[u][r] = gemv_row_load<T, V>(a[r] + u * a_step);
#pragma unroll
        for (int r = 0; r < ROWS; r++) a[r] += AHEAD * a_step;
#pragma unroll
        for (int u = 0; u < AHEAD; u++) {
            /* A branch, so that nvcc loads float64 factors step by step: faster. */
            if (shape::DOUBLES && u >= left) break;
            if (shape::DOUBLES || u == 0 || u < left)
                gemv_row_add<COLUMNS, LANES>(sum, group[u], b + u * b_step);
        }
    }

    /* Epilogue: the lanes of a row add up, then its warps, which meet in shared memory. */
    typedef lane_fold<SUMS, LANES> fold;
    fold_lanes<LANES>(sum, lane);
#pragma unroll
    for (int e = 0; e < fold::EACH; e++)
        if (fold::is_first(lane)) meet[team][fold::first(lane) + e] = sum[e];
    __syncthreads();
    const int rows = teams * ROWS;
    const bool down_first = thin_down_first(g);
    for (int at = threadIdx.x; at < rows * COLUMNS; at += THIN_THREADS) {
        const int x = down_first ? at % rows : at / COLUMNS;
        const int c = down_first ? at / rows : at % COLUMNS;
        const int from = x / ROWS / TEAMS * parts * TEAMS + x / ROWS % TEAMS;
        const int place = x % ROWS * COLUMNS + c;
        S total = meet[from][place];
        for (int part = 1; part < parts; part++)
            total = plus(total, meet[from + part * TEAMS][place]);
        const int64_t i = block.row(x / ROWS, batch) + x % ROWS, j = block.c0 + c;
        if (block.first + x / ROWS < block.all && i < g.m && j < g.n)
            thin_put(p, matmul_batch(g, batch).out + i * g.out_row + j * g.out_col, block.chunk,
                     total);
    }
}

template <typename T, int COLUMNS, int V, int LANES>
static gop_status matmul_gemv_row(gop_ctx *ctx, const gop_task *task, int64_t)
{
    const thin_cut &cut = *GOP_OWN(const thin_cut, task->plan);
    matmul_product<T> p = thin_product_of<T>(task, cut);
    if (cut.packed) GOP_TRY(thin_pack(ctx, task, cut, &p));
    if (cut.packed && cut.split == 1)
        return GOP_LAUNCH_EARLY(ctx, (matmul_gemv_row_kernel<T, COLUMNS, V, LANES>),
                                (unsigned)cut.blocks, THIN_THREADS, 0, p, cut.parts);
    GOP_TRY(GOP_LAUNCH_FOLLOWED(ctx, cut.split > 1,
                                (matmul_gemv_row_kernel<T, COLUMNS, V, LANES>),
                                (unsigned)cut.blocks, THIN_THREADS, 0, p, cut.parts));
    return thin_add_partials<T>(ctx, task, p.part);
}

/* clang-format off */
#define OF_COLUMNS(T, C) \
    {matmul_gemv_row<T, C, 1, 32>, matmul_gemv_row<T, C, 16 / (int)sizeof(T), 32>, \
     matmul_gemv_row<T, C, 16 / (int)sizeof(T), sizeof(T) < 16 ? 8 : 32>}
#define OF_COLUMN(T) OF_COLUMNS(T, 1)
#define OF(T) {OF_COLUMNS(T, 1), OF_COLUMNS(T, 2), OF_COLUMNS(T, 4), OF_COLUMNS(T, 8)}
/* clang-format on */

static gop_status matmul_gemv_row_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    static const gop_launch launches[][4][3] = {OF(float16), OF(bfloat16),  OF(float),
                                                OF(double),  OF(complex64), OF(complex128)};
    static const gop_launch whole[][3] = THIN_WHOLE(OF_COLUMN);
    const gop_dtype dtype = task->in[0].dtype;
    thin_cut *const cut = GOP_OWN(thin_cut, plan);
    *cut = {};
    const gop_gemm g = thin_geometry(task, &cut->swapped);
    GOP_TRY(thin_takes(g, "gemv_row", thin_most(dtype)));
    const int operand = cut->swapped ? 1 : 0;
    tiling_of of = thin_tiling_of(ctx, task, g, thin_wide(task, g, operand, 1));
    of.a_along = of.a_along || of.a_wide;
    of.b_along = g.b_row == 1;
    of.b_wide = (uintptr_t)task->in[!operand].data % 16 == 0;
    for (int axis = 0; axis < g.batch_rank; axis++)
        of.b_wide = of.b_wide && g.b[axis] % (16 / of.item) == 0;
    matmul_tiling &tiling = *cut;
    tiling = gemv_row_tiling(of);
    const int lanes = gemv_row_lanes(of, cut->wide);
    cut->layout = {cut->step / cut->parts, cut->columns};
    thin_scratch(task, g, cut, plan);
    const int way = lanes == 8 ? 2 : cut->wide;
    plan->launch = thin_is_whole(dtype)
                       ? whole[thin_whole_index(dtype)][way]
                       : launches[dtype - GOP_FLOAT16][thin_index(cut->columns)][way];
    return GOP_OK;
}

extern const gop_row matmul_gemv_row_row = {
    .name = "gemv_row",
    .note = "few rows or columns: warps read the large operand once, along the sum, and each "
            "value of the small one serves several lines",
    .role = GOP_CONFORMING,
    .plan = matmul_gemv_row_plan,
    .dtypes = GOP_EVERY_DTYPE,
    .before = "dots",
};
