/*
 * gemv_row.cu - matmul with few columns, where the large operand's rows are contiguous.
 *
 * A matrix times a few vectors is memory-bound: it is read once. Warps read 128 bits a lane
 * along ROWS rows at once; a value of the small operand, which L1 holds, serves all of them.
 * Then the lanes add up, the warps that share a row, and the chunks of long rows in scratch.
 */
#include "cuda/matmul/thin.h"

/* V neighbours along l, or one of any stride. */
template <typename T, int V>
GOP_DEVICE thin_group<T, V> gemv_row_load(const T *row, int64_t l, int64_t stride)
{
    thin_group<T, V> group;
    if constexpr (V > 1) {
        const vec128<T> word = load128(row + l);
        __builtin_memcpy(&group, &word, sizeof group);
    } else {
        group.at[0] = row[l * stride];
    }
    return group;
}

/* LANES lanes share a row. The small operand stands in blocks of LANES * V terms. */
template <typename T, int COLUMNS, int V, int LANES>
__global__ void __launch_bounds__(THIN_THREADS, 2)
    matmul_gemv_row_kernel(const matmul_product<T> p, const int parts)
{
    typedef sum_t<T> S;
    enum { ROWS = thin_rows<S, COLUMNS>::ROWS, SUMS = ROWS * COLUMNS, AHEAD = V > 1 ? 2 : 4 };
    enum { TEAMS = 32 / LANES }; /* of a warp, each with rows of its own */
    __shared__ S meet[THIN_WARPS * TEAMS][SUMS];
    const matmul_geometry &g = p.g;
    const int lane = threadIdx.x % LANES, team = threadIdx.x / LANES;
    const int warp = threadIdx.x / 32;
    const int rows = THIN_WARPS / parts * TEAMS * ROWS; /* of a block */
    const thin_block block = thin_block_of(p, blockIdx.x, (g.n + COLUMNS - 1) / COLUMNS, rows);
    const int64_t i0 = block.i0, c0 = block.tile * COLUMNS, end = block.end;
    const matmul_offsets of = matmul_batch(g, block.batch);
    grid_dependency_sync();

    const int64_t step = parts * LANES * V;
    int64_t l = block.begin + (warp % parts * LANES + lane) * V;
    const T *a[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) { /* beyond the edge the last row is loaded instead */
        const int64_t i = i0 + (warp / parts * TEAMS + team % TEAMS) * ROWS + r;
        a[r] = p.a + of.a + (i < g.m ? i : g.m - 1) * g.a_row;
    }
    const T *const b = p.b + of.b + c0 * g.b_col;

    /* Main loop: load rows AHEAD steps at once, multiply. */
    S sum[SUMS] = {};
    const auto add = [&](const thin_group<T, V>(&group)[ROWS], int64_t at) {
#pragma unroll
        for (int c = 0; c < COLUMNS; c++) {
            const thin_group<T, V> of_b = gemv_row_load<T, V>(
                b + c * LANES * V, at * COLUMNS - (COLUMNS - 1) * lane * V, g.b_row);
#pragma unroll
            for (int r = 0; r < ROWS; r++)
#pragma unroll
                for (int v = 0; v < V; v++)
                    sum[r * COLUMNS + c] = accumulate(widen(group[r].at[v]), widen(of_b.at[v]),
                                                      sum[r * COLUMNS + c]);
        }
    };
    thin_group<T, V> group[AHEAD][ROWS];
    for (; l + (AHEAD - 1) * step < end; l += AHEAD * step) {
#pragma unroll
        for (int u = 0; u < AHEAD; u++)
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                group[u][r] = gemv_row_load<T, V>(a[r], l + u * step, g.a_col);
#pragma unroll
        for (int u = 0; u < AHEAD; u++) add(group[u], l + u * step);
    }
    for (; l < end; l += step) {
#pragma unroll
        for (int r = 0; r < ROWS; r++) group[0][r] = gemv_row_load<T, V>(a[r], l, g.a_col);
        add(group[0], l);
    }

    /* Epilogue: the lanes of a row add up, then its warps, which meet in shared memory. */
    typedef lane_fold<SUMS, LANES> fold;
    fold_lanes<LANES>(sum, lane);
#pragma unroll
    for (int e = 0; e < fold::EACH; e++)
        if (fold::is_first(lane)) meet[team][fold::first(lane) + e] = sum[e];
    __syncthreads();
    for (int at = threadIdx.x; at < rows * COLUMNS; at += THIN_THREADS) {
        const bool down_first = thin_down_first(g);
        const int x = down_first ? at % rows : at / COLUMNS;
        const int c = down_first ? at / rows : at % COLUMNS;
        const int from = x / ROWS / TEAMS * parts * TEAMS + x / ROWS % TEAMS;
        const int place = x % ROWS * COLUMNS + c;
        S total = meet[from][place];
        for (int part = 1; part < parts; part++)
            total = plus(total, meet[from + part * TEAMS][place]);
        const int64_t i = i0 + x, j = c0 + c;
        if (i < g.m && j < g.n)
            thin_put(p, of.out + i * g.out_row + j * g.out_col, block.chunk, total);
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

#define OF_COLUMNS(T, C)                                                                       \
    {                                                                                          \
        matmul_gemv_row<T, C, 1, 32>, matmul_gemv_row<T, C, 16 / (int)sizeof(T), 32>,          \
            matmul_gemv_row<T, C, 16 / (int)sizeof(T), 8>                                      \
    }
#define OF(T)                                                                                  \
    {                                                                                          \
        OF_COLUMNS(T, 1), OF_COLUMNS(T, 2), OF_COLUMNS(T, 4), OF_COLUMNS(T, 8)                 \
    }

static gop_status matmul_gemv_row_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    static const gop_launch launches[][4][3] = {OF(float16), OF(bfloat16),  OF(float),
                                                OF(double),  OF(complex64), OF(complex128)};
    thin_cut *const cut = GOP_OWN(thin_cut, plan);
    *cut = {};
    const gop_gemm g = thin_geometry(task, &cut->swapped);
    GOP_TRY(thin_takes(g, "gemv_row"));
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
    plan->launch = launches[task->in[0].dtype - GOP_FLOAT16][thin_index(cut->columns)]
                           [lanes == 8 ? 2 : cut->wide];
    return GOP_OK;
}

extern const gop_row matmul_gemv_row_row = {
    .name = "gemv_row",
    .note = "few rows or columns: warps read the large operand once, along the sum, and each "
            "value of the small one serves several lines",
    .role = GOP_CONFORMING,
    .plan = matmul_gemv_row_plan,
    .dtypes = THIN_DTYPES,
    .before = "dots",
};
