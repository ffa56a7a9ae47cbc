/*
 * tiles.cu - chooses the size of a box and how threads go over it, on the host.
 */
#include <string.h>

#include "cuda/add/tiles.h"

enum {
    RUN = 128,             /* bytes of a run that is long enough, */
    LONGEST = 4096,        /* and from which on longer ones gain nothing */
    MOST_BYTES = 16 << 10, /* of an operand in a box */
    LEAST_BYTES = 4 << 10, /* the same, so that every SM has boxes */
    SHARED_BYTES = 46 << 10,
};

/* Whether the output's order wastes an operand's bandwidth: it uses neither a sector of
 * neighbours at a time, nor one element for a run each. */
static bool lies_across(const gop_elementwise &e, int o, const near_axes &near, int item)
{
    int64_t run = item, served = item;
    int k = 0;
    for (int axis = e.rank - 1; axis >= 0; axis--) {
        const bool is_repeated = e.stride[o][axis] == 0;
        if (!is_repeated && near.axis[k] != axis) return true;
        served *= e.extent[axis];
        if (!is_repeated) run *= e.extent[axis], k++;
        if (run >= SECTOR || served >= RUN) return false;
    }
    return false;
}

/* ---- the size of a box ---- */

/* About `wanted` of an axis: boxes of equal size, of whole sectors if that makes no more. */
static int64_t even_part(int64_t extent, int64_t wanted, int item)
{
    if (wanted >= extent) return extent;
    const int64_t boxes = (extent + wanted - 1) / wanted, even = (extent + boxes - 1) / boxes;
    const int64_t unit = item < SECTOR ? SECTOR / item : 1;
    const int64_t whole = (even + unit - 1) / unit * unit;
    return whole <= wanted ? whole : even;
}

/* ---- what the kernel sees of it ---- */

static gop_status set_cuts(const gop_task *task, const int64_t *box, const int8_t *index,
                           tiled_plan *plan)
{
    const gop_elementwise &e = task->geometry.elementwise;
    int order[GOP_MAX_NDIM], cuts = 0;
    uint64_t nearest[GOP_MAX_NDIM];
    for (int axis = e.rank - 1; axis >= 0; axis--) {
        if (box[axis] == e.extent[axis]) continue;
        uint64_t near = UINT64_MAX;
        for (int o = 0; o < e.operands; o++) {
            const uint64_t stride = gop_magnitude(e.stride[o][axis]);
            if (stride != 0 && stride < near) near = stride;
        }
        int k = cuts++;
        for (; k > 0 && nearest[k - 1] > near; k--) {
            nearest[k] = nearest[k - 1];
            order[k] = order[k - 1];
        }
        nearest[k] = near;
        order[k] = axis;
    }
    int64_t boxes = 1;
    for (int k = 0; k < cuts; k++) {
        const int64_t extent = e.extent[order[k]], part = box[order[k]];
        const int64_t n = (extent + part - 1) / part;
        if (k == CUT_AXES || n > INT32_MAX / boxes)
            return gop_fail(GOP_REFUSED,
                            "%s: the tiled kernel takes at most 2^31 - 1 boxes, cut along %d "
                            "axes; this call needs more",
                            add_name(task), CUT_AXES);
        cut_axis &cut = plan->p.cut[k];
        boxes *= n;
        cut.count = make_fast_divisor(n);
        cut.last = (int32_t)(extent - (n - 1) * part);
        cut.axis = index[order[k]];
        for (int o = 0; o < e.operands; o++) cut.at[o] = e.stride[o][order[k]] * part;
    }
    plan->p.cuts = cuts;
    plan->boxes = (unsigned)boxes;
    return GOP_OK;
}

static void add_axis(const tiled_boxes &p, box_walk &walk, int axis, int64_t *size)
{
    walk.axis[walk.axes++] = (int8_t)axis;
    *size *= p.axis[axis].n.d;
}

/* Sets the threads along a run, and how many runs all threads have at once. */
static void set_walk(box_walk &walk, int64_t run, int64_t near, int64_t lines, int word)
{
    const int64_t words = (run + word - 1) / word;
    walk.run = (int32_t)run;
    walk.wide = make_fast_divisor(words < TILE_THREADS ? words : TILE_THREADS);
    walk.high = TILE_THREADS / (int32_t)walk.wide.d;
    near = (near + word - 1) / word * word;
    walk.near = make_fast_divisor(near);
    walk.lines = (int32_t)(near * lines);
}

/* The output's run: axes that are one line of it. Returns how many; they come first. */
static int set_out(const gop_elementwise &e, const int64_t *box, int word, tiled_boxes &p)
{
    int64_t run = 1, lines = 1;
    int axes = 0;
    bool joins = true;
    for (int axis = e.rank - 1, k = 0; axis >= 0; axis--) {
        joins = joins && e.stride[0][axis] == run;
        if (box[axis] > 1) {
            add_axis(p, p.out, k++, joins ? &run : &lines);
            axes += joins;
        }
        joins = joins && box[axis] == e.extent[axis];
    }
    p.out.run_axes = p.out.near_axes = (int8_t)axes;
    set_walk(p.out, run, 1, lines, word);
    p.out.near = make_fast_divisor(1);
    p.out.lines = (int32_t)lines;
    return axes;
}

