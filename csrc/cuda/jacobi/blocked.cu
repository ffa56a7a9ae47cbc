/*
 * blocked.cu - jacobi of a 2-dimensional stencil: several sweeps for one pass over memory.
 *
 * Between two checks nobody asks for an iterate. A block takes a tile of the grid with a rim,
 * makes all sweeps up to the next check on it, at each of which a layer of the rim goes bad,
 * and writes what is left. A warp keeps rows of the tile in registers, 4 neighbours a thread:
 * left and right come by shuffles, above and below from its own registers, but at its first and
 * last row from shared memory, where f lies too.
 */
#include "cuda/jacobi/chain.h"
#include "cuda/jacobi_step/lattice.h"

enum {
    OWN = 4,           /* neighbours of a thread */
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
    int has_alpha, bc, sweeps, wide; /* wide: lines begin at multiples of 16 bytes */
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

/* OWN neighbours, by vectors. */
template <typename T> GOP_DEVICE void load_own(T (&to)[OWN], const T *from)
{
    enum { N = vec128<T>::N };
#pragma unroll
    for (int u = 0; u < OWN; u += N) {
        const vec128<T> v = load128(from + u);
#pragma unroll
        for (int e = 0; e < N; e++) to[u + e] = v.at[e];
    }
}
template <typename T> GOP_DEVICE void store_own(T *to, const T (&from)[OWN])
{
    enum { N = vec128<T>::N };
#pragma unroll
    for (int u = 0; u < OWN; u += N) {
        vec128<T> v;
#pragma unroll
        for (int e = 0; e < N; e++) v.at[e] = from[u + e];
        store128(to + u, v);
    }
}

/* Those of a line of the grid from coordinate j on; at its ends one by one, by one copy of code
 * that would else come between the instructions of the rows. */
template <typename T>
__device__ __noinline__ T read_one(const T *line, int64_t j, int64_t length, int bc)
{
    return line[on_line(j, length, bc)];
}
template <typename T>
GOP_DEVICE void read_own(T (&to)[OWN], const T *line, int64_t j, const blocked_system<T> &s)
{
    if (s.wide && j >= 0 && j + OWN <= s.length) return load_own(to, line + j);
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

/* The next value of a point. */
template <typename T, int HOW> GOP_DEVICE T next_of(const blocked_terms<T> &terms, T above,
                                                    T left, T own, T right, T below, T f)
{
    const T zero = negative_zero<T>();
    const T sum = plus(
        plus(plus(multiply_add(terms.a[0], above, zero), multiply_add(terms.a[4], below, zero)),
             multiply_add(terms.a[2], own, zero)),
        plus(multiply_add(terms.a[1], left, zero), multiply_add(terms.a[3], right, zero)));
    return multiply_add(terms.factor, change_by<T, HOW>(sum, f, terms.diagonal, terms.inverse),
                        own);
}

/* The same at the grid's ends, where it has fewer terms, or is its own neighbour. They are few:
 * one copy of this is enough. */
template <typename T>
__device__ __noinline__ T next_at_end(const blocked_terms<T> &terms, T above, T left, T own,
                                      T right, T below, T f, int beyond, int bc, int has_alpha)
{
    const T item[5] = {above, left, own, right, below};
    T product[5], diagonal = negative_zero<T>();
    stencil_terms<2> there;
    there.all = bc != GOP_DIRICHLET;
#pragma unroll
    for (int t = 0; t < 5; t++) {
        const bool is_beyond = beyond >> t & 1, is_own = t == 2 || is_beyond;
        there.is_there[t] = !is_beyond || bc != GOP_DIRICHLET;
        product[t] = multiply_add(terms.a[t], is_own ? own : item[t], negative_zero<T>());
        if (is_own && there.is_there[t]) diagonal = plus(diagonal, terms.a[t]);
    }
    const T sum = fold_terms<T, 2>(there, product);
    const T change = has_alpha ? change_by<T, BY_ALPHA>(sum, f, diagonal, diagonal)
                               : change_by<T, BY_DIVISION>(sum, f, diagonal, diagonal);
    return multiply_add(terms.factor, change, own);
}

template <typename T, int HOW, int AT_ENDS, int ROWS, int TEAMS>
GOP_DEVICE void blocked_sweeps(const blocked_system<T> &s, const blocked_terms<T> &terms,
                               blocked_tile<T, ROWS, TEAMS> &tile, T (&x)[ROWS][OWN],
                               int64_t line, int64_t place)
{
    const int64_t last_line = s.high - 1 - line, last_place = s.length - 1 - place;
    const int lane = threadIdx.x, warp = threadIdx.y;
    for (int sweep = 0; sweep < s.sweeps; sweep++) {
        auto &edge = tile.edge[sweep % 2];
        T above[OWN], down[OWN];
        store_own(&edge[0][warp][lane * OWN], x[0]);
        store_own(&edge[1][warp][lane * OWN], x[ROWS - 1]);
        __syncthreads(); /* beyond the tile any number will do */
        load_own(above, &edge[1][warp > 0 ? warp - 1 : 0][lane * OWN]);
        load_own(down, &edge[0][warp < TEAMS - 1 ? warp + 1 : warp][lane * OWN]);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            T old[OWN], f[OWN];
#pragma unroll
            for (int u = 0; u < OWN; u++) old[u] = x[r][u];
            load_own(f, &tile.f[warp * ROWS + r][lane * OWN]);
            const T left = __shfl_up_sync(WHOLE_WARP, old[OWN - 1], 1);
            const T right = __shfl_down_sync(WHOLE_WARP, old[0], 1);
#pragma unroll
            for (int u = 0; u < OWN; u++)
                x[r][u] = next_of<T, HOW>(terms, above[u], u > 0 ? old[u - 1] : left, old[u],
                                          u < OWN - 1 ? old[u + 1] : right,
                                          r < ROWS - 1 ? x[r + 1][u] : down[u], f[u]);
            if (AT_ENDS)
#pragma unroll
                for (int u = 0; u < OWN; u++) {
                    const int beyond = (line == -r) | (place == -u) << 1 |
                                       (last_place == u) << 3 | (last_line == r) << 4;
                    if (beyond)
                        x[r][u] = next_at_end(terms, above[u], u > 0 ? old[u - 1] : left,
                                              old[u], u < OWN - 1 ? old[u + 1] : right,
                                              r < ROWS - 1 ? x[r + 1][u] : down[u], f[u],
                                              beyond, s.bc, s.has_alpha);
                }
#pragma unroll
            for (int u = 0; u < OWN; u++) above[u] = old[u];
        }
    }
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
    const int64_t first = blockIdx.y * (int64_t)(HIGH - 2 * s.sweeps) - s.sweeps;
    const int64_t line = first + warp * ROWS;
    const int64_t place = blockIdx.x * (int64_t)(WIDE - 2 * RIM) - RIM + lane * OWN;
    T x[ROWS][OWN];
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const int64_t i = on_line(line + r, s.high, s.bc) * s.length;
        T f[OWN];
        read_own(x[r], s.from + i, place, s);
        read_own(f, s.f + i, place, s);
        store_own(&tile.f[warp * ROWS + r][lane * OWN], f);
    }
    blocked_terms<T> terms;
#pragma unroll
    for (int t = 0; t < 5; t++) terms.a[t] = s.a[t * s.a_row];
    terms.diagonal = plus(negative_zero<T>(), terms.a[2]);
    terms.inverse = 1 / terms.diagonal;
    terms.factor = s.factor;
    const int64_t left = place - lane * OWN;
    const bool at_ends = s.bc != GOP_PERIODIC && (first <= 0 || first + HIGH >= s.high ||
                                                  left <= 0 || left + WIDE >= s.length);
    const bool inverts = has_exact_inverse(terms.diagonal);
    if (at_ends && s.has_alpha) blocked_sweeps<T, BY_ALPHA, 1>(s, terms, tile, x, line, place);
    else if (at_ends) blocked_sweeps<T, BY_DIVISION, 1>(s, terms, tile, x, line, place);
    else if (s.has_alpha) blocked_sweeps<T, BY_ALPHA, 0>(s, terms, tile, x, line, place);
    else if (inverts) blocked_sweeps<T, BY_INVERSE, 0>(s, terms, tile, x, line, place);
    else blocked_sweeps<T, BY_DIVISION, 0>(s, terms, tile, x, line, place);
    if (lane * OWN < RIM || lane * OWN >= WIDE - RIM) return;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const int row = warp * ROWS + r;
        if (row >= s.sweeps && row < HIGH - s.sweeps && line + r < s.high)
            write_own(s.to + (line + r) * s.length, place, x[r], s);
    }
}

