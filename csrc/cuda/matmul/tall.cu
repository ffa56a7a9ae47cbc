/*
 * tall.cu - matmul of few outputs and long sums, where both operands are read once.
 *
 * a.T @ b of tall matrices (least squares) has a handful of outputs and a million terms: it
 * takes as long as memory for the operands, if enough of them is on its way. So a tile has all
 * outputs or nearly all, a block has a chunk of their sums, and within a block teams of threads
 * share the terms, each with all of the tile's outputs in registers. Copies run several stages
 * ahead. Teams add their sums in shared memory, two by two, blocks afterwards.
 */
#include "cuda/matmul/small.h"
#include "cuda/matmul/tall.h"
#include "cuda/matmul/thin.h"

enum { TALL_SHARED = 96 << 10 }; /* of a block at most */
enum { TALL_THREADS = 256, TALL_STAGES = 4, TALL_STAGE_BYTES = 16384 };

/* A team has M x N outputs, a thread of it R x C; a stage has DEPTH terms of their lines. */
template <typename T, int TILE_M, int TILE_N, int TILE_R, int TILE_C> struct tall_shape {
    enum { M = TILE_M, N = TILE_N, R = TILE_R, C = TILE_C };
    enum { ACROSS = N / C, DOWN = M / R, LANES = ACROSS * DOWN, TEAMS = TALL_THREADS / LANES };
    enum {
        V = vec128<T>::N,
        MOST = V < 4 ? +V : 4
    }; /* neighbours that a thread reads at once */
    enum { RV = R % MOST ? MOST / 2 : +MOST, CV = C % MOST ? MOST / 2 : +MOST };
    enum { WIDTH = M + N < 64 ? 32 : M + N < 96 ? 64 : 128 };
    enum { DEPTH = TALL_STAGE_BYTES / (WIDTH * (int)sizeof(T)) };
    /* Terms stand in lines, which are padded: fewer bank conflicts where these are turned. */
    enum { A_LINE = M + V, B_LINE = N + V, A_SIZE = DEPTH * A_LINE };
    enum { STAGE = A_SIZE + DEPTH * B_LINE };
    enum { COPIES = ((M + N) * DEPTH / TALL_THREADS + 2) * TALL_STAGES }; /* of a thread */
    enum { STAGED = TALL_STAGES * STAGE * (int)sizeof(T) };
    enum { FOLDED = TEAMS / 2 * M * N * (int)sizeof(T) };
    enum { SHARED = +FOLDED > +STAGED ? +FOLDED : +STAGED };
    static_assert(TALL_THREADS % LANES == 0 && DEPTH % TEAMS == 0, "teams share a stage");
    static_assert(+SHARED <= +TALL_SHARED, "what a block may have");
};

struct tall_plan {
    thin_cut cut;
    int a_wide, a_along, b_wide, b_along;
};

/* How a thread brings an operand's lines, DEPTH terms at a time: neighbouring threads follow
 * the direction in which items are neighbours, and copy 16 bytes of lines that exist where they
 * can. */
template <typename T, int DEPTH, int LINE> struct tall_feed {
    enum { V = vec128<T>::N };
    const T *from;
    int64_t step;
    int to, to_step, term, term_step, count;
    bool wide;

    GOP_DEVICE tall_feed(const T *first, int64_t line, int64_t terms, int lines, bool wide,
                         bool along)
        : wide(wide)
    {
        const int many = wide ? +V : 1, across = along ? DEPTH : (lines + many - 1) / many;
        const int far =
            TALL_THREADS / across; /* lines, or terms, that all threads bring at once */
        const int x = (int)threadIdx.x % across * many, y = (int)threadIdx.x / across;
        from = first + (along ? y * line + x * terms : x * line + y * terms);
        step = far * (along ? line : terms);
        to = along ? x * LINE + y : y * LINE + x;
        to_step = along ? far : far * LINE;
        term = along ? x : y, term_step = along ? 0 : far;
        count = y < far ? ((along ? lines : DEPTH) - y + far - 1) / far : 0;
    }
    template <int MOST>
    GOP_DEVICE void fetch(small_copies<T, MOST> &copies, T *stage, int64_t terms, int left)
    {
        const T *at = from;
        T *place = stage + to;
        int after = left - term;
#pragma unroll 2
        for (int e = 0; e < count; e++) {
            if (wide) copies.copy(place, at, after > 0, vec128<T>());
            else copies.copy(place, at, after > 0, T());
            at += step, place += to_step, after -= term_step;
        }
        from += DEPTH * terms;
    }
};

