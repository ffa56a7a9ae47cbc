/*
 * gathers.cu - how boxes lie in shared memory from which words are gathered, found on the host.
 */
#include "cuda/transpose/gathers.h"

enum {
    MOST_RAW = PIECES * BOX_THREADS * 16, /* bytes of a box in shared memory */
    GROUP = 256,                          /* bytes of a group, about, if a line has them */
    MOST_GROUP = 4 * GROUP,
    NEAR = 32,       /* bytes of a gap that is read too */
    EACH_WORD = 45,  /* instructions of a thread for a word of groups, */
    EACH_GROUP = 20, /* and for each of these */
};

/* An axis of a box in shared memory: n steps of `place` bytes; or groups of `first` steps,
 * `further` bytes from each other. */
struct placed_axis {
    int64_t place, first, further;
};

/* Lays out the box in the input's order, in stretches with short gaps at most, and finds the
 * step along each axis. A stretch has the same alignment to 16 bytes as in memory. Rows along y
 * at multiples of 16 bytes would meet in few banks: they are moved on by 16 after each word. */
static bool set_reads(const gop_permutation &g, int count, const int *from, int y,
                      const int64_t *box, int item, placed_axis *axes, gathering *p)
{
    const int64_t word = 4 / item;
    int64_t size = item, stretches = 1;
    bool joins = true;
    p->span = item;
    p->stretch = p->from_axes = 0;
    for (int k = 0; k < count; k++) {
        const int64_t step = g.in[from[k]] * item, n = box[from[k]];
        placed_axis &axis = axes[from[k]];
        if (step < 0) return false;
        axis = {0, n, 0};
        if (n == 1) continue;
        const bool is_even = from[k] == y && step % 16 == 0 && n % word == 0;
        joins = joins && step <= size + NEAR && !(is_even && step >= 32);
        p->span += (n - 1) * step;
        axis.place = step;
        if (joins) {
            size += (n - 1) * step;
        } else {
            if (p->from_axes + 2 > WITHIN_AXES) return false;
            if (!p->stretch) p->stretch = (int)size;
            axis.place = size + 15 + ((step - size - 15) % 16 + 16) % 16;
            if (axis.place > MOST_RAW) return false;
            if (is_even) {
                axis.first = word;
                axis.further = word * axis.place + 16;
            }
            p->from[p->from_axes++] = step_of(axis.first, axis.place, step);
            if (axis.further)
                p->from[p->from_axes++] = step_of(n / word, axis.further, word * step);
            stretches *= n;
            size += (axis.first - 1) * axis.place + (n / axis.first - 1) * axis.further;
        }
        if (size > MOST_RAW) return false;
    }
    if (!p->stretch) p->stretch = (int)size;
    const int64_t pieces = (p->stretch + 30) / 16;
    p->stretch_pieces = make_fast_divisor(pieces);
    p->pieces = (int)(stretches * pieces);
    p->raw = (int)((size + 30) / 16 * 16);
    return p->span <= INT32_MAX && stretches * pieces <= PIECES * BOX_THREADS;
}

/* Cuts a line's last axis, n steps of `inner` bytes, into groups of multiples of 4 bytes; the
 * last one has at least a word. Returns their number. */
static int64_t cut_line(int64_t inner, int64_t n, const placed_axis &axis, gathering *p)
{
    const int64_t unit = inner % 4 == 0 ? 1 : inner % 2 == 0 ? 2 : 4;
    const int64_t groups = (inner * n + GROUP - 1) / GROUP;
    int64_t k = ((n + groups - 1) / groups + unit - 1) / unit * unit;
    while (k < n && n % k != 0 && n % k * inner < 4) k += unit;
    if (k > n) k = n;
    p->group_bytes = (int)(inner * k);
    p->group_place = (int)(axis.further ? k / axis.first * axis.further : k * axis.place);
    return (n + k - 1) / k;
}

/* Appends an axis to a table; an axis with two kinds of steps becomes two. */
static bool add_axis(box_step *axes, int *count, const placed_axis &axis, int64_t n, int64_t at)
{
    if (*count + 2 > WITHIN_AXES) return false;
    axes[(*count)++] = step_of(axis.first < n ? axis.first : n, axis.place, at);
    if (axis.further) axes[(*count)++] = step_of(n / axis.first, axis.further, at * axis.first);
    return true;
}

/* Adds four items to a box that cuts lines, if the last one reaches back less than a word. */
static void widen_cut(const gop_permutation &g, int count, const int *to, int item,
                      int64_t *box)
{
    int64_t line = item;
    for (int k = 0; k < count && g.out[to[k]] * item == line; k++) {
        const int64_t extent = g.extent[to[k]], n = box[to[k]];
        line *= n;
        if (n == extent) continue;
        const int64_t back = (blocks_for(extent, n) * n - extent) * (line / n);
        if (back > 0 && back < 4 && n + 4 < extent) box[to[k]] = n + 4;
        return;
    }
}

/* Finds the axis that cuts lines. Where the last box reaches back into the one before, the word
 * that this one ends in is whole. */
