/*
 * choose.cu - which kernel reduces: the first of these that takes the call.
 *
 * All read memory once; what differs is how an output's elements lie. Columns and rows that are
 * short, few or unaligned have a kernel each; vectorized is for long lines, indexed for any
 * axes, and the tree takes what is left. "Drawn" is of 8346 calls drawn at random on an H200
 * and an H100, each by every row that takes it; all others are in docs/speed-log.md under their
 * date.
 */
#include "core/choice.h"
#include "cuda/reduce/plan.h"
#include "cuda/common/l2_policy.h"

/* ---- what is asked of a call ---- */

/* Whether the bits depend on the order: floating-point accumulators, means that are no sums. */
static bool comes_in_order(const gop_task *task)
{
    const gop_reduce_op op = task->call->params.reduce.op;
    const bool sums = op == GOP_SUM || op == GOP_PROD;
    const bool is_float = task->in[0].dtype > GOP_UINT64;
    return (op == GOP_MEAN && (is_float || !reduce_mean_is_sum(task))) || op == GOP_SUMSQ ||
           (sums && is_float);
}

/* Sums, minima and maxima whose elements may come in any order: no positions, which take more
 * instructions, nor any and all, which take less. */
static bool is_gathered(const gop_task *task)
{
    const gop_reduce_op op = task->call->params.reduce.op;
    return !comes_in_order(task) &&
           (op == GOP_SUM || op == GOP_MEAN || op == GOP_MIN || op == GOP_MAX);
}

/* Whether an accumulator has a position: argmin and argmax, complex minima and maxima. */
static bool has_position(const gop_task *task)
{
    const gop_reduce_op op = task->call->params.reduce.op;
    const gop_dtype dtype = task->in[0].dtype;
    return op == GOP_ARGMIN || op == GOP_ARGMAX ||
           ((op == GOP_MIN || op == GOP_MAX) &&
            (dtype == GOP_COMPLEX64 || dtype == GOP_COMPLEX128));
}

/* Elements that a thread loads at once, as neighbouring lanes: lanes_of<T>::N. */
static int group_of_lanes(int64_t item)
{
    return item < 4 ? 4 : (int)(16 / item);
}

enum {
    TREE_LEAVES = 8, /* of a column, from which on the tree's blocks read the same lines .. */
    TREE_ROW = 64    /* .. where rows have fewer bytes */
};

/* A few columns, row upon row, longer than the cache: a leaf of each is a warp's of the tree,
 * and the warps of a block read the same lines. Not of positions, bytes and means of whole
 * numbers, which take it more instructions than memory allows. */
static bool are_long_columns(const gop_ctx *ctx, const gop_task *task)
{
    const gop_reduction &g = task->geometry.reduction;
    const gop_reduce_op op = task->call->params.reduce.op;
    const int64_t item = item_of(task);
    const bool light =
        op != GOP_ARGMIN && op != GOP_ARGMAX && item > 1 &&
        (op != GOP_MEAN || task->in[0].dtype > GOP_UINT64 || reduce_mean_is_sum(task));
    return light && g.reduced == 1 && g.kept > 0 && g.count >= TREE_LEAVES * LEAF &&
           g.in[g.kept - 1] == 1 && gop_magnitude(g.in[g.kept]) * item < TREE_ROW &&
           reduce_exceeds_l2(ctx, task);
}

/* ---- thin ---- */

enum {
    THIN_LEAVES = 40, /* of a column: fewer are sooner read by columns, or by indexed */
    THIN_BYTES = 48,  /* columns of items of one byte, from which on columns is faster, .. */
    THIN_PAIRS = 65,  /* .. and of two */
    THIN_SECTOR = 32  /* bytes of a row, from which on leaves are cut into parts */
};

