/*
 * boxes.cu - the size of a box, and what a kernel has to know of it, found on the host.
 */
#include "cuda/transpose/boxes.h"

enum { PART = 64 }; /* words of a line, about */

/* Cuts the axes into boxes, in the order in which blocks should step; false if too many. */
static bool count_boxes(const gop_permutation &g, const int64_t *box, int item, boxing *p)
{
    int order[GOP_MAX_NDIM];
    p->rank = 0;
    p->boxes = 1;
    transpose_order(g, order);
    for (int k = 0; k < g.rank; k++) {
        const int axis = order[k];
        const int64_t count = (g.extent[axis] + box[axis] - 1) / box[axis];
        if (count == 1) continue;
        if (p->rank == COUNTED || count > INT32_MAX / p->boxes) return false;
        p->boxes *= count;
        p->axis[p->rank++] = {divisor_of(count), box[axis], g.extent[axis] - box[axis],
                              g.in[axis] * item, g.out[axis] * item};
    }
    return true;
}

/* The axes, nearest neighbours first. Returns how many have several items. */
static int nearest_first(const gop_permutation &g, const int64_t *stride, int *axes)
{
    int count = 0;
    for (int axis = g.rank - 1; axis >= 0; axis--) {
        if (g.extent[axis] == 1) continue;
        int k = count++;
        for (; k > 0 && gop_magnitude(stride[axes[k - 1]]) > gop_magnitude(stride[axis]); k--)
            axes[k] = axes[k - 1];
        axes[k] = axis;
    }
    return count;
}

/* The items up to the first axis that the box cuts; that axis, or -1. */
static int64_t length_of(const gop_permutation &g, const int *axes, int count,
                         const int64_t *box, int *cut)
{
    int64_t length = 1;
    *cut = -1;
    for (int k = 0; k < count && *cut < 0; k++) {
        length *= box[axes[k]];
        if (box[axes[k]] < g.extent[axes[k]]) *cut = axes[k];
    }
    return length;
}

/* About `wanted` items of an axis: boxes of equal size, of whole sectors if that is a small
 * change. */
static int64_t even_part(int64_t extent, int64_t wanted, int item)
{
    if (wanted >= extent) return extent;
    const int64_t boxes = (extent + wanted - 1) / wanted;
    const int64_t sector = 32 / item, whole = wanted / sector * sector;
    if (whole >= 2 * sector && (extent + whole - 1) / whole * whole <= extent + extent / 32)
        return whole;
    return (extent + boxes - 1) / boxes;
}

/* Doubles the extent of the axis where the shorter run ends, as long as there is room. An axis
 * of a few items comes whole: two halves of 3 are 4. */
static void grow(const gop_permutation &g, int count, const int *const axes[2], int item,
                 int64_t room, int64_t *box)
{
    int64_t items = 1;
    int joined = 0;
    for (bool grew = true; grew;) {
        int cut[2];
        const int64_t in = length_of(g, axes[0], count, box, &cut[0]);
        const int64_t out = length_of(g, axes[1], count, box, &cut[1]);
        grew = false;
        for (int k = 0; k < 2 && !grew; k++) {
            const int axis = cut[(in > out) ^ k];
            if (axis < 0) continue;
            const int64_t now = box[axis], extent = g.extent[axis], most = room / (items / now);
            int64_t next = even_part(extent, 2 * now, item);
            if (extent <= 7 && extent <= most) next = extent;
            if (next > most) next = most > now ? even_part(extent, most, item) : now;
            grew = next > now && next <= most && (now > 1 || joined < BOX_AXES);
            if (!grew) continue;
            joined += now == 1;
            box[axis] = next;
            items = items / now * next;
        }
    }
}

/* The output's order in shared memory, and how far a step goes there along each axis. A piece
 * of 16 bytes belongs to one line, and is one in memory too. */
static void set_to(const gop_permutation &g, int count, const int *to, const int64_t *box,
                   int item, int64_t address, int64_t *place, boxing *p)
{
    const bool in_pieces = g.out[to[0]] == 1;
    int64_t line = 1, lines = 1, size = 0, offsets = address;
    bool joins = true;
    p->to_step = g.out[to[0]] * item;
    p->to_axes = 0;
    p->cut = -1;
    for (int k = 0; k < count; k++) {
        const int axis = to[k];
        const int64_t bytes = g.out[axis] * item;
        joins = joins && bytes == p->to_step * line;
        place[axis] = size;
        if (joins) {
            place[axis] = line * item;
            line *= box[axis];
            size = line * item;
            joins = box[axis] == g.extent[axis];
            if (joins) continue;
            offsets |= bytes * box[axis] | bytes * (g.extent[axis] - box[axis]);
            for (int n = 0; n < p->rank; n++)
                if (p->axis[n].out == bytes) p->cut = n, p->cut_bytes = (int)place[axis];
            continue;
        }
        offsets |= bytes;
        if (box[axis] == 1) continue;
        if (in_pieces) place[axis] += 15 + ((bytes - size - 15) % 16 + 16) % 16;
        p->to[p->to_axes++] = {divisor_of(box[axis]), (int32_t)place[axis], bytes};
        size += place[axis] * (box[axis] - 1);
        lines *= box[axis];
    }
    const int64_t multiple = offsets % 16 == 0 ? 16 : offsets & -offsets;
    p->to_lines = (int)lines;
    p->to_bytes = in_pieces ? (int)(line * item) : 0;
    p->to_pieces = divisor_of(in_pieces ? (16 - multiple + line * item + 15) / 16 : line);
    p->bytes = (int)((size + 30 + 127) / 128 * 128);
}

