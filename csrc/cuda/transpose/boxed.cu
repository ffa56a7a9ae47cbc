/*
 * boxed.cu - transpose of thin arrays, short axes and lines of a few items.
 *
 * A tile of two axes wastes its threads where an axis is short. A box spans as many axes as it
 * takes for a long run on both sides, even the same axis for both: 3 by 1024 of a thin array is
 * one run of 3072 items on one side and three runs of 1024 on the other. It is read in the
 * input's order into shared memory, and gathered from there in the output's order.
 */
#include "cuda/transpose/boxes.h"

enum {
    THREADS = 256,
    BATCH = 8,              /* reads of a thread that are in flight at once */
    LEAST_BYTES = 2 * 1024, /* of a box of a small array, */
    MOST_BYTES = 16 * 1024, /* of a large one: more would leave fewer blocks at work */
    BOX_AXES = 14,
    MANY = 20,       /* boxes of a processor: places are worth a table, as `indexed` has */
    COUNTED = 32,    /* axes that have several boxes */
    LOOKED_UP = 256, /* items of an output line, if the run can be cut */
};

/* One axis of a box: a step goes `at` items on in memory and `place` items on in the box. */
struct box_axis {
    divisor n;
    int32_t place;
    int64_t at;
};

/* The box as one side sees it: lines of `line` neighbours, and where each of them starts. */
struct box_side {
    divisor line;
    int lines;
    int first_axis, axes; /* of lines; those before are the axes of a line */
    box_axis of[BOX_AXES + 1];
};

struct boxing {
    int64_t boxes;
    int items; /* of a box */
    int rank;
    box_side from, to;
    boxed_axis axis[COUNTED];
};

/* A word more after every 128 bytes, and one more after 32 times that: a gather by any power of
 * two from 1 to 1024 words then meets 32 different banks. Other gathers do so without. */
template <typename W, bool PADDED> __host__ GOP_DEVICE int placed(int i)
{
    constexpr int log = sizeof(W) == 4 ? 5 : sizeof(W) == 8 ? 4 : 3;
    return PADDED && sizeof(W) >= 4 ? i + (i >> log) + (i >> 2 * log) : i;
}

struct line_start {
    int64_t at;
    int32_t place;
};

/* Where line i starts, of those with axes from `axis` to `end`. */
__host__ GOP_DEVICE line_start start_of(const box_side &side, int axis, int end, uint32_t i)
{
    line_start s = {0, 0};
    for (; axis < end; axis++) {
        const uint32_t outer = quotient(i, side.of[axis].n);
        const uint32_t step = i - outer * side.of[axis].n.d;
        s.at += step * side.of[axis].at;
        s.place += (int32_t)step * side.of[axis].place;
        i = outer;
    }
    return s;
}

/* W is what a thread moves: an item, or the word of several smaller ones, which are gathered
 * one by one. */