/* Whether leaves are cut in two, where rows are no groups: then they are read item by item. */
static bool are_cut_unevenly(const gop_ctx *ctx, const gop_task *task)
{
    const gop_reduction &g = task->geometry.reduction;
    const int64_t item = item_of(task), columns = g.extent[g.kept - 1];
    const int64_t busy = 2 * (int64_t)ctx->info.processors;
    const int64_t leaves = g.outputs / columns * reduce_leaves(g);
    return comes_in_order(task) && columns * item >= THIN_SECTOR &&
           columns % group_of_lanes(item) != 0 && leaves < busy && 2 * leaves >= busy;
}

static int are_thin(const gop_ctx *ctx, const gop_task *task)
{
    const gop_reduction &g = task->geometry.reduction;
    if (g.kept < 1 || g.outputs == 0) return 1; /* its plan says why not */
    const int64_t item = item_of(task), columns = g.extent[g.kept - 1];
    if (g.count < THIN_LEAVES * LEAF || (item > 4 && !comes_in_order(task))) return 0;
    if (item <= 2 && !comes_in_order(task) && columns >= (item == 1 ? THIN_BYTES : THIN_PAIRS))
        return 0;
    return !are_cut_unevenly(ctx, task);
}

/* ---- rows ---- */

enum {
    ROWS_BLOCK = 128,           /* rows of a block */
    ROWS_LONG = 13,             /* elements, below which columns is level or faster, .. */
    ROWS_SMALL = 3,             /* .. but in any order of items of two bytes; of one 2, .. */
    ROWS_SMALL_BYTES = 8 << 20, /* .. of this many bytes or more */
    ROWS_ORDERED = 256,         /* bytes of a row in order, beyond which short is faster, .. */
    ROWS_FULL = 8,              /* .. but where SMs have so many blocks */
    ROWS_PAIRED = 128           /* bytes of a row, beyond which a block alone on its SM waits */
};

/* Elements of a row, from which on many rows are worth a warp, or eight threads. */
static int64_t least_row(const gop_task *task)
{
    const gop_reduction &g = task->geometry.reduction;
    const int64_t item = item_of(task);
    if (g.reduced > 1) return LANES + 1;
    if (comes_in_order(task)) return 33;
    return item > 1 && reduce_divides(task, group_of_lanes(item), item) ? 48 : 96;
}

static int are_short_rows(const gop_ctx *ctx, const gop_task *task)
{
    const gop_reduction &g = task->geometry.reduction;
    if (g.kept < 1) return 1; /* its plan says why not */
    const int64_t item = item_of(task), pitch = g.in[g.kept - 1] * item;
    const int64_t blocks = g.outputs / ROWS_BLOCK / ctx->info.processors; /* an SM */
    const bool ordered = comes_in_order(task);
    int64_t bytes = g.count * item;
    for (int d = 0; d < g.kept; d++) bytes += (g.extent[d] - 1) * g.in[d] * item;
    if (g.count < ROWS_LONG &&
        (ordered || item > 2 || g.count + (item == 1) < ROWS_SMALL || bytes < ROWS_SMALL_BYTES))
        return 0;
    if (ordered && pitch > ROWS_ORDERED && blocks < ROWS_FULL) return 0;
    if (!ordered && (pitch <= ROWS_PAIRED || g.count < least_row(task))) return g.outputs > FEW;
    return blocks >= (pitch > ROWS_PAIRED ? 2 : 1);
}

/* ---- columns ---- */

enum {
    BYTES_LEAST = 129,   /* elements of a column of bytes that a thread shares with 15, .. */
    BYTES_MOST = 512,    /* .. so few that what a block does beside them counts .. */
    BYTES_MANY = 1 << 16 /* .. and so many columns that blocks take several turns */
};

/* Whether columns of bytes would be read byte by byte: no two begin at an even address. */
static bool are_odd_bytes(const gop_task *task)
{
    const gop_reduction &g = task->geometry.reduction;
    if (g.kept < 1 || g.in[g.kept - 1] != 1 || item_of(task) != 1) return false;
    int64_t bits = g.extent[g.kept - 1] | (int64_t)((uintptr_t)task->in[0].data & 1);
    for (int d = 0; d < g.kept + g.reduced; d++)
        if (d != g.kept - 1) bits |= g.in[d];
    return bits % 2 != 0;
}

