/*
 * tile_scheduler.h - which tile a block does next, and which stages of its sums.
 *
 * Blocks are persistent and take item after item: first whole tiles; then, if the last wave
 * would leave SMs idle, parts of the other tiles, whose sums are split along k. Rows of tiles
 * go in groups, which share b in L2.
 */
#ifndef GOP_CUDA_COMMON_TILE_SCHEDULER_H
#define GOP_CUDA_COMMON_TILE_SCHEDULER_H

#include "cuda/device.h"

struct tile_schedule {
    int down, across, tiles; /* tiles below and beside each other; of all products */
    int group;               /* rows of tiles that are done together */
    int stages;              /* of a whole sum */
    int whole, slices;       /* tiles that are not cut, parts of each of the others */
    int items;
};

/* A tile, and the stages of its sums that come next. */
struct tile_item {
    int i0, j0, batch, first, last;
    int part; /* its number among all parts, or -1 */
};

/* The row and column of tile t of a product. */
template <typename I> GOP_DEVICE int2 tile_coordinates(I t, I down, I across, I group)
{
    const I many = group * across, top = t / many * group;
    const I high = down - top < group ? down - top : group;
    return make_int2((int)(top + t % many % high), (int)(t % many / high));
}

/* Item `number` of the schedule, in tiles of ROWS by COLUMNS outputs. With SHARING blocks to a
 * tile, block `rank` has its slice of each sum. */
template <int ROWS, int COLUMNS, int SHARING = 1>
GOP_DEVICE tile_item tile_item_of(const tile_schedule &t, int number, int rank = 0)
{
    tile_item at;
    int tile = number, slice = rank, slices = SHARING;
    at.first = 0, at.last = t.stages, at.part = -1;
    if (SHARING == 1 && number >= t.whole) {
        const int rest = t.tiles - t.whole;
        at.part = number - t.whole;
        tile = t.whole + at.part % rest;
        slice = at.part / rest, slices = t.slices;
    }
    if (slices > 1) {
        at.first = (int)((int64_t)t.stages * slice / slices);
        at.last = (int)((int64_t)t.stages * (slice + 1) / slices);
    }
    const int each = t.down * t.across;
    const int2 place = tile_coordinates(tile % each, t.down, t.across, t.group);
    at.batch = tile / each;
    at.i0 = place.x * ROWS;
    at.j0 = place.y * COLUMNS;
    return at;
}

#endif
