/*
 * indexed.cu - transpose of any axes by boxes: where an item of a box goes stands in a table.
 *
 * A box spans as many axes as it takes for a long run on both sides, as in `boxed`; an axis
 * with gaps counts as if it had none. All boxes are alike, so a block finds once for each item
 * where it lies in shared memory, and then takes box after box: words of up to 16 bytes in the
 * input's order, and words of the output gathered item by item.
 */
#include "cuda/transpose/boxes.h"

enum {
    INDEXED = 256,         /* threads of a block */
    LEAST_ROOM = 2 * 1024, /* bytes of a box of a small array, */
    MOST_ROOM = 16 * 1024, /* of a large one */
    MOST_LINES = 4096,     /* of a box, on either side */
    AXES = 10,             /* that do not merge */
    SHARED = 220 * 1024,   /* bytes of a processor */
};

/* One side of a box: lines of `words` words, or of `items` that are `step` apart where the box
 * does not start with a word. */
struct indexed_side {
    divisor words, items;
    int word; /* bytes */
    int lines, rank;
    int64_t step;
    struct {
        divisor n;
        int64_t at;
    } axis[AXES]; /* of lines */
};

struct indexing {
    int64_t boxes;
    int items, pad, box_bytes;
    int places; /* axes of an item's place, in the output's order */
    struct {
        divisor n;
        int32_t place;
    } of[AXES];
    indexed_side from, to;
    int rank;
    boxed_axis axis[AXES];
};

/* In shared memory some bytes are left out after every 128, and again after 4096, so that items
 * which lie a power of two apart meet different banks. */
__host__ GOP_DEVICE int padded(int byte, int pad)
{
    return byte + (byte >> 7) * pad + (byte >> 12) * pad;
}

template <typename P> __host__ GOP_DEVICE int place_in(const P &p, uint32_t i)
{
    int place = 0;
    for (int axis = 0; axis < p.places; axis++) {
        const uint32_t outer = quotient(i, p.of[axis].n);
        place += (int)(i - outer * p.of[axis].n.d) * p.of[axis].place;
        i = outer;
    }
    return place;
}

GOP_DEVICE int32_t start_of_line(const indexed_side &side, uint32_t i)
{
    int64_t at = 0;
    for (int axis = 0; axis < side.rank; axis++) {
        const uint32_t outer = quotient(i, side.axis[axis].n);
        at += (i - outer * side.axis[axis].n.d) * side.axis[axis].at;
        i = outer;
    }
    return (int32_t)at;
}

template <typename T, typename W>
GOP_DEVICE void load_box(char *box, const T *in, const int32_t *from, const indexing &p)
{
    enum { BATCH = sizeof(W) == 16 ? 4 : 8 };
    const int words = p.items * (int)sizeof(T) / (int)sizeof(W);
#pragma unroll 1
    for (int first = threadIdx.x; first < words; first += BATCH * INDEXED) {
        W v[BATCH];
#pragma unroll
        for (int k = 0; k < BATCH; k++) {
            const int i = first + k * INDEXED;
            if (i >= words) continue;
            const divisor of_line = sizeof(W) == sizeof(T) ? p.from.items : p.from.words;
            const uint32_t line = quotient(i, of_line);
            const int64_t x = i - line * of_line.d;
            if constexpr (sizeof(W) == sizeof(T))
                v[k] = reinterpret_cast<const W *>(in)[from[line] + x * p.from.step];
            else v[k] = reinterpret_cast<const W *>(in + from[line])[x];
        }
#pragma unroll
        for (int k = 0; k < BATCH; k++) {
            const int i = first + k * INDEXED;
            if (i < words)
                *reinterpret_cast<W *>(box + padded(i * (int)sizeof(W), p.pad)) = v[k];
        }
    }
}

