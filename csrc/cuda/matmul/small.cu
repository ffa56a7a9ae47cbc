/*
 * small.cu - matmul of many small matrices: a team of threads has a product.
 *
 * A product of 32 x 32 leaves most threads of the other kernels without work, and a block that
 * waits for its operands is idle. Here a warp has a product of up to 32 x 32, eight threads one
 * of 8 x 8, and a few warps a larger one or a tile of it: no team waits for another's operands.
 * A team's copies begin together, 16 bytes each where the operands allow it, and while one team
 * waits the others of its SM compute.
 */
#include "cuda/matmul/small.h"
#include "cuda/matmul/tiling.h"

/* sum += so many terms of a thread's rows and columns, which begin at a and b. */
template <typename shape, typename S, typename H, int R, int C>
GOP_DEVICE void small_multiply(S (&sum)[R][C], const H *a, const H *b, int terms)
{
    enum { V = shape::V, CV = shape::CV };
#pragma unroll 2
    for (int l = 0; l < terms; l += V) {
        small_items<H, V> row[R];
#pragma unroll
        for (int r = 0; r < R; r++) row[r].read(a + r * shape::DOWN * shape::A_LINE + l);
#pragma unroll
        for (int e = 0; e < V; e++) {
            small_items<H, CV> column[C / CV];
#pragma unroll
            for (int c = 0; c < C / CV; c++)
                column[c].read(b + (l + e) * shape::B_LINE + c * shape::ACROSS * CV);
#pragma unroll
            for (int r = 0; r < R; r++)
#pragma unroll
                for (int c = 0; c < C; c++)
                    sum[r][c] =
                        accumulate(widen(row[r][e]), widen(column[c / CV][c % CV]), sum[r][c]);
        }
    }
}