/* How input o is read, and a tile's layout; its words. */
static int64_t set_tile(int o, int inner, int word, tiled_boxes &p)
{
    bool in_place = true, once = true;
    for (int k = 0; k < inner; k++) {
        in_place = in_place && p.axis[k].at[o + 1] == p.axis[k].at[0];
        once = once && p.axis[k].at[o + 1] == 0;
    }
    p.by[o] = THROUGH_TILE;
    if (once) p.by[o] = ONCE_A_LINE;
    if (in_place) p.by[o] = IN_PLACE;
    if (p.by[o] != THROUGH_TILE) return 0;
    for (int k = 0; k < inner; k++) p.axis[k].place[o] = (int32_t)p.axis[k].at[0];
    int64_t words = (p.out.run + word - 1) / word;
    for (int k = inner; k < p.axes; k++) {
        if (p.axis[k].at[o + 1] == 0) continue; /* every line along it is the same */
        words |= 1;                             /* so that neighbours are in other banks */
        p.axis[k].place[o] = (int32_t)words * word;
        words *= p.axis[k].n.d;
    }
    return words;
}

/* How threads read input o into its tile: its own run, and lines of that. Where words hold
 * several elements, a run has no axis of the output's, along which the lines of a group lie. */
static void set_in(int o, int inner, int word, const near_axes &near, const int8_t *index,
                   tiled_boxes &p)
{
    box_walk &walk = p.in[o];
    bool taken[TILE_AXES] = {}, joins = true;
    int64_t run = 1, beside = 1, lines = 1;
    for (int k = 0; k < near.count && joins; k++) {
        const int axis = index[near.axis[k]];
        if (axis < 0 || (word > 1 && axis < inner)) continue;
        const int64_t stride = p.axis[axis].at[o + 1];
        if (run == 1) walk.step = stride;
        if (stride != walk.step * run) break;
        add_axis(p, walk, axis, &run);
        taken[axis] = true;
        for (int c = 0; c < p.cuts; c++) joins = joins && p.cut[c].axis != axis;
    }
    walk.run_axes = walk.axes;
    for (int k = 0; k < inner && word > 1; k++) {
        add_axis(p, walk, k, &beside);
        taken[k] = true;
    }
    walk.near_axes = walk.axes;
    for (int k = 0; k < near.count; k++) {
        const int axis = index[near.axis[k]];
        if (axis < 0 || taken[axis]) continue;
        add_axis(p, walk, axis, &lines);
        taken[axis] = true;
    }
    for (int k = 0; k < inner; k++) /* repeated along the output's run */
        if (!taken[k]) add_axis(p, walk, k, &lines);
    set_walk(walk, run, beside, lines, word);
}

/* Plans all, for boxes of so many elements; *shared may exceed what there is. */
static gop_status plan_boxes(const gop_task *task, const near_axes *near,
                             const near_axes *sides, int count, int64_t room, tiled_plan *plan)
{
    const gop_elementwise &e = task->geometry.elementwise;
    const int item = item_of(task), word = item < 4 ? 4 / item : 1;
    int64_t box[GOP_MAX_NDIM];
    int8_t index[GOP_MAX_NDIM];
    tiled_boxes &p = plan->p;
    memset(plan, 0, sizeof *plan); /* unused fields too: equal arguments must be equal bytes */
    const auto part = [=](int64_t extent, int64_t wanted) {
        return even_part(extent, wanted, item);
    };
    grow_box(e.rank, e.extent, sides, count, TILE_AXES, LONGEST / item, room, part, box);
    for (int axis = e.rank - 1; axis >= 0; axis--) {
        index[axis] = -1;
        if (box[axis] == 1) continue;
        index[axis] = (int8_t)p.axes;
        p.axis[p.axes].n = make_fast_divisor(box[axis]);
        for (int o = 0; o < e.operands; o++) p.axis[p.axes].at[o] = e.stride[o][axis];
        p.axes++;
    }
    GOP_TRY(set_cuts(task, box, index, plan));
    const int inner = set_out(e, box, word, p);
    int64_t bytes = (int64_t)sizeof(int64_t) * e.operands * p.out.lines;
    for (int o = 0; o < e.operands - 1; o++) {
        const int64_t words = set_tile(o, inner, word, p);
        if (words == 0) continue;
        set_in(o, inner, word, near[o + 1], index, p);
        p.table[o] = (int32_t)((bytes + 15) / 16 * 16);
        p.tile[o] = p.table[o] + (int32_t)sizeof(tiled_line) * p.in[o].lines;
        bytes = p.tile[o] + words * word * item;
    }
    plan->shared = (size_t)bytes;
    return GOP_OK;
}

gop_status add_tiles(const gop_task *task, int processors, tiled_plan *plan)
{
    const gop_elementwise &e = task->geometry.elementwise;
    const int item = item_of(task);
    near_axes near[4], sides[4];
    int count = 0;
    for (int o = 0; o < e.operands; o++) {
        near[o] = nearest_first(e.rank, e.extent, e.stride[o], false);
        if (o == 0 || lies_across(e, o, near[o], item)) sides[count++] = near[o];
    }
    if (count == 1 || e.stride[0][e.rank - 1] != 1)
        return gop_fail(GOP_REFUSED,
                        "%s: the tiled kernel takes outputs whose fastest axis has no gaps and "
                        "inputs of which one lies in another order; %s",
                        add_name(task),
                        count == 1 ? "the inputs of this call lie in the order of its output"
                                   : "the output of this call has gaps");
    for (int64_t bytes = MOST_BYTES;; bytes /= 2) {
        GOP_TRY(plan_boxes(task, near, sides, count, bytes / item, plan));
        const bool fits = plan->shared <= SHARED_BYTES;
        if (fits && (plan->boxes >= 4 * (unsigned)processors || bytes <= LEAST_BYTES)) break;
        if (bytes > LEAST_BYTES / 4) continue;
        return gop_fail(GOP_REFUSED,
                        "%s: the tiled kernel has %d bytes of shared memory, got axes that "
                        "take more",
                        add_name(task), SHARED_BYTES);
    }
    return GOP_OK;
}
