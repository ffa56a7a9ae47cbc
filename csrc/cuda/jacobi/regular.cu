/*
 * regular.cu - jacobi of a CSR matrix whose rows are short, all of a call in one kernel.
 *
 * What the kinds do not tell of the matrix is copied once, transposed, so that loads coalesce
 * and no row pointers are read. A block owns leaves of 2048 rows throughout; if it has only
 * one, its terms stay in registers, without a copy, or in shared memory. All blocks meet at a
 * grid barrier once a step, and one of them checks the norms: so the kernel ends when the
 * solver does.
 */
#include "core/ops/unchecked.h"
#include "cuda/common/item_size.h"
#include "cuda/jacobi/leaves.h"

/* Many threads for the one leaf that is kept; else several blocks an SM, so that one adds
 * up while others read. */
template <typename T, int WIDTH, int IS_KEPT> struct regular_block {
    enum {
        IN_REGISTERS = IS_KEPT && kept_leaf<T, WIDTH>::FITS,
        THREADS = IN_REGISTERS ? (int)kept_leaf<T, WIDTH>::THREADS
                  : IS_KEPT    ? 1024
                               : 256,
        AT_ONCE = IS_KEPT ? 1 : 3
    };
};

/* What a block has in shared memory; its leaf's terms too where it keeps them. */
template <typename T> struct regular_own {
    T residual[LEAF];
    double part[LANES];
    together_room room;
    row_kind<T> kinds[KINDS];
};

/* A block's leaves and what it has of them in shared memory: f and kinds, or none; where it
 * keeps one, its terms, or its items of the iterate. */
template <typename T> struct regular_part {
    int64_t begin, end;
    const T *f, *value;
    const uint8_t *kind;
    const int32_t *column;
    T *x;
};

/* A pass over the block's leaves with iterate m. */
template <typename T, int WIDTH, int WHAT, int IS_KEPT>
GOP_DEVICE void regular_pass(const regular_system<T> &s, regular_own<T> &own,
                             const regular_part<T> &part, const kept_leaf<T, WIDTH> &kept,
                             int64_t m, int what, double scale, double *sums)
{
    typedef regular_block<T, WIDTH, IS_KEPT> shape;
    const T *const from = s.iterate[m % ITERATES];
    T *const to = s.iterate[(m + 1) % ITERATES];
    for (int64_t leaf = part.begin; leaf < part.end; leaf++) {
        const int64_t at = leaf * LEAF, held = at - part.begin * LEAF;
        if (leaf > part.begin) __syncthreads(); /* the one before is summed */
        if constexpr (shape::IN_REGISTERS)
            kept.step(s, from, to + at, part.x, what, own.residual);
        else {
            const leaf_terms<T, WIDTH, WHAT> terms = {IS_KEPT ? part.value : s.value + at,
                                                      IS_KEPT ? part.column : s.column + at,
                                                      IS_KEPT ? LEAF : s.pitch,
                                                      s.held > 0 ? part.kind + held
                                                                 : s.kinds.of_row + at,
                                                      own.kinds,
                                                      IS_KEPT      ? part.f
                                                      : s.held > 0 ? part.f + held
                                                                   : s.f + at * s.f_row,
                                                      IS_KEPT || s.held > 0 ? 1 : s.f_row};
            regular_leaf<T, WIDTH, WHAT, shape::THREADS>(s, terms, from, to, leaf, what,
                                                         own.residual);
        }
        sum_leaf(own.residual, s.n - at < LEAF ? (int)(s.n - at) : (int)LEAF, what, scale,
                 sums + leaf, own.part);
    }
}