template <typename T, int LANES, int R, int C> __global__ void
__launch_bounds__(small_shape<T, LANES, R, C>::THREADS, small_shape<T, LANES, R, C>::BLOCKS)
    matmul_small_kernel(const matmul_product<T> p, const small_way way)
{
    typedef small_shape<T, LANES, R, C> shape;
    typedef typename shape::H H;
    enum { DEPTH = shape::DEPTH, DOWN = shape::DOWN, ACROSS = shape::ACROSS };
    enum { M = shape::M, N = shape::N, CV = shape::CV };
    enum { A_LINE = shape::A_LINE, B_LINE = shape::B_LINE, STAGES = shape::STAGES };
    extern __shared__ uint4 memory[];
    const matmul_geometry &g = p.g;
    const unsigned team = threadIdx.x / LANES, item = blockIdx.x * shape::TEAMS + team;
    const int t = threadIdx.x % LANES, lane = t % 32;
    /* Neighbours share a row or a column: a warp's 16 bytes a lane come in two wavefronts. */
    const int x = lane % 2 + (LANES < 32 ? 0 : t / 32 * 4 + lane / 4 % 2 * 2);
    const int y = lane / 2 % 2 + (LANES < 32 ? lane / 4 : lane / 8) * 2;

    unsigned product = item, tile = 0;
    if (way.tiles > 1) product = item / way.tiles, tile = item - product * way.tiles;
    const bool some = product < p.part.batches;
    const matmul_offsets of = matmul_batch(g, some ? p.part.batch + product : 0);
    const int64_t i0 = (int64_t)(tile / way.tiles_n) * M,
                  j0 = (int64_t)(tile % way.tiles_n) * N;
    const int rows = !some ? 0 : p.part.rows - i0 < M ? (int)(p.part.rows - i0) : M;
    const int columns = !some ? 0 : g.n - j0 < N ? (int)(g.n - j0) : N;
    const T *a = p.a + of.a + (p.part.row + i0) * g.a_row, *b = p.b + of.b + j0 * g.b_col;

    H *const stages = reinterpret_cast<H *>(memory) +
                      team * (unsigned)(way.stages * shape::STAGE + shape::APART);
    int64_t left = g.k;
    small_copies<T, shape::COPIES> copies;
    const auto fetch = [&](int stage) {
        H *const a_to = stages + stage * shape::STAGE, *const b_to = a_to + shape::A_SIZE;
        const int terms = left < DEPTH ? (int)left : DEPTH;
        copies.again = way.b_again;
        small_fetch_tile<LANES, N, DEPTH, 1, B_LINE>(copies, b_to, b, g.b_col, g.b_row, columns,
                                                     terms, way.b_wide, way.b_along, way.b_near,
                                                     t);
        copies.again = way.a_again; /* a later: halves that lie across wait for their loads */
        small_fetch_tile<LANES, M, DEPTH, A_LINE, 1>(copies, a_to, a, g.a_row, g.a_col, rows,
                                                     terms, way.a_wide, way.a_along, way.a_near,
                                                     t);
        a += DEPTH * g.a_col, b += DEPTH * g.b_row, left -= DEPTH;
    };

    /* Main loop: fetch STAGES stages ahead, multiply. */
    sum_t<T> sum[R][C] = {};
    for (int64_t step = 0, fetched = 0; step * DEPTH < g.k; step++) {
        if (step > 0 && left > 0) team_sync<LANES>(); /* no thread reads the stage any more */
        for (; fetched < step + STAGES; fetched++) {
            if (left > 0) fetch((int)(fetched % STAGES));
            copies.commit();
        }
        copies.template wait<STAGES - 1>();
        team_sync<LANES>();
        const H *const a_now = stages + step % STAGES * shape::STAGE + y * A_LINE;
        const H *const b_now = stages + step % STAGES * shape::STAGE + shape::A_SIZE + x * CV;
        const int64_t after = g.k - step * DEPTH;
        small_multiply<shape>(sum, a_now, b_now, after < DEPTH ? (int)after : DEPTH);
    }

    /* Epilogue: store the sums. */
    T *const out = (T *)p.out + of.out + (p.part.row + i0) * g.out_row + j0 * g.out_col;
#pragma unroll
    for (int r = 0; r < R; r++) {
        const int i = r * DOWN + y;
        if (i >= rows) break;
#pragma unroll
        for (int c = 0; c < C / CV; c++) {
            const int j = (c * ACROSS + x) * CV;
            small_store<T, sum_t<T>, CV>(out + i * g.out_row + j * g.out_col, g.out_col,
                                         &sum[r][c * CV], columns - j, way.out_near);
        }
    }
}

template <typename T, int LANES, int R, int C>
static gop_status matmul_small(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    typedef small_shape<T, LANES, R, C> shape;
    const matmul_product<T> p = matmul_product_of<T>(task, matmul_part_of(task, step));
    small_way way = GOP_OWN(const small_plan, task->plan)->way;
    const int64_t stages = blocks_for(p.g.k, shape::DEPTH);
    way.tiles_n = (unsigned)blocks_for(p.g.n, shape::N);
    way.tiles = (unsigned)blocks_for(p.part.rows, shape::M) * way.tiles_n;
    way.stages = stages < shape::STAGES ? (int)stages : shape::STAGES;
    const size_t each = (way.stages * shape::STAGE + shape::APART) * sizeof(staged_t<T>);
    return GOP_LAUNCH(ctx, (matmul_small_kernel<T, LANES, R, C>),
                      (unsigned)blocks_for(p.part.batches * way.tiles, shape::TEAMS),
                      shape::THREADS, shape::TEAMS * each, p, way);
}

/* Halves are read eight at a time: one warp serves 32 x 32 of them, else two. */
template <typename T> static constexpr gop_launch small_32 =
    matmul_small<T, sizeof(staged_t<T>) < 4 ? 32 : 64, 4, sizeof(staged_t<T>) < 4 ? 8 : 4>;

