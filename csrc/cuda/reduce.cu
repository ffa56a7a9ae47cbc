/*
 * reduce.cu - the CUDA ladder of reduce: sums, products, extremes, positions along any axes.
 *
 * The floor is reading every element once. What makes it hard: thousands of threads must end in
 * one number. The lectures' kernels show how threads meet; their answer depends on the grid.
 * The tree fixes who adds to whom, so that any grid, and the CPU, give the same bits.
 */
#include "cuda/reduce_tree.h"

/* ---- the lectures' kernels: the sum of a whole contiguous array -------------------------
 * Each launch makes a shorter array of partial sums, in one half of scratch or the other, until
 * one is left. Integers are summed as int64. */

template <typename T> struct lecture_sum {
    typedef T type;
};
template <> struct lecture_sum<int32_t> {
    typedef int64_t type;
};

enum { BLOCK = 256 };

/* One launch: from n elements to a sum for every `group` of them. */
template <typename R> struct lecture_level {
    const R *from;
    R *to, *half[2], *out;
    int64_t n, left;
    int group;
};

template <typename R> static void lecture_step(lecture_level<R> *level, int64_t n)
{
    level->n = n;
    level->left = n / level->group + (n % level->group != 0);
    level->from = level->to;
    level->to =
        level->left == 1 ? level->out : level->half[level->from == level->half[0] ? 1 : 0];
}

template <typename R> static lecture_level<R> lecture_first(const gop_task *task, int group)
{
    const int64_t n = task->geometry.reduction.count;
    R *const scratch = static_cast<R *>(task->scratch);
    lecture_level<R> level = {nullptr,
                              nullptr,
                              {scratch, scratch + (n + 1) / 2},
                              static_cast<R *>(task->out[0].data),
                              0,
                              0,
                              group};
    lecture_step(&level, n);
    return level;
}

/* False after the launch that left one sum. */
template <typename R> static bool lecture_next(lecture_level<R> *level)
{
    if (level->left == 1) return false;
    lecture_step(level, level->left);
    return true;
}

template <typename T> static const T *lecture_input(const gop_task *task)
{
    return static_cast<const T *>(task->in[0].data);
}

static size_t reduce_lecture_scratch(const gop_ctx *, const gop_task *task)
{
    return (size_t)(task->geometry.reduction.count + 2) * 8;
}

static gop_status reduce_lecture_accepts(const gop_ctx *, const gop_task *task)
{
    const gop_reduction &g = task->geometry.reduction;
    const gop_reduce_params &params = task->call->params.reduce;
    if (params.op != GOP_SUM || params.has_where || params.has_initial)
        return gop_fail(GOP_REFUSED, "reduce: this kernel only sums, without where or initial");
    if (g.outputs != 1 || g.count == 0 || g.reduced > 1 || (g.reduced == 1 && g.in[0] != 1))
        return gop_fail(GOP_REFUSED, "reduce: this kernel sums one whole contiguous array that "
                                     "is not empty");
    return GOP_OK;
}

/* ---- naive: neighbours in pairs, a launch per level -------------------------------------
 * The sum as a tournament. Every level goes through global memory and waits for a launch. */

template <typename T, typename R>
__global__ void reduce_naive_kernel(const T *a, int64_t n, R *out)
{
    const int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    if (2 * i + 1 < n) out[i] = R(a[2 * i]) + R(a[2 * i + 1]);
    else if (2 * i < n) out[i] = R(a[2 * i]);
}

template <typename T>
static gop_status reduce_naive(gop_ctx *ctx, const gop_task *task, int64_t)
{
    typedef typename lecture_sum<T>::type R;
    lecture_level<R> l = lecture_first<R>(task, 2);
    GOP_TRY(GOP_LAUNCH(ctx, (reduce_naive_kernel<T, R>),
                       dim3((unsigned)blocks_for(l.n, 2 * BLOCK)), dim3(BLOCK), 0,
                       lecture_input<T>(task), l.n, l.to));
    while (lecture_next(&l))
        GOP_TRY(GOP_LAUNCH(ctx, (reduce_naive_kernel<R, R>),
                           dim3((unsigned)blocks_for(l.n, 2 * BLOCK)), dim3(BLOCK), 0, l.from,
                           l.n, l.to));
    return GOP_OK;
}

/* ---- interleaved: a block meets in shared memory ----------------------------------------
 * Eight levels to a launch. The threads that still work are numbers 2, 4, 8, .. apart: most of
 * every warp idles while the warp runs on. */