/* N neighbours of the table. */
template <int N> GOP_DEVICE void places_of(const uint16_t *place, uint16_t (&at)[N])
{
    if constexpr (N >= 8) {
#pragma unroll
        for (int k = 0; k < N; k += 8) {
            const uint4 word = *reinterpret_cast<const uint4 *>(place + k);
            __builtin_memcpy(at + k, &word, 16);
        }
    } else if constexpr (N == 4) {
        const uint2 word = *reinterpret_cast<const uint2 *>(place);
        __builtin_memcpy(at, &word, 8);
    } else if constexpr (N == 2) {
        const uint32_t word = *reinterpret_cast<const uint32_t *>(place);
        __builtin_memcpy(at, &word, 4);
    } else at[0] = *place;
}

template <typename T, typename W> GOP_DEVICE void
store_box(T *out, const char *box, const uint16_t *place, const int32_t *to, const indexing &p)
{
    enum { N = sizeof(W) / sizeof(T) };
    const T *const items = reinterpret_cast<const T *>(box);
    const int words = p.items / N;
#pragma unroll(N >= 8 ? 1 : 4)
    for (int i = threadIdx.x; i < words; i += INDEXED) {
        const divisor of_line = N == 1 ? p.to.items : p.to.words;
        const uint32_t line = quotient(i, of_line);
        const int64_t x = i - line * of_line.d;
        uint16_t at[N];
        T v[N];
        places_of<N>(place + i * N, at);
#pragma unroll
        for (int j = 0; j < N; j++) v[j] = items[at[j]];
        W word;
        __builtin_memcpy(&word, v, sizeof word);
        if constexpr (N == 1) reinterpret_cast<W *>(out)[to[line] + x * p.to.step] = word;
        else reinterpret_cast<W *>(out + to[line])[x] = word;
    }
}

/* The last box along an axis may start anywhere in the input. In the output all start with
 * words, so that what two blocks write is a word of both. */
template <typename T> GOP_DEVICE int word_at(const T *box, const indexed_side &side)
{
    return (uintptr_t)box % side.word == 0 ? side.word : (int)sizeof(T);
}