/* ---- the call ---- */

template <typename T, int ROWS, int TEAMS>
static gop_status blocked_pass(gop_ctx *ctx, const gop_task *task, const chained_room &room,
                               const void *from, void *to, int64_t sweeps)
{
    const gop_jacobi *g = &task->geometry.jacobi;
    const gop_jacobi_step_params *p = &task->call->params.jacobi_step;
    enum { HIGH = blocked_tile<T, ROWS, TEAMS>::HIGH };
    blocked_system<T> s = {};
    s.a = (const T *)task->in[0].data;
    s.a_row = g->a_row;
    s.f = (const T *)task->in[1].data;
    s.from = (const T *)from;
    s.to = (T *)to;
    jacobi_factor(p->has_alpha ? p->alpha : p->omega, &s.factor);
    s.has_alpha = p->has_alpha;
    s.bc = p->grid.bc;
    s.sweeps = (int)sweeps;
    s.high = p->grid.extent[0];
    s.length = p->grid.extent[1];
    s.wide = (uintptr_t)s.f % 16 == 0 && s.length * (int64_t)sizeof(T) % 16 == 0;
    s.ended = room.state.ended;
    const dim3 grid((unsigned)blocks_for(s.length, WIDE - 2 * RIM),
                    (unsigned)blocks_for(s.high, HIGH - 2 * sweeps));
    return GOP_LAUNCH(ctx, (jacobi_blocked_kernel<T, ROWS, TEAMS>), grid, dim3(WARP, TEAMS),
                      sizeof(blocked_tile<T, ROWS, TEAMS>), s);
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
    enum { IS_SMALL = sizeof(T) == 4 };
    int at = 0; /* the iterate's half of the room */
    for (int64_t m = 0, check = 0;; at = !at) {
        void *const from = room.iterate[at], *const to = room.iterate[!at];
        const int64_t past = m % p->check_every;
        if (past == 0 || m == p->steps) {
            GOP_TRY(gop_jacobi_step(ctx, &t, from, to, room.residual));
            GOP_TRY((judge<T, 0>(ctx, task, room, from, check++, m)));
            if (m++ == p->steps) return GOP_OK;
            continue;
        }
        int64_t left = p->check_every - past; /* to the next check */
        if (p->steps - m < left) left = p->steps - m;
        const int64_t passes = (left + SWEEPS - 1) / SWEEPS;
        const int64_t sweeps = (left + passes - 1) / passes;
        if (sweeps == 1) GOP_TRY(gop_jacobi_step(ctx, &t, from, to, nullptr));
        else
            GOP_TRY(
                (blocked_pass < T, 8, IS_SMALL ? 16 : 8 > (ctx, task, room, from, to, sweeps)));
        m += sweeps;
    }
}

