/*
 * blocked.cu - jacobi of a 2-dimensional stencil: several sweeps for one pass over memory.
 *
 * No iterate between two checks is ever looked at. A block takes a tile of the grid with a rim,
 * makes all sweeps up to the next check on it, at each of which a layer of the rim goes bad,
 * and writes what is left. A warp keeps rows of the tile in registers, 4 neighbours a thread:
 * left and right come by shuffles, above and below from its own registers, but at its first and
 * last row from shared memory, where f lies too.
 */
#include "cuda/jacobi/chain.h"
#include "cuda/jacobi/own.h"
#include "cuda/jacobi_step/lattice.h"

enum {
    WIDE = WARP * OWN, /* points of a tile's line */
    RIM = 12,          /* of a line, at either end: a multiple of OWN */
    SWEEPS = 10,       /* the most of a pass, at most RIM */
};

/* TEAMS warps with ROWS rows each. */
template <typename T, int ROWS, int TEAMS> struct blocked_tile {
    enum { HIGH = ROWS * TEAMS };
    T f[HIGH][WIDE], edge[2][2][TEAMS][WIDE]; /* [odd sweep][first or last row] of each warp */
};

template <typename T> struct blocked_system {
    const T *a, *f, *from; /* the coefficients, one of each; f and the iterates contiguous */
    int64_t a_row;
    T *to;
    T factor;
    int has_alpha, bc, sweeps, wide; /* wide: lines are vectors at multiples of 16 bytes */
    int64_t high, length;            /* of the grid */
    const int64_t *ended;
};

/* Coordinate `at`, maybe beyond the line, as one that is on it. */
GOP_DEVICE int64_t on_line(int64_t at, int64_t length, int bc)
{
    if (bc != GOP_PERIODIC) return at < 0 ? 0 : at < length ? at : length - 1;
    at %= length;
    return at < 0 ? at + length : at;
}

/* Those of a line of the grid from coordinate j on, one by one, by one copy of code that would
 * else come between the instructions of the rows. */
template <typename T>
__device__ __noinline__ T read_one(const T *line, int64_t j, int64_t length, int bc)
{
    return line[on_line(j, length, bc)];
}
template <typename T>
GOP_DEVICE void read_own(T (&to)[OWN], const T *line, int64_t j, const blocked_system<T> &s)
{
#pragma unroll
    for (int u = 0; u < OWN; u++) to[u] = read_one(line, j + u, s.length, s.bc);
}
template <typename T>
GOP_DEVICE void write_own(T *line, int64_t j, const T (&from)[OWN], const blocked_system<T> &s)
{
    if (s.wide && j + OWN <= s.length) return store_own(line + j, from);
#pragma unroll
    for (int u = 0; u < OWN; u++)
        if (j + u < s.length) line[j + u] = from[u];
}

/* How a sum becomes a change: with alpha, by a division, by a multiplication that is one. */
enum { BY_ALPHA, BY_DIVISION, BY_INVERSE };

/* What the points of a tile share. */
template <typename T> struct blocked_terms {
    T a[5], diagonal, inverse, factor;
};

template <typename T, int HOW> GOP_DEVICE T change_by(T sum, T f, T diagonal, T inverse)
{
    if (HOW == BY_ALPHA) return minus(sum, f);
    return HOW == BY_INVERSE ? minus(f, sum) * inverse : divide(minus(f, sum), diagonal);
}

/* The product with a neighbour. A Laplacian multiplies by -1, which changes the sign. */
template <typename T, int NEGATES> GOP_DEVICE T product_of(T a, T item)
{
    return NEGATES ? -item : multiply_add(a, item, negative_zero<T>());
}

/* Where a tile lies: at the grid's ends a point has fewer terms, or is its own neighbour. */
enum { INSIDE, AT_OPEN_ENDS, AT_CLOSED_ENDS };

