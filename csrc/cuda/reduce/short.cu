/*
 * short.cu - reduce: many sums and products of few floats, at most one to a lane of the tree.
 *
 * A warp to an output would load little and wait long. Here every thread has loads of several
 * outputs in flight: r.width threads share an output, a thread has elements of GROUPS outputs.
 * When threads t and t + d fold, each sends half of its values and keeps the other half: one
 * shuffle folds two outputs, and each level halves the number of values.
 */
#include "cuda/reduce/neighbours.h"
#include "cuda/reduce/plan.h"

enum {
    STACKED = 8, /* elements that may be farther apart than outputs */
    FIRSTS = 4   /* pairs of positions that a thread stores */
};

template <typename T> constexpr int groups_of = sizeof(T) <= 4 ? 8 : 32 / sizeof(T);

/* A thread's values after the threads d, d / 2, .., 1 apart have folded: `left` values, of the
 * outputs from group `first` on; threads with t & spare have copies. */
struct short_rest {
    int first, left, spare;
};

template <typename F, int N, typename R>
GOP_DEVICE short_rest fold_groups(R *value, int d, int t, int first)
{
    if (d == 0) return {first, N, 0};
    if constexpr (N > 1) {
        const bool upper = t & d;
#pragma unroll
        for (int i = 0; i < N / 2; i++) {
            const R keep = upper ? value[i + N / 2] : value[i];
            const R send = upper ? value[i] : value[i + N / 2];
            value[i] = F::fold(keep, shuffle_xor(send, d));
        }
        return fold_groups<F, N / 2>(value, d / 2, t, upper ? first + N / 2 : first);
    } else {
        const int spare = 2 * d - 1;
        for (; d > 0; d /= 2) value[0] = F::fold(value[0], shuffle_xor(value[0], d));
        return {first, 1, spare};
    }
}

/* `blocks` blocks have a line of outputs along the last axis, the next ones the next line. */
template <typename M> __global__ void __launch_bounds__(256)
    reduce_short_kernel(reduce_args r, unsigned blocks)
{
    typedef typename M::T T;
    typedef typename M::F F;
    typedef typename F::acc R;
    enum { GROUPS = groups_of<T>, ROWS = LANES / 32 };
    const int t = threadIdx.x % 32, k = t % r.width, across = 32 / r.width;
    const int count = (int)r.g.count;
    const int inner = r.g.kept - 1;
    const unsigned line = blockIdx.x / blocks;
    const int64_t warp = (blockIdx.x - line * blocks) * (int64_t)8 + threadIdx.x / 32;
    const int64_t o = warp * (GROUPS * across) + t / r.width, outputs = r.g.extent[inner];
    const int64_t stride = r.g.reduced ? r.g.in[r.g.kept] : 0, jump = across * r.g.in[inner];
    const T *const begin = static_cast<const T *>(r.a) + place_of(r.g, 0, inner, line).in;
    const T *const a = begin + o * r.g.in[inner] + k * stride;
    grid_dependency_sync();
    T v[ROWS][GROUPS];
#pragma unroll
    for (int q = 0; q < ROWS; q++) {
        if (q * 32 >= count) break;
#pragma unroll
        for (int b = 0; b < GROUPS; b++)
            if (const bool is = q * 32 + k < count && o + b * across < outputs;
                reading<T>::ALWAYS || is)
                v[q][b] = *(is ? a + (b * jump + q * 32 * stride) : begin);
    }
    R value[GROUPS];
#pragma unroll
    for (int b = 0; b < GROUPS; b++) {
        R lane[ROWS];
#pragma unroll
        for (int q = 0; q < ROWS; q++)
            lane[q] = q * 32 + k < count && o + b * across < outputs
                          ? M::of(v[q][b], q * 32 + k, r.key_flags)
                          : F::none();
        value[b] = F::fold(F::fold(lane[0], lane[2]), F::fold(lane[1], lane[3]));
    }
    const short_rest rest = fold_groups<F, GROUPS>(value, r.width / 2, t, 0);
    if (t & rest.spare) return;
#pragma unroll 1
    for (int i = 0; i < rest.left; i++) {
        const int64_t output = o + (rest.first + i) * across;
        if (output < outputs) finish(r, line * outputs + output, pick<GROUPS>(value, i));
    }
}

/* Outputs of a block, of which `width` threads share one. */
template <typename M> static int block_outputs(int width)
{
    return 8 * groups_of<typename M::T> * (32 / width);
}