/* The verdict on iterate m where squares were lost: all blocks take them anew, scaled. */
template <typename T, int WIDTH, int WHAT, int IS_KEPT>
GOP_DEVICE int regular_anew(const regular_system<T> &s, const jacobi_state &state,
                            regular_own<T> &own, const regular_part<T> &part,
                            const kept_leaf<T, WIDTH> &kept, int64_t check, int64_t m,
                            unsigned &barriers)
{
    enum { THREADS = regular_block<T, WIDTH, IS_KEPT>::THREADS };
    regular_pass<T, WIDTH, WHAT, IS_KEPT>(s, own, part, kept, m, LARGEST, 1.0, s.sums[2]);
    gop_grid_barrier(s.arrived, ++barriers);
    double norm = fold_together<THREADS>(s.sums[2], s.leaves, 1, own.room);
    if (norm > 0.0 && norm <= LARGEST_DOUBLE) {
        const int e = exponent_of(norm);
        regular_pass<T, WIDTH, WHAT, IS_KEPT>(s, own, part, kept, m, SQUARES, power_of_two(-e),
                                              s.sums[3]);
        gop_grid_barrier(s.arrived, ++barriers);
        if (is_judge())
            norm = sqrt(fold_together<THREADS>(s.sums[3], s.leaves, 0, own.room)) *
                   power_of_two(e);
    }
    if (is_judge()) {
        const int says = judge_together(own.room, state, norm, check, m, m == s.steps);
        if (threadIdx.x == 0) s.said[2] = says;
    }
    gop_grid_barrier(s.arrived, ++barriers);
    return s.said[2];
}

template <typename T, int WIDTH, int WHAT, int IS_KEPT>
GOP_DEVICE void regular_steps(const regular_system<T> &s, const jacobi_state &state,
                              regular_own<T> &own, const regular_part<T> &part)
{
    enum { THREADS = regular_block<T, WIDTH, IS_KEPT>::THREADS };
    kept_leaf<T, WIDTH> kept;
    if constexpr (regular_block<T, WIDTH, IS_KEPT>::IN_REGISTERS) {
        kept.load(s, part.begin * LEAF);
        kept.fetch(s.iterate[0] + part.begin * LEAF, part.x);
    }
    together_start(own.room, state);
    unsigned barriers = 0;
    int64_t check = 0, m = 0;
    check_turns turns = {};
    for (;; m++) {
        turns.next(m, s.steps, s.check_every);
        int said = turns.of(2) ? s.said[(m + 1) % 2] : CONTINUES;
        if (squares_may_be_lost<T> && said == LOST)
            said = regular_anew<T, WIDTH, WHAT, IS_KEPT>(s, state, own, part, kept, check++,
                                                         m - 2, barriers);
        const int what = (m < s.steps ? STEPS : 0) | (turns.of(0) ? SQUARES : 0);
        if (what)
            regular_pass<T, WIDTH, WHAT, IS_KEPT>(s, own, part, kept, m, what, 1.0,
                                                  s.sums[m % 2]);
        if (is_judge() && turns.of(1) && said != STOPS) {
            const double sum =
                fold_together<THREADS>(s.sums[(m + 1) % 2], s.leaves, 0, own.room);
            int says = LOST;
            if (!squares_were_lost<T>(sum))
                says = judge_together(own.room, state, sqrt(sum), check++, m - 1,
                                      m - 1 == s.steps);
            if (threadIdx.x == 0) s.said[m % 2] = says;
        }
        if (said == STOPS) break;
        gop_grid_barrier(s.arrived, ++barriers);
    }
    const T *const found = s.iterate[(m - 2) % ITERATES];
    for (int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x; i < s.n;
         i += gridDim.x * (int64_t)THREADS)
        s.out[i * s.out_row] = own.room.f == 0.0 ? positive_zero<T>() : found[i];
}

/* What a block has in shared memory, brought there. */
template <typename T, int WIDTH, int IS_KEPT> GOP_DEVICE regular_part<T>
regular_begin(const regular_system<T> &s, regular_own<T> &own, unsigned char *shared, int what)
{
    typedef regular_block<T, WIDTH, IS_KEPT> shape;
    const int64_t block = blockIdx.x, leaf = s.leaves * block / workers(), begin = leaf * LEAF;
    T *const f = (T *)shared, *const value = f + s.held * LEAF;
    int32_t *const column = (int32_t *)(value + (IS_KEPT ? WIDTH * LEAF : 0));
    uint8_t *const kind = (uint8_t *)(column + (IS_KEPT ? WIDTH * LEAF : 0));
    regular_part<T> part = {leaf, leaf, f, value, kind, column, f};
    if (block < workers()) part.end = s.leaves * (block + 1) / workers();
    for (int at = threadIdx.x; at < s.held * LEAF && begin + at < s.n; at += shape::THREADS) {
        f[at] = s.f[(begin + at) * s.f_row];
        if (what != NOTHING) kind[at] = s.kinds.of_row[begin + at];
    }
    for (int at = threadIdx.x; IS_KEPT && !shape::IN_REGISTERS && at < WIDTH * LEAF;
         at += shape::THREADS) {
        const int64_t i = begin + at % LEAF;
        if (i < s.n) value[at] = s.value[at / LEAF * s.pitch + i];
        column[at] = i < s.n ? s.column[at / LEAF * s.pitch + i] : -1;
    }
    for (int k = threadIdx.x; k < KINDS && what != NOTHING; k += shape::THREADS)
        own.kinds[k] = s.table[k];
    return part;
}