/* The next value of a point; which of its terms are there. */
template <typename T, int HOW, int NEGATES> GOP_DEVICE T next_of(const blocked_terms<T> &terms,
                                                                 const T (&item)[5], T f,
                                                                 const bool (&is_there)[5])
{
    T lane[FOLDED_TERMS];
#pragma unroll
    for (int t = 0; t < FOLDED_TERMS; t++)
        lane[t] = t >= 5   ? negative_zero<T>()
                  : t == 2 ? product_of<T, 0>(terms.a[t], item[t])
                           : product_of<T, NEGATES>(terms.a[t], item[t]);
    close_up<T, 5>(lane, is_there);
    return multiply_add(terms.factor,
                        change_by<T, HOW>(fold_eight(lane), f, terms.diagonal, terms.inverse),
                        item[2]);
}

/* The same where terms beyond the grid are the point's own. They are few: one copy of this is
 * enough. */
template <typename T> __device__ __noinline__ T next_at_end(blocked_terms<T> terms, T above,
                                                            T left, T own, T right, T below,
                                                            T f, int beyond, int has_alpha)
{
    const bool all[5] = {true, true, true, true, true};
    T item[5] = {above, left, own, right, below};
    terms.diagonal = negative_zero<T>();
#pragma unroll
    for (int t = 0; t < 5; t++)
        if (t == 2 || beyond >> t & 1) {
            item[t] = own;
            terms.diagonal = plus(terms.diagonal, terms.a[t]);
        }
    return has_alpha ? next_of<T, BY_ALPHA, 0>(terms, item, f, all)
                     : next_of<T, BY_DIVISION, 0>(terms, item, f, all);
}

template <typename T, int WHERE, int HOW, int NEGATES, int ROWS, int TEAMS>
GOP_DEVICE void blocked_sweeps(const blocked_system<T> &s, const blocked_terms<T> &terms,
                               blocked_tile<T, ROWS, TEAMS> &tile, T (&x)[ROWS][OWN],
                               int64_t line, int64_t place)
{
    const int64_t last_line = s.high - 1 - line, last_place = s.length - 1 - place;
    const int lane = threadIdx.x, warp = threadIdx.y;
    const T *const own_f = &tile.f[warp * ROWS][lane * OWN];
    for (int sweep = 0; sweep < s.sweeps; sweep++) {
        auto &edge = tile.edge[sweep % 2];
        T above[OWN], below[OWN];
        store_own(&edge[0][warp][lane * OWN], x[0]);
        store_own(&edge[1][warp][lane * OWN], x[ROWS - 1]);
        __syncthreads(); /* beyond the tile any number will do */
        load_own(above, &edge[1][warp > 0 ? warp - 1 : 0][lane * OWN]);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            T old[OWN], f[OWN];
            load_own(f, own_f + r * WIDE);
            if (r == ROWS - 1)
                load_own(below, &edge[0][warp < TEAMS - 1 ? warp + 1 : warp][lane * OWN]);
#pragma unroll
            for (int u = 0; u < OWN; u++) {
                old[u] = x[r][u];
                if (r < ROWS - 1) below[u] = x[r + 1][u];
            }
            const T left = __shfl_up_sync(WHOLE_WARP, old[OWN - 1], 1);
            const T right = __shfl_down_sync(WHOLE_WARP, old[0], 1);
#pragma unroll
            for (int u = 0; u < OWN; u++) {
                const T item[5] = {above[u], u > 0 ? old[u - 1] : left, old[u],
                                   u < OWN - 1 ? old[u + 1] : right, below[u]};
                const bool at_end[5] = {line == -r, u == 0 && place == 0, false,
                                        last_place == u, last_line == r};
                bool is_there[5];
                int beyond = 0;
#pragma unroll
                for (int t = 0; t < 5; t++) {
                    is_there[t] = WHERE != AT_OPEN_ENDS || !at_end[t];
                    if (WHERE == AT_CLOSED_ENDS) beyond |= at_end[t] << t;
                }
                x[r][u] = next_of<T, HOW, NEGATES>(terms, item, f[u], is_there);
                if (beyond)
                    x[r][u] = next_at_end(terms, item[0], item[1], item[2], item[3], item[4],
                                          f[u], beyond, s.has_alpha);
            }
#pragma unroll
            for (int u = 0; u < OWN; u++) above[u] = old[u];
        }
    }
}

