/*
 * gemv_col.cu - matmul with few columns, where the large operand's columns are contiguous.
 *
 * Neighbouring threads take neighbouring outputs and walk down the sum, so that a warp reads
 * whole cache lines; the small operand goes through shared memory, where one value serves all.
 * The warps of a block take turns along the sum and add up at the end.
 */
#include <type_traits>

#include "cuda/matmul/thin.h"

/* Outputs of a thread: 32 apart, neighbours in one access, or, of halves that are not aligned,
 * words of two, which are 64 apart. */
enum gemv_col_loads { GEMV_COL_ITEMS, GEMV_COL_WIDE, GEMV_COL_WORDS };

/* Terms whose factors wait in shared memory. Blocks of an SM, as registers allow. */
template <typename T, int COLUMNS> struct columns_shape {
    enum { WIDE = (sizeof(T) == 2 && COLUMNS > 2 ? 8 : 16) / sizeof(T) };
    enum { BYTES = COLUMNS < 4 ? 8192 : 16384, BLOCKS = COLUMNS < 4 ? 3 : 2 };
    enum { FACTORS = BYTES / (COLUMNS * (int)sizeof(sum_t<T>)) };
    enum { TERMS = COLUMNS < 4 || FACTORS < 256 ? +FACTORS : 256 };
};

/* Which of a warp's outputs a lane's number v is. */
template <int V, int LOADS> GOP_DEVICE int gemv_col_place(int lane, int v)
{
    return LOADS == GEMV_COL_ITEMS  ? v * 32 + lane
           : LOADS == GEMV_COL_WIDE ? lane * V + v
                                    : v / 2 * 64 + lane * 2 + v % 2;
}

/* A bit for each of them that exists, where the warp's first is `first` of `many`. */
template <int V, int LOADS>
GOP_DEVICE unsigned gemv_col_inside(int64_t first, int64_t many, int lane)
{
    unsigned inside = 0;
#pragma unroll
    for (int v = 0; v < V; v++)
        inside |= (unsigned)(first + gemv_col_place<V, LOADS>(lane, v) < many) << v;
    return inside;
}

/* 1: halves in words, and these begin between two of them. */
template <int LOADS> GOP_DEVICE int gemv_col_later(const void *from)
{
    return LOADS == GEMV_COL_WORDS ? (int)((uintptr_t)from / 2 % 2) : 0;
}

template <typename T, int V, int LOADS>
GOP_DEVICE thin_group<T, V> gemv_col_load(const T *from, int64_t stride, unsigned inside)
{
    thin_group<T, V> group;
    if constexpr (LOADS == GEMV_COL_WORDS) {
        uint32_t words[V / 2] = {};
#pragma unroll
        for (int v = 0; v < V; v += 2) {
            const void *const word = from + v * 32;
            if ((inside >> v & 3) == 3) words[v / 2] = *static_cast<const uint32_t *>(word);
            if ((inside >> v & 3) == 1) words[v / 2] = *static_cast<const uint16_t *>(word);
        }
        __builtin_memcpy(&group, words, sizeof group);
    } else if constexpr (LOADS == GEMV_COL_WIDE) {
        group = *reinterpret_cast<const thin_group<T, V> *>(from);
    } else {
#pragma unroll
        for (int v = 0; v < V; v++) group.at[v] = inside >> v & 1 ? from[v * stride] : *from;
    }
    return group;
}

/* sum += a group of rows times the factors of a term. */
template <typename T, int COLUMNS, int V>
GOP_DEVICE void gemv_col_add(sum_t<T> (&sum)[COLUMNS][V], const thin_group<T, V> &group,
                             const sum_t<T> (&b)[COLUMNS])
{
#pragma unroll
    for (int c = 0; c < COLUMNS; c++)
#pragma unroll
        for (int v = 0; v < V; v++) sum[c][v] = accumulate(widen(group.at[v]), b[c], sum[c][v]);
}

/* Factors of some terms, 0 for columns that do not exist. */
template <int COLUMNS, typename S, typename T>
GOP_DEVICE void gemv_col_factors(S (*to)[COLUMNS], const T *from, const matmul_geometry &g,
                                 int terms, int64_t columns)
{
    for (int at = threadIdx.x; at < terms * COLUMNS; at += THIN_THREADS) {
        const int l = at / COLUMNS, c = at % COLUMNS;
        const S zero = {};
        to[l][c] = c < columns ? widen(from[l * g.b_row + c * g.b_col]) : zero;
    }
}