template <typename T, int WIDTH, int IS_KEPT>
__global__ void __launch_bounds__(regular_block<T, WIDTH, IS_KEPT>::THREADS,
                                  regular_block<T, WIDTH, IS_KEPT>::AT_ONCE)
    jacobi_regular_kernel(regular_system<T> s, jacobi_state state)
{
    extern __shared__ __align__(16) unsigned char shared[];
    __shared__ regular_own<T> own;
    const int what = IS_KEPT ? NOTHING : kinds_say(s.kinds);
    const regular_part<T> part = regular_begin<T, WIDTH, IS_KEPT>(s, own, shared, what);
    __syncthreads();
    if (IS_KEPT) return regular_steps<T, WIDTH, NOTHING, 1>(s, state, own, part);
    if (what == NOTHING) regular_steps<T, WIDTH, NOTHING, 0>(s, state, own, part);
    else if (what == ITS_COLUMNS) regular_steps<T, WIDTH, ITS_COLUMNS, 0>(s, state, own, part);
    else regular_steps<T, WIDTH, ITS_VALUES_TOO, 0>(s, state, own, part);
}

/* ---- the call ---- */

struct regular_room {
    chained_room room;
    char *iterate[ITERATES], *value, *column, *table;
    row_kinds kinds;
    double *sums[4];
    int *said;
    unsigned *arrived;
    int64_t pitch, leaves;
};

struct regular_plan {
    int64_t blocks, shared;
    int width, is_kept, held;
};

/* Whether what a call needs of the matrix stays in registers, so that nothing is copied. */
static bool needs_no_copy(const regular_plan &plan)
{
    return plan.is_kept && !plan.held;
}

static regular_room regular_room_of(const gop_task *task, int64_t size,
                                    const regular_plan &plan)
{
    const int64_t n = task->geometry.jacobi.n;
    regular_room r = {};
    r.room = room_of(task, size, 0);
    r.leaves = (n + LEAF - 1) / LEAF;
    r.pitch = r.leaves * LEAF;
    char *const base = (char *)task->scratch;
    iterates_of(r.room, base, n * size, r.iterate);
    const int64_t terms = needs_no_copy(plan) ? 0 : plan.width * r.pitch;
    r.value = take(&r.room, base, terms * size);
    r.column = take(&r.room, base, terms * (int64_t)sizeof(int32_t));
    if (!plan.is_kept) {
        r.table = take(&r.room, base, KINDS * (int64_t)sizeof(row_kind<complex128>));
        r.kinds.of_row = (uint8_t *)take(&r.room, base, r.pitch);
        for (int w = 0; w < 2; w++)
            r.kinds.like[w] = (int32_t *)take(&r.room, base, KINDS * (int64_t)sizeof(int32_t));
        r.kinds.many = (unsigned *)take(&r.room, base, 2 * sizeof(unsigned));
    }
    for (int s = 0; s < 4; s++) r.sums[s] = (double *)take(&r.room, base, 8 * r.leaves);
    r.said = (int *)take(&r.room, base, 3 * sizeof(int));
    r.arrived = r.room.state.arrived = (unsigned *)take(&r.room, base, sizeof(unsigned));
    return r;
}