/* N neighbours in shared memory, V at a time, of which others have those between. */
template <int V, int STEP, typename T, int N>
GOP_DEVICE void tall_read(T (&to)[N], const T *from)
{
#pragma unroll
    for (int n = 0; n < N; n += V)
        __builtin_memcpy(to + n, __builtin_assume_aligned(from + n * STEP, V * sizeof(T)),
                         V * sizeof(T));
}

/* sum += the team's terms of a stage, the first of which are at a and b. What does not exist
 * is 0. */
template <typename shape, typename T, int R, int C>
GOP_DEVICE void tall_multiply(T (&sum)[R][C], const T *a, const T *b)
{
#pragma unroll(R *C *(int)sizeof(T) > 128 ? 1 : 4)
    for (int l = 0; l < shape::DEPTH; l += shape::TEAMS) {
        T row[R], column[C];
        tall_read<shape::RV, shape::DOWN>(row, a + l * shape::A_LINE);
        tall_read<shape::CV, shape::ACROSS>(column, b + l * shape::B_LINE);
#pragma unroll
        for (int r = 0; r < R; r++)
#pragma unroll
            for (int c = 0; c < C; c++) sum[r][c] = accumulate(row[r], column[c], sum[r][c]);
    }
}

/* The first team's sums += those of the others, by halves. */
template <typename shape, typename T, int R, int C>
GOP_DEVICE void tall_fold(T (&sum)[R][C], T *meet, int team, int lane)
{
#pragma unroll
    for (int d = shape::TEAMS / 2; d > 0; d /= 2) {
        T *const place = meet + team % d * shape::LANES + lane;
        __syncthreads();
        if (team >= d && team < 2 * d)
#pragma unroll
            for (int e = 0; e < R * C; e++) place[e * d * shape::LANES] = sum[e / C][e % C];
        __syncthreads();
        if (team < d)
#pragma unroll
            for (int e = 0; e < R * C; e++)
                sum[e / C][e % C] = plus(sum[e / C][e % C], place[e * d * shape::LANES]);
    }
}

template <typename T, int M, int N, int R, int C>
__global__ void __launch_bounds__(TALL_THREADS, 2)
    matmul_tall_kernel(const matmul_product<T> p, const tall_plan way)
{
    typedef tall_shape<T, M, N, R, C> shape;
    enum { DEPTH = shape::DEPTH, STAGES = TALL_STAGES, RV = shape::RV, CV = shape::CV };
    enum { A_LINE = shape::A_LINE, B_LINE = shape::B_LINE };
    extern __shared__ uint4 memory[];
    T *const stages = reinterpret_cast<T *>(memory);
    const matmul_geometry &g = p.g;
    const int t = threadIdx.x, team = t / shape::LANES, lane = t % shape::LANES;
    /* Neighbours share a row or a column: a warp's 16 bytes a lane come in two wavefronts. */
    const int x = lane % 2 + lane / 4 % (shape::ACROSS / 2) * 2;
    const int y = lane / 2 % 2 + lane / (2 * shape::ACROSS) * 2;
    const matmul_tile<T> tile = matmul_tile_of<M, N, 0>(p);

    /* Lines that do not exist are not copied: zeros stand there. */
    for (int at = t; at < shape::STAGED / 16; at += TALL_THREADS) memory[at] = uint4();
    __syncthreads();

    /* Main loop: all stages but one are on their way, the one that all have read is fetched. */
    tall_feed<T, DEPTH, A_LINE> a(tile.a, g.a_row, g.a_col, tile.rows, way.a_wide, way.a_along);
    tall_feed<T, DEPTH, B_LINE> b(tile.b, g.b_col, g.b_row, tile.columns, way.b_wide,
                                  way.b_along);
    small_copies<T, shape::COPIES> copies;
    T sum[R][C] = {};
    int64_t left = tile.terms;
    const int steps = (int)((left + DEPTH - 1) / DEPTH);
    int stage = 1; /* modulo STAGES, that of the step */
    for (int step = 1 - STAGES; step < steps; step++) {
        if (step >= 0) {
            copies.template wait<STAGES - 2>();
            __syncthreads();
        }
        T *const next = stages + (stage == 0 ? STAGES - 1 : stage - 1) * shape::STAGE;
        if (left > 0) {
            const int terms = left < DEPTH ? (int)left : DEPTH;
            a.fetch(copies, next, g.a_col, terms);
            b.fetch(copies, next + shape::A_SIZE, g.b_row, terms);
        }
        left -= DEPTH;
        copies.commit();
        const T *const now = stages + stage * shape::STAGE;
        stage = stage == STAGES - 1 ? 0 : stage + 1;
        if (step >= 0)
            tall_multiply<shape>(sum, now + team * A_LINE + y * RV,
                                 now + shape::A_SIZE + team * B_LINE + x * CV);
    }

    /* Epilogue: add the teams' sums, then store those of the chunk, or the outputs. */
    copies.template wait<0>();
    tall_fold<shape>(sum, stages, team, lane);
    if (team > 0) return;
#pragma unroll
    for (int r = 0; r < R; r++)
#pragma unroll
        for (int c = 0; c < C; c++) {
            const int i = (r / RV * shape::DOWN + y) * RV + r % RV;
            const int j = (c / CV * shape::ACROSS + x) * CV + c % CV;
            if (i >= tile.rows || j >= tile.columns) continue;
            const int64_t at = tile.out + i * g.out_row + j * g.out_col;
            ((T *)p.out)[at] = sum[r][c];
        }
}