/* The input's order: a run of words, runs that are a line, and lines. */
static void set_from(const gop_permutation &g, int count, const int *from, const int64_t *box,
                     int item, const int64_t *place, boxing *p)
{
    const int most = PART * (item < 4 ? 4 / item : 1);
    int64_t run = 1, lines = 1;
    int k = 0, n = 0;
    p->step = g.in[from[0]] * item;
    p->least = 0;
    p->most = item;
    for (int i = 0; i < count; i++) {
        const int64_t far = (box[from[i]] - 1) * g.in[from[i]] * item;
        if (far < 0) p->least += far;
        else p->most += far;
    }
    for (bool joins = true; joins && k < count; k++) {
        const int axis = from[k];
        if (g.in[axis] * item != p->step * run) break;
        if (run * box[axis] > most && 4 * run >= most) break;
        p->from[n++] = {divisor_of(box[axis]), (int32_t)place[axis], g.in[axis] * item};
        run *= box[axis];
        joins = box[axis] == g.extent[axis];
    }
    p->per_word = item < 4 && p->step == item && run >= 4 / item ? 4 / item : 1;
    /* A long run is cut in parts, if they are equal. */
    box_step &last = p->from[n - 1];
    int64_t parts = (run + most - 1) / most;
    while (parts > 1 && parts <= last.n.d && last.n.d % parts != 0) parts++;
    p->run_axes = n;
    if (parts > 1 && parts <= last.n.d && 4 * run >= parts * most) {
        last.n = divisor_of(last.n.d / parts);
        p->from[n++] = {divisor_of(parts), last.place * (int32_t)last.n.d, last.at * last.n.d};
        run /= parts;
    }
    for (; k < count; k++)
        if (box[from[k]] > 1)
            p->from[n++] = {divisor_of(box[from[k]]), (int32_t)place[from[k]],
                            g.in[from[k]] * item};
    p->from_axes = n;
    p->run_items = (int)run;
    int64_t wide = (run + p->per_word - 1) / p->per_word;
    p->run = divisor_of(wide);
    for (n = p->run_axes; n < p->from_axes && wide * p->from[n].n.d <= PART; n++)
        wide *= p->from[n].n.d;
    p->wide_axes = n;
    for (; n < p->from_axes; n++) lines *= p->from[n].n.d;
    p->wide = (int)wide;
    p->lines = (int)lines;
}

/* The turns that the first warp takes to store an item each: the most of its words in one bank.
 */
static int turns_of(const boxing &p, int item, int turn)
{
    const int wide = box_width(p);
    const int64_t all = (int64_t)wide * p.lines, at_once = item <= 4 ? 32 : 128 / item;
    int word[32], worst = 1;
    for (int lane = 0; lane < min_of(all, at_once); lane++) {
        const int w = lane % wide;
        const int first = p.per_word == 1   ? word_of_line<1>(p, w).place[0]
                          : p.per_word == 2 ? word_of_line<2>(p, w).place[0]
                                            : word_of_line<4>(p, w).place[0];
        const line_start line =
            start_of(p.from + p.wide_axes, p.from_axes - p.wide_axes, lane / wide);
        word[lane] = turned_place(first + line.place, turn) / 4;
        int same = 1;
        for (int other = 0; other < lane; other++)
            same += word[other] != word[lane] && (word[other] - word[lane]) % 32 == 0;
        if (same > worst) worst = same;
    }
    return worst;
}

bool transpose_boxes(const gop_task *task, const gop_permutation &g, int item, int64_t room,
                     boxing *p)
{
    int64_t box[GOP_MAX_NDIM], place[GOP_MAX_NDIM];
    int from[GOP_MAX_NDIM], to[GOP_MAX_NDIM];
    const int *const axes[2] = {from, to};
    const int count = nearest_first(g, g.in, from);
    if (nearest_first(g, g.out, to) == 0) return false;
    for (int axis = 0; axis < g.rank; axis++) box[axis] = 1;
    grow(g, count, axes, item, room / item, box);
    if (!count_boxes(g, box, item, p)) return false;
    set_to(g, count, to, box, item, (int64_t)(uintptr_t)task->out[0].data, place, p);
    set_from(g, count, from, box, item, place, p);
    /* Items stay whole. It takes instructions, which two turns are not worth. */
    const int turn = item <= 4 ? 0x7c : item == 8 ? 0x78 : 0x70, plain = turns_of(*p, item, 0);
    p->turn = plain > 2 && turns_of(*p, item, turn) < plain ? turn : 0;
    return box_shared(*p) <= BOX_BYTES;
}
