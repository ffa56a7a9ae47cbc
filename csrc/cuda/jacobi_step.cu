/*
 * jacobi_step.cu - one step of a stationary iteration, for dense and CSR matrices.
 *
 *     s = A x;   out = x + alpha (s - f)   or   out = x + omega (f - s) / d
 *
 * The floor is reading A once: two flops for every 4 or 8 bytes, so memory decides. What makes
 * it hard: neighbouring threads must read neighbouring elements of a row, so several threads
 * share a row's sum, and yet its bits must not depend on how many. tree/v1 fixes them: 128
 * lanes a leaf, whoever computes them.
 */
#include "cuda/jacobi_step.h"

/* ---- naive: a thread per row ------------------------------------------------------------
 * The formula as it stands. Neighbouring threads read neighbouring rows, a whole row apart in
 * memory: every 32-byte sector is fetched for one element of it. */

template <typename T> __global__ void jacobi_step_naive_kernel(jacobi_system<T> s)
{
    const gop_jacobi &g = s.g;
    const int64_t i = s.first + blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    if (i >= s.last) return;
    for (int64_t c = 0; c < g.k; c++) {
        T sum = 0;
        for (int64_t k = 0; k < g.n; k++)
            sum += s.a[i * g.a_row + k * g.a_col] * s.x[k * g.x_row + c * g.x_col];
        jacobi_update(s, i, c, sum, dense_diagonal(s, i));
    }
}

template <typename T>
static gop_status jacobi_step_naive(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const jacobi_system<T> s = jacobi_system_of<T>(ctx, task, step);
    return GOP_LAUNCH(ctx, jacobi_step_naive_kernel<T>,
                      dim3((unsigned)blocks_for(s.last - s.first, 256)), dim3(256), 0, s);
}

/* ---- tiled: the rows pass through shared memory -----------------------------------------
 * A block loads a 32 by 32 tile of A along its rows, so that a warp reads whole sectors, and
 * reads it back down its columns, a thread per row again. The 33rd column shifts each row by a
 * bank, so that 32 threads reading 32 rows meet 32 banks. */

enum { TILE = 32, PARTS = 8 };

template <typename T> __global__ void jacobi_step_tiled_kernel(jacobi_system<T> s)
{
    __shared__ T tile[TILE][TILE + 1];
    __shared__ T part[PARTS][TILE];
    const gop_jacobi &g = s.g;
    const int64_t i0 = s.first + blockIdx.x * (int64_t)TILE;
    for (int64_t c = 0; c < g.k; c++) {
        T sum = 0;
        for (int64_t k0 = 0; k0 < g.n; k0 += TILE) {
            const int64_t k = k0 + threadIdx.x;
            for (int y = threadIdx.y; y < TILE; y += PARTS) {
                T product = 0;
                if (i0 + y < s.last && k < g.n)
                    product =
                        s.a[(i0 + y) * g.a_row + k * g.a_col] * s.x[k * g.x_row + c * g.x_col];
                tile[y][threadIdx.x] = product;
            }
            __syncthreads();
            for (int l = threadIdx.y; l < TILE; l += PARTS) sum += tile[threadIdx.x][l];
            __syncthreads();
        }
        part[threadIdx.y][threadIdx.x] = sum;
        __syncthreads();
        const int64_t i = i0 + threadIdx.x;
        if (threadIdx.y == 0 && i < s.last) {
            for (int p = 1; p < PARTS; p++) sum += part[p][threadIdx.x];
            jacobi_update(s, i, c, sum, dense_diagonal(s, i));
        }
        __syncthreads();
    }
}

template <typename T>
static gop_status jacobi_step_tiled(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const jacobi_system<T> s = jacobi_system_of<T>(ctx, task, step);
    return GOP_LAUNCH(ctx, jacobi_step_tiled_kernel<T>,
                      dim3((unsigned)blocks_for(s.last - s.first, TILE)), dim3(TILE, PARTS), 0,
                      s);
}

/* ---- warp: a warp per row ---------------------------------------------------------------
 * 32 threads read 32 neighbours of a row: whole sectors without shared memory, and the sum
 * moves between registers by shuffles. Takes every call: any strides, dense and CSR. */

enum { WARPS = 8 };

template <typename T> __global__ void jacobi_step_warp_kernel(jacobi_system<T> s)
{
    const int64_t warps = gridDim.x * (int64_t)WARPS;
    for (int64_t i = s.first + blockIdx.x * (int64_t)WARPS + threadIdx.y; i < s.last;
         i += warps) {
        const T diagonal = s.csr ? warp_diagonal(s, i) : dense_diagonal(s, i);
        for (int64_t c = 0; c < s.g.k; c++) {
            const T sum = warp_row(s, i, c);
            if (threadIdx.x == 0) jacobi_update(s, i, c, sum, diagonal);
        }
    }
}

template <typename T>
static gop_status jacobi_step_warp(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const jacobi_system<T> s = jacobi_system_of<T>(ctx, task, step);
    return GOP_LAUNCH(ctx, jacobi_step_warp_kernel<T>,
                      dim3((unsigned)blocks_for(s.last - s.first, WARPS)), dim3(WARP, WARPS), 0,
                      s);
}

