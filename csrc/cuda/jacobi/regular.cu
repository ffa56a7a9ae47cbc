/*
 * regular.cu - jacobi of a CSR matrix whose rows are short, all of a call in one kernel.
 *
 * The matrix is copied once, terms of one position side by side, so that neighbouring threads
 * read neighbours and no row's start is asked for. A block keeps leaves of 2048 rows for good;
 * where one is all it has, its terms stay in shared memory and a step reads nothing but x. All
 * blocks wait for each other once a step, and each judges by itself, from the same sums: so the
 * kernel ends where the solver does.
 */
#include "cuda/jacobi/together.h"
#include "cuda/jacobi_step/system.h"

enum { WIDEST = 8 };

/* Many threads for the one leaf that is kept; else several blocks a processor, so that one adds
 * up while others read. */
template <int IS_KEPT> struct regular_block {
    enum { THREADS = IS_KEPT ? 1024 : 256, AT_ONCE = IS_KEPT ? 1 : 4 };
};

/* Term j of row i is at j * pitch + i; its column is -1 where the row has ended. */
template <typename T> struct regular_system {
    const T *value;
    const int32_t *column;
    int64_t pitch;
    const T *f;
    int64_t f_row;
    T *iterate[2];
    T *out;
    int64_t out_row;
    T factor;
    int has_alpha;
    int64_t n, leaves, steps, check_every;
    double *sums[4]; /* of leaves: of even and of odd steps, the largest parts, scaled ones */
    unsigned *arrived;
};

template <typename T, typename I>
__global__ void jacobi_regular_copy_kernel(T *value, int32_t *column, int64_t pitch, int width,
                                           const T *data, const I *indices, const I *indptr,
                                           int64_t n, int64_t stored, unsigned *arrived)
{
    if (blockIdx.x == 0 && threadIdx.x == 0) *arrived = 0;
    const int64_t step = gridDim.x * (int64_t)blockDim.x;
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < n; i += step) {
        int64_t begin = indptr[i], end = indptr[i + 1];
        if (begin < 0 || end > stored) begin = end = 0; /* it was checked; see system.h */
        for (int j = 0; j < width; j++) {
            const int is_term = begin + j < end;
            const int64_t k = is_term ? (int64_t)indices[begin + j] : 0;
            value[j * pitch + i] = is_term ? data[begin + j] : positive_zero<T>();
            column[j * pitch + i] = is_term ? (uint64_t)k < (uint64_t)n ? (int32_t)k : 0 : -1;
        }
    }
}

/* f - A x of row i, whose terms are `pitch` apart; and the row's diagonal. */
template <typename T, int WIDTH> GOP_DEVICE T residual_of(const T *value, const int32_t *column,
                                                          int64_t pitch, const T *x, T f,
                                                          int64_t i, T *sum, T *diagonal)
{
    T v[WIDTH], product[WIDEST];
    int32_t k[WIDTH];
#pragma unroll
    for (int j = 0; j < WIDTH; j++) {
        k[j] = column[j * pitch];
        v[j] = value[j * pitch];
    }
#pragma unroll
    for (int j = 0; j < WIDEST; j++) product[j] = negative_zero<T>();
#pragma unroll
    for (int j = 0; j < WIDTH; j++)
        if (k[j] >= 0) product[j] = multiply_add(v[j], x[k[j]], product[j]);
    *diagonal = negative_zero<T>();
#pragma unroll
    for (int j = 0; j < WIDTH; j++)
        if (k[j] == i) *diagonal = plus(*diagonal, v[j]);
#pragma unroll
    for (int d = WIDEST / 2; d > 0; d /= 2)
#pragma unroll
        for (int j = 0; j < d; j++) product[j] = plus(product[j], product[j + d]);
    *sum = k[0] < 0 ? positive_zero<T>() : product[0];
    return minus(f, *sum);
}

/* What a pass over the leaves does beside the residual. */
enum { STEPS = 1, SQUARES = 2, LARGEST = 4 };