template <typename T, int WHERE, int ROWS, int TEAMS>
GOP_DEVICE void blocked_ways(const blocked_system<T> &s, const blocked_terms<T> &terms,
                             blocked_tile<T, ROWS, TEAMS> &tile, T (&x)[ROWS][OWN],
                             int64_t line, int64_t place)
{
    const bool negates =
        terms.a[0] == -1 && terms.a[1] == -1 && terms.a[3] == -1 && terms.a[4] == -1;
    const bool inverts = has_exact_inverse(terms.diagonal);
    if (s.has_alpha && negates)
        blocked_sweeps<T, WHERE, BY_ALPHA, 1>(s, terms, tile, x, line, place);
    else if (s.has_alpha) blocked_sweeps<T, WHERE, BY_ALPHA, 0>(s, terms, tile, x, line, place);
    else if (inverts && negates)
        blocked_sweeps<T, WHERE, BY_INVERSE, 1>(s, terms, tile, x, line, place);
    else if (inverts) blocked_sweeps<T, WHERE, BY_INVERSE, 0>(s, terms, tile, x, line, place);
    else blocked_sweeps<T, WHERE, BY_DIVISION, 0>(s, terms, tile, x, line, place);
}

/* A tile: x into registers, f into shared memory, half of it under way at once. Beyond the grid
 * any number will do, but where it is periodic. */
template <typename T, int IS_INSIDE, int ROWS, int TEAMS>
GOP_DEVICE void read_vectors(const blocked_system<T> &s, blocked_tile<T, ROWS, TEAMS> &tile,
                             T (&x)[ROWS][OWN], int64_t line, int64_t place)
{
    enum { HALF = ROWS / 2 };
    T *const own_f = &tile.f[threadIdx.y * ROWS][threadIdx.x * OWN];
    const int64_t first = IS_INSIDE ? place : on_line(place, s.length, s.bc) / OWN * OWN;
    int64_t at[ROWS]; /* of each row */
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        at[r] = (IS_INSIDE ? line + r : on_line(line + r, s.high, s.bc)) * s.length + first;
#pragma unroll
    for (int r = 0; r < ROWS; r++) load_own(x[r], s.from + at[r]);
#pragma unroll
    for (int half = 0; half < ROWS; half += HALF) {
        T part[HALF][OWN];
#pragma unroll
        for (int r = 0; r < HALF; r++) load_own(part[r], s.f + at[half + r]);
#pragma unroll
        for (int r = 0; r < HALF; r++) store_own(own_f + (half + r) * WIDE, part[r]);
    }
}