/* ---- block: a block per few rows --------------------------------------------------------
 * Up to 8 warps split the leaves of ROWS rows, each a whole subtree of them, and a thread's
 * loads are 128 bits wide: enough bytes in flight to fill the memory's latency. The rows share
 * what is loaded of x; COLS right-hand sides share what is loaded of A. */

/* N neighbours by one load. What is streamed will not be read again: it leaves the cache to x.
 */
template <typename T, int N> GOP_DEVICE void load_lanes(T *to, const T *from)
{
    if (N == 1) {
        to[0] = from[0];
        return;
    }
    const vec128<T> v = load128(from);
    for (int j = 0; j < N; j++) to[j] = v.at[j];
}

template <typename T, int N> GOP_DEVICE void stream_lanes(T *to, const T *from)
{
    if (N == 1) {
        to[0] = from[0];
        return;
    }
    const vec128<T> v = load128_stream(from);
    for (int j = 0; j < N; j++) to[j] = v.at[j];
}

/* Adds one leaf of ROWS rows to their trees. With N > 1 the extents are multiples of N. */
template <typename T, int N, int ROWS, int COLS>
GOP_DEVICE void block_leaf(const jacobi_system<T> &s, const T *const (&a)[ROWS], const T *x,
                           int64_t begin, int columns, warp_tree<T> (&tree)[ROWS][COLS])
{
    const gop_jacobi &g = s.g;
    const int64_t end = g.n - begin < LEAF ? g.n : begin + LEAF;
    T lane[ROWS][COLS][PER_THREAD];
#pragma unroll
    for (int l = 0; l < ROWS * COLS * PER_THREAD; l++)
        lane[l / (COLS * PER_THREAD)][l / PER_THREAD % COLS][l % PER_THREAD] =
            negative_zero<T>();
#pragma unroll 2
    for (int64_t chunk = begin + threadIdx.x * N; chunk < end; chunk += LANES)
#pragma unroll
        for (int v = 0; v < PER_THREAD / N; v++) {
            const int64_t k = chunk + v * WARP * N;
            T row[ROWS][N], column[COLS][N];
            if (k >= end) break;
            for (int r = 0; r < ROWS; r++) stream_lanes<T, N>(row[r], a[r] + k * g.a_col);
            for (int c = 0; c < COLS; c++)
                if (c < columns) load_lanes<T, N>(column[c], x + k * g.x_row + c * g.x_col);
            for (int r = 0; r < ROWS; r++)
                for (int c = 0; c < COLS; c++)
                    for (int j = 0; c < columns && j < N; j++)
                        lane[r][c][v * N + j] =
                            multiply_add(row[r][j], column[c][j], lane[r][c][v * N + j]);
        }
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int c = 0; c < COLS; c++)
            if (c < columns) tree_push(tree[r][c], fold_lanes<T, N>(lane[r][c]));
}

/* Rows [i0, i0 + ROWS) and columns [c0, c0 + columns) by one block of up to WARPS warps. */
template <typename T, int N, int ROWS, int COLS>
GOP_DEVICE void block_rows(const jacobi_system<T> &s, int64_t i0, int64_t c0, int columns,
                           int64_t leaves_per_warp, T (&part)[WARPS][ROWS][COLS])
{
    const gop_jacobi &g = s.g;
    warp_tree<T> tree[ROWS][COLS];
    const T *a[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) { /* rows past the last repeat it and are not written */
        a[r] = s.a + (i0 + r < s.last ? i0 + r : s.last - 1) * g.a_row;
        for (int c = 0; c < COLS; c++) tree[r][c] = {0, negative_zero<T>()};
    }
    const int64_t first = threadIdx.y * leaves_per_warp * LEAF;
    for (int64_t l = 0; l < leaves_per_warp && first + l * LEAF < g.n; l++)
        block_leaf<T, N, ROWS, COLS>(s, a, s.x + c0 * g.x_col, first + l * LEAF, columns, tree);
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int c = 0; c < COLS; c++) {
            const T root = tree_root(tree[r][c], negative_zero<T>());
            if (threadIdx.x == 0) part[threadIdx.y][r][c] = root;
        }
    __syncthreads();
    const int item = threadIdx.y * WARP + threadIdx.x, r = item / COLS, c = item % COLS;
    if (r < ROWS && c < columns && i0 + r < s.last) {
        for (int step = 1; step < (int)blockDim.y; step *= 2) /* the top of the tree */
            for (int w = 0; w < (int)blockDim.y; w += 2 * step)
                part[w][r][c] = plus(part[w][r][c], part[w + step][r][c]);
        jacobi_update(s, i0 + r, c0 + c, part[0][r][c], dense_diagonal(s, i0 + r));
    }
    __syncthreads();
}