static gop_launch small_launch(int tile, gop_dtype dtype)
{
    static const gop_launch of_8[] = MATMUL_LAUNCHES(matmul_small, 8, 2, 4);
    static const gop_launch of_16[] = MATMUL_LAUNCHES(matmul_small, 32, 2, 4);
    static const gop_launch of_32[] = MATMUL_LAUNCHES(small_32);
    static const gop_launch *const of_all[SMALL_TILES_OF_ALL] = {of_8, of_16, of_32};
    static const gop_launch of_float[] = {
        matmul_small<float, 96, 6, 4>, matmul_small<float, 128, 7, 4>,
        matmul_small<float, 64, 7, 8>, matmul_small<float, 128, 8, 4>};
    static_assert(SMALL_TILES_OF_ALL + sizeof of_float / sizeof *of_float == SMALL_TILES,
                  "a kernel for each tile");
    return tile < SMALL_TILES_OF_ALL ? of_all[tile][dtype]
                                     : of_float[tile - SMALL_TILES_OF_ALL];
}

static gop_status matmul_small_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    enum { SLOWER = 4 }; /* times the best kernel's time, at most */
    const gop_gemm &g = task->geometry.gemm;
    const gop_dtype dtype = task->in[0].dtype;
    const bool is_half = dtype == GOP_FLOAT16 || dtype == GOP_BFLOAT16;
    matmul_plan_steps(ctx, task, SLOWER, plan, 16);
    small_way &way = GOP_OWN(small_plan, plan)->way;
    const int64_t items = 16 / matmul_item(task);
    const bool is_staged = matmul_item(task) >= 4 || is_half;
    way.a_wide =
        is_staged && matmul_wide(g, g.a, task->in[0].data, g.a_col, g.a_row, g.k, items);
    way.b_wide =
        is_staged && matmul_wide(g, g.b, task->in[1].data, g.b_col, g.b_row, g.n, items);
    for (way.out_near = (int)items; way.out_near > 1; way.out_near /= 2)
        if (matmul_wide(g, g.out, task->out[0].data, g.out_col, g.out_row, 0, way.out_near,
                        (unsigned)(way.out_near * matmul_item(task))))
            break;
    way.a_along = gop_magnitude(g.a_col) <= gop_magnitude(g.a_row);
    way.b_along = gop_magnitude(g.b_row) < gop_magnitude(g.b_col);
    const auto near = [&](const int64_t *batch, const void *data, int64_t line, int64_t term,
                          int64_t lines, bool along) {
        const auto fits = [&](int many) {
            return along ? matmul_wide(g, batch, data, term, line, g.k, many, many * 2)
                         : matmul_wide(g, batch, data, line, term, lines, many, many * 2);
        };
        return fits(8) ? 8 : fits(2) ? 2 : 1;
    };
    way.a_near = near(g.a, task->in[0].data, g.a_row, g.a_col, g.m, way.a_along);
    way.b_near = near(g.b, task->in[1].data, g.b_col, g.b_row, g.n, way.b_along);
    enum { AGAIN = 16 }; /* products, or tiles of one */
    const auto again = [&](const int64_t *batch, int64_t tiles) {
        for (int axis = 0; axis < g.batch_rank; axis++)
            if (batch[axis] == 0) tiles *= g.extent[axis];
        return tiles >= AGAIN;
    };
    way.a_again = again(g.a, g.n / 16), way.b_again = again(g.b, g.m / 16);
    tiling_of of = tiling_of_shape(ctx, g, matmul_item(task));
    of.a_along = way.a_along != 0, of.b_along = way.b_along != 0;
    of.a_wide = way.a_wide != 0, of.b_wide = way.b_wide != 0;
    plan->launch = small_launch(small_tiling(of, small_tiles_of(dtype)).way, dtype);
    return GOP_OK;
}

extern const gop_row matmul_small_row = {
    .name = "small",
    .note =
        "many small products: a warp has one, or eight threads or a few warps, and while some "
        "wait for their operands the others compute",
    .role = GOP_CONFORMING,
    .plan = matmul_small_plan,
    .dtypes = GOP_EVERY_DTYPE,
};
