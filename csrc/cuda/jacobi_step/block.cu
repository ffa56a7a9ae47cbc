/*
 * block.cu - jacobi_step of a dense A, a row by up to four warps, each with leaves of its own.
 *
 * A thread's loads are 128 bits wide, and all of a batch are issued before the first is used:
 * enough bytes in flight to hide latency. The warps of a row read it side by side, so that
 * blocks are short and the last wave is, too. COLS right-hand sides share the loads of A.
 */
#include "core/ops/jacobi.h"
#include "cuda/jacobi_step/tree.h"

enum { WARPS = 8, MOST_ACROSS = 4 /* warps of a row */ };

/* Where a thread is in a row and in the columns of x, and how it goes on. */
template <typename T> struct block_place {
    const T *a, *x;
    int64_t a_col, x_row, x_col;
    int columns; /* of x */
};

/* N items of a column of x, by one load. */
template <typename T, int N> GOP_DEVICE void load_lanes(T (&to)[N], const T *from)
{
    if (N == 1) {
        to[0] = from[0];
        return;
    }
    const vec128<T> v = load128(from);
    for (int j = 0; j < N; j++) to[j] = v.at[j];
}

/* CHUNKS times 128 terms, one of each for each lane. */
template <typename T, int N, int COLS, int CHUNKS>
GOP_DEVICE void add_chunks(block_place<T> &at, T (&lane)[COLS][PER_THREAD])
{
    enum { VECTORS = PER_THREAD / N };
    T a[CHUNKS * VECTORS][N];
#pragma unroll
    for (int v = 0; v < CHUNKS * VECTORS; v++)
        stream_lanes<T, N>(a[v], at.a + v * WARP * N * at.a_col);
    __syncwarp(); /* all are asked for before x is: else the compiler waits for some first */
#pragma unroll
    for (int v = 0; v < CHUNKS * VECTORS; v++) {
#pragma unroll
        for (int c = 0; c < COLS; c++) {
            if (COLS > 1 && c >= at.columns) continue;
            T x[N];
            load_lanes<T, N>(x, at.x + v * WARP * N * at.x_row + c * at.x_col);
#pragma unroll
            for (int j = 0; j < N; j++) {
                T &to = lane[c][v % VECTORS * N + j];
                to = multiply_add(a[v][j], x[j], to);
            }
        }
    }
    at.a += CHUNKS * LANES * at.a_col;
    at.x += CHUNKS * LANES * at.x_row;
}

/* The last terms, fewer than 128. */
template <typename T, int N, int COLS>
GOP_DEVICE void add_rest(const block_place<T> &at, int terms, T (&lane)[COLS][PER_THREAD])
{
#pragma unroll
    for (int l = 0; l < PER_THREAD; l++) {
        const int k = l / N * WARP * N + l % N; /* from the thread's first */
        if (k + (int)threadIdx.x * N >= terms) continue;
        const T a = at.a[k * at.a_col];
#pragma unroll
        for (int c = 0; c < COLS; c++)
            if (COLS == 1 || c < at.columns)
                lane[c][l] = multiply_add(a, at.x[k * at.x_row + c * at.x_col], lane[c][l]);
    }
}

