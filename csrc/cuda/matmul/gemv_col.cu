/*
 * gemv_col.cu - matmul with few columns, where the large operand's columns are contiguous.
 *
 * Neighbouring threads take neighbouring outputs and walk down the sum, so that a warp reads
 * whole cache lines; the small operand goes through shared memory, where one value serves all.
 * The warps of a block take turns along the sum and add up at the end.
 */
#include "cuda/matmul/thin.h"

/* Outputs of a thread: neighbours in one access, or 32 apart. Terms whose factors wait in
 * shared memory. Blocks of an SM, as registers allow. */
template <typename T, int COLUMNS> struct columns_shape {
    enum { WIDE = (sizeof(T) == 2 && COLUMNS > 2 ? 8 : 16) / sizeof(T) };
    enum { BYTES = COLUMNS < 4 ? 8192 : 16384, BLOCKS = COLUMNS < 4 ? 3 : 2 };
    enum { FACTORS = BYTES / (COLUMNS * (int)sizeof(sum_t<T>)) };
    enum { TERMS = COLUMNS < 4 || FACTORS < 256 ? +FACTORS : 256 };
};

template <typename T, int V, bool NEAR>
GOP_DEVICE thin_group<T, V> gemv_col_load(const T *from, int64_t stride, unsigned inside)
{
    thin_group<T, V> group;
    if constexpr (NEAR) {
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

template <typename T, int COLUMNS, bool NEAR>
__global__ void __launch_bounds__(THIN_THREADS, columns_shape<T, COLUMNS>::BLOCKS)
    matmul_gemv_col_kernel(const matmul_product<T> p, const int parts)
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
        thin_block_of(p, blockIdx.x, (g.n + COLUMNS - 1) / COLUMNS, groups * LINES);
    const int64_t c0 = block.tile * COLUMNS, i0 = block.i0, begin = block.begin;
    const matmul_offsets of = matmul_batch(g, block.batch);

    int64_t i = i0 + group * LINES + (NEAR ? lane * V : lane);
    unsigned inside = 0;
#pragma unroll
    for (int v = 0; v < V; v++) inside |= (unsigned)(i + (NEAR ? v : v * 32) < g.m) << v;
    if (!(inside & 1)) i = 0; /* loads from a valid address, stores nothing */
    const T *a = p.a + of.a + i * g.a_row + (begin + part) * g.a_col;
    const T *const b = p.b + of.b + begin * g.b_row + c0 * g.b_col;
    const int64_t apart = NEAR ? 1 : 32 * g.a_row;

    /* Main loop: factors of TERMS terms to shared memory, then the warps' rows, AHEAD at once.
     */
    S sum[COLUMNS][V] = {};
    for (int64_t left = block.end - begin; left > 0; left -= TERMS) {
        const int terms = left < TERMS ? (int)left : TERMS;
        const T *const tile = b + (block.end - begin - left) * g.b_row;
        __syncthreads();
        for (int at = threadIdx.x; at < terms * COLUMNS; at += THIN_THREADS) {
            const int l = at / COLUMNS, c = at % COLUMNS;
            const S zero = {};
            b_tile[l][c] = c0 + c < g.n ? widen(tile[l * g.b_row + c * g.b_col]) : zero;
        }
        __syncthreads();
        int l = part;
        for (; l + (AHEAD - 1) * parts < terms; l += AHEAD * parts) {
            thin_group<T, V> group[AHEAD];
#pragma unroll
            for (int u = 0; u < AHEAD; u++, a += parts * g.a_col)
                group[u] = gemv_col_load<T, V, NEAR>(a, apart, inside);
#pragma unroll
            for (int u = 0; u < AHEAD; u++)
                gemv_col_add<T>(sum, group[u], b_tile[l + u * parts]);
        }
        for (; l < terms; l += parts, a += parts * g.a_col)
            gemv_col_add<T>(sum, gemv_col_load<T, V, NEAR>(a, apart, inside), b_tile[l]);
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
                meet[warp][t][NEAR ? lane * V + v : v * 32 + lane] = sum[c + t][v];
        __syncthreads();
        for (int at = threadIdx.x; at < groups * MEETING * LINES; at += THIN_THREADS) {
            const int x = (down_first ? at : at / MEETING) % LINES;
            const int t = (down_first ? at / LINES : at) % MEETING;
            const int from = at / LINES / MEETING;
            S total = meet[from * parts][t][x];
            for (int w = 1; w < parts; w++) total = plus(total, meet[from * parts + w][t][x]);
            const int64_t row = i0 + from * LINES + x, column = c0 + c + t;
            if (row < g.m && column < g.n)
                thin_put(p, of.out + row * g.out_row + column * g.out_col, block.chunk, total);
        }
    }
}

template <typename T, int COLUMNS, int NEAR>
static gop_status matmul_gemv_col(gop_ctx *ctx, const gop_task *task, int64_t)
{
    const thin_cut &cut = *GOP_OWN(const thin_cut, task->plan);
    const matmul_product<T> p = thin_product_of<T>(task, cut);
    /* A thread's only output is near in either case. */
    constexpr bool BESIDE = NEAR || columns_shape<T, COLUMNS>::WIDE == 1;
    GOP_TRY(GOP_LAUNCH_FOLLOWED(ctx, cut.split > 1,
                                (matmul_gemv_col_kernel<T, COLUMNS, BESIDE>),
                                (unsigned)cut.blocks, THIN_THREADS, 0, p, cut.parts));
    return thin_add_partials<T>(ctx, task, p.part);
}

/* One column, and few lines whose terms follow each other in memory without gaps: a block reads
 * them as one line, 16 bytes a thread. What a thread reads next lies whole terms further on, so
 * each of its items always is of the same row. */
template <typename T> __global__ void __launch_bounds__(THIN_THREADS, 4)
    matmul_gemv_flat_kernel(const matmul_product<T> p)
{
    typedef sum_t<T> S;
    enum { V = 16 / sizeof(T), AHEAD = 4 };
    __shared__ S meet[THIN_THREADS * V];
    const matmul_geometry &g = p.g;
    const int m = (int)g.m, used = THIN_THREADS / m * m, terms = used / m * V; /* of a pass */
    const int t = threadIdx.x;
    const thin_block block = thin_block_of(p, blockIdx.x, 1, m);
    S sum[V] = {};
    int term[V]; /* of a pass */
#pragma unroll
    for (int v = 0; v < V; v++) term[v] = (t * V + v) / m;

    /* Main loop: AHEAD passes at once; the last terms one by one. */
    if (t < used) {
        const T *const a = p.a + t * V, *const b = p.b;
        int64_t l = block.begin;
        const auto add = [&](const vec128<T> &group, int64_t first) {
#pragma unroll
            for (int v = 0; v < V; v++)
                sum[v] = accumulate(widen(group.at[v]), widen(b[(first + term[v]) * g.b_row]),
                                    sum[v]);
        };
        for (; l + AHEAD * terms <= block.end; l += AHEAD * terms) {
            vec128<T> group[AHEAD];
#pragma unroll
            for (int u = 0; u < AHEAD; u++) group[u] = load128(a + (l + u * terms) * m);
#pragma unroll
            for (int u = 0; u < AHEAD; u++) add(group[u], l + u * terms);
        }
        for (; l < block.end; l += terms)
#pragma unroll
            for (int v = 0; v < V; v++) {
                if (l + term[v] >= block.end) continue;
                const T factor = b[(l + term[v]) * g.b_row];
                sum[v] = accumulate(widen(a[l * m + v]), widen(factor), sum[v]);
            }
#pragma unroll
        for (int v = 0; v < V; v++) meet[t * V + v] = sum[v];
    }

    /* Epilogue: the upper half of a pass's terms is added to the lower one, again and again. */
    for (int left = terms; left > 1;) {
        const int half = (left + 1) / 2;
        __syncthreads();
        for (int at = t; at < (left - half) * m; at += THIN_THREADS)
            meet[at] = plus(meet[at], meet[at + half * m]);
        left = half;
    }
    __syncthreads();
    if (t < m) thin_put(p, t * g.out_row, block.chunk, meet[t]);
}

template <typename T>
static gop_status matmul_gemv_flat(gop_ctx *ctx, const gop_task *task, int64_t)
{
    const thin_cut &cut = *GOP_OWN(const thin_cut, task->plan);
    const matmul_product<T> p = thin_product_of<T>(task, cut);
    GOP_TRY(GOP_LAUNCH_FOLLOWED(ctx, cut.split > 1, matmul_gemv_flat_kernel<T>,
                                (unsigned)cut.blocks, THIN_THREADS, 0, p));
    return thin_add_partials<T>(ctx, task, p.part);
}

#define OF_COLUMNS(T, C)                                                                       \
    {                                                                                          \
        matmul_gemv_col<T, C, 0>, matmul_gemv_col<T, C, 1>                                     \
    }
#define OF_COLUMN(T) OF_COLUMNS(T, 1)
#define OF(T)                                                                                  \
    {                                                                                          \
        OF_COLUMNS(T, 1), OF_COLUMNS(T, 2), OF_COLUMNS(T, 4), OF_COLUMNS(T, 8),                \
            OF_COLUMNS(T, 16)                                                                  \
    }

static gop_status matmul_gemv_col_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    static const gop_launch launches[][5][2] = {OF(float16), OF(bfloat16),  OF(float),
                                                OF(double),  OF(complex64), OF(complex128)};
    static const gop_launch whole[][2] = THIN_WHOLE(OF_COLUMN);
    const gop_dtype dtype = task->in[0].dtype;
    thin_cut *const cut = GOP_OWN(thin_cut, plan);
    *cut = {};
    const gop_gemm g = thin_geometry(task, &cut->swapped);
    GOP_TRY(thin_takes(g, "gemv_col", thin_most(dtype)));
    const int bytes = gemv_col_load((int)matmul_item(task), thin_width(g.n, 16));
    tiling_of of =
        thin_tiling_of(ctx, task, g, thin_wide(task, g, cut->swapped ? 1 : 0, 0, bytes));
    of.a_along = of.a_along && !of.a_wide;
    of.a_dense = matmul_dense(g, task->in[cut->swapped].data, g.m, g.a_row, g.a_col);
    matmul_tiling &tiling = *cut;
    tiling = gemv_col_tiling(of);
    thin_scratch(task, g, cut, plan);
    if (cut->flat) {
        #define FLAT(T) matmul_gemv_flat<T>
        static const gop_launch flat[] = MATMUL_LAUNCHES(FLAT);
#undef FLAT
        plan->launch = flat[dtype];
        return GOP_OK;
    }
    plan->launch = thin_is_whole(dtype)
                       ? whole[thin_whole_index(dtype)][cut->wide]
                       : launches[dtype - GOP_FLOAT16][thin_index(cut->columns)][cut->wide];
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