static gop_status jacobi_blocked_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    const gop_jacobi *g = &task->geometry.jacobi;
    const gop_lattice *grid = &task->call->params.jacobi.step.grid;
    const size_t tile = task->in[0].dtype == GOP_FLOAT32 ? sizeof(blocked_tile<float, 8, 16>)
                                                         : sizeof(blocked_tile<double, 8, 8>);
    if (grid->axes != 2 || g->a_col != 0 || g->k != 1 || g->f_row != 1 || grid->extent[0] < 2 ||
        grid->extent[1] < 2 || grid->extent[0] > 1 << 21 ||
        (int64_t)tile > ctx->info.shared_per_block)
        return gop_fail(GOP_REFUSED,
                        "jacobi: the blocked kernel takes one contiguous right-hand side and a "
                        "stencil of constant coefficients on a grid of two axes; the chained "
                        "kernel takes all");
    return jacobi_chain_plan(ctx, task, nullptr, plan);
}

extern const gop_row jacobi_blocked_row = {
    .name = "blocked",
    .note = "a stencil of two axes: tiles stay in registers for all sweeps between two checks",
    .role = GOP_CONFORMING,
    .launch = {nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
               nullptr, nullptr, jacobi_blocked<float>, jacobi_blocked<double>, nullptr,
               nullptr},
    .plan = jacobi_blocked_plan,
};