static int are_no_odd_bytes(const gop_ctx *, const gop_task *task)
{
    const gop_reduction &g = task->geometry.reduction;
    return !(g.count >= BYTES_LEAST && g.count <= BYTES_MOST && g.outputs >= BYTES_MANY &&
             is_gathered(task) && are_odd_bytes(task));
}

/* ---- few ---- */

enum {
    FEW_BLOCK = 8,      /* leaves of an output of which vectorized makes a block, */
    FEW_BYTES = 16,     /* of items of a byte, and of two where any and all test them */
    FEW_MOST = 840,     /* of all outputs */
    FEW_TESTED = 700,   /* the same of any and all of items up to 8 bytes, .. */
    FEW_NARROW = 320,   /* .. of items of up to two bytes */
    FEW_POSITIONS = 512 /* the same of positions */
};

/* Few leaves in any order, that vectorized does not fold as soon. */
static int are_few_leaves(const gop_ctx *, const gop_task *task)
{
    const gop_reduction &g = task->geometry.reduction;
    const gop_reduce_op op = task->call->params.reduce.op;
    const int64_t item = item_of(task), leaves = reduce_leaves(g);
    if (comes_in_order(task) || g.count <= LEAF) return 1;
    const bool is_sum = op == GOP_SUM || op == GOP_MEAN;
    const bool tests = op == GOP_ANY || op == GOP_ALL;
    const bool is_block =
        item <= (is_sum ? 1 : 4) && leaves <= (item <= (tests ? 2 : 1) ? FEW_BYTES : FEW_BLOCK);
    const int most = has_position(task)   ? FEW_POSITIONS
                     : !tests || item > 8 ? FEW_MOST
                     : item > 2           ? FEW_TESTED
                                          : FEW_NARROW;
    return !is_block && g.outputs * leaves < most;
}

/* ---- short ---- */

enum {
    SHORT_LIGHT = 12,     /* elements whose accumulators are sent whatever they are */
    SHORT_BYTES = 8 << 20 /* of all rows: memory is waited for, not what is sent */
};

/* Sending accumulators is slowest here, and half of those of a row of 17 have no element. */
static int are_light(const gop_ctx *, const gop_task *task)
{
    const int64_t count = task->geometry.reduction.count, item = item_of(task);
    if (count <= SHORT_LIGHT || task->geometry.reduction.outputs * count * item <= SHORT_BYTES)
        return 1;
    if (item == 4) return count <= 16 || count > 24;
    return item == 8 || count > 32;
}

/* ---- vectorized ---- */

enum {
    LINES_FEW = FEW / 2, /* leaves in lines, too few for a warp each where loads are short */
    LINES_ALONE = 128    /* bytes of a line that is read item by item */
};

static int are_long_lines(const gop_ctx *, const gop_task *task)
{
    const gop_reduction &g = task->geometry.reduction;
    if (g.outputs > FEW && g.count < least_row(task)) return 0;
    if (g.reduced < 2) return 1;
    const int64_t item = item_of(task), line = g.extent[g.kept + g.reduced - 1];
    const int group = group_of_lanes(item);
    const bool near = reduce_divides(task, group, item);
    if ((!near || group == 1) && g.outputs * reduce_leaves(g) <= LINES_FEW) return 0;
    if (near) return 1;
    /* Unaligned lines are read item by item: slower for short leaves and for positions. */
    const bool slow =
        !comes_in_order(task) && (g.count < 4 * LEAF / item || has_position(task));
    return !slow && line >= LINES_ALONE / item;
}

/* ---- indexed ---- */

