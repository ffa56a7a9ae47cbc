/*
 * boxes.cu - the size of a box, and what a kernel has to know of it, found on the host.
 */
#include <string.h>

#include "cuda/transpose/boxes.h"

enum {
    PART = 64,             /* words of a line, about */
    MOST_ROWS = 16 * SIDE, /* of squares: beyond this, rows need not be a multiple */
};

int transpose_count_boxes(const gop_permutation &g, const int64_t *box, int item, int most,
                          boxed_axis *axes, int64_t *boxes)
{
    int order[GOP_MAX_NDIM], rank = 0;
    *boxes = 1;
    transpose_order(g, order);
    for (int k = 0; k < g.rank; k++) {
        const int axis = order[k];
        const int64_t count = (g.extent[axis] + box[axis] - 1) / box[axis];
        if (count == 1) continue;
        if (rank == most || count > INT32_MAX / *boxes) return -1;
        *boxes *= count;
        axes[rank++] = {make_fast_divisor(count), (uint16_t)box[axis],
                        (uint16_t)(count * box[axis] - g.extent[axis]), g.in[axis] * item,
                        g.out[axis] * item};
    }
    return rank;
}

/* About `wanted` items of an axis. Boxes get equal sizes if that changes `wanted` little; sizes
 * are whole sectors and multiples of 16 or 4 items, so that runs can be cut into equal parts
 * and columns of squares are aligned to 4 bytes. */
static int64_t even_part(int64_t extent, int64_t wanted, int item)
{
    if (wanted >= extent) return extent;
    const int64_t boxes = (extent + wanted - 1) / wanted, even = (extent + boxes - 1) / boxes;
    const int64_t sector = 32 / item, most = extent + extent / 32;
    for (int64_t unit = sector < 16 ? 16 : sector; unit >= sector; unit /= 2) {
        const int64_t whole = wanted / unit * unit;
        if (whole >= 2 * unit && (extent + whole - 1) / whole * whole <= most) return whole;
    }
    for (int64_t unit = 16; unit >= 4; unit /= 4) {
        const int64_t next = (even + unit - 1) / unit * unit;
        if (next <= wanted && next * boxes <= most) return next;
    }
    return even;
}

bool transpose_grow(const gop_permutation &g, int item, int64_t room, near_axes *from,
                    near_axes *to, int64_t *box)
{
    const near_axes orders[2] = { *from = nearest_first(g.rank, g.extent, g.in, true),
                                  *to = nearest_first(g.rank, g.extent, g.out, true)};
    const auto part = [=](int64_t extent, int64_t wanted) {
        return even_part(extent, wanted, item);
    };
    if (to->count > 0)
        grow_box(g.rank, g.extent, orders, 2, BOX_AXES, INT64_MAX, room / item, part, box);
    return to->count > 0;
}

/* How many equal parts of about `most` items a run is cut into along its last axis, of n items:
 * a divisor of n, or more than n. */
static int64_t parts_of(int64_t run, int64_t n, int64_t most)
{
    int64_t parts = (run + most - 1) / most;
    while (parts > 1 && parts <= n && n % parts != 0) parts++;
    return parts;
}

/* A long run that cannot be cut into equal parts is a line, whose words each thread finds and
 * waits for one after another. If a box is little else, the run's last axis is halved. */
static void halve_run(const gop_permutation &g, int count, const int *from, int item,
                      int64_t *box)
{
    const int64_t most = PART * (item < 4 ? 4 / item : 1);
    int64_t run = 1, items = 1;
    for (int k = 0; k < count; k++) items *= box[from[k]];
    for (int k = 0; k < count && 4 * run < most; k++) {
        const int axis = from[k];
        const int64_t n = box[axis], extent = g.extent[axis];
        if (g.in[axis] != run * g.in[from[0]] || n < extent) return;
        run *= n;
        const int64_t parts = parts_of(run, n, most);
        if (run <= 4 * most || 2 * run < items || (parts <= n && parts * most <= 4 * run))
            continue;
        box[axis] = even_part(extent, extent / 2 + 16, item);
        return;
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
        p->to[p->to_axes++] = step_of(box[axis], place[axis], bytes);
        size += place[axis] * (box[axis] - 1);
        lines *= box[axis];
    }
    p->to_lines = (int)lines;
    p->to_bytes = in_pieces ? (int)(line * item) : 0;
    p->to_pieces = make_fast_divisor(!in_pieces         ? line
                                     : line * item < 32 ? 1
                                                        : line * item / 16);
    p->has_ends = (offsets | line * item) % 16 != 0;
    p->bytes = (int)((size + 30 + 127) / 128 * 128);
}

/* How many neighbours along the output a square has; marks their axes in `is_row`. Items of 4
 * bytes and more are as fast one by one. */