template <typename T, int WIDTH, int THREADS>
GOP_DEVICE void regular_leaf(const regular_system<T> &s, const T *value, const int32_t *column,
                             int64_t pitch, const T *from, T *to, int64_t leaf, int what,
                             double scale, double *sums, T (&residual)[LEAF],
                             double (&part)[LANES])
{
    const int64_t first = leaf * LEAF, rows = s.n - first < LEAF ? s.n - first : LEAF;
#pragma unroll
    for (int at = 0; at < LEAF; at += THREADS) {
        const int r = at + threadIdx.x;
        const int64_t i = first + r;
        if (r >= rows) continue;
        T sum, diagonal;
        const T f = s.f[i * s.f_row], x = from[i];
        residual[r] =
            residual_of<T, WIDTH>(value + r, column + r, pitch, from, f, i, &sum, &diagonal);
        if (what & STEPS) {
            const T change = s.has_alpha ? minus(sum, f) : divide(residual[r], diagonal);
            to[i] = multiply_add(s.factor, change, x);
        }
    }
    if (!(what & (SQUARES | LARGEST))) return;
    __syncthreads();
    const int lane = threadIdx.x;
    if (lane < LANES) {
        double sum = what & LARGEST ? 0.0 : -0.0;
        for (int r = lane; r < rows; r += LANES)
            sum = what & LARGEST ? larger(sum, largest_part(residual[r]))
                                 : sum + square(residual[r], scale);
        part[lane] = sum;
    }
    __syncthreads();
    if (lane < WARP) {
        double sum =
            combine(what & LARGEST, combine(what & LARGEST, part[lane], part[lane + 64]),
                    combine(what & LARGEST, part[lane + 32], part[lane + 96]));
        for (int d = WARP / 2; d > 0; d /= 2)
            sum = combine(what & LARGEST, sum, __shfl_down_sync(WHOLE_WARP, sum, d));
        if (lane == 0) sums[leaf] = sum;
    }
}

template <typename T, int WIDTH, int IS_KEPT> __global__ void
__launch_bounds__(regular_block<IS_KEPT>::THREADS, regular_block<IS_KEPT>::AT_ONCE)
    jacobi_regular_kernel(regular_system<T> s, jacobi_state state)
{
    enum { THREADS = regular_block<IS_KEPT>::THREADS };
    extern __shared__ __align__(16) unsigned char kept[];
    __shared__ T residual[LEAF];
    __shared__ double part[LANES];
    __shared__ together_room room;
    T *const kept_value = (T *)kept;
    int32_t *const kept_column = (int32_t *)(kept_value + WIDTH * LEAF);
    if (IS_KEPT) {
        for (int at = threadIdx.x; at < WIDTH * LEAF; at += THREADS) {
            const int64_t i = blockIdx.x * (int64_t)LEAF + at % LEAF;
            if (i < s.n) kept_value[at] = s.value[at / LEAF * s.pitch + i];
            kept_column[at] = i < s.n ? s.column[at / LEAF * s.pitch + i] : -1;
        }
        __syncthreads();
    }
    together_start(room, state);
    unsigned barriers = 0;
    int64_t check = 0, m = 0;
    double norm = 0.0;
    for (;; m++) {
        const T *const from = m % 2 ? s.iterate[1] : s.iterate[0];
        T *const to = m % 2 ? s.iterate[0] : s.iterate[1];
        const int is_check = m % s.check_every == 0 || m == s.steps;
        double scale = 1.0, unscale = 1.0;
        for (int pass = 0;; pass++) { /* the first but where squares were lost */
            const int what = pass == 1   ? LARGEST
                             : pass == 2 ? SQUARES
                                         : (m < s.steps ? STEPS : 0) | (is_check ? SQUARES : 0);
            double *const sums = s.sums[pass == 0 ? m % 2 : 1 + pass];
            for (int64_t leaf = blockIdx.x; leaf < s.leaves; leaf += gridDim.x) {
                const int64_t at = leaf * LEAF;
                if (IS_KEPT)
                    regular_leaf<T, WIDTH, THREADS>(s, kept_value, kept_column, LEAF, from, to,
                                                    leaf, what, scale, sums, residual, part);
                else
                    regular_leaf<T, WIDTH, THREADS>(s, s.value + at, s.column + at, s.pitch,
                                                    from, to, leaf, what, scale, sums, residual,
                                                    part);
                __syncthreads();
            }
            gop_grid_barrier(s.arrived, ++barriers);
            if (!is_check) break;
            const double sum = fold_together<THREADS>(sums, s.leaves, what & LARGEST, room);
            if (pass == 0 && squares_were_lost<T>(sum)) continue;
            if (pass == 1 && sum > 0.0 && sum <= LARGEST_DOUBLE) {
                scale = power_of_two(-exponent_of(sum));
                unscale = power_of_two(exponent_of(sum));
                continue;
            }
            norm = pass == 1 ? sum : sqrt(sum) * unscale;
            break;
        }
        if (is_check && judge_together(room, state, norm, check++, m, m == s.steps)) break;
    }
    const T *const from = m % 2 ? s.iterate[1] : s.iterate[0];
    for (int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x; i < s.n;
         i += gridDim.x * (int64_t)THREADS)
        s.out[i * s.out_row] = room.is_zero ? positive_zero<T>() : from[i];
}

