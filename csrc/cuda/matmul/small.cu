/*
 * small.cu - matmul of many small matrices: a block computes several products at once.
 *
 * A product of 32 x 32 leaves most threads of the kernels above without work, and a block that
 * waits for its operands is idle. Here a team of (SIDE / 4)^2 threads has a product, 4 x 4
 * outputs each, and the teams of a block load together, neighbouring threads neighbouring
 * elements. Rows of a stay as they are: a thread reads four terms of its four rows at a time.
 */
#include "cuda/matmul/arithmetic.h"
#include "cuda/matmul/product.h"

enum { SMALL_THREADS = 256, SMALL_EACH = 4, SMALL_MOST = 32 };

/* Products of a block, threads of a product, and the terms that wait in shared memory. */
template <typename S, int SIDE> struct small_shape {
    enum { ACROSS = SIDE / SMALL_EACH, TEAM = ACROSS * ACROSS, TEAMS = SMALL_THREADS / TEAM };
    enum { N = vec128<S>::N, WORDS = SIDE < 16 ? 4 : SIDE < 32 ? 16 : 32 };
    enum { DEPTH = WORDS * 4 / (int)sizeof(S) };
    enum { A_LINE = DEPTH + N, B_LINE = SIDE + N }; /* padded: fewer bank conflicts */
};

/* Loads the block's share of an operand, DEPTH terms of `lines` lines (rows of a, columns of b)
 * of each product, 0 beyond the edges. */
template <typename T, int SIDE>
GOP_DEVICE void small_fetch(sum_t<T> *to, int product_step, int line_step, int l_step,
                            const T *const *from, int lines, int64_t left, int64_t line_stride,
                            int64_t l_stride)
{
    typedef small_shape<sum_t<T>, SIDE> shape;
    enum { EACH = SIDE * shape::DEPTH };
    const int64_t line_far = line_stride < 0 ? -line_stride : line_stride;
    const bool along = (l_stride < 0 ? -l_stride : l_stride) <= line_far;
#pragma unroll 8
    for (int at = threadIdx.x; at < shape::TEAMS * EACH; at += SMALL_THREADS) {
        const int product = at / EACH, in = at % EACH;
        const int line = along ? in / shape::DEPTH : in % SIDE;
        const int l = along ? in % shape::DEPTH : in / SIDE;
        const T *const start = from[product];
        sum_t<T> value = {};
        if (start && line < lines && l < left)
            value = widen(start[line * line_stride + l * l_stride]);
        to[product * product_step + line * line_step + l * l_step] = value;
    }
}