static int64_t set_rows(const gop_permutation &g, int count, const int *from, const int *to,
                        const int64_t *box, int item, const int64_t *place, bool *is_row)
{
    int64_t rows = 1;
    if (item > 2 || g.in[from[0]] != 1) return 0;
    for (int k = 0; k < count && rows % SIDE != 0 && rows < MOST_ROWS; k++) {
        const int axis = to[k];
        if (axis == from[0] || place[axis] != rows * item) break;
        is_row[axis] = true;
        rows *= box[axis];
    }
    return rows < SIDE ? 0 : rows;
}

/* The input's order: a run of words, runs that are a line, and lines. False where squares would
 * have no words or save nothing. */
static bool set_from(const gop_permutation &g, int count, const int *from, const int *to,
                     const int64_t *box, int item, const int64_t *place, bool in_squares,
                     boxing *p)
{
    bool is_row[GOP_MAX_NDIM] = {};
    const int64_t rows =
        in_squares ? set_rows(g, count, from, to, box, item, place, is_row) : 0;
    const int per_word = rows ? SIDE : item < 4 ? 4 / item : 1, most = PART * per_word;
    int64_t run = 1, lines = 1;
    int k = 0, n = 0;
    if (in_squares && !rows) return false;
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
        if (is_row[axis] || g.in[axis] * item != p->step * run) break;
        if (run * box[axis] > most && 4 * run >= most) break;
        p->from[n++] = step_of(box[axis], place[axis], g.in[axis] * item);
        run *= box[axis];
        joins = box[axis] == g.extent[axis];
    }
    if (rows && (run < SIDE || p->most - p->least > INT32_MAX)) return false;
    p->per_word = p->step == item && run >= per_word ? per_word : 1;
    /* A long run is cut in parts, if they are equal. */
    const box_step last = p->from[n - 1];
    const int64_t parts = parts_of(run, last.n, most);
    p->run_axes = n;
    if (parts > 1 && parts <= last.n && 4 * run >= parts * most) {
        const int64_t part = last.n / parts;
        p->from[n - 1] = step_of(part, last.place, last.at);
        p->from[n++] = step_of(parts, last.place * part, last.at * part);
        run /= parts;
    }
    int64_t wide = (run + p->per_word - 1) / p->per_word;
    p->run_items = (int)run;
    p->run = make_fast_divisor(wide);
    for (; k < count; k++)
        if (box[from[k]] > 1 && !is_row[from[k]])
            p->from[n++] = step_of(box[from[k]], place[from[k]], g.in[from[k]] * item);
    /* Rows that share a sector come before other runs, so that neighbouring threads read
     * neighbours. */
    const bool rows_follow = rows && gop_magnitude(g.in[to[0]]) * item < 32;
    for (k = p->run_axes; k < n && !rows_follow && wide * p->from[k].n <= PART; k++)
        wide *= p->from[k].n;
    p->wide_axes = k;
    /* Rows come first among the lines, in the output's order. */
    int row_axes = 0;
    for (int i = 0; i < count; i++) {
        if (!is_row[to[i]]) continue;
        for (int j = n++; j > k + row_axes; j--) p->from[j] = p->from[j - 1];
        p->from[k + row_axes++] = step_of(box[to[i]], place[to[i]], g.in[to[i]] * item);
    }
    p->from_axes = n;
    for (; k < n; k++) lines *= p->from[k].n;
    p->rows = (int)rows;
    p->squares = make_fast_divisor(rows ? (rows + SIDE - 1) / SIDE : 1);
    p->wide = (int)wide;
    p->lines = (int)(rows ? lines / rows * p->squares.d : lines);
    /* What all words and columns of squares are multiples of. */
    int64_t in = run % SIDE, out = 0;
    for (k = 0; k < n; k++) {
        if (k >= p->run_axes) in |= p->from[k].at;
        if (k < p->wide_axes || k >= p->wide_axes + row_axes) out |= p->from[k].place;
    }
    for (k = 0; k < p->rank; k++) in |= p->axis[k].in * (p->axis[k].step | p->axis[k].back);
    p->even_in = in % 4 == 0;
    p->even_out = out % 4 == 0;
    /* Unaligned columns are stored in parts. This costs what squares save if a third of their
     * items do not exist or come twice. */
    return !rows || p->even_out || 2 * SIDE * SIDE * p->run.d * p->squares.d < 3 * run * rows;
}

/* Stretches of the input: axes join while gaps are shorter than a line. If there are very many
 * short ones, only the first are fetched ahead, which is better than none. Lines of which
 * little is read would drive others from the cache: float32 (28351, 683) of every second item
 * took 1.25 times as long. */