template <typename T, typename R>
__global__ void reduce_interleaved_kernel(const T *a, int64_t n, R *out)
{
    __shared__ R sum[BLOCK];
    const int t = threadIdx.x;
    const int64_t i = blockIdx.x * (int64_t)BLOCK + t;
    sum[t] = i < n ? R(a[i]) : R(0);
    __syncthreads();
    for (int d = 1; d < BLOCK; d *= 2) {
        if (t % (2 * d) == 0) sum[t] += sum[t + d];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = sum[0];
}

template <typename T>
static gop_status reduce_interleaved(gop_ctx *ctx, const gop_task *task, int64_t)
{
    typedef typename lecture_sum<T>::type R;
    lecture_level<R> l = lecture_first<R>(task, BLOCK);
    GOP_TRY(GOP_LAUNCH(ctx, (reduce_interleaved_kernel<T, R>),
                       dim3((unsigned)blocks_for(l.n, BLOCK)), dim3(BLOCK), 0,
                       lecture_input<T>(task), l.n, l.to));
    while (lecture_next(&l))
        GOP_TRY(GOP_LAUNCH(ctx, (reduce_interleaved_kernel<R, R>),
                           dim3((unsigned)blocks_for(l.n, BLOCK)), dim3(BLOCK), 0, l.from, l.n,
                           l.to));
    return GOP_OK;
}

/* ---- sequential: the threads that still work are neighbours -----------------------------
 * Whole warps retire, and neighbours read neighbouring words: no bank is asked twice. */

template <typename T, typename R>
__global__ void reduce_sequential_kernel(const T *a, int64_t n, R *out)
{
    __shared__ R sum[BLOCK];
    const int t = threadIdx.x;
    const int64_t i = blockIdx.x * (int64_t)BLOCK + t;
    sum[t] = i < n ? R(a[i]) : R(0);
    __syncthreads();
    for (int d = BLOCK / 2; d > 0; d /= 2) {
        if (t < d) sum[t] += sum[t + d];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = sum[0];
}

template <typename T>
static gop_status reduce_sequential(gop_ctx *ctx, const gop_task *task, int64_t)
{
    typedef typename lecture_sum<T>::type R;
    lecture_level<R> l = lecture_first<R>(task, BLOCK);
    GOP_TRY(GOP_LAUNCH(ctx, (reduce_sequential_kernel<T, R>),
                       dim3((unsigned)blocks_for(l.n, BLOCK)), dim3(BLOCK), 0,
                       lecture_input<T>(task), l.n, l.to));
    while (lecture_next(&l))
        GOP_TRY(GOP_LAUNCH(ctx, (reduce_sequential_kernel<R, R>),
                           dim3((unsigned)blocks_for(l.n, BLOCK)), dim3(BLOCK), 0, l.from, l.n,
                           l.to));
    return GOP_OK;
}

/* ---- tree: every reduction of every array, with the bits of tree/v1 ---------------------
 * A warp to a leaf of 2048 elements, or a thread or eight to an output where outputs are
 * neighbours; then warps fold the leaves. The kernels are in reduce_tree.h. */

static size_t counts_bytes(const gop_task *task)
{
    const gop_reduce_params &params = task->call->params.reduce;
    if (params.op != GOP_MEAN || !params.has_where) return 0;
    return ((size_t)task->geometry.reduction.outputs * sizeof(int64_t) + 255) / 256 * 256;
}

static int64_t leaves_of(const gop_task *task)
{
    const int64_t leaves = blocks_for(task->geometry.reduction.count, LEAF);
    return leaves > 0 ? leaves : 1;
}

static size_t reduce_tree_scratch(const gop_ctx *, const gop_task *task)
{
    const int64_t leaves = leaves_of(task);
    const int64_t slots = leaves > 1 ? leaves + blocks_for(leaves, CHUNK) : 0;
    return counts_bytes(task) + (size_t)(task->geometry.reduction.outputs * slots) * SLOT;
}

gop_status reduce_prepare(gop_ctx *ctx, const gop_task *task, reduce_args *r)
{
    const gop_reduce_params &params = task->call->params.reduce;
    const gop_dtype dtype = task->in[0].dtype;
    const int complex_kind = dtype == GOP_COMPLEX64 || dtype == GOP_COMPLEX128;
    const int position = params.op == GOP_ARGMIN || params.op == GOP_ARGMAX || complex_kind;
    const int flips = params.op == GOP_MAX || params.op == GOP_ARGMAX || params.op == GOP_ANY;
    r->g = task->geometry.reduction;
    r->a = task->in[0].data;
    r->where = params.has_where ? static_cast<const uint8_t *>(task->in[1].data) : nullptr;
    r->out = task->out[0].data;
    r->partial = static_cast<char *>(task->scratch) + counts_bytes(task);
    r->leaves = leaves_of(task);
    r->initial = params.initial;
    r->op = params.op;
    r->dtype = dtype;
    r->out_dtype = task->out[0].dtype;
    r->twist = (flips ? FLIP : 0) | (position ? VALUE : 0);
    r->has_initial = params.has_initial;
    r->width = 1;
    r->counts = nullptr;
    if (counts_bytes(task) == 0) return GOP_OK;
    r->counts = static_cast<const int64_t *>(task->scratch);
    return reduce_count(ctx, r);
}

static gop_status reduce_tree(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const gop_dtype dtype = task->in[0].dtype;
    const int whole = dtype <= GOP_UINT64;
    const int complex_kind = dtype == GOP_COMPLEX64 || dtype == GOP_COMPLEX128;
    switch (task->call->params.reduce.op) {
    case GOP_PROD:
        return reduce_prod_of[dtype](ctx, task, step);
    case GOP_MIN:
    case GOP_MAX:
        return (complex_kind ? reduce_position_of : reduce_extreme_of)[dtype](ctx, task, step);
    case GOP_MEAN:
        return (whole ? reduce_mean_of : reduce_sum_of)[dtype](ctx, task, step);
    case GOP_ANY:
    case GOP_ALL:
        return reduce_truth_of[dtype](ctx, task, step);
    case GOP_ARGMIN:
    case GOP_ARGMAX:
        return reduce_position_of[dtype](ctx, task, step);
    case GOP_SUMSQ:
        return reduce_square_of[dtype](ctx, task, step);
    default:
        return reduce_sum_of[dtype](ctx, task, step);
    }
}

/* ---- the table ---- */

/* clang-format off */
#define EVERY_DTYPE(f) {f, f, f, f, f, f, f, f, f, f, f, f, f, f, f}
#define NONE4 nullptr, nullptr, nullptr, nullptr
#define FLOATS(f) {NONE4, NONE4, nullptr, nullptr, nullptr, f, f, nullptr, nullptr}
#define FLOATS4(f) {NONE4, NONE4, nullptr, f, f, f, f, nullptr, nullptr}
#define NO_TUNABLES {}
#define LECTURE(name, note, f)                                                                 \
    {name, note, GOP_TEACHING, OWN_ORDER, nullptr, GOP_LAUNCH_TEACHING(f),                     \
     reduce_lecture_accepts, reduce_lecture_scratch, nullptr, NO_TUNABLES}
#define OWN_ORDER                                                                              \
    "adds in an order of its own: the last bits of a float sum differ from those of tree/v1"

static const gop_row rows[] = {
    LECTURE("naive",
            "neighbours in pairs, a launch per level: every level goes through global memory",
            reduce_naive),
    LECTURE("interleaved",
            "a block meets in shared memory: eight levels a launch, one read per element",
            reduce_interleaved),
    LECTURE("sequential",
            "the threads that work are neighbours: whole warps retire, no bank conflicts",
            reduce_sequential),
    {"tree",
     "a warp to a leaf, four lanes a thread: shuffles instead of shared memory, sixteen loads "
     "in flight, and an order that no grid can change",
     GOP_CONFORMING, nullptr, nullptr, EVERY_DTYPE(reduce_tree), nullptr, reduce_tree_scratch,
     nullptr, NO_TUNABLES},
    {"vectorized", "16 bytes a load, and a block folds up to 64 leaves before it writes",
     GOP_CONFORMING, nullptr, nullptr, FLOATS(reduce_vectorized), reduce_vectorized_accepts,
     reduce_tree_scratch, nullptr, NO_TUNABLES},
    {"columns",
     "outputs side by side, a column a thread: eight warps share a leaf, partial sums stand row "
     "by row, so that every access of a warp is one line",
     GOP_CONFORMING, nullptr, nullptr, FLOATS4(reduce_columns), reduce_columns_accepts,
     reduce_columns_scratch, nullptr, NO_TUNABLES},
};

/* clang-format on */

extern "C" {
extern const gop_ladder gop_cuda_reduce;
const gop_ladder gop_cuda_reduce = {sizeof rows / sizeof *rows, rows};
}
