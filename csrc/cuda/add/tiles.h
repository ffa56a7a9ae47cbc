/*
 * tiles.h - boxes of the output, and the tiles in shared memory for operands in another order.
 *
 * A *box* spans as many axes as it takes for a long run in the output and in each operand that
 * lies across. In shared memory a tile has the output's order, by words of 4 bytes or more.
 */
#ifndef GOP_CUDA_ADD_TILES_H
#define GOP_CUDA_ADD_TILES_H

#include "cuda/common/boxes.h"
#include "cuda/common/fast_divisor.h"
#include "cuda/add/operands.h"

enum {
    TILE_THREADS = 256,
    TILE_AXES = 8, /* that have several elements in a box, */
    CUT_AXES = 10, /* that have several boxes */
};

/* How an input is read: through a tile; in place, as the output lies; or one element for each
 * line of the output in the box. */
enum tiled_reading : uint8_t { THROUGH_TILE, IN_PLACE, ONCE_A_LINE };

/* An axis of a box, the output's innermost first: strides of out and inputs in elements, and of
 * the tiles in words. */
struct box_axis {
    fast_divisor n;
    int32_t place[3];
    int64_t at[4];
};

/* The same of boxes. The last has `last` elements along it; `axis` is its box_axis, or none. */
struct cut_axis {
    fast_divisor count;
    int32_t last, axis;
    int64_t at[4]; /* from box to box */
};

/* The order in which threads go over a box for an operand: a *run*, along which they are side
 * by side, and lines of it. A group of lines is as many as a word has elements. */
struct box_walk {
    int8_t axis[TILE_AXES]; /* box_axis: those of the run, and of lines in two parts */
    int8_t run_axes, near_axes, axes;
    int32_t run;       /* elements */
    fast_divisor wide; /* words of a run */
    int32_t high;      /* runs that all threads have at once */
    fast_divisor near; /* lines of the first part, made up to whole groups */
    int32_t lines;     /* of both parts, likewise */
    int64_t step;      /* from element to element of a run */
};

struct tiled_boxes {
    int32_t axes, cuts;
    tiled_reading by[3];
    int32_t tile[3], table[3]; /* where they are in shared memory */
    box_walk out, in[3];
    box_axis axis[TILE_AXES];
    cut_axis cut[CUT_AXES];
};

/* Where a line of an operand starts, and its place in the tile; none: -1. */
struct alignas(16) tiled_line {
    int64_t at;
    int32_t place;
};

/* Where a line of the output starts, and the inputs' there: elements from their first one on,
 * or a place in the tile. */
template <int INPUTS> struct box_line {
    enum : int64_t { NONE = INT64_MIN };
    int64_t at[INPUTS + 1];
};

/* Where the block's box starts, and how many elements it has along each axis. */
struct box_start {
    int64_t at[4];
    int32_t left[TILE_AXES];
};

template <int INPUTS> GOP_DEVICE void find_box(const tiled_boxes &p, box_start &s)
{
    uint32_t box = blockIdx.x;
#pragma unroll
    for (int o = 0; o <= INPUTS; o++) s.at[o] = 0;
    for (int k = 0; k < p.axes; k++) s.left[k] = (int32_t)p.axis[k].n.d;
#pragma unroll 1
    for (int k = 0; k < p.cuts; k++) {
        const cut_axis &cut = p.cut[k];
        const uint32_t i = take_index(box, cut.count);
#pragma unroll
        for (int o = 0; o <= INPUTS; o++) s.at[o] += i * cut.at[o];
        if (cut.axis >= 0 && i + 1 == cut.count.d) s.left[cut.axis] = cut.last;
    }
}

/* Elements of a run that the box has: only the last of its axes may end early. */
GOP_DEVICE int32_t run_left(const tiled_boxes &p, const box_walk &walk, const box_start &s)
{
    int32_t run = 1;
    for (int k = 0; k < walk.run_axes; k++) run *= s.left[walk.axis[k]];
    return run;
}

/* f(axis, place along it) for the i-th of what these axes span; false beyond the box's end. */
template <typename F> GOP_DEVICE bool along_axes(const tiled_boxes &p, const box_walk &walk,
                                                 const box_start &s, int first, int end,
                                                 uint32_t i, F f)
{
    bool is_there = true;
#pragma unroll 1
    for (int k = first; k < end; k++) {
        const box_axis &axis = p.axis[walk.axis[k]];
        const uint32_t x = take_index(i, axis.n);
        is_there = is_there && x < (uint32_t)s.left[walk.axis[k]];
        f(axis, (int32_t)x);
    }
    return is_there && i == 0;
}

/* Line i of both parts. */
template <typename F> GOP_DEVICE bool along_line(const tiled_boxes &p, const box_walk &walk,
                                                 const box_start &s, uint32_t i, F f)
{
    const uint32_t near = take_index(i, walk.near);
    const bool a = along_axes(p, walk, s, walk.run_axes, walk.near_axes, near, f);
    const bool b = along_axes(p, walk, s, walk.near_axes, walk.axes, i, f);
    return a && b;
}

/* ---- on the host ---- */

struct tiled_plan {
    tiled_boxes p;
    unsigned boxes;
    size_t shared;
};

enum { SECTOR = 32 }; /* bytes that memory gives at least */

/* Boxes for `processors`, or GOP_REFUSED with a sentence. */
gop_status add_tiles(const gop_task *task, int processors, tiled_plan *plan);

#endif