static void set_fetches(const gop_permutation &g, int count, const int *from,
                        const int64_t *box, int item, boxing *p)
{
    int64_t stretch = item, stretches = 1;
    bool joins = true;
    p->fetches = p->fetch_axes = 0;
    for (int k = 0; k < count; k++) {
        const int64_t step = (int64_t)gop_magnitude(g.in[from[k]]) * item, n = box[from[k]];
        if (n == 1) continue;
        joins = joins && step < stretch + LINE;
        if (joins) {
            stretch += (n - 1) * step;
            continue;
        }
        if (p->fetch_axes == FETCH_AXES) return;
        p->fetch[p->fetch_axes++] = step_of(n, 0, step);
        stretches *= n;
    }
    if (p->most - p->least > INT32_MAX) return;
    const int64_t lines = stretch <= 32 ? 1 : (stretch + 2 * LINE - 2) / LINE;
    if (stretches * lines * LINE > 3 * (int64_t)p->bytes / 2) return;
    p->stretch = (int)stretch;
    p->stretch_lines = make_fast_divisor(lines);
    p->fetches = (int)min_of(stretches * lines, FETCHES * BOX_THREADS);
}

int transpose_turns(const int *place, int lanes, int turn)
{
    int words[32], worst = 0;
    int8_t last[32], before[32]; /* lists of lanes with different words of a bank */
    memset(last, -1, sizeof last);
    for (int lane = 0; lane < lanes; lane++) {
        const int word = words[lane] = turned_place(place[lane], turn) / 4, bank = word % 32;
        int same = 1, other = last[bank];
        for (; other >= 0 && words[other] != word; other = before[other]) same++;
        if (other >= 0) continue;
        before[lane] = last[bank];
        last[bank] = (int8_t)lane;
        if (same > worst) worst = same;
    }
    return worst;
}

/* Fills in where the lanes of the first warp store first; returns how many lanes store. */
static int first_places(const boxing &p, int item, int *place)
{
    const int wide = box_width(p), lanes = item <= 4 ? 32 : 128 / item;
    const int count = (int)min_of((int64_t)wide * p.lines, lanes);
    for (int lane = 0; lane < count; lane++) {
        int first, there;
        const line_start line =
            p.rows ? line_of_square(p, lane / wide, 0, &there) : line_read(p, lane / wide);
        const line_start word = first_of_word(p, lane % wide, &first);
        place[lane] = line.place + word.place + start_of(p.from, p.run_axes, first).place;
    }
    return count;
}

bool transpose_boxes(const gop_task *task, const gop_permutation &g, int item, int64_t room,
                     boxing *p)
{
    int64_t box[GOP_MAX_NDIM], place[GOP_MAX_NDIM];
    near_axes in, out;
    *p = {}; /* so that equal boxes are equal bytes: a launch compares its arguments with the
                last one's */
    if (!transpose_grow(g, item, room, &in, &out, box)) return false;
    const int count = in.count, *const from = in.axis, *const to = out.axis;
    halve_run(g, count, from, item, box);
    p->rank = transpose_count_boxes(g, box, item, COUNTED, p->axis, &p->boxes);
    if (p->rank < 0) return false;
    set_to(g, count, to, box, item, (int64_t)(uintptr_t)task->out[0].data, place, p);
    if (!set_from(g, count, from, to, box, item, place, true, p))
        set_from(g, count, from, to, box, item, place, false, p);
    set_fetches(g, count, from, box, item, p);
    /* Chooses the swizzle with the fewest bank conflicts; it never splits items, nor pieces of
     * 16 bytes if that is as good. It costs instructions, so two-way conflicts stay. */
    int first[32];
    const int lanes = first_places(*p, item, first), plain = transpose_turns(first, lanes, 0);
    p->turn = 0;
    if (plain > 2) {
        const int by_item = item <= 4 ? 0x7c : item == 8 ? 0x78 : 0x70;
        const int pieces = transpose_turns(first, lanes, 0x70),
                  items = transpose_turns(first, lanes, by_item);
        if (items < plain) p->turn = pieces <= items ? 0x70 : by_item;
    }
    return box_shared(*p) <= BOX_BYTES;
}

template <typename A, int N> static bool copy_axes(A (&to)[N], const A *from, int count)
{
    for (int k = 0; k < count && k < N; k++) to[k] = from[k];
    return count <= N;
}

bool transpose_brief_boxes(const boxing &p, brief_boxing *brief)
{
    *brief = {};
    static_cast<box_form &>(*brief) = p;
    return copy_axes(brief->from, p.from, p.from_axes) &&
           copy_axes(brief->to, p.to, p.to_axes) &&
           copy_axes(brief->fetch, p.fetch, p.fetch_axes) &&
           copy_axes(brief->axis, p.axis, p.rank);
}