template <typename T, int SIDE> __global__ void __launch_bounds__(SMALL_THREADS)
    matmul_small_kernel(const matmul_product<T> p)
{
    typedef sum_t<T> S;
    typedef small_shape<S, SIDE> shape;
    enum { N = shape::N, DEPTH = shape::DEPTH, ACROSS = shape::ACROSS, TEAMS = shape::TEAMS };
    __shared__ vec128<S> a_tile[TEAMS][SIDE][shape::A_LINE / N];
    __shared__ vec128<S> b_tile[TEAMS][DEPTH][shape::B_LINE / N];
    __shared__ const T *a[TEAMS], *b[TEAMS]; /* null where there is no product */
    const gop_gemm &g = p.g;
    const int team = threadIdx.x / shape::TEAM;
    const int x = threadIdx.x % ACROSS, y = threadIdx.x / ACROSS % ACROSS;
    const int64_t batch = (int64_t)blockIdx.x * TEAMS + team;
    const bool exists = batch < p.part.batches;
    matmul_offsets of = {};
    if (exists) of = matmul_batch(g, p.part.batch + batch);
    if (threadIdx.x % shape::TEAM == 0) {
        a[team] = exists ? p.a + of.a : nullptr;
        b[team] = exists ? p.b + of.b : nullptr;
    }

    S sum[SMALL_EACH][SMALL_EACH] = {};
    for (int64_t l0 = 0; l0 < g.k; l0 += DEPTH) {
        __syncthreads();
        small_fetch<T, SIDE>(&a_tile[0][0][0].at[0], SIDE * shape::A_LINE, shape::A_LINE, 1, a,
                             (int)g.m, g.k - l0, g.a_row, g.a_col);
        small_fetch<T, SIDE>(&b_tile[0][0][0].at[0], DEPTH * shape::B_LINE, 1, shape::B_LINE, b,
                             (int)g.n, g.k - l0, g.b_col, g.b_row);
        __syncthreads();
        if (threadIdx.x % shape::TEAM == 0 && exists) {
            a[team] += DEPTH * g.a_col;
            b[team] += DEPTH * g.b_row;
        }
#pragma unroll 2
        for (int l = 0; l < DEPTH / N; l++) {
            vec128<S> rows[SMALL_EACH];
#pragma unroll
            for (int r = 0; r < SMALL_EACH; r++) rows[r] = a_tile[team][r * ACROSS + y][l];
#pragma unroll
            for (int n = 0; n < N; n++) {
                vec128<S> columns[SMALL_EACH / N];
#pragma unroll
                for (int v = 0; v < SMALL_EACH / N; v++)
                    columns[v] = b_tile[team][l * N + n][v * ACROSS + x];
#pragma unroll
                for (int r = 0; r < SMALL_EACH; r++)
#pragma unroll
                    for (int c = 0; c < SMALL_EACH; c++)
                        sum[r][c] =
                            accumulate(rows[r].at[n], columns[c / N].at[c % N], sum[r][c]);
            }
        }
    }
    if (!exists) return;
#pragma unroll
    for (int r = 0; r < SMALL_EACH; r++)
#pragma unroll
        for (int c = 0; c < SMALL_EACH; c++) {
            const int64_t i = r * ACROSS + y, j = (c / N * ACROSS + x) * N + c % N;
            if (i < g.m && j < g.n)
                put((T *)p.out + of.out + i * g.out_row + j * g.out_col, sum[r][c]);
        }
}

template <typename T, int SIDE>
static gop_status matmul_small(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const matmul_product<T> p = matmul_product_of<T>(task, matmul_part_of(task, step));
    enum { TEAMS = small_shape<sum_t<T>, SIDE>::TEAMS };
    return GOP_LAUNCH(ctx, (matmul_small_kernel<T, SIDE>),
                      (unsigned)blocks_for(p.part.batches, TEAMS), SMALL_THREADS, 0, p);
}

static gop_status matmul_small_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
#define OF_8(T) matmul_small<T, 8>
#define OF_16(T) matmul_small<T, 16>
#define OF_32(T) matmul_small<T, 32>
    static const gop_launch of_8[] = MATMUL_LAUNCHES(OF_8), of_16[] = MATMUL_LAUNCHES(OF_16);
    static const gop_launch of_32[] = MATMUL_LAUNCHES(OF_32);
    enum { SLOWER = 4 }; /* than the best kernel, cautiously */
    enum { MANY = 16, LONG = 256 };
    const gop_gemm &g = task->geometry.gemm;
    const int64_t side = g.m > g.n ? g.m : g.n;
    if (side > SMALL_MOST)
        return gop_fail(GOP_REFUSED,
                        "matmul: kernel 'small' takes products of at most %d x %d, got "
                        "(%lld, %lld)",
                        SMALL_MOST, SMALL_MOST, (long long)g.m, (long long)g.n);
    if (!task->named && (g.batches < MANY || g.k > LONG))
        return gop_fail(
            GOP_REFUSED,
            "matmul: kernel 'small' takes at least %d products of at most %d terms, "
            "got %lld of %lld",
            MANY, LONG, (long long)g.batches, (long long)g.k);
    plan->launch = (side <= 8 ? of_8 : side <= 16 ? of_16 : of_32)[task->in[0].dtype];
    matmul_plan_steps(ctx, task, SLOWER, plan);
    return GOP_OK;
}

extern const gop_row matmul_small_row = {
    .name = "small",
    .note = "products of at most 32 x 32: a block computes several, whose operands its threads "
            "load together",
    .role = GOP_CONFORMING,
    .plan = matmul_small_plan,
    .dtypes = GOP_EVERY_DTYPE,
};