static bool set_cut(int64_t bytes, gathering *p)
{
    for (int k = 0; k < p->rank; k++) {
        if (p->axis[k].out != bytes) continue;
        p->cut = k;
        p->cut_bytes = (int)bytes;
        const int64_t back = p->axis[k].back * bytes;
        return back == 0 || back >= 4;
    }
    return true;
}

/* The output's lines, and the groups that they are cut into. */
static bool set_writes(const gop_permutation &g, int count, const int *to, const int64_t *box,
                       int item, int64_t address, const placed_axis *axes, gathering *p)
{
    int64_t line = item, lines = 1, offsets = address, span = item, groups = 1;
    bool joins = g.out[to[0]] == 1;
    if (!joins) return false;
    p->line_axes = p->to_axes = 0;
    p->group_bytes = 0;
    for (int k = 0; k < count; k++) {
        const int axis = to[k];
        const int64_t bytes = g.out[axis] * item, n = box[axis];
        if (bytes < 0) return false;
        joins = joins && bytes == line;
        span += (n - 1) * bytes;
        if (n == 1) {
            joins = joins && g.extent[axis] == 1;
            continue;
        }
        if (!joins) {
            if (!add_axis(p->to, &p->to_axes, axes[axis], n, bytes)) return false;
            offsets |= bytes;
            lines *= n;
            continue;
        }
        if (!add_axis(p->line, &p->line_axes, axes[axis], n, 0)) return false;
        if (line * n > GROUP) {
            groups = cut_line(line, n, axes[axis], p);
            joins = false;
        }
        line *= n;
        joins = joins && n == g.extent[axis];
        if (n < g.extent[axis] && !set_cut(bytes, p)) return false;
    }
    for (int k = 0; k < p->rank; k++)
        offsets |= p->axis[k].out * p->axis[k].step | p->axis[k].out * p->axis[k].back;
    p->line_bytes = (int)line;
    if (!p->group_bytes) p->group_bytes = (int)line;
    p->last_bytes = (int)(line - (groups - 1) * p->group_bytes);
    p->has_ends = (offsets | line) % 4 != 0;
    p->words = p->group_bytes / 4;
    int64_t between = 0;
    for (int k = 0; k < p->to_axes; k++) between |= p->to[k].at;
    p->apart = between % 4 == 0 ? 4 : between % 2 == 0 ? 2 : 1;
    p->lines = make_fast_divisor(lines);
    p->groups = (int)(lines * groups);
    /* Lines beside each other are such in the input. */
    for (int i = 1; i < p->to_axes; i++)
        for (int k = i; k > 0 && p->to[k].place < p->to[k - 1].place; k--) {
            const box_step nearer = p->to[k];
            p->to[k] = p->to[k - 1], p->to[k - 1] = nearer;
        }
    return line >= 16 && p->group_bytes <= MOST_GROUP && span <= INT32_MAX;
}

/* The wavefronts of the first warp when it reads an item each. */
int transpose_gather_turns(const gathering &p, int item)
{
    const int wide = (int)p.wide.d;
    int place[32];
    const int64_t at = p.to_axes ? p.to[0].at : 0;
    const int next = at % 4 == 0 ? 1 : at % 2 == 0 ? 2 : 4; /* of one kind */
    for (int lane = 0; lane < 32; lane++) {
        const int line = (int)min_of(lane / wide * next, p.lines.d - 1);
        const int x = lane % wide * (4 / item);
        place[lane] =
            start_of(p.to, p.to_axes, line).place + start_of(p.line, p.line_axes, x).place;
    }
    return transpose_turns(place, 32, 0);
}

/* Chooses the teams and the threads along a group that need the fewest instructions for a box;
 * a warp writes neighbouring bytes as far as a line goes. */
static void set_teams(gathering *p)
{
    const int kinds = 4 / p->apart, groups = p->groups / kinds;
    int64_t least = INT64_MAX;
    for (int teams = kinds; teams >= 1; teams /= 2) {
        const int team = BOX_THREADS / teams;
        const int cuts = (p->words + team - 1) / team, wide = (p->words + cuts - 1) / cuts;
        const int64_t rows = blocks_for(groups, team / wide);
        const int64_t cost = kinds / teams * cuts * (EACH_WORD + EACH_GROUP * rows);
        if (cost >= least) continue;
        least = cost;
        p->teams = teams, p->team = team;
        p->wide = make_fast_divisor(wide);
        p->at_once = team / wide;
    }
}

bool transpose_gathers(const gop_task *task, const gop_permutation &g, int item, int64_t room,
                       gathering *p)
{
    int64_t box[GOP_MAX_NDIM];
    placed_axis placed[GOP_MAX_NDIM];
    near_axes in, out;
    if (!transpose_grow(g, item, room, &in, &out, box)) return false;
    const int count = in.count, *const from = in.axis, *const to = out.axis;
    widen_cut(g, count, to, item, box);
    *p = {};
    p->cut = -1;
    p->rank = transpose_count_boxes(g, box, item, AROUND_AXES, p->axis, &p->boxes);
    if (p->rank < 0 || !set_reads(g, count, from, to[0], box, item, placed, p) ||
        !set_writes(g, count, to, box, item, (int64_t)(uintptr_t)task->out[0].data, placed, p))
        return false;
    set_teams(p);
    return gather_shared(*p, item) <= BOX_BYTES;
}