template <typename T, int ROWS, int TEAMS>
GOP_DEVICE void read_tile(const blocked_system<T> &s, blocked_tile<T, ROWS, TEAMS> &tile,
                          T (&x)[ROWS][OWN], int64_t line, int64_t place, bool is_inside)
{
    if (s.wide && is_inside) return read_vectors<T, 1>(s, tile, x, line, place);
    if (s.wide) return read_vectors<T, 0>(s, tile, x, line, place);
    T *const own_f = &tile.f[threadIdx.y * ROWS][threadIdx.x * OWN];
    for (int r = 0; r < ROWS; r++) {
        T f[OWN];
        read_own(f, s.f + on_line(line + r, s.high, s.bc) * s.length, place, s);
        store_own(own_f + r * WIDE, f);
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        read_own(x[r], s.from + on_line(line + r, s.high, s.bc) * s.length, place, s);
}

template <typename T, int ROWS, int TEAMS> __global__ void __launch_bounds__(WARP *TEAMS, 2)
    jacobi_blocked_kernel(blocked_system<T> s)
{
    typedef blocked_tile<T, ROWS, TEAMS> tile_of;
    enum { HIGH = tile_of::HIGH };
    extern __shared__ __align__(16) unsigned char shared[];
    tile_of &tile = *(tile_of *)shared;
    if (*s.ended >= 0) return;
    const int lane = threadIdx.x, warp = threadIdx.y;
    /* The last tiles, at the grid's end, are slow: they go first. */
    const int64_t tile_row = blockIdx.y ? blockIdx.y - 1 : gridDim.y - 1;
    const int64_t first = tile_row * (HIGH - 2 * s.sweeps) - s.sweeps;
    const int64_t line = first + warp * ROWS;
    const int64_t left = blockIdx.x * (int64_t)(WIDE - 2 * RIM) - RIM;
    const int64_t place = left + lane * OWN;
    const bool is_inside =
        first > 0 && first + HIGH < s.high && left > 0 && left + WIDE < s.length;
    T x[ROWS][OWN];
    blocked_terms<T> terms;
#pragma unroll
    for (int t = 0; t < 5; t++) terms.a[t] = s.a[t * s.a_row];
    read_tile(s, tile, x, line, place, is_inside);
    terms.diagonal = plus(negative_zero<T>(), terms.a[2]);
    terms.inverse = 1 / terms.diagonal;
    terms.factor = s.factor;
    if (is_inside || s.bc == GOP_PERIODIC)
        blocked_ways<T, INSIDE>(s, terms, tile, x, line, place);
    else if (s.bc == GOP_DIRICHLET)
        blocked_ways<T, AT_OPEN_ENDS>(s, terms, tile, x, line, place);
    else blocked_ways<T, AT_CLOSED_ENDS>(s, terms, tile, x, line, place);
    if (lane * OWN < RIM || lane * OWN >= WIDE - RIM) return;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const int row = warp * ROWS + r;
        if (row >= s.sweeps && row < HIGH - s.sweeps && line + r < s.high)
            write_own(s.to + (line + r) * s.length, place, x[r], s);
    }
}

/* ---- the call ---- */

/* The tile of a dtype. */
template <typename T> struct blocked_shape {
    enum { ROWS = 8, TEAMS = sizeof(T) == 4 ? 16 : 8 };
    typedef blocked_tile<T, ROWS, TEAMS> tile;
};

/* What its plan decides: that of a chain, whether lines are vectors, and the tiles. */
struct blocked_plan {
    chain_plan chain;
    int wide;
    unsigned across, down[SWEEPS + 1]; /* by the sweeps of a pass */
};

/* What all passes of a call share. */
template <typename T>
static blocked_system<T> blocked_of(const gop_task *task, const chained_room &room)
{
    const gop_jacobi_step_params *p = &task->call->params.jacobi_step;
    blocked_system<T> s = {};
    s.a = (const T *)task->in[0].data;
    s.a_row = task->geometry.jacobi.a_row;
    s.f = (const T *)task->in[1].data;
    jacobi_factor(p->has_alpha ? p->alpha : p->omega, &s.factor);
    s.has_alpha = p->has_alpha;
    s.bc = p->grid.bc;
    s.high = p->grid.extent[0];
    s.length = p->grid.extent[1];
    s.wide = GOP_OWN(const blocked_plan, task->plan)->wide;
    s.ended = room.state.ended;
    return s;
}

template <typename T> static gop_status blocked_pass(gop_ctx *ctx, const gop_task *task,
                                                     const chained_room &room, const void *from,
                                                     void *to, int64_t sweeps)
{
    typedef blocked_shape<T> shape;
    const blocked_plan &plan = *GOP_OWN(const blocked_plan, task->plan);
    blocked_system<T> s = blocked_of<T>(task, room);
    s.from = (const T *)from;
    s.to = (T *)to;
    s.sweeps = (int)sweeps;
    return GOP_LAUNCH(ctx, (jacobi_blocked_kernel<T, shape::ROWS, shape::TEAMS>),
                      dim3(plan.across, plan.down[sweeps]), dim3(WARP, shape::TEAMS),
                      sizeof(typename shape::tile), s);
}