/* The sums of so many terms, by a warp, in every thread; -0.0 of none. */
template <typename T, int N, int COLS>
GOP_DEVICE void sum_leaves(block_place<T> at, int64_t terms, T (&sum)[COLS])
{
    enum { CHUNKS = (COLS == 1 ? 32 : 16) / sizeof(T) };
    warp_tree<T> tree[COLS];
#pragma unroll
    for (int c = 0; c < COLS; c++) tree[c] = {0, negative_zero<T>()};
    for (; terms > 0; terms -= LEAF) {
        T lane[COLS][PER_THREAD];
#pragma unroll
        for (int l = 0; l < COLS * PER_THREAD; l++)
            lane[l / PER_THREAD][l % PER_THREAD] = negative_zero<T>();
        int left = terms < LEAF ? (int)terms : (int)LEAF;
        for (; left >= CHUNKS * LANES; left -= CHUNKS * LANES)
            add_chunks<T, N, COLS, CHUNKS>(at, lane);
        for (; left >= LANES; left -= LANES) add_chunks<T, N, COLS, 1>(at, lane);
        if (left > 0) add_rest<T, N, COLS>(at, left, lane);
#pragma unroll
        for (int c = 0; c < COLS; c++)
            if (COLS == 1 || c < at.columns) tree_push(tree[c], fold_lanes<T, N>(lane[c]));
    }
#pragma unroll
    for (int c = 0; c < COLS; c++) sum[c] = tree_root(tree[c], negative_zero<T>());
}

/* Blocks that an SM should hold: as registers allow. */
template <typename T, int COLS> constexpr int block_blocks()
{
    const int sums = COLS * (int)sizeof(T);
    return COLS == 1 && sums < 16 ? 3 : sums <= 32 ? 2 : 1;
}

/* `across` warps share a row, a power of two, and have `each` of its terms, whole leaves. */
template <typename T, int N, int COLS>
__global__ void __launch_bounds__(WARP *WARPS, block_blocks<T, COLS>())
    jacobi_step_block_kernel(jacobi_system<T> s, int across, int64_t each)
{
    __shared__ T node[WARPS][COLS];
    const gop_jacobi &g = s.g;
    const int warp = threadIdx.y, c = threadIdx.x;
    const int64_t r = s.first + (blockIdx.x * (int64_t)WARPS + warp) / across;
    const int64_t i = r < s.last ? r : s.last - 1; /* warps past the last row help along */
    const int64_t first = warp % across * each, left = g.n - first;
    for (int64_t c0 = 0; c0 < g.k; c0 += COLS) {
        block_place<T> at = {s.a + i * g.a_row,
                             s.x + c0 * g.x_col,
                             N > 1 ? 1 : g.a_col,
                             N > 1 || COLS > 1 ? 1 : g.x_row,
                             g.x_col,
                             g.k - c0 < COLS ? (int)(g.k - c0) : COLS};
        at.a += (first + threadIdx.x * N) * at.a_col;
        at.x += (first + threadIdx.x * N) * at.x_row;
        T sum[COLS];
        sum_leaves<T, N, COLS>(at, left < each ? left : each, sum);
#pragma unroll
        for (int l = 0; l < COLS; l++)
            if (c == l) node[warp][l] = sum[l];
        __syncthreads();
        if (first == 0 && c < at.columns && r < s.last) {
            for (int d = 1; d < across; d *= 2)
                for (int w = warp; w < warp + across; w += 2 * d)
                    node[w][c] = plus(node[w][c], node[w + d][c]);
            jacobi_update(s, i, c0 + c, node[warp][c], dense_diagonal(s, i));
        }
        __syncthreads();
    }
}

/* x by columns, `pitch` items apart. */
template <typename T>
__global__ void jacobi_step_columns_kernel(T *to, int64_t pitch, const T *x, gop_jacobi g)
{
    const int64_t step = gridDim.x * (int64_t)blockDim.x;
    for (int64_t at = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; at < g.n * g.k;
         at += step) {
        const int64_t i = at / g.k, c = at - i * g.k;
        to[c * pitch + i] = x[i * g.x_row + c * g.x_col];
    }
}

/* Whether N items of each column of x are neighbours and begin at a multiple of so many. */
template <typename T, int N> static bool has_wide_x(const gop_jacobi &g, const void *x)
{
    return g.x_row == 1 && (g.k == 1 || g.x_col % N == 0) &&
           (uintptr_t)x % (N * sizeof(T)) == 0;
}
template <typename T> static int64_t columns_pitch(const gop_jacobi &g)
{
    return (g.n + vec128<T>::N - 1) / vec128<T>::N * vec128<T>::N;
}