template <typename T, typename I>
static gop_status regular_copy(gop_ctx *ctx, const gop_task *task, const regular_room &r)
{
    const int64_t n = task->geometry.jacobi.n;
    const dim3 grid = blocks_of(n, 256), block(256);
    const csr_arrays<T, I> a = {(const T *)task->in[0].data, (const I *)task->in[1].data,
                                (const I *)task->in[2].data, n, task->in[0].shape[0]};
    const regular_plan &plan = *GOP_OWN(const regular_plan, task->plan);
    if (needs_no_copy(plan)) return GOP_OK;
    if (!plan.is_kept) {
        GOP_TRY(GOP_LAUNCH(ctx, jacobi_kinds_clear_kernel, dim3(1), dim3(1), 0, r.kinds));
        /* Values are compared as bits, and columns without them. */
        typedef std::conditional_t<sizeof(T) == 8, double, T> bits;
        const csr_arrays<bits, I> all = {(const bits *)a.data, a.indices, a.indptr, n,
                                         a.stored};
        const csr_arrays<float, I> columns = {nullptr, a.indices, a.indptr, n, a.stored};
        GOP_TRY(
            GOP_LAUNCH(ctx, (jacobi_kinds_kernel<bits, I, 0>), grid, block, 0, all, r.kinds));
        GOP_TRY(GOP_LAUNCH(ctx, (jacobi_kinds_kernel<float, I, 1>), grid, block, 0, columns,
                           r.kinds));
    }
    return GOP_LAUNCH(ctx, (jacobi_regular_copy_kernel<T, I>), grid, block, 0, (T *)r.value,
                      (int32_t *)r.column, r.pitch, plan.width, a, r.kinds,
                      (row_kind<T> *)r.table);
}

/* Bytes of shared memory for f and the kinds of `held` leaves. */
template <typename T> static int64_t held_bytes(int64_t held)
{
    return LEAF * held * (int64_t)(sizeof(T) + 1);
}
/* Bytes of shared memory for a leaf that stays, with f; or for its items of x, if registers
 * hold the rest. */
template <typename T, int WIDTH> static int64_t kept_bytes(void)
{
    if (regular_block<T, WIDTH, 1>::IN_REGISTERS)
        return (int64_t)kept_leaf<T, WIDTH>::ITEMS * (int64_t)sizeof(T);
    return LEAF * WIDTH * (int64_t)(sizeof(T) + sizeof(int32_t)) + held_bytes<T>(1);
}

template <typename T, int WIDTH>
static gop_status regular_run(gop_ctx *ctx, const regular_plan &plan,
                              const regular_system<T> &s, const jacobi_state &state)
{
    const dim3 grid((unsigned)plan.blocks), alone(regular_block<T, WIDTH, 1>::THREADS),
        several(regular_block<T, WIDTH, 0>::THREADS);
    if (plan.is_kept)
        return GOP_LAUNCH_TOGETHER(ctx, (jacobi_regular_kernel<T, WIDTH, 1>), grid, alone,
                                   (size_t)plan.shared, s, state);
    return GOP_LAUNCH_TOGETHER(ctx, (jacobi_regular_kernel<T, WIDTH, 0>), grid, several,
                               (size_t)plan.shared, s, state);
}

template <typename T>
static gop_status jacobi_regular(gop_ctx *ctx, const gop_task *task, int64_t)
{
    const gop_jacobi *g = &task->geometry.jacobi;
    const gop_jacobi_params *p = &task->call->params.jacobi;
    const regular_plan &plan = *GOP_OWN(const regular_plan, task->plan);
    const regular_room r = regular_room_of(task, sizeof(T), plan);
    regular_system<T> s = {};
    s.a = (const T *)task->in[0].data;
    s.indices = task->in[1].data;
    s.indptr = task->in[2].data;
    s.index64 = g->index64;
    s.stored = task->in[0].shape[0];
    s.value = (const T *)r.value;
    s.column = (const int32_t *)r.column;
    s.pitch = r.pitch;
    s.kinds = r.kinds;
    s.table = (const row_kind<T> *)r.table;
    s.f = (const T *)task->in[3].data;
    s.f_row = g->f_row;
    for (int i = 0; i < ITERATES; i++) s.iterate[i] = (T *)r.iterate[i];
    s.out = (T *)task->out[0].data;
    s.out_row = g->out_row;
    jacobi_factor(p->step.has_alpha ? p->step.alpha : p->step.omega, &s.factor);
    s.has_alpha = p->step.has_alpha;
    s.held = plan.held;
    s.n = g->n;
    s.leaves = r.leaves;
    s.steps = p->steps;
    s.check_every = p->check_every;
    for (int i = 0; i < 4; i++) s.sums[i] = r.sums[i];
    s.said = r.said;
    s.arrived = r.arrived;
    GOP_TRY((start<T, 0>(ctx, task, r.room)));
    if (g->index64) GOP_TRY((regular_copy<T, int64_t>(ctx, task, r)));
    else GOP_TRY((regular_copy<T, int32_t>(ctx, task, r)));
    return plan.width == 5 ? regular_run<T, 5>(ctx, plan, s, r.room.state)
                           : regular_run<T, 8>(ctx, plan, s, r.room.state);
}