template <typename T, typename W, bool PADDED> __global__ void __launch_bounds__(THREADS)
    transpose_boxed_kernel(T *out, const T *in, boxing p, int box_bytes)
{
    enum { N = sizeof(W) / sizeof(T) };
    extern __shared__ uint4 storage[];
    W *const box = reinterpret_cast<W *>(storage);
    line_start *const to = reinterpret_cast<line_start *>(storage + box_bytes / 16);
    int64_t *const from = reinterpret_cast<int64_t *>(to + p.to.lines);

    go_to_box(p, blockIdx.x, in, out);
    for (int i = threadIdx.x; i < p.from.lines; i += THREADS)
        from[i] = start_of(p.from, p.from.first_axis, p.from.axes, i).at;
    for (int i = threadIdx.x; i < p.to.lines; i += THREADS) {
        const line_start start = start_of(p.to, p.to.first_axis, p.to.axes, i);
        to[i].at = start.at; /* a copy would store the structure's padding too */
        to[i].place = start.place;
    }
    __syncthreads();

    const int words = p.items / N;
    for (int first = threadIdx.x; first < words; first += BATCH * THREADS) {
        W v[BATCH];
#pragma unroll
        for (int k = 0; k < BATCH; k++) {
            const int i = first + k * THREADS;
            if (i >= words) continue;
            const int line = (int)quotient(i, p.from.line);
            v[k] = reinterpret_cast<const W *>(in + from[line])[i - line * (int)p.from.line.d];
        }
#pragma unroll
        for (int k = 0; k < BATCH; k++) {
            const int i = first + k * THREADS;
            if (i < words) box[placed<W, PADDED>(i)] = v[k];
        }
    }
    __syncthreads();

    /* A thread writes the same words of many lines, so it finds their places once. */
    const int line = (int)p.to.line.d, wide = line < THREADS ? line : THREADS;
    const int row = (int)threadIdx.x / wide, high = THREADS / wide;
    if (row >= high) return;
    for (int k = (int)threadIdx.x - row * wide; k < line; k += wide) {
        int places[N];
#pragma unroll
        for (int j = 0; j < N; j++)
            places[j] = start_of(p.to, 0, p.to.first_axis, k * N + j).place;
#pragma unroll 4
        for (int i = row; i < p.to.lines; i += high) {
            const line_start start = to[i];
            W v;
            T items[N];
#pragma unroll
            for (int j = 0; j < N; j++) {
                const int at = start.place + places[j];
                items[j] = reinterpret_cast<const T *>(box + placed<W, PADDED>(at / N))[at % N];
            }
            __builtin_memcpy(&v, items, sizeof v);
            reinterpret_cast<W *>(out + start.at)[k] = v;
        }
    }
}

/* ---- the plan: the size of a box ---- */

/* The axis at which a run that is contiguous in `stride` leaves the box, or -1. */
static int boundary(const gop_permutation &g, const int64_t *stride, const int64_t *box)
{
    int64_t n = 1;
    for (;;) {
        int axis = g.rank - 1;
        while (axis >= 0 && stride[axis] != n) axis--;
        if (axis < 0 || box[axis] < g.extent[axis]) return axis;
        n *= g.extent[axis];
    }
}

/* The axes of a box in the order of one side: those of its run first. Returns how many. */
static int run_of(const gop_permutation &g, const int64_t *stride, const int64_t *box,
                  int *axes, int64_t *length)
{
    bool taken[GOP_MAX_NDIM] = {};
    int count = 0;
    for (int64_t n = *length = 1;; n *= g.extent[axes[count - 1]]) {
        int axis = g.rank - 1;
        while (axis >= 0 && (taken[axis] || stride[axis] != n || box[axis] == 1)) axis--;
        if (axis < 0) break;
        taken[axis] = true;
        axes[count++] = axis;
        *length *= box[axis];
        if (box[axis] < g.extent[axis]) break;
    }
    int all = count;
    for (int axis = g.rank - 1; axis >= 0; axis--)
        if (!taken[axis] && box[axis] > 1) axes[all++] = axis;
    return count;
}

/* Doubles the extent of the axis where the shorter run ends, as long as the box has room. */
static void grow(const gop_permutation &g, int64_t room, int64_t *box, int64_t *lengths)
{
    for (;;) {
        int axes[GOP_MAX_NDIM];
        const int side = lengths[0] > lengths[1];
        bool grew = false;
        for (int k = 0; k < 2 && !grew; k++) {
            const int axis = boundary(g, (side ^ k) ? g.out : g.in, box);
            if (axis < 0) continue;
            const int64_t now = box[axis];
            box[axis] = min_of(2 * now, g.extent[axis]);
            int64_t items = 1;
            int joined = 0;
            for (int i = 0; i < g.rank; i++) items *= box[i], joined += box[i] > 1;
            grew = items <= room && joined <= BOX_AXES;
            if (!grew) box[axis] = now;
        }
        if (!grew) return;
        run_of(g, g.in, box, axes, &lengths[0]);
        run_of(g, g.out, box, axes, &lengths[1]);
    }
}

/* Boxes of equal size along every axis, and of whole 32 items where that is a small change. */
static void even_out(const gop_permutation &g, int64_t *box)
{
    for (int axis = 0; axis < g.rank; axis++) {
        const int64_t count = (g.extent[axis] + box[axis] - 1) / box[axis];
        int64_t even = (g.extent[axis] + count - 1) / count;
        if (even > 32) even = (even + 31) / 32 * 32;
        box[axis] = min_of(box[axis], even);
    }
}