/* ---- the call ---- */

struct regular_room {
    chained_room room;
    char *value, *column;
    double *sums[4];
    unsigned *arrived;
    int64_t pitch, leaves;
    int width;
};

struct regular_plan {
    int64_t blocks;
    int width, is_kept;
};

static regular_room regular_room_of(const gop_task *task, int64_t size, int width)
{
    const int64_t n = task->geometry.jacobi.n;
    regular_room r = {};
    r.room = room_of(task, size, 0);
    r.leaves = (n + LEAF - 1) / LEAF;
    r.pitch = r.leaves * LEAF;
    r.width = width;
    char *const base = (char *)task->scratch;
    r.value = take(&r.room, base, width * r.pitch * size);
    r.column = take(&r.room, base, width * r.pitch * (int64_t)sizeof(int32_t));
    for (int s = 0; s < 4; s++) r.sums[s] = (double *)take(&r.room, base, 8 * r.leaves);
    r.arrived = (unsigned *)take(&r.room, base, sizeof(unsigned));
    return r;
}

template <typename T, typename I>
static gop_status regular_copy(gop_ctx *ctx, const gop_task *task, const regular_room &r)
{
    const int64_t n = task->geometry.jacobi.n;
    return GOP_LAUNCH(ctx, (jacobi_regular_copy_kernel<T, I>), blocks_of(n, 256), dim3(256), 0,
                      (T *)r.value, (int32_t *)r.column, r.pitch, r.width,
                      (const T *)task->in[0].data, (const I *)task->in[1].data,
                      (const I *)task->in[2].data, n, task->in[0].shape[0], r.arrived);
}

template <typename T> static size_t kept_bytes(int width)
{
    return (size_t)width * LEAF * (sizeof(T) + sizeof(int32_t));
}

template <typename T, int WIDTH>
static gop_status regular_run(gop_ctx *ctx, const regular_plan &plan,
                              const regular_system<T> &s, const jacobi_state &state)
{
    const dim3 grid((unsigned)plan.blocks), many(regular_block<1>::THREADS),
        block(regular_block<0>::THREADS);
    if (plan.is_kept)
        return GOP_LAUNCH_TOGETHER(ctx, (jacobi_regular_kernel<T, WIDTH, 1>), grid, many,
                                   kept_bytes<T>(WIDTH), s, state);
    return GOP_LAUNCH_TOGETHER(ctx, (jacobi_regular_kernel<T, WIDTH, 0>), grid, block, 0, s,
                               state);
}