template <typename M>
static gop_status reduce_short(gop_ctx *ctx, const gop_task *task, int64_t)
{
    const reduce_args r = reduce_addressed(task, *GOP_OWN(const reduce_args, task->plan));
    const int64_t line = r.g.extent[r.g.kept - 1];
    const unsigned blocks = (unsigned)blocks_for(line, block_outputs<M>(r.width));
    return GOP_LAUNCH_FIRST(ctx, task, 0, reduce_short_kernel<M>,
                            dim3((unsigned)(r.g.outputs / line) * blocks), dim3(256), 0, r,
                            blocks);
}

/* An output's only element is its first: nothing is read. */
__global__ void __launch_bounds__(256) reduce_first_kernel(int64_t *out, int64_t outputs)
{
    grid_dependency_sync();
#pragma unroll
    for (int i = 0; i < FIRSTS; i++) {
        const int64_t o = (blockIdx.x * (int64_t)FIRSTS + i) * 512 + threadIdx.x * 2;
        if (o + 1 < outputs) store_group(out + o, group_of<int64_t, 2>{0, 0});
        else if (o < outputs) out[o] = 0;
    }
}

static gop_status reduce_short_first(gop_ctx *ctx, const gop_task *task, int64_t)
{
    const int64_t outputs = task->geometry.reduction.outputs;
    return GOP_LAUNCH_FIRST(ctx, task, 0, reduce_first_kernel,
                            dim3((unsigned)blocks_for(outputs, FIRSTS * 512)), dim3(256), 0,
                            static_cast<int64_t *>(task->out[0].data), outputs);
}

/* Sums and products of floats, whose order counts: other kernels are faster for the rest. */
static const gop_launch sums[] = {GOP_NONE9, REDUCE_FLOATS(reduce_short, sum_map)};
static const gop_launch products[] = {GOP_NONE9, REDUCE_FLOATS(reduce_short, prod_map)};
typedef int (*outputs_count)(int width);
static const outputs_count outputs_of[] = {GOP_NONE9, REDUCE_FLOATS(block_outputs, sum_map)};

static gop_status reduce_short_plan(const gop_ctx *, const gop_task *task, gop_plan *plan)
{
    const gop_reduction &g = task->geometry.reduction;
    const gop_reduce_op op = task->call->params.reduce.op;
    const gop_dtype dtype = task->in[0].dtype;
    reduce_args &r = *GOP_OWN(reduce_args, plan);
    const bool is_first = g.count == 1 && (op == GOP_ARGMIN || op == GOP_ARGMAX);
    plan->launch = nullptr;
    if (op == GOP_SUM || op == GOP_MEAN) plan->launch = sums[dtype];
    if (op == GOP_PROD) plan->launch = products[dtype];
    if (is_first) plan->launch = reduce_short_first;
    GOP_TRY(reduce_plain(task, plan->launch));
    reduce_arguments(task, &r, plan);
    if (is_first) {
        if (g.outputs > 0 && r.dense && (uintptr_t)task->out[0].data % 16 == 0) return GOP_OK;
        return gop_fail(GOP_REFUSED, "reduce: this kernel needs a result of positions without "
                                     "gaps that starts at a multiple of 16 bytes");
    }
    while (r.width < 32 && r.width < g.count) r.width *= 2;
    const int least = outputs_of[dtype](r.width);
    if (g.kept < 1 || g.outputs == 0 || g.count == 0 || g.count > LANES ||
        (g.kept > 1 && g.extent[g.kept - 1] < least))
        return gop_fail(GOP_REFUSED,
                        "reduce: this kernel needs outputs of 1 to %d elements, along one axis "
                        "or in lines of %d at least",
                        LANES, least);
    if (g.count > STACKED && gop_magnitude(g.in[g.kept - 1]) < gop_magnitude(g.in[g.kept]))
        return gop_fail(GOP_REFUSED,
                        "reduce: this kernel needs elements of an output that are closer in "
                        "memory than outputs, or at most %d of them",
                        STACKED);
    return GOP_OK;
}

extern const gop_row reduce_short_row = {
    .name = "short",
    .note = "many outputs of few elements: a thread has loads of eight under way, and where "
            "threads fold each sends half of its values",
    .role = GOP_CONFORMING,
    .plan = reduce_short_plan,
    .dtypes = GOP_EVERY_DTYPE,
};