static box_axis axis_of(int64_t n, int64_t place, int64_t at)
{
    return {divisor_of(n), (int32_t)place, at};
}

/* The axes of one side; `place` tells where a step along an axis goes in the box. True if all
 * lines start and end at multiples of n items. */
static bool set_side(box_side *s, const gop_permutation &g, const int64_t *stride,
                     const int64_t *box, const int64_t *place, int64_t longest, int n)
{
    int axes[GOP_MAX_NDIM], all = 0;
    int64_t line, lines = 1;
    const int run = run_of(g, stride, box, axes, &line);
    for (int axis = 0; axis < g.rank; axis++) all += box[axis] > 1;
    s->axes = 0;
    for (int k = 0; k < run; k++)
        s->of[s->axes++] = axis_of(box[axes[k]], place[axes[k]], stride[axes[k]]);
    s->first_axis = s->axes;
    if (run > 0 && line > longest) { /* cut in two: a line of parts, and the parts */
        const int axis = axes[run - 1];
        int64_t part = box[axis];
        for (; line > longest && part % 2 == 0; line /= 2) part /= 2;
        s->of[run - 1].n = divisor_of(part);
        lines = box[axis] / part;
        if (lines > 1)
            s->of[s->axes++] = axis_of(lines, part * place[axis], part * stride[axis]);
    }
    for (int k = run; k < all; k++) {
        s->of[s->axes++] = axis_of(box[axes[k]], place[axes[k]], stride[axes[k]]);
        lines *= box[axes[k]];
    }
    s->line = divisor_of(line);
    s->lines = (int)lines;

    bool is_whole = line % n == 0;
    for (int axis = 0; axis < g.rank; axis++) {
        int64_t step = stride[axis];
        for (int k = 0; k < run; k++) /* of a run, the starts of boxes alone matter */
            if (axes[k] == axis) step *= box[axis] | (g.extent[axis] - box[axis]);
        const bool moves = step == stride[axis] || box[axis] < g.extent[axis];
        if (moves && step % n != 0) is_whole = false;
    }
    return is_whole;
}

/* Fills the boxing; words of how many items it can move, or 0 if runs are short on a side. */
static int plan_boxes(const gop_permutation &g, int item, int64_t room, boxing *p)
{
    int64_t box[GOP_MAX_NDIM], place[GOP_MAX_NDIM], lengths[2] = {1, 1};
    int axes[GOP_MAX_NDIM];
    for (int axis = 0; axis < g.rank; axis++) box[axis] = 1;
    grow(g, room / item, box, lengths);
    if (lengths[0] * item < 32 || lengths[1] * item < 32) return 0;
    even_out(g, box);

    int64_t items = 1;
    run_of(g, g.in, box, axes, lengths);
    int all = 0;
    for (int axis = 0; axis < g.rank; axis++) all += box[axis] > 1;
    for (int k = 0; k < all; k++) place[axes[k]] = items, items *= box[axes[k]];
    p->items = (int)items;

    if (!count_boxes(g, box, p)) return 0;
    const int n = item < 4 ? 4 / item : 1;
    const bool from = set_side(&p->from, g, g.in, box, place, items, n);
    const bool to = set_side(&p->to, g, g.out, box, place, LOOKED_UP, n);
    return from && to ? n : 1;
}

/* The turns that the worst gather of the first warp takes: the most of its words in one
 * bank. */
template <typename T, typename W, bool PADDED> static int turns(const boxing &p)
{
    const int n = sizeof(W) / sizeof(T), banks = sizeof(W) <= 4 ? 32 : 128 / (int)sizeof(W);
    int worst = 1;
    for (int j = 0; j < n; j++) {
        int at[32];
        for (int lane = 0; lane < banks; lane++) {
            const uint32_t line = lane / p.to.line.d, k = lane % p.to.line.d;
            at[lane] = (int)line < p.to.lines
                           ? placed<W, PADDED>(
                                 (start_of(p.to, p.to.first_axis, p.to.axes, line).place +
                                  start_of(p.to, 0, p.to.first_axis, k * n + j).place) /
                                 n)
                           : -1;
            int same = 1;
            for (int other = 0; other < lane; other++)
                same += at[lane] >= 0 && at[other] != at[lane] &&
                        at[other] % banks == at[lane] % banks;
            if (same > worst) worst = same;
        }
    }
    return worst;
}

