/*
 * boxes.h - boxes that span as many axes as it takes for a long run on both sides: where boxes
 * lie, and where the items of a box lie in both arrays and in shared memory.
 *
 * In shared memory a box has the output's order. All boxes have the same shape, so a place in a
 * box is a sum: of the word's place in a line of the input, and of the line's.
 */
#ifndef GOP_CUDA_TRANSPOSE_BOXES_H
#define GOP_CUDA_TRANSPOSE_BOXES_H

#include "cuda/common/boxes.h"
#include "cuda/transpose/index.h"

enum {
    BOX_THREADS = 256, /* of a block */
    BOX_AXES = 14,     /* that have several items in a box, */
    COUNTED = 24,      /* in all */
    BOX_BYTES = 47 * 1024,
    SIDE = 4,       /* of a square of small items, squares.h */
    LINE = 128,     /* bytes that are fetched ahead at once, */
    FETCHES = 4,    /* by a thread, at most, */
    FETCH_AXES = 3, /* of stretches that lie along so many axes */
};

/* An axis of a box, of n items: the bytes of a step in memory and in shared memory. Counters
 * have 16 bits to keep the kernel's arguments short: a launch waits for them. */
struct box_step {
    uint32_t multiplier;
    uint16_t n, place;
    int64_t at;
};

static inline box_step step_of(int64_t items, int64_t place, int64_t at)
{
    return {(uint32_t)(UINT32_MAX / items), (uint16_t)items, (uint16_t)place, at};
}

/* i / n, for i below 2^16. */
__host__ GOP_DEVICE uint32_t quotient(uint32_t i, const box_step &axis)
{
    return (uint32_t)((uint64_t)(i + 1) * axis.multiplier >> 32);
}

/* Boxes of one size along an axis. The last is moved back until it lies inside, so that none of
 * its items needs a check. */
struct boxed_axis {
    fast_divisor count;
    uint16_t step, back;
    int64_t in, out;
};

/* All about boxes but their axes. */
struct box_form {
    int64_t boxes;
    int per_word; /* items of a word that is read: 4 bytes at any address, or one item */
    /* For squares, else 0: how many lines are neighbours in the output, and how many squares
     * they make. */
    int rows;
    fast_divisor squares;
    bool even_in,
        even_out; /* whether all words, and all columns, have the same alignment to 4 bytes */
    /* From the input: a run of items that are `step` bytes apart, over the first run_axes of
     * `from`; runs that are a line, of `wide` words; and lines, or squares of them. */
    int run_items, run_axes, wide, wide_axes, lines, from_axes;
    fast_divisor run;          /* its words */
    int64_t step, least, most; /* bytes of the input that the first box spans */
    /* To the output: lines of so many bytes, in pieces of 16 but for their ends, or of items
     * that are `to_step` bytes apart. */
    int to_lines, to_axes, to_bytes;
    bool has_ends;
    fast_divisor to_pieces;
    int64_t to_step;
    int cut, cut_bytes; /* which of `axis` cuts lines of the output, and bytes of its step */
    int bytes, turn;    /* of a box in shared memory; its XOR swizzle, or 0 */
    /* What is fetched ahead of a box of the input: stretches of so many bytes, in lines, and
     * the lines of all; 0: nothing. */
    int stretch, fetches, fetch_axes;
    fast_divisor stretch_lines;
    int rank;
};

/* Long arguments delay a launch, so there is a short form for few axes. */
template <int FROM, int TO, int AROUND> struct boxing_over : box_form {
    box_step from[FROM], to[TO], fetch[FETCH_AXES];
    boxed_axis axis[AROUND];
};
typedef boxing_over<BOX_AXES + 1, BOX_AXES, COUNTED> boxing;
typedef boxing_over<6, 3, 4> brief_boxing;

struct alignas(16) line_start {
    int64_t at;
    int32_t place;
};

/* The same for squares: where their lines lie; and, in 16 bits each, how far behind a square's
 * place its lines start and how many exist. */
struct square_starts {
    int4 *at;
    uint32_t *place;
};
enum { SQUARE_BYTES = sizeof(int4) + sizeof(uint32_t) };

/* Where a box starts in both arrays, and how many bytes of its lines the box before stores: two
 * blocks never store to one address in pieces of different sizes. */
struct box_start {
    int64_t in, out;
    int skip;
};

template <typename P> GOP_DEVICE void place_box(const P &p, uint32_t box, box_start &s)
{
    int64_t in = 0, out = 0;
    int skip = 0;
#pragma unroll 1 /* short code: the first load waits for it */
    for (int k = 0; k < p.rank; k++) {
        const uint32_t outer = quotient(box, p.axis[k].count);
        const uint32_t at = box - outer * p.axis[k].count.d;
        const int back = at + 1 == p.axis[k].count.d ? p.axis[k].back : 0;
        const int64_t i = (int64_t)at * p.axis[k].step - back;
        if (k == p.cut) skip = back * p.cut_bytes;
        in += i * p.axis[k].in;
        out += i * p.axis[k].out;
        box = outer;
    }
    s.in = in, s.out = out, s.skip = skip;
}