template <typename T, int COLUMNS, int LOADS>
__global__ void __launch_bounds__(THIN_THREADS, columns_shape<T, COLUMNS>::BLOCKS)
    matmul_gemv_col_kernel(const matmul_product<T> p, const int parts, const int lines)
{
    typedef sum_t<T> S;
    enum { V = columns_shape<T, COLUMNS>::WIDE, LINES = 32 * V, AHEAD = 8 };
    enum { TERMS = columns_shape<T, COLUMNS>::TERMS };
    /* Columns that meet at a time. */
    enum { MEETING = COLUMNS < 4 ? COLUMNS : sizeof(S) > 8 ? 2 : 4 };
    __shared__ S b_tile[TERMS][COLUMNS];
    __shared__ S meet[THIN_WARPS][MEETING][LINES];
    const matmul_geometry &g = p.g;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int part = warp % parts, group = warp / parts, groups = THIN_WARPS / parts;
    const thin_block block =
        thin_block_of(p, blockIdx.x, (g.n + COLUMNS - 1) / COLUMNS, groups * lines);
    const int64_t c0 = block.tile * COLUMNS, i0 = block.i0, begin = block.begin;
    const matmul_offsets of = matmul_batch(g, block.batch);

    const T *const top = p.a + of.a + begin * g.a_col;
    const auto later = [&](int part) { return gemv_col_later<LOADS>(top + part * g.a_col); };
    int64_t i = i0 + group * lines - later(part);
    const unsigned inside = gemv_col_inside<V, LOADS>(i, g.m, lane);
    i += gemv_col_place<V, LOADS>(lane, 0);
    if (!(inside & 1)) i = -later(part); /* loads from a valid address, stores nothing */
    const T *a = top + i * g.a_row + part * g.a_col;
    const T *const b = p.b + of.b + begin * g.b_row + c0 * g.b_col;
    const int64_t apart = 32 * g.a_row;

    /* Main loop: factors of TERMS terms to shared memory, then warps' rows, AHEAD at once. */
    S sum[COLUMNS][V] = {};
    for (int64_t left = block.end - begin; left > 0; left -= TERMS) {
        const int terms = left < TERMS ? (int)left : TERMS;
        const T *const tile = b + (block.end - begin - left) * g.b_row;
        __syncthreads();
        gemv_col_factors(b_tile, tile, g, terms, g.n - c0);
        __syncthreads();
        int l = part;
        for (; l + (AHEAD - 1) * parts < terms; l += AHEAD * parts) {
            thin_group<T, V> group[AHEAD];
#pragma unroll
            for (int u = 0; u < AHEAD; u++, a += parts * g.a_col)
                group[u] = gemv_col_load<T, V, LOADS>(a, apart, inside);
#pragma unroll
            for (int u = 0; u < AHEAD; u++)
                gemv_col_add<T>(sum, group[u], b_tile[l + u * parts]);
        }
        for (; l < terms; l += parts, a += parts * g.a_col)
            gemv_col_add<T>(sum, gemv_col_load<T, V, LOADS>(a, apart, inside), b_tile[l]);
    }

    /* Epilogue: the warps of a sum meet, MEETING columns at a time. */
    const bool down_first = thin_down_first(g) || g.out_row * (int)sizeof(T) <= 32;
#pragma unroll
    for (int c = 0; c < COLUMNS; c += MEETING) {
        __syncthreads();
#pragma unroll
        for (int t = 0; t < MEETING; t++)
#pragma unroll
            for (int v = 0; v < V; v++)
                meet[warp][t][gemv_col_place<V, LOADS>(lane, v)] = sum[c + t][v];
        __syncthreads();
        for (int at = threadIdx.x; at < groups * MEETING * LINES; at += THIN_THREADS) {
            const int x = (down_first ? at : at / MEETING) % LINES;
            const int t = (down_first ? at / LINES : at) % MEETING;
            const int from = at / LINES / MEETING;
            if (x >= lines) continue;
            S total = meet[from * parts][t][x + later(0)];
            for (int w = 1; w < parts; w++)
                total = plus(total, meet[from * parts + w][t][x + later(w)]);
            const int64_t row = i0 + from * lines + x, column = c0 + c + t;
            if (row < g.m && column < g.n)
                thin_put(p, of.out + row * g.out_row + column * g.out_col, block.chunk, total);
        }
    }
}