template <typename T, int M, int N, int R, int C>
static gop_status matmul_tall(gop_ctx *ctx, const gop_task *task, int64_t)
{
    const tall_plan &plan = *GOP_OWN(const tall_plan, task->plan);
    const matmul_product<T> p = thin_product_of<T>(task, plan.cut);
    GOP_TRY(GOP_LAUNCH_FOLLOWED(ctx, p.part.split > 1, (matmul_tall_kernel<T, M, N, R, C>),
                                (matmul_tile_count<M, N>(p)), TALL_THREADS,
                                (tall_shape<T, M, N, R, C>::SHARED), p, plan));
    return thin_add_partials<T>(ctx, task, p.part);
}

/* Wide sums leave a thread room for fewer of them. */
template <typename T> static gop_launch tall_launch(int way)
{
    enum { MOST = sizeof(T) > 4 ? 4 : 8 };
    static const gop_launch of[TALL_TILES] = {
        matmul_tall<T, 16, 16, 4, 4>, matmul_tall<T, 64, 16, MOST, 4>,
        matmul_tall<T, 32, 32, MOST, 4>, matmul_tall<T, 48, 48, 6, 6>,
        matmul_tall<T, 64, 64, 8, MOST>};
    return of[way];
}

static gop_status matmul_tall_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    tall_plan *const p = GOP_OWN(tall_plan, plan);
    *p = {};
    const gop_gemm g = thin_geometry(task, &p->cut.swapped);
    GOP_TRY(matmul_takes_batch(g, "tall"));
    tiling_of of = tiling_of_task(ctx, task);
    if (p->cut.swapped) of = tiling_swapped(of);
    thin_cut &cut = p->cut;
    if (g.k > 0) (matmul_tiling &)cut = tall_tiling(of, task->in[0].dtype == GOP_COMPLEX64);
    if (g.k == 0 || cut.blocks / cut.split > (int64_t)TALL_FULL * of.processors)
        return gop_fail(GOP_REFUSED,
                        "matmul: kernel 'tall' takes sums of few outputs, got %lld of (%lld, "
                        "%lld) outputs of %lld terms",
                        (long long)g.batches, (long long)g.m, (long long)g.n, (long long)g.k);
    GOP_TRY(matmul_has_shared(ctx, "tall", TALL_SHARED));
    p->a_along = of.a_along, p->b_along = of.b_along;
    p->a_wide = of.a_wide && !of.a_along, p->b_wide = of.b_wide && !of.b_along;
    thin_scratch(task, g, &cut, plan);
    const gop_dtype dtype = task->in[0].dtype;
    plan->launch = dtype == GOP_FLOAT32   ? tall_launch<float>(cut.way)
                   : dtype == GOP_FLOAT64 ? tall_launch<double>(cut.way)
                                          : tall_launch<complex64>(cut.way);
    return GOP_OK;
}

extern const gop_row matmul_tall_row = {
    .name = "tall",
    .note = "few outputs of long sums: both operands are read once, teams of a block share its "
            "terms, blocks a sum, and pieces are added in a fixed order",
    .role = GOP_CONFORMING,
    .plan = matmul_tall_plan,
    .dtypes = 1 << GOP_FLOAT32 | 1 << GOP_FLOAT64 | 1 << GOP_COMPLEX64,
};
