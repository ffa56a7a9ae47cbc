/*
 * reduce.cu - the CUDA ladder of reduce: sums, products, extremes, positions along any axes.
 *
 * The floor is reading every element once. What makes it hard: thousands of threads must end in
 * one number. The lectures' kernels show how threads meet; their answer depends on the grid.
 * The tree fixes who adds to whom, so that any grid, and the CPU, give the same bits.
 */
#include "cuda/reduce_lecture.h"
#include "cuda/reduce_rows.h"

/* ---- the lectures' kernels: reduce_lecture.cu, reduce_passes.cu ---- */

static size_t reduce_lecture_scratch(const gop_ctx *, const gop_task *task)
{
    const size_t n = (size_t)task->geometry.reduction.count;
    return ((n + 1) / 2 + (n + 3) / 4 + 2) * 8; /* what the first two launches leave */
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

/* Whether a root is stored and that is all: to find that out from several arguments, one after
 * another, a kernel that has its root takes 0.2 µs. */
static int as_is(const gop_task *task)
{
    const gop_reduce_params &params = task->call->params.reduce;
    const gop_reduction &g = task->geometry.reduction;
    const gop_dtype out = task->out[0].dtype;
    const int sums = params.op == GOP_SUM || params.op == GOP_PROD || params.op == GOP_SUMSQ;
    int64_t stride = 1;
    for (int d = g.kept - 1; d >= 0; stride *= g.extent[d--])
        if (g.out[d] != stride) return 0;
    return sums && !params.has_initial && g.count > 0 && out != GOP_FLOAT16 &&
           out != GOP_BFLOAT16;
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
    r->as_is = as_is(task);
    r->width = 1;
    r->by_leaf = 0;
    r->grouped = 0;
    r->counts = nullptr;
    if (counts_bytes(task) == 0) return GOP_OK;
    r->counts = static_cast<const int64_t *>(task->scratch);
    return reduce_count(ctx, r);
}

gop_status reduce_prepare_brief(gop_ctx *ctx, const gop_task *task, reduce_brief *r)
{
    reduce_args all;
    GOP_TRY(reduce_prepare(ctx, task, &all));
    const gop_reduction &g = all.g;
    r->g = {g.kept, g.reduced, g.outputs, g.count, {}, {}, {}};
    for (int d = 0; d < g.kept + g.reduced; d++) {
        r->g.extent[d] = g.extent[d];
        r->g.in[d] = g.in[d];
        r->g.out[d] = g.out[d];
    }
    static_cast<reduce_operands &>(*r) = all;
    return GOP_OK;
}

static const reduce_launchers &launchers_of(const gop_task *task)
{
    const gop_dtype dtype = task->in[0].dtype;
    const int whole = dtype <= GOP_UINT64;
    const int complex_kind = dtype == GOP_COMPLEX64 || dtype == GOP_COMPLEX128;
    switch (task->call->params.reduce.op) {
    case GOP_PROD:
        return reduce_prod_of[dtype];
    case GOP_MIN:
    case GOP_MAX:
        return (complex_kind ? reduce_position_of : reduce_extreme_of)[dtype];
    case GOP_MEAN:
        return (whole ? reduce_mean_of : reduce_sum_of)[dtype];
    case GOP_ANY:
    case GOP_ALL:
        return reduce_truth_of[dtype];
    case GOP_ARGMIN:
    case GOP_ARGMAX:
        return reduce_position_of[dtype];
    case GOP_SUMSQ:
        return reduce_square_of[dtype];
    default:
        return reduce_sum_of[dtype];
    }
}

#define ROW(name, member)                                                                      \
    static gop_status reduce_##name(gop_ctx *ctx, const gop_task *task, int64_t step)          \
    {                                                                                          \
        return launchers_of(task).member(ctx, task, step);                                     \
    }
ROW(tree, tree)
ROW(vectorized, vectorized)
ROW(few, few)
ROW(short, shorter)
ROW(columns, columns)
ROW(thin, thin)

/* What all rows after the tree refuse. */
static gop_status plain(const gop_task *task)
{
    if (!launchers_of(task).vectorized)
        return gop_fail(GOP_REFUSED, "reduce: this kernel takes no products of whole numbers "
                                     "and no sums of squares");
    if (task->call->params.reduce.has_where || task->geometry.reduction.reduced > 1)
        return gop_fail(GOP_REFUSED, "reduce: this kernel needs the elements of an output one "
                                     "distance apart, and all of them: no where");
    return GOP_OK;
}

/* ---- vectorized, few, short: the elements of an output side by side ---- */

static gop_status in_order(const gop_task *task)
{
    const gop_reduction &g = task->geometry.reduction;
    GOP_TRY(plain(task));
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

static gop_status reduce_vectorized_accepts(const gop_ctx *, const gop_task *task)
{
    const gop_reduction &g = task->geometry.reduction;
    GOP_TRY(in_order(task));
    if (g.count <= LANES && g.outputs > FEW)
        return gop_fail(GOP_REFUSED,
                        "reduce: this kernel needs more than %d elements to an output where "
                        "there are more than %d outputs, got %lld",
                        LANES, FEW, (long long)g.count);
    return GOP_OK;
}

static gop_status reduce_few_accepts(const gop_ctx *, const gop_task *task)
{
    GOP_TRY(in_order(task));
    const int64_t leaves = task->geometry.reduction.outputs * leaves_of(task);
    if (leaves > FEW)
        return gop_fail(GOP_REFUSED,
                        "reduce: this kernel takes at most %d leaves of %d elements, got %lld",
                        FEW, LEAF, (long long)leaves);
    return GOP_OK;
}

static gop_status reduce_short_accepts(const gop_ctx *, const gop_task *task)
{
    const gop_reduction &g = task->geometry.reduction;
    GOP_TRY(plain(task));
    if (g.kept != 1 || g.count == 0 || g.count > LANES)
        return gop_fail(GOP_REFUSED,
                        "reduce: this kernel needs one kept axis, and outputs of "
                        "1 to %d elements",
                        LANES);
    if (g.count > STACKED && reduce_magnitude(g.in[0]) < reduce_magnitude(g.in[1]))
        return gop_fail(GOP_REFUSED,
                        "reduce: this kernel needs elements of an output that are closer in "
                        "memory than outputs, or at most %d of them",
                        STACKED);
    return GOP_OK;
}

/* ---- columns, thin: outputs side by side: reduce_columns.h ---- */

static gop_status reduce_columns_accepts(const gop_ctx *, const gop_task *task)
{
    const gop_reduction &g = task->geometry.reduction;
    GOP_TRY(plain(task));
    if (g.kept == 0 || g.in[g.kept - 1] != 1 || g.extent[g.kept - 1] < 32)
        return gop_fail(GOP_REFUSED, "reduce: this kernel needs outputs whose elements are "
                                     "neighbours in memory, in lines of 32 or more");
    if (g.reduced != 1 || g.in[g.kept] == 1 || g.count < 2)
        return gop_fail(GOP_REFUSED, "reduce: this kernel needs more than one element to an "
                                     "output, apart from each other");
    const int64_t blocks = blocks_for(g.outputs, 32) * leaves_of(task);
    if (blocks < 1 || blocks > 0x7fffffff)
        return gop_fail(GOP_REFUSED, "reduce: this kernel needs 1 to 2^31 - 1 blocks");
    return GOP_OK;
}

static gop_status reduce_thin_accepts(const gop_ctx *, const gop_task *task)
{
    const gop_reduction &g = task->geometry.reduction;
    GOP_TRY(plain(task));
    if (g.kept != 1 || g.reduced != 1 || g.in[0] != 1 || g.in[1] != g.outputs ||
        g.count < LANES || (uintptr_t)task->in[0].data % 16 != 0)
        return gop_fail(GOP_REFUSED,
                        "reduce: this kernel needs rows that follow each other without a gap, "
                        "from an address that is a multiple of 16, at least %d of them",
                        LANES);
    const int64_t bytes = g.outputs * LANES * launchers_of(task).accumulator;
    if (bytes > 48 * 1024)
        return gop_fail(
            GOP_REFUSED,
            "reduce: this kernel takes as many columns as fit into 48 KiB of shared "
            "memory, %d accumulators of each; got %lld",
            LANES, (long long)g.outputs);
    return GOP_OK;
}

/* ---- the table ---- */

/* clang-format off */
#define EVERY_DTYPE(f) {f, f, f, f, f, f, f, f, f, f, f, f, f, f, f}
#define NO_TUNABLES {}
#define BLOCK_SIZES {{"threads", 4, {256, 64, 128, 512}}}
#define UNROLL_FACTORS {{"uf", 15, {8, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15, 16}}}
#define OWN_ORDER                                                                              \
    "adds in an order of its own: the last bits of a float sum differ from those of tree/v1"
#define NO_ORDER                                                                               \
    "adds in whatever order blocks end: the last bits of a float sum change from run to run"
#define LECTURE(f, name, tag, note, caveat, tunables)                                          \
    {name, note, GOP_TEACHING, caveat, tag, GOP_LAUNCH_TEACHING(f), reduce_lecture_accepts,    \
     reduce_lecture_scratch, nullptr, tunables}
#define STEP(f, name, note)                                                                    \
    LECTURE(f, name, "parallel reduction", note, OWN_ORDER, NO_TUNABLES)

static const gop_row rows[] = {
    STEP(reduce_naive, "naive",
         "neighbours in pairs, a launch per level: every level goes through global memory"),
    STEP(reduce_interleaved, "interleaved",
         "a block meets in shared memory: eight levels a launch, but warps run for a few of "
         "their threads"),
    STEP(reduce_strided, "strided",
         "the first threads work: whole warps retire, but their words lie in one bank"),
    STEP(reduce_sequential, "sequential",
         "the words that are added are neighbours: every bank answers once"),
    STEP(reduce_loaded, "loaded",
         "the first addition while loading: half the blocks, two loads under way a thread"),
    STEP(reduce_unrolled, "unrolled",
         "the last warp meets by itself: six barriers of the block less"),
    LECTURE(reduce_complete, "complete", "parallel reduction",
            "the size of the block is a template argument: no loop is left, only additions",
            OWN_ORDER, BLOCK_SIZES),
    STEP(reduce_cascaded, "cascaded",
         "a grid that fits the device: a thread adds many elements before a block meets"),
    LECTURE(reduce_shuffled, "shuffled", nullptr,
            "warps meet in registers: shuffles need neither shared memory nor a barrier",
            OWN_ORDER, NO_TUNABLES),
    LECTURE(reduce_multipass, "multipass", "reduction in passes, 2012",
            "uf loads under way a thread: bytes in flight hide how long memory takes",
            OWN_ORDER, UNROLL_FACTORS),
    LECTURE(reduce_wide, "wide", nullptr,
            "16 bytes a load: the same bytes under way with a quarter of the instructions",
            OWN_ORDER, NO_TUNABLES),
    LECTURE(reduce_atomic, "atomic", nullptr,
            "blocks add to one number in the L2 cache: no second pass", NO_ORDER, NO_TUNABLES),
    LECTURE(reduce_ticket, "ticket", nullptr,
            "the block that draws the last ticket adds the others' sums: one launch, one order",
            OWN_ORDER, NO_TUNABLES),
    {"tree",
     "a warp to a leaf, four lanes a thread: shuffles instead of shared memory, sixteen loads "
     "in flight, and an order that no grid can change",
     GOP_CONFORMING, nullptr, nullptr, EVERY_DTYPE(reduce_tree), nullptr, reduce_tree_scratch,
     nullptr, NO_TUNABLES},
    {"vectorized", "16 bytes a load, and a block folds up to 64 leaves before it writes",
     GOP_CONFORMING, nullptr, nullptr, EVERY_DTYPE(reduce_vectorized), reduce_vectorized_accepts,
     reduce_tree_scratch, nullptr, NO_TUNABLES},
    {"short",
     "many outputs of few elements: a thread has loads of eight under way, and where threads fold "
     "each sends half of its values",
     GOP_CONFORMING, nullptr, nullptr, EVERY_DTYPE(reduce_short), reduce_short_accepts,
     reduce_tree_scratch, nullptr, NO_TUNABLES},
    {"few",
     "a thread to a lane where leaves are few: all loads are under way at once, and up to eight "
     "leaves end in one launch",
     GOP_CONFORMING, nullptr, nullptr, EVERY_DTYPE(reduce_few), reduce_few_accepts,
     reduce_tree_scratch, nullptr, NO_TUNABLES},
    {"columns",
     "outputs side by side, 4 to 16 bytes of a row to a thread: warps share a leaf, or a thread has "
     "the few elements of its outputs; lanes come in the order in which they fold",
     GOP_CONFORMING, nullptr, nullptr, EVERY_DTYPE(reduce_columns), reduce_columns_accepts,
     reduce_tree_scratch, nullptr, NO_TUNABLES},
    {"thin",
     "few columns: rows that follow each other are read as one line, and columns are told apart "
     "when lanes meet",
     GOP_CONFORMING, nullptr, nullptr, EVERY_DTYPE(reduce_thin), reduce_thin_accepts,
     reduce_tree_scratch, nullptr, NO_TUNABLES},
};

/* clang-format on */

extern "C" {
extern const gop_ladder gop_cuda_reduce;
const gop_ladder gop_cuda_reduce = {sizeof rows / sizeof *rows, rows};
}