enum {
    TREE_FEW = 7,     /* leaves of one line, which indexed does sooner */
    TREE_COLUMNS = 6, /* columns of several axes that the tree walks, .. */
    TREE_RUN = 40     /* .. if so many rows follow each other */
};

/* A long line, whose elements lie nearer than outputs: the tree walks without dividing. */
static bool is_one_line(const gop_reduction &g)
{
    const int last = g.kept + g.reduced - 1;
    return g.reduced == 1 && g.count > LEAF && g.outputs * reduce_leaves(g) > TREE_FEW &&
           (g.kept == 0 || gop_magnitude(g.in[last]) < gop_magnitude(g.in[g.kept - 1]));
}

/* A few columns of several axes, in order: likewise. */
static bool are_few_columns(const gop_task *task)
{
    const gop_reduction &g = task->geometry.reduction;
    const int last = g.kept + g.reduced - 1;
    return comes_in_order(task) && task->in[0].dtype > GOP_UINT64 && item_of(task) >= 4 &&
           g.reduced > 1 && g.kept > 0 && g.in[g.kept - 1] == 1 &&
           g.extent[g.kept - 1] <= TREE_COLUMNS && g.in[last] == g.extent[g.kept - 1] &&
           g.extent[last] >= TREE_RUN;
}

static int are_scattered(const gop_ctx *ctx, const gop_task *task)
{
    if (task->call->params.reduce.has_where) return 1;
    return !is_one_line(task->geometry.reduction) && !are_long_columns(ctx, task) &&
           !are_few_columns(task);
}

/* ---- the table ---- */

extern const gop_row reduce_thin_row, reduce_rows_row, reduce_columns_row, reduce_few_row,
    reduce_short_row, reduce_vectorized_row, reduce_indexed_row, reduce_tree_row,
    reduce_exact_row;
