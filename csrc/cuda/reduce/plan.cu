/*
 * plan.cu - fills in the arguments of a task's kernels, and says what the kernels refuse.
 */
#include "cuda/reduce/plan.h"

int64_t reduce_leaves(const gop_reduction &g)
{
    const int64_t leaves = blocks_for(g.count, LEAF);
    return leaves > 0 ? leaves : 1;
}

size_t reduce_scratch(const gop_reduction &g, int64_t leaves)
{
    const int64_t slots = leaves > 1 ? leaves + blocks_for(leaves, CHUNK) : 0;
    return (size_t)(g.outputs * slots) * SLOT;
}

bool reduce_divides(const gop_task *task, int n, int64_t item)
{
    const gop_reduction &g = task->geometry.reduction;
    const int last = g.kept + g.reduced - 1;
    if (last < 0 || g.in[last] != 1) return false;
    int64_t bits = g.extent[last];
    for (int d = 0; d < last; d++) bits |= g.in[d];
    return (bits & (n - 1)) == 0 && (uintptr_t)task->in[0].data % (uintptr_t)(n * item) == 0;
}

bool reduce_exceeds_l2(const gop_ctx *ctx, const gop_task *task)
{
    const gop_reduction &g = task->geometry.reduction;
    int64_t far = 1;
    for (int d = 0; d < g.kept + g.reduced; d++)
        far += gop_magnitude(g.in[d]) * (g.extent[d] - 1);
    return far * item_of(task) > ctx->info.l2 / 3 * 2;
}

static int is_dense(const gop_reduction &g)
{
    int64_t stride = 1;
    for (int d = g.kept - 1; d >= 0; stride *= g.extent[d--])
        if (g.out[d] != stride) return 0;
    return 1;
}

/* Whether roots are stored as they are. The plan decides this once; a kernel would have to
 * check several arguments, one after another. */
static int is_stored_as_is(const gop_task *task)
{
    const gop_reduce_params &params = task->call->params.reduce;
    const gop_reduction &g = task->geometry.reduction;
    const gop_dtype out = task->out[0].dtype;
    const int sums = params.op == GOP_SUM || params.op == GOP_PROD || params.op == GOP_SUMSQ;
    return is_dense(g) && sums && !params.has_initial && g.count > 0 && out != GOP_FLOAT16 &&
           out != GOP_BFLOAT16;
}

static bool is_truth(gop_reduce_op op)
{
    return op == GOP_ANY || op == GOP_ALL;
}
static bool is_compared(gop_reduce_op op)
{
    return op == GOP_MIN || op == GOP_MAX || is_truth(op);
}

/* How the kernels read elements, and compare them. */
static int flags_of(gop_reduce_op op, gop_dtype dtype)
{
    const bool pair = dtype == GOP_COMPLEX64 || dtype == GOP_COMPLEX128;
    const bool position = op == GOP_ARGMIN || op == GOP_ARGMAX || pair;
    const bool flips = op == GOP_MAX || op == GOP_ARGMAX || op == GOP_ANY;
    const bool is_unsigned = dtype >= GOP_UINT8 && dtype <= GOP_UINT64;
    int flags = (flips ? FLIP : 0) | (position ? VALUE : 0);
    if (is_unsigned || dtype == GOP_BOOL || is_truth(op)) flags |= UNSIGNED;
    if (is_truth(op) && dtype > GOP_UINT64)
        flags |= SIZES | (dtype == GOP_COMPLEX64 ? PAIRED : 0);
    if (dtype == GOP_BOOL && !is_compared(op)) flags |= TRUTH;
    return flags;
}

/* Sets how codes of integers are read back; for complex128 the code is a truth value. `initial`
 * has the bits of an element. */
static void fill_codes(int item, reduce_operands *r)
{
    r->coded = (uint32_t)(item == 8 ? coded_by(8, r->key_flags) >> 32
                                    : coded_by(item == 16 ? 1 : item, r->key_flags));
    if (r->dtype == GOP_BOOL) r->initial.u = r->initial.u != 0;
    else if (r->dtype <= GOP_UINT64) r->initial.u &= ~UINT64_C(0) >> (64 - 8 * item);
}

void reduce_fill_operands(const gop_task *task, reduce_operands *r, gop_plan *plan)
{
    const gop_reduce_params &params = task->call->params.reduce;
    const gop_reduction &g = task->geometry.reduction;
    const gop_dtype dtype = task->in[0].dtype;
    *r = {};
    r->leaves = reduce_leaves(g);
    if (params.has_initial) r->initial = params.initial;
    r->op = params.op;
    r->dtype = dtype;
    r->out_dtype = task->out[0].dtype;
    r->key_flags = flags_of(params.op, dtype);
    r->has_initial = params.has_initial;
    if (is_compared(params.op)) fill_codes((int)item_of(task), r);
    r->zero = params.op == GOP_PROD ? -0.0f : 0.0f;
    r->dense = is_dense(g);
    r->as_is = is_stored_as_is(task);
    r->width = 1;
    plan->scratch = reduce_scratch(g, r->leaves);
}

gop_status reduce_unmasked(const gop_task *task, bool found)
{
    if (!found)
        return gop_fail(GOP_REFUSED, "reduce: this kernel does not take this reduction of this "
                                     "dtype, which kernel=\"tree\" does");
    if (task->call->params.reduce.has_where)
        return gop_fail(GOP_REFUSED, "reduce: this kernel takes no where");
    return GOP_OK;
}

gop_status reduce_plain(const gop_task *task, bool found)
{
    GOP_TRY(reduce_unmasked(task, found));
    if (task->geometry.reduction.reduced > 1)
        return gop_fail(GOP_REFUSED, "reduce: this kernel needs the elements of an output one "
                                     "distance apart");
    return GOP_OK;
}

gop_status reduce_in_order(const gop_task *task, bool found)
{
    const gop_reduction &g = task->geometry.reduction;
    GOP_TRY(reduce_plain(task, found));
    if (g.reduced != 1 || g.in[g.kept] != 1)
        return gop_fail(GOP_REFUSED, "reduce: this kernel needs the elements of an output side "
                                     "by side");
    if (g.outputs == 0 || g.count == 0)
        return gop_fail(GOP_REFUSED, "reduce: this kernel needs an array that is not empty");
    if (g.kept + g.reduced > BRIEF)
        return gop_fail(GOP_REFUSED,
                        "reduce: this kernel takes at most %d axes that do not merge, got %d",
                        BRIEF, g.kept + g.reduced);
    return GOP_OK;
}