template <typename T, int COLUMNS, int LOADS>
static gop_status matmul_gemv_col(gop_ctx *ctx, const gop_task *task, int64_t)
{
    const thin_cut &cut = *GOP_OWN(const thin_cut, task->plan);
    const matmul_product<T> p = thin_product_of<T>(task, cut);
    /* A thread's only output is near in either case. */
    constexpr int BY = columns_shape<T, COLUMNS>::WIDE == 1 ? +GEMV_COL_WIDE : LOADS;
    GOP_TRY(GOP_LAUNCH_FOLLOWED(ctx, cut.split > 1, (matmul_gemv_col_kernel<T, COLUMNS, BY>),
                                (unsigned)cut.blocks, THIN_THREADS, 0, p, cut.parts,
                                cut.lines * cut.parts / THIN_WARPS));
    return thin_add_partials<T>(ctx, task, p.part);
}

/* Lines whose terms follow each other in memory without gaps, times a column or two: a block
 * reads them as one line, V items a thread, at once where they are `aligned`. What a thread
 * reads next lies whole terms further on, so each of its items always is of the same line. */
template <typename T, int COLUMNS> __global__ void __launch_bounds__(THIN_THREADS, 4)
    matmul_gemv_flat_kernel(const matmul_product<T> p, const int terms, const bool aligned)
{
    typedef sum_t<T> S;
    enum { V = 16 / sizeof(T), AHEAD = 4 };
    __shared__ S meet[THIN_THREADS * V];
    const matmul_geometry &g = p.g;
    const int m = (int)g.m, t = threadIdx.x;
    const thin_block block = thin_block_of(p, blockIdx.x, 1, m);
    const matmul_offsets of = matmul_batch(g, block.batch);
    const T *const b = p.b + of.b;
    S sum[COLUMNS][V] = {};
    int term[V]; /* of a pass */
#pragma unroll
    for (int v = 0; v < V; v++) term[v] = (t * V + v) / m;

    /* Main loop: AHEAD passes at once. */
    const auto add = [&](int64_t l, auto is_whole) {
        const T *const a = p.a + of.a + l * m + t * V;
        const auto exists = [&](int u, int v) {
            return is_whole.value || l + u * terms + term[v] < block.end;
        };
        vec128<T> group[AHEAD] = {};
#pragma unroll
        for (int u = 0; u < AHEAD; u++)
            if (is_whole.value && aligned) group[u] = load128(a + u * terms * m);
            else
#pragma unroll
                for (int v = 0; v < V; v++)
                    if (exists(u, v)) group[u].at[v] = a[u * terms * m + v];
#pragma unroll
        for (int u = 0; u < AHEAD; u++)
#pragma unroll
            for (int v = 0; v < V; v++)
                if (exists(u, v))
#pragma unroll
                    for (int c = 0; c < COLUMNS; c++)
                        sum[c][v] = accumulate(
                            widen(group[u].at[v]),
                            widen(b[(l + u * terms + term[v]) * g.b_row + c * g.b_col]),
                            sum[c][v]);
    };
    if (t * V < terms * m) {
        int64_t l = block.begin;
        for (; l + AHEAD * terms <= block.end; l += AHEAD * terms) add(l, std::true_type());
        if (l < block.end) add(l, std::false_type());
    }

    /* Epilogue: the upper half of a pass's terms is added to the lower one, again and again. */
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) {
        __syncthreads();
#pragma unroll
        for (int v = 0; v < V; v++) meet[t * V + v] = sum[c][v];
        for (int left = terms; left > 1;) {
            const int half = (left + 1) / 2;
            __syncthreads();
            for (int at = t; at < (left - half) * m; at += THIN_THREADS)
                meet[at] = plus(meet[at], meet[at + half * m]);
            left = half;
        }
        __syncthreads();
        for (int i = t; i < m; i += THIN_THREADS)
            thin_put(p, of.out + i * g.out_row + c * g.out_col, block.chunk, meet[i]);
    }
}