static const gop_candidate candidates[] = {
    {.row = &reduce_thin_row,
     .suits = are_thin,
     .when =
         "columns of 40 leaves and more whose rows follow each other; in order, or items of "
         "at most 4 bytes, fewer than 48 of 1 byte and 65 of 2; not where each leaf would be "
         "cut in two between groups",
     .why =
         "of 40 leaves and more it takes 0.51 to 1.19 of the others' time, 0.92 in the median "
         "(35 drawn), of fewer 0.74 to 3.6, 1.29 (61), wider items in any order 0.95 to 2, "
         "1.07 (7), 49 to 53 columns of bytes 1.08 to 1.24 (3): H200, 2026-11-29; 23 columns "
         "of float32 cut in two 21.5 for 12.0: H200, 2026-11-24"},
    {.row = &reduce_rows_row,
     .suits = are_short_rows,
     .when =
         "rows one upon the other: of 13 elements and more (2 of items of a byte, 3 of two, "
         "8 MiB, where order does not matter); a block of 128 rows an SM at least, two "
         "from 129 bytes on, 8 in order beyond 256 bytes; in any order up to 128 bytes, or too "
         "short for vectorized, more than 1024 rows",
     .why = "120 MB 1.2 to 6.4 times as fast as the best of the others: H200, 2026-11-27; of "
            "13 elements and more 0.26 to 0.91 of their time (31 of 32 drawn), up to 1024 rows "
            "0.94 to 1.95 (9), short rows of bytes 0.57 to 1.04 (19), sums of two and three "
            "halves twice (3), 31,357 rows of 73 float32 5.4 us, indexed 22.3: H200, "
            "2026-11-29"},
    {.row = &reduce_columns_row,
     .suits = are_no_odd_bytes,
     .when = "outputs side by side; not bytes in lines that no two columns divide, of 129 to "
             "512 elements and 65,536 outputs",
     .why = "1094 drawn, the next best takes 1.12 of its time in the median, 1.28 where order "
            "matters; those bytes 0.63 to 0.78 by indexed (4): H200 and H100, 2026-11-27"},
    {.row = &reduce_few_row,
     .suits = are_few_leaves,
     .when =
         "up to 1024 leaves of 2048 elements; where order does not matter, of outputs of "
         "several leaves not 2 to 8 of items up to 4 bytes (sums of bytes alone; 16 of bytes, "
         "and of halves that any and all test), and not from 840 in all on, of positions from "
         "512, of any and all of items up to 8 bytes from 700, up to 2 bytes from 320",
     .why = "all loads on their way at once: 10 float32 3.55 us, CuPy 3.48, a million 8.5, "
            "CuPy 9.1: H200, 2026-11-21 and 22; those leaves by vectorized .66 to .96 of its "
            "time (34 of 37 drawn), sums of larger items 1.06 to 1.3 (6 of 6), from 840 leaves "
            "on .71 to 1.05 (20 of 22, once 1.37), positions from 512 .83 to 1.02 (13 of 13): "
            "H200 and H100, 2026-11-28 and 29; of several outputs .58 to 1.09 (7), of 9 to 16 "
            "leaves of bytes .80 to .93, once 1.27 (5), any and all of halves .82 to .92 (5), "
            "from 700 leaves on .84 to .97 (11), of 1 and 2 bytes from 320 .77 to .93 (6): "
            "H200, 2026-11-29"},
    {.row = &reduce_short_row,
     .suits = are_light,
     .when =
         "positions along an axis of one element; sums and products of floats, many outputs of "
         "at most 12 elements, or up to 8 MiB; of more (of 4 bytes not 17 to 24, of 2 and 16 "
         "not up to 32)",
     .why =
         "up to 8 MiB 0.22 to 0.94 of the time of indexed and vectorized, once 1.0 (14 drawn): "
         "H200, 2026-11-29; sums of 45 halves 28.5 us, indexed 40.7: H200, 2026-11-25; of 73 "
         "drawn calls that are no sums of floats it was the best of 3, by 0, 1 and 18 %: H200, "
         "2026-11-27"},
    {.row = &reduce_vectorized_row,
     .suits = are_long_lines,
     .when = "long lines: of more than 1024 outputs from 33 elements on in order, from 48 in "
             "any order (96 of bytes and of unaligned ones), from 129 along several axes; "
             "there of more than 512 leaves of 16-byte items and of what is unaligned, and "
             "lines of 128 bytes where they are",
     .why = "2^28 float32 245 us, CuPy 246: H200, 2026-11-24; 3756 drawn, the "
            "next best takes 1.14 of its time in the median: H200, 2026-11-27; several axes in "
            "up to 512 leaves: of 16-byte items it takes 0.82 to 1.39 of indexed's time (12 "
            "drawn), of 8-byte items 0.81 in the median (28): H200, 2026-11-29; lines of "
            "4-byte items 0.95 to 1.2 from 33 on: H200, 2026-11-27"},
    {.row = &reduce_indexed_row,
     .suits = are_scattered,
     .when = "any axes; not a line of 8 leaves or more that the tree walks, nor long columns "
             "in rows of less than 64 bytes, nor sums of up to 6 columns of several axes",
     .why =
         "292 drawn, the tree takes 1.97 of its time in the median: H200, 2026-11-27; sum of "
         "(5, 1000001, 7) float32 59.4 us, tree 43.2: H200, 2026-11-25; a line of up to 7 "
         "leaves 0.6 to 0.93 of its time (6 of 6): H200, 2026-11-29; sums of 2 to 5 "
         "columns of several axes by the tree 0.80 of its time (median of 8 drawn): H200 and "
         "H100, 2026-11-27"},
    {.row = &reduce_tree_row,
     .why = "takes every call: products and squares of whole numbers, masked means, no "
            "elements; long lines of any distance, 16 loads of a thread under way"},
    {.row = &reduce_exact_row, .why = "takes every exact sum, which no other does"},
};

extern const gop_choice reduce_choice;
const gop_choice reduce_choice = {sizeof candidates / sizeof *candidates, candidates, nullptr};