template <typename T>
static gop_status jacobi_blocked(gop_ctx *ctx, const gop_task *task, int64_t)
{
    const gop_jacobi_params *p = &task->call->params.jacobi;
    const gop_jacobi_steps *steps = GOP_OWN(const gop_jacobi_steps, task->plan);
    const chained_room room = room_of(task, sizeof(T), steps->scratch);
    gop_jacobi_task t;
    gop_plan plan;
    gop_jacobi_ready(&t, task, &plan, room.steps);
    GOP_TRY((start<T, 0>(ctx, task, room)));
    int at = 0; /* the iterate's half of the room */
    for (int64_t m = 0, check = 0;; at = !at) {
        void *const from = room.iterate[at], *const to = room.iterate[!at];
        const int64_t past = m % p->check_every;
        if (past == 0 || m == p->steps) {
            GOP_TRY((step_and_check<T, 0>(ctx, task, &t, room, from, to, check++, m)));
            if (m++ == p->steps) return GOP_OK;
            continue;
        }
        int64_t left = p->check_every - past; /* to the next check */
        if (p->steps - m < left) left = p->steps - m;
        const int64_t passes = (left + SWEEPS - 1) / SWEEPS;
        const int64_t sweeps = (left + passes - 1) / passes;
        if (sweeps == 1) GOP_TRY(gop_jacobi_step(ctx, &t, from, to, nullptr));
        else GOP_TRY(blocked_pass<T>(ctx, task, room, from, to, sweeps));
        m += sweeps;
    }
}

template <typename T> static void plan_tiles(const gop_task *task, blocked_plan *plan)
{
    const int64_t *const extent = task->call->params.jacobi.step.grid.extent;
    plan->wide = (uintptr_t)task->in[1].data % 16 == 0 && extent[1] % OWN == 0;
    plan->across = (unsigned)blocks_for(extent[1], WIDE - 2 * RIM);
    for (int sweeps = 0; sweeps <= SWEEPS; sweeps++)
        plan->down[sweeps] =
            (unsigned)blocks_for(extent[0], blocked_shape<T>::tile::HIGH - 2 * sweeps);
}

static gop_status jacobi_blocked_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    const gop_jacobi *g = &task->geometry.jacobi;
    const gop_lattice *grid = &task->call->params.jacobi.step.grid;
    const int is_small = task->in[0].dtype == GOP_FLOAT32;
    const size_t tile =
        is_small ? sizeof(blocked_shape<float>::tile) : sizeof(blocked_shape<double>::tile);
    if (grid->axes != 2 || g->a_col != 0 || g->k != 1 || g->f_row != 1 || grid->extent[0] < 2 ||
        grid->extent[1] < 2 || grid->extent[0] > 1 << 21 ||
        (int64_t)tile > ctx->info.shared_per_block)
        return gop_fail(GOP_REFUSED,
                        "jacobi: the blocked kernel takes one contiguous right-hand side and a "
                        "stencil of constant coefficients on a grid of two axes; the chained "
                        "kernel takes all");
    GOP_TRY(jacobi_chain_plan(ctx, task, nullptr, plan));
    if (is_small) plan_tiles<float>(task, GOP_OWN(blocked_plan, plan));
    else plan_tiles<double>(task, GOP_OWN(blocked_plan, plan));
    return GOP_OK;
}

extern const gop_row jacobi_blocked_row = {
    .name = "blocked",
    .note = "a stencil of two axes: tiles stay in registers for all sweeps between two checks",
    .role = GOP_CONFORMING,
    .launch = GOP_LAUNCH_REAL(jacobi_blocked),
    .plan = jacobi_blocked_plan,
};