struct boxed_plan {
    boxing boxes;
    int box_bytes;
    size_t shared;
};

template <typename T, typename W, bool PADDED>
static gop_status transpose_boxed(gop_ctx *ctx, const gop_task *task, int64_t)
{
    const boxed_plan &p = *GOP_OWN(const boxed_plan, task->plan);
    return GOP_LAUNCH(ctx, (transpose_boxed_kernel<T, W, PADDED>),
                      dim3((unsigned)p.boxes.boxes), THREADS, p.shared, (T *)task->out[0].data,
                      (const T *)task->in[0].data, p.boxes, p.box_bytes);
}

/* Lines in words, and the box in shared memory. */
template <typename T, typename W> static gop_status plan_words(gop_plan *plan)
{
    const int n = sizeof(W) / sizeof(T);
    boxed_plan &b = *GOP_OWN(boxed_plan, plan);
    boxing &p = b.boxes;
    p.from.line = divisor_of(p.from.line.d / n);
    p.to.line = divisor_of(p.to.line.d / n);
    const bool is_padded = turns<T, W, false>(p) > turns<T, W, true>(p);
    const size_t words = (size_t)(is_padded ? placed<W, true>(p.items / n) : p.items / n) + 1;
    const size_t bytes = (words * sizeof(W) + 15) / 16 * 16;
    b.box_bytes = (int)bytes;
    b.shared = bytes + sizeof(line_start) * p.to.lines + 8 * p.from.lines;
    plan->launch = is_padded ? transpose_boxed<T, W, true> : transpose_boxed<T, W, false>;
    return GOP_OK;
}

/* Items may be several neighbours: lines of 6 floats are lines of 3 doubles. A small array is
 * cut finer, so that every processor has eight boxes while there are bytes for them. */
static gop_status transpose_boxed_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    gop_permutation g = task->geometry.permutation;
    int64_t room = MOST_BYTES;
    const int item = transpose_widen(task, &g);
    while (room > LEAST_BYTES && g.size * item < room * 8 * ctx->info.processors) room /= 2;
    int n = g.size > 1 ? plan_boxes(g, item, room, &GOP_OWN(boxed_plan, plan)->boxes) : 0;
    if (n == 0)
        return gop_fail(GOP_REFUSED, "transpose: the boxed kernel takes arrays with runs of 32 "
                                     "bytes in both orders of the axes, got shorter ones");
    if (GOP_OWN(boxed_plan, plan)->boxes.boxes > MANY * (int64_t)ctx->info.processors)
        return gop_fail(GOP_REFUSED,
                        "transpose: the boxed kernel takes arrays of up to %d boxes for each "
                        "processor, got a larger one",
                        MANY);
    if (transpose_alignment(task, 4, 1) % 4 != 0) n = 1;
    if (item == 1)
        return n > 1 ? plan_words<uint8_t, uint32_t>(plan) : plan_words<uint8_t, uint8_t>(plan);
    if (item == 2)
        return n > 1 ? plan_words<uint16_t, uint32_t>(plan)
                     : plan_words<uint16_t, uint16_t>(plan);
    return item == 4   ? plan_words<uint32_t, uint32_t>(plan)
           : item == 8 ? plan_words<uint64_t, uint64_t>(plan)
                       : plan_words<complex128, complex128>(plan);
}

extern const gop_row transpose_boxed_row = {
    .name = "boxed",
    .note = "a box of as many axes as make long runs on both sides: thin arrays and "
            "short axes too",
    .role = GOP_CONFORMING,
    .plan = transpose_boxed_plan,
    .dtypes = GOP_EVERY_DTYPE,
};