/* Terms of each of the warps that share a row of n: a subtree of leaves. */
static int64_t terms_each(int64_t n, int across)
{
    int64_t each = LEAF;
    while (across * each < n) each *= 2;
    return each;
}
/* Warps that do: of which the last has half as many terms at least, so that none holds up the
 * end of a block. */
static int warps_across(int64_t n)
{
    int across = MOST_ACROSS;
    while (across > 1 && 2 * (n - (across - 1) * terms_each(n, across)) < terms_each(n, across))
        across /= 2;
    return across;
}

struct block_plan {
    int across;    /* warps that share a row */
    int64_t each;  /* its terms of each */
    int64_t pitch; /* between the columns that x is copied to; 0: it is read as it lies */
};

template <typename T, int N, int COLS>
static gop_status jacobi_step_block(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const block_plan &plan = *GOP_OWN_OF_STEP(const block_plan, task->plan);
    jacobi_system<T> s = jacobi_system_of<T>(task, step);
    if (plan.pitch) {
        T *const columns = (T *)task->scratch;
        if (step == 0)
            GOP_TRY(GOP_LAUNCH(ctx, jacobi_step_columns_kernel<T>,
                               dim3((unsigned)blocks_for(s.g.n, 256)), dim3(256), 0, columns,
                               plan.pitch, s.x, s.g));
        s.x = columns;
        s.g.x_row = 1;
        s.g.x_col = plan.pitch;
    }
    return GOP_LAUNCH(ctx, (jacobi_step_block_kernel<T, N, COLS>),
                      dim3((unsigned)blocks_for(s.last - s.first, WARPS / plan.across)),
                      dim3(WARP, WARPS), 0, s, plan.across, plan.each);
}

template <typename T, int N> static gop_launch launch_of(int64_t k)
{
    return k == 1   ? jacobi_step_block<T, N, 1>
           : k <= 4 ? jacobi_step_block<T, N, 4>
                    : jacobi_step_block<T, N, 8>;
}

/* 128-bit loads need every row of A to start at a multiple of 16. One column of x has to, too;
 * several are copied to where they do. */
template <typename T> static void plan_for(const gop_task *task, gop_plan *plan)
{
    enum { N = vec128<T>::N };
    const gop_jacobi &g = task->geometry.jacobi;
    const bool has_x = has_wide_x<T, N>(g, task->in[2].data);
    const bool is_wide = g.a_col == 1 && g.a_row % N == 0 &&
                         (uintptr_t)task->in[0].data % 16 == 0 && (g.k > 1 || has_x);
    plan->launch = is_wide ? launch_of<T, N>(g.k) : launch_of<T, 1>(g.k);
    const bool as_it_lies = is_wide ? has_x : has_wide_x<T, 1>(g, task->in[2].data);
    block_plan *const p = GOP_OWN_OF_STEP(block_plan, plan);
    p->across = g.k > 1 ? 1 : warps_across(g.n); /* rows side by side share x */
    p->each = terms_each(g.n, p->across);
    p->pitch = g.k > 1 && !as_it_lies ? columns_pitch<T>(g) : 0;
    plan->scratch = (size_t)(p->pitch * g.k) * sizeof(T);
}

static gop_status jacobi_step_block_plan(const gop_ctx *ctx, const gop_task *task,
                                         gop_plan *plan)
{
    GOP_TRY(jacobi_plan_dense(ctx, task, plan));
    JACOBI_BY_DTYPE(task->in[0].dtype, plan_for)(task, plan);
    return GOP_OK;
}

extern const gop_row jacobi_step_block_row = {
    .name = "block",
    .note = "128-bit loads, eight of a thread under way at once, a row by several warps; "
            "right-hand sides share a read of A",
    .role = GOP_CONFORMING,
    .plan = jacobi_step_block_plan,
    .dtypes = JACOBI_DTYPES,
};