/* Blocks of the kernel of that kind; kept where there is a leaf for each at most. */
template <typename T, int WIDTH>
static gop_status regular_blocks(const gop_ctx *ctx, int64_t leaves, regular_plan *plan)
{
    enum {
        ALONE = regular_block<T, WIDTH, 1>::THREADS,
        SEVERAL = regular_block<T, WIDTH, 0>::THREADS
    };
    const int64_t room = ctx->info.shared_per_block - (int64_t)sizeof(regular_own<T>);
    int64_t blocks = 0, most = 0;
    plan->shared = kept_bytes<T, WIDTH>();
    if (plan->shared <= room)
        GOP_TRY(GOP_AT_ONCE(ctx, (jacobi_regular_kernel<T, WIDTH, 1>), ALONE,
                            (size_t)plan->shared, &blocks));
    plan->is_kept = leaves <= most_workers(blocks);
    plan->held = plan->is_kept && !regular_block<T, WIDTH, 1>::IN_REGISTERS;
    plan->blocks = leaves < blocks ? leaves + 1 : leaves;
    if (plan->is_kept) return GOP_OK;
    GOP_TRY(GOP_AT_ONCE(ctx, (jacobi_regular_kernel<T, WIDTH, 0>), SEVERAL, 0, &most));
    plan->blocks = leaves < most ? leaves + 1 : most;
    plan->shared = 0;
    if (most < 1) return GOP_OK;
    const int64_t held = (leaves + most_workers(most) - 1) / most_workers(most),
                  bytes = held_bytes<T>(held);
    if (bytes > room) return GOP_OK;
    GOP_TRY(GOP_AT_ONCE(ctx, (jacobi_regular_kernel<T, WIDTH, 0>), SEVERAL, (size_t)bytes,
                        &blocks));
    if (blocks < plan->blocks) return GOP_OK; /* as many blocks matter more */
    plan->shared = bytes;
    plan->held = (int)held;
    return GOP_OK;
}

template <typename T>
static gop_status regular_blocks_of(const gop_ctx *ctx, int64_t leaves, regular_plan *plan)
{
    return plan->width == 5 ? regular_blocks<T, 5>(ctx, leaves, plan)
                            : regular_blocks<T, 8>(ctx, leaves, plan);
}

static gop_status jacobi_regular_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    regular_plan &own = *GOP_OWN(regular_plan, plan);
    const gop_dtype dtype = task->in[0].dtype;
    const int64_t n = task->geometry.jacobi.n, leaves = (n + LEAF - 1) / LEAF;
    const int64_t longest = gop_longest_row(task);
    if (!task->call->params.jacobi.step.csr || longest < 1 || longest > WIDEST ||
        task->geometry.jacobi.k != 1 || leaves > MOST_FOLDED)
        return gop_fail(GOP_REFUSED,
                        "jacobi: the regular kernel takes one right-hand side and a CSR matrix "
                        "of which it is known that no row has more than %d terms; the chained "
                        "kernel takes all",
                        WIDEST);
    own.width = longest <= 5 ? 5 : WIDEST;
    GOP_TRY(JACOBI_BY_DTYPE(dtype, regular_blocks_of)(ctx, leaves, &own));
    if (own.blocks < 1)
        return gop_fail(GOP_REFUSED, "jacobi: the regular kernel takes a GPU whose blocks may "
                                     "wait for each other");
    plan->scratch = regular_room_of(task, item_size(dtype), own).room.bytes;
    return GOP_OK;
}

extern const gop_row jacobi_regular_row = {
    .name = "regular",
    .note = "CSR with short rows: all steps in one kernel, terms of one position side by side; "
            "small systems stay in shared memory",
    .role = GOP_CONFORMING,
    .launch = JACOBI_LAUNCHES(jacobi_regular),
    .plan = jacobi_regular_plan,
};