/* f<T, W> for the word of so many bytes. */
#define EACH_WORD(bytes, f, ...)                                                               \
    const int f##_word = bytes;                                                                \
    if (f##_word == 16) f<T, uint4>(__VA_ARGS__);                                              \
    if constexpr (sizeof(T) <= 8)                                                              \
        if (f##_word == 8) f<T, uint2>(__VA_ARGS__);                                           \
    if constexpr (sizeof(T) <= 4)                                                              \
        if (f##_word == 4) f<T, uint32_t>(__VA_ARGS__);                                        \
    if constexpr (sizeof(T) <= 2)                                                              \
        if (f##_word == 2) f<T, uint16_t>(__VA_ARGS__);                                        \
    if constexpr (sizeof(T) == 1)                                                              \
        if (f##_word == 1) f<T, uint8_t>(__VA_ARGS__)

template <typename T> __global__ void __launch_bounds__(INDEXED, 4)
    transpose_indexed_kernel(T *out, const T *in, const __grid_constant__ indexing p)
{
    extern __shared__ uint4 storage[];
    char *const box = reinterpret_cast<char *>(storage);
    int32_t *const from = reinterpret_cast<int32_t *>(box + p.box_bytes);
    int32_t *const to = from + (p.from.lines + 3) / 4 * 4;
    uint16_t *const place = reinterpret_cast<uint16_t *>(to + (p.to.lines + 3) / 4 * 4);
    for (int i = threadIdx.x; i < p.from.lines; i += INDEXED)
        from[i] = start_of_line(p.from, i);
    for (int i = threadIdx.x; i < p.to.lines; i += INDEXED) to[i] = start_of_line(p.to, i);
    for (int i = threadIdx.x; i < p.items; i += INDEXED)
        place[i] = (uint16_t)(padded(place_in(p, i) * (int)sizeof(T), p.pad) / (int)sizeof(T));
#pragma unroll 1
    for (int64_t b = blockIdx.x; b < p.boxes; b += gridDim.x) {
        const T *a = in;
        T *o = out;
        go_to_box(p, (uint32_t)b, a, o);
        __syncthreads(); /* the tables are there, the box before has been written */
        EACH_WORD(word_at(a, p.from), load_box, box, a, from, p);
        __syncthreads();
        EACH_WORD(p.to.word, store_box, o, box, place, to, p);
    }
}

/* ---- the plan: the size of a box ---- */

/* Lines and words of one side; false if it has too many lines or they lie too far apart. */
static bool set_side(indexed_side *s, const gop_permutation &g, const int64_t *stride,
                     const int *axes, int count, const int64_t *box, uintptr_t address,
                     int item, bool is_out)
{
    int64_t line = 1, lines = 1, places = (int64_t)address, far = 0;
    s->step = count > 0 ? stride[axes[0]] : 1;
    s->rank = 0;
    bool joins = true;
    for (int k = 0; k < count; k++) {
        const int axis = axes[k];
        joins = joins && stride[axis] == s->step * line;
        if (joins) {
            line *= box[axis];
            if (box[axis] < g.extent[axis]) {
                places |= stride[axis] * box[axis] * item;
                if (is_out) places |= stride[axis] * (g.extent[axis] - box[axis]) * item;
                joins = false;
            }
            continue;
        }
        places |= stride[axis] * item;
        if (box[axis] == 1) continue;
        lines *= box[axis];
        far += gop_magnitude(stride[axis]) * box[axis];
        s->axis[s->rank].n = divisor_of(box[axis]);
        s->axis[s->rank++].at = stride[axis];
    }
    places |= line * item;
    s->word = s->step == 1 ? (int)min_of(places & -places, 16) : item;
    if (s->word < item) s->word = item;
    s->words = divisor_of(line * item / s->word);
    s->items = divisor_of(line);
    s->lines = (int)lines;
    return lines <= MOST_LINES && far <= INT32_MAX;
}

/* The turns that a gather takes: the most of its words in one bank. */
static int turns_of(const int *byte, int lanes, int pad)
{
    int word[32], worst = 1;
    for (int lane = 0; lane < lanes; lane++) {
        word[lane] = padded(byte[lane], pad) / 4;
        int same = 1;
        for (int other = 0; other < lane; other++)
            same += word[other] != word[lane] && (word[other] - word[lane]) % 32 == 0;
        if (same > worst) worst = same;
    }
    return worst;
}

/* Words that are read and written, and the padding between them, by what an item costs: turns
 * of shared memory, in each of which a processor has four instructions, and those of a word. */
static void choose_words(indexing *p, int item)
{
    enum { LOAD = 10, STORE = 16, LANES = 16 };
    const int most_in = p->from.word, most_out = p->to.word, less = item > 4 ? item : 4;
    const int line_in = (int)p->from.words.d * most_in,
              line_out = (int)p->to.words.d * most_out;
    int best[3] = {most_in, most_out, 0};
    double least = 1e30;
    for (int out = most_out; out > 0; out = out > less ? less : 0) {
        int byte[LANES], lanes = 0;
        for (; lanes < LANES && lanes * out < p->items * item; lanes++)
            byte[lanes] = place_in(*p, lanes * (out / item)) * item;
        for (int in = most_in; in > 0; in = in > less ? less : 0)
            for (int pad = 0; pad <= in; pad += in) {
                if (pad % 4 != 0) continue;
                const double cost = 4.0 * turns_of(byte, lanes, pad) +
                                    (double)LOAD * item / in + (double)STORE * item / out;
                if (cost >= least) continue;
                least = cost;
                best[0] = in;
                best[1] = out;
                best[2] = pad;
            }
    }
    p->from.word = best[0];
    p->from.words = divisor_of(line_in / best[0]);
    p->to.word = best[1];
    p->to.words = divisor_of(line_out / best[1]);
    p->pad = best[2];
}

struct indexed_plan {
    indexing boxes;
    unsigned blocks;
    size_t shared;
};

template <typename T>
static gop_status transpose_indexed(gop_ctx *ctx, const gop_task *task, int64_t)
{
    const indexed_plan &p = *GOP_OWN(const indexed_plan, task->plan);
    return GOP_LAUNCH(ctx, transpose_indexed_kernel<T>, dim3(p.blocks), INDEXED, p.shared,
                      (T *)task->out[0].data, (const T *)task->in[0].data, p.boxes);
}

/* False where an axis, a line or a table does not fit. */
static bool plan_box(const gop_task *task, const gop_permutation &g, int item, int64_t room,
                     indexing *p)
{
    int64_t box[GOP_MAX_NDIM], place[GOP_MAX_NDIM];
    int from[GOP_MAX_NDIM], to[GOP_MAX_NDIM];
    const int count = nearest_first(g, g.in, from);
    const int *const axes[2] = {from, to};
    if (count > AXES || nearest_first(g, g.out, to) == 0) return false;
    for (int axis = 0; axis < g.rank; axis++) box[axis] = 1;
    grow_box(g, count, axes, room / item, box);
    for (int axis = 0; axis < g.rank; axis++) { /* boxes of equal size */
        const int64_t boxes = (g.extent[axis] + box[axis] - 1) / box[axis];
        int64_t even = (g.extent[axis] + boxes - 1) / boxes;
        if (even > 16) even = (even + 15) / 16 * 16;
        box[axis] = min_of(box[axis], even);
    }
    int64_t items = 1;
    for (int k = 0; k < count; k++) place[from[k]] = items, items *= box[from[k]];
    p->items = (int)items;
    p->places = 0;
    for (int k = 0; k < count; k++) {
        if (box[to[k]] == 1) continue;
        p->of[p->places].n = divisor_of(box[to[k]]);
        p->of[p->places++].place = (int32_t)place[to[k]];
    }
    if (!count_boxes(g, box, p) ||
        !set_side(&p->from, g, g.in, from, count, box, (uintptr_t)task->in[0].data, item,
                  false) ||
        !set_side(&p->to, g, g.out, to, count, box, (uintptr_t)task->out[0].data, item, true))
        return false;
    choose_words(p, item);
    p->box_bytes = (padded(p->items * item, p->pad) + 15) / 16 * 16;
    return p->box_bytes / item <= UINT16_MAX;
}

/* A small array is cut finer, so that every processor has eight boxes while there are bytes for
 * them. */
static gop_status transpose_indexed_plan(const gop_ctx *ctx, const gop_task *task,
                                         gop_plan *plan)
{
    gop_permutation g = task->geometry.permutation;
    indexed_plan &own = *GOP_OWN(indexed_plan, plan);
    const int item = transpose_widen(task, &g);
    int64_t room = MOST_ROOM;
    while (room > LEAST_ROOM && g.size * item < room * 8 * ctx->info.processors) room /= 2;
    plan->launch = TRANSPOSE_BY_ITEM(item, transpose_indexed);
    bool fits = g.size > 1;
    while (fits && !plan_box(task, g, item, room, &own.boxes)) fits = (room /= 2) >= 256;
    if (!fits)
        return gop_fail(GOP_REFUSED,
                        "transpose: the indexed kernel takes arrays of several items, at most "
                        "%d axes that do not merge and neighbours less than 2^31 items apart, "
                        "got others",
                        AXES);
    const indexing &p = own.boxes;
    own.shared = (size_t)p.box_bytes + 4 * ((p.from.lines + 3) / 4 * 4) +
                 4 * ((p.to.lines + 3) / 4 * 4) + (2 * (size_t)p.items + 15) / 16 * 16;
    const int64_t at_once = min_of(SHARED / (int64_t)(own.shared + 1024), 2048 / INDEXED);
    const int64_t turns = blocks_for(p.boxes, at_once * ctx->info.processors);
    own.blocks = (unsigned)blocks_for(p.boxes, turns);
    return GOP_OK;
}

extern const gop_row transpose_indexed_row = {
    .name = "indexed",
    .note = "any axes in boxes: a block finds once where each item of a box lies, and moves "
            "words of up to 16 bytes",
    .role = GOP_CONFORMING,
    .plan = transpose_indexed_plan,
    .dtypes = GOP_EVERY_DTYPE,
};