/* Where the i-th of the lines starts that `axes` span. */
__host__ GOP_DEVICE line_start start_of(const box_step *axis, int axes, uint32_t i)
{
    line_start s = {0, 0};
#if defined(__CUDA_ARCH__)
#pragma unroll 1
#endif
    for (int k = 0; k < axes; k++) {
        const uint32_t outer = quotient(i, axis[k]);
        const int step = (int)(i - outer * axis[k].n);
        s.at += step * axis[k].at;
        s.place += step * axis[k].place;
        i = outer;
    }
    return s;
}

/* XORs a place with its row's number if items a power of two apart would meet in one bank. A
 * row has 128 bytes of shared memory; `turn` has the bits that may change, or is 0. */
__host__ GOP_DEVICE int turned_place(int place, int turn)
{
    return place ^ (place >> 5 & turn);
}

/* Where the i-th line that is read starts, or line j of a square. */
template <typename P> __host__ GOP_DEVICE line_start line_read(const P &p, uint32_t i)
{
    return start_of(p.from + p.wide_axes, p.from_axes - p.wide_axes, i);
}
template <typename P>
__host__ GOP_DEVICE line_start line_of_square(const P &p, uint32_t i, int j, int *there)
{
    const uint32_t outer = quotient(i, p.squares);
    const int first = SIDE * (int)(i - outer * p.squares.d), row = first + j;
    *there = p.rows - first;
    return line_read(p, outer * p.rows + (row < p.rows ? row : p.rows - 1));
}

/* Where the i-th line that is fetched ahead lies, from the lowest address of a box on. */
template <typename P> GOP_DEVICE int32_t line_ahead(const P &p, uint32_t i)
{
    const uint32_t stretch = quotient(i, p.stretch_lines);
    const int at = LINE * (int)(i - stretch * p.stretch_lines.d);
    return (int32_t)start_of(p.fetch, p.fetch_axes, stretch).at +
           (at < p.stretch ? at : p.stretch - 1);
}

/* The w-th word of a line: where its items lie in the input, and where they go. */
template <int K> struct box_word {
    int64_t at;
    int place[K];
};

/* Where the first of its items starts; some items are in two words. */
template <typename P>
__host__ GOP_DEVICE line_start first_of_word(const P &p, int w, int *first)
{
    const uint32_t run = quotient((uint32_t)w, p.run);
    *first = (w - (int)(run * p.run.d)) * p.per_word;
    if (*first > p.run_items - p.per_word) *first = p.run_items - p.per_word;
    return start_of(p.from + p.run_axes, p.wide_axes - p.run_axes, run);
}

template <int K, typename P> __host__ GOP_DEVICE box_word<K> word_of_line(const P &p, int w)
{
    int first;
    const line_start start = first_of_word(p, w, &first);
    box_word<K> word;
    word.at = start.at + first * p.step;
    for (int j = 0; j < K; j++)
        word.place[j] = start.place + start_of(p.from, p.run_axes, first + j).place;
    return word;
}

/* How many neighbouring threads read a line. */
__host__ GOP_DEVICE int box_width(const box_form &p)
{
    return p.wide < BOX_THREADS ? p.wide : BOX_THREADS;
}

/* Bytes of shared memory: the box, and where its lines start. */
static inline size_t box_shared(const box_form &p)
{
    const size_t from = p.rows ? (size_t)SQUARE_BYTES : sizeof(line_start);
    return (size_t)p.bytes + from * (size_t)p.lines + sizeof(line_start) * (size_t)p.to_lines;
}

/* The input's first address, and the one behind its last: no piece is read across these. */
struct span {
    uintptr_t first, end;
};

static inline span span_of(const gop_task *task)
{
    const gop_permutation &g = task->geometry.permutation;
    const int item = transpose_item(task);
    span s = {(uintptr_t)task->in[0].data, (uintptr_t)task->in[0].data + item};
    for (int axis = 0; axis < g.rank; axis++) {
        const int64_t far = (g.extent[axis] - 1) * g.in[axis] * item;
        if (far < 0) s.first += far;
        else s.end += far;
    }
    return s;
}

/* The orders of the input's axes and of the output's, and the extents of a box of so many
 * bytes; false if there is one item. */
bool transpose_grow(const gop_permutation &g, int item, int64_t room, near_axes *from,
                    near_axes *to, int64_t *box);
/* Cuts the axes into boxes, in the order in which blocks should step. Returns how many axes are
 * cut, or -1 if more than `most`. */
int transpose_count_boxes(const gop_permutation &g, const int64_t *box, int item, int most,
                          boxed_axis *axes, int64_t *boxes);

/* The wavefronts of a warp that stores or reads an item each: the most words in one bank. */
int transpose_turns(const int *place, int lanes, int turn);

/* The same in compact arguments; false if there are too many axes. */
bool transpose_brief_boxes(const boxing &p, brief_boxing *brief);
/* Plans boxes of about so many bytes; false if an axis or a line does not fit. */
bool transpose_boxes(const gop_task *task, const gop_permutation &g, int item, int64_t room,
                     boxing *p);

#endif