template <typename T, int N, int ROWS, int COLS> __global__ void __launch_bounds__(WARP *WARPS)
    jacobi_step_block_kernel(jacobi_system<T> s, int64_t leaves_per_warp)
{
    __shared__ T part[WARPS][ROWS][COLS];
    for (int64_t i = s.first + blockIdx.x * (int64_t)ROWS; i < s.last;
         i += gridDim.x * (int64_t)ROWS)
        for (int64_t c = 0; c < s.g.k; c += COLS)
            block_rows<T, N, ROWS, COLS>(s, i, c, s.g.k - c < COLS ? (int)(s.g.k - c) : COLS,
                                         leaves_per_warp, part);
}

template <typename T, int N, int ROWS, int COLS>
static gop_status block_launch(gop_ctx *ctx, const jacobi_system<T> &s)
{
    int64_t leaves = 1; /* of the padded tree: a power of two */
    while (leaves < (s.g.n + LEAF - 1) / LEAF) leaves *= 2;
    const unsigned warps = leaves < WARPS ? (unsigned)leaves : (unsigned)WARPS;
    return GOP_LAUNCH(ctx, (jacobi_step_block_kernel<T, N, ROWS, COLS>),
                      dim3((unsigned)blocks_for(s.last - s.first, ROWS)), dim3(WARP, warps), 0,
                      s, leaves / warps);
}

/* 128-bit loads need every row of A and every column of x to start at a multiple of 16. */
template <typename T> static bool loads_128(const jacobi_system<T> &s)
{
    const int N = vec128<T>::N;
    return s.g.a_col == 1 && s.g.x_row == 1 && s.g.n % N == 0 && s.g.a_row % N == 0 &&
           ((uintptr_t)s.a | (uintptr_t)s.x) % 16 == 0;
}

template <typename T>
static gop_status jacobi_step_block(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const jacobi_system<T> s = jacobi_system_of<T>(ctx, task, step);
    if (s.g.k > 1) return block_launch<T, 1, 2, 4>(ctx, s);
    if (loads_128(s)) return block_launch<T, vec128<T>::N, 4, 1>(ctx, s);
    return block_launch<T, 1, 4, 1>(ctx, s);
}

static gop_status dense_accepts(const gop_ctx *, const gop_task *task)
{
    if (!task->call->params.jacobi_step.csr) return GOP_OK;
    return gop_fail(GOP_REFUSED, "jacobi_step: this kernel takes a dense A, got a CSR matrix; "
                                 "the warp and staged kernels take those");
}

/* ---- the ladder ---- */

#define LAUNCH(f)                                                                              \
    {                                                                                          \
        nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,       \
            nullptr, nullptr, f<float>, f<double>, f<complex64>, f<complex128>                 \
    }
/* The lecture's own order of summation, in its own dtypes. */
#define LAUNCH_LECTURE(f)                                                                      \
    {                                                                                          \
        nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,       \
            nullptr, nullptr, f<float>, f<double>, nullptr, nullptr                            \
    }
#define NO_TUNABLES                                                                            \
    {                                                                                          \
    }

static const gop_row rows[] = {
    {"naive", "a thread per row: neighbouring threads read a whole row apart", GOP_TEACHING,
     "adds a row's terms in column order, each product rounded, not in the order of tree/v1",
     "simple iteration", LAUNCH_LECTURE(jacobi_step_naive), dense_accepts, nullptr,
     jacobi_steps, NO_TUNABLES},
    {"tiled",
     "tiles of A pass through shared memory: a warp reads along rows, whole sectors at a time",
     GOP_TEACHING,
     "adds a row's terms in 8 interleaved parts, each product rounded, not in the order of "
     "tree/v1",
     "simple iteration", LAUNCH_LECTURE(jacobi_step_tiled), dense_accepts, nullptr,
     jacobi_steps, NO_TUNABLES},
    {"warp",
     "a warp per row, summed by register shuffles: no shared memory, no barriers, CSR too",
     GOP_CONFORMING, nullptr, nullptr, LAUNCH(jacobi_step_warp), nullptr, nullptr, jacobi_steps,
     NO_TUNABLES},
    {"block",
     "8 warps for 4 rows that share x, 128-bit loads: more bytes in flight for each warp",
     GOP_CONFORMING, nullptr, nullptr, LAUNCH(jacobi_step_block), dense_accepts, nullptr,
     jacobi_steps, NO_TUNABLES},
    {"column",
     "contiguous columns: a thread per row again, since neighbouring rows are neighbours in "
     "memory; 8 warps share the lanes",
     GOP_CONFORMING, nullptr, nullptr, LAUNCH(jacobi_step_column), jacobi_step_column_accepts,
     nullptr, jacobi_steps, NO_TUNABLES},
    {"staged",
     "CSR: a block's products pass through shared memory, so short rows still read whole "
     "sectors",
     GOP_CONFORMING, nullptr, nullptr, LAUNCH(jacobi_step_staged), jacobi_step_staged_accepts,
     nullptr, jacobi_steps, NO_TUNABLES},
};

extern "C" {
extern const gop_ladder gop_cuda_jacobi_step;
const gop_ladder gop_cuda_jacobi_step = {sizeof rows / sizeof rows[0], rows};
}