template <typename T>
static gop_status jacobi_regular(gop_ctx *ctx, const gop_task *task, int64_t)
{
    const gop_jacobi *g = &task->geometry.jacobi;
    const gop_jacobi_params *p = &task->call->params.jacobi;
    const regular_plan &plan = *GOP_OWN(const regular_plan, task->plan);
    const regular_room r = regular_room_of(task, sizeof(T), plan.width);
    regular_system<T> s = {};
    s.value = (const T *)r.value;
    s.column = (const int32_t *)r.column;
    s.pitch = r.pitch;
    s.f = (const T *)task->in[3].data;
    s.f_row = g->f_row;
    for (int i = 0; i < 2; i++) s.iterate[i] = (T *)r.room.iterate[i];
    s.out = (T *)task->out[0].data;
    s.out_row = g->out_row;
    jacobi_factor(p->step.has_alpha ? p->step.alpha : p->step.omega, &s.factor);
    s.has_alpha = p->step.has_alpha;
    s.n = g->n;
    s.leaves = r.leaves;
    s.steps = p->steps;
    s.check_every = p->check_every;
    for (int i = 0; i < 4; i++) s.sums[i] = r.sums[i];
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
    const int64_t room = ctx->info.shared_per_block - (int64_t)(sizeof(T) * LEAF + 16384);
    int64_t blocks = 0;
    plan->is_kept = 0;
    if ((int64_t)kept_bytes<T>(WIDTH) <= room)
        GOP_TRY(GOP_AT_ONCE(ctx, (jacobi_regular_kernel<T, WIDTH, 1>),
                            regular_block<1>::THREADS, kept_bytes<T>(WIDTH), &blocks));
    if (leaves <= blocks) plan->is_kept = 1;
    else
        GOP_TRY(GOP_AT_ONCE(ctx, (jacobi_regular_kernel<T, WIDTH, 0>),
                            regular_block<0>::THREADS, 0, &blocks));
    plan->blocks = leaves < blocks ? leaves : blocks;
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
    static const int64_t size[GOP_NDTYPES] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 8, 8, 16};
    regular_plan &own = *GOP_OWN(regular_plan, plan);
    const gop_dtype dtype = task->in[0].dtype;
    const int64_t n = task->geometry.jacobi.n, leaves = (n + LEAF - 1) / LEAF;
    if (!task->call->params.jacobi.step.csr || task->longest < 1 || task->longest > WIDEST ||
        task->geometry.jacobi.k != 1 || leaves > MOST_FOLDED)
        return gop_fail(GOP_REFUSED,
                        "jacobi: the regular kernel takes one right-hand side and a CSR matrix "
                        "of which it is known that no row has more than %d terms; the chained "
                        "kernel takes all",
                        WIDEST);
    own.width = task->longest <= 5 ? 5 : WIDEST;
    GOP_TRY(dtype == GOP_FLOAT32     ? regular_blocks_of<float>(ctx, leaves, &own)
            : dtype == GOP_FLOAT64   ? regular_blocks_of<double>(ctx, leaves, &own)
            : dtype == GOP_COMPLEX64 ? regular_blocks_of<complex64>(ctx, leaves, &own)
                                     : regular_blocks_of<complex128>(ctx, leaves, &own));
    if (own.blocks < 1)
        return gop_fail(GOP_REFUSED, "jacobi: the regular kernel takes a GPU whose blocks may "
                                     "wait for each other");
    plan->scratch = regular_room_of(task, size[dtype], own.width).room.bytes;
    return GOP_OK;
}

extern const gop_row jacobi_regular_row = {
    .name = "regular",
    .note = "CSR with short rows: all steps in one kernel, terms of one position side by side; "
            "small systems stay in shared memory",
    .role = GOP_CONFORMING,
    .launch = JACOBI_CHAINS(jacobi_regular),
    .plan = jacobi_regular_plan,
};