template <typename T, int COLUMNS>
static gop_status matmul_gemv_flat(gop_ctx *ctx, const gop_task *task, int64_t)
{
    const thin_cut &cut = *GOP_OWN(const thin_cut, task->plan);
    const matmul_product<T> p = thin_product_of<T>(task, cut);
    GOP_TRY(GOP_LAUNCH_FOLLOWED(ctx, cut.split > 1, (matmul_gemv_flat_kernel<T, COLUMNS>),
                                (unsigned)cut.blocks, THIN_THREADS, 0, p, cut.step, cut.wide));
    return thin_add_partials<T>(ctx, task, p.part);
}

/* clang-format off */
#define OF_COLUMNS(T, C) \
    {matmul_gemv_col<T, C, GEMV_COL_ITEMS>, matmul_gemv_col<T, C, GEMV_COL_WIDE>, \
     matmul_gemv_col<T, C, sizeof(T) == 2 ? +GEMV_COL_WORDS : +GEMV_COL_ITEMS>}
#define OF_COLUMN(T) OF_COLUMNS(T, 1)
#define OF_8(T) OF_COLUMNS(T, 1), OF_COLUMNS(T, 2), OF_COLUMNS(T, 4), OF_COLUMNS(T, 8)
#define OF(T) {OF_8(T), OF_COLUMNS(T, 16)}
/* clang-format on */

static gop_status matmul_gemv_col_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    static const gop_launch launches[][5][3] = {{OF_8(float16)}, {OF_8(bfloat16)},
                                                OF(float),       OF(double),
                                                OF(complex64),   OF(complex128)};
    static const gop_launch whole[][3] = THIN_WHOLE(OF_COLUMN);
    const gop_dtype dtype = task->in[0].dtype;
    thin_cut *const cut = GOP_OWN(thin_cut, plan);
    *cut = {};
    const gop_gemm g = thin_geometry(task, &cut->swapped);
    GOP_TRY(thin_takes(g, "gemv_col", thin_most(dtype)));
    const int item = (int)matmul_item(task), operand = cut->swapped ? 1 : 0;
    const int bytes = gemv_col_load(item, thin_width(g.n, 16));
    const bool near = item == 2 && g.a_row == 1;
    tiling_of of = thin_tiling_of(ctx, task, g, thin_wide(task, g, operand, 0, bytes));
    of.a_along = of.a_along && !of.a_wide && !near;
    const void *const large = task->in[operand].data;
    of.a_dense = matmul_dense(g, g.a, large, g.m, g.a_row, g.a_col, of.item);
    int64_t all = g.a_col | (int64_t)((uintptr_t)large / 2);
    for (int axis = 0; axis < g.batch_rank; axis++) all |= g.a[axis];
    of.a_pairs = of.a_wide || all % 2 == 0;
    matmul_tiling &tiling = *cut;
    tiling = gemv_col_tiling(of);
    /* Words, if the terms of a warp all begin in the same half of one. */
    const bool words = near && (cut->parts > 1 || g.a_col % 2 == 0);
    const int loads = cut->wide ? GEMV_COL_WIDE : words ? GEMV_COL_WORDS : GEMV_COL_ITEMS;
    thin_scratch(task, g, cut, plan);
    if (cut->flat) {
        cut->wide = matmul_wide(g, g.a, large, 1, 0, 0, 16 / of.item);
        static const gop_launch flat[] = MATMUL_LAUNCHES(matmul_gemv_flat, 1);
        static const gop_launch of_two[] = {matmul_gemv_flat<float16, 2>,
                                            matmul_gemv_flat<bfloat16, 2>};
        plan->launch = g.n == 1 ? flat[dtype] : of_two[dtype - GOP_FLOAT16];
        return GOP_OK;
    }
    plan->launch = thin_is_whole(dtype)
                       ? whole[thin_whole_index(dtype)][loads]
                       : launches[dtype - GOP_FLOAT16][thin_index(cut->columns)][loads];
    return GOP_OK;
}

extern const gop_row matmul_gemv_col_row = {
    .name = "gemv_col",
    .note = "few rows or columns and a large operand that lies across the sum: neighbouring "
            "threads walk down it side by side, warps share the sums",
    .role = GOP_CONFORMING,
    .plan = matmul_gemv_col_plan,
    .dtypes = GOP_EVERY_DTYPE,
    .before = "columns",
};
