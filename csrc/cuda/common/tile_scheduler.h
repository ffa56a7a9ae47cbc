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

/* So many tiles of each product. If `slices` > 1, the sums of a last wave that leaves some of
 * `slots` idle are cut into so many. */
static inline tile_schedule tile_schedule_of(int64_t down, int64_t across, int64_t products,
                                             int group, int64_t stages, int64_t slots,
                                             int slices)
{
    const int64_t tiles = down * across * products, rest = slices > 1 ? tiles % slots : 0;
    const int whole = (int)(tiles - rest);
    return {(int)down,   (int)across, (int)tiles, group,
            (int)stages, whole,       slices,     whole + (int)rest * slices};
}

/* The time of all waves, where a stage takes `each` and what is around a tile's `around`. With
 * `sharing` blocks to a tile each has a part of its stages. */
static inline double tile_waves(const tile_schedule &t, int sharing, int64_t slots, double each,
                                double around)
{
    const int64_t whole = (int64_t)t.whole * sharing, parts = t.items - t.whole;
    const double of_tile = (double)blocks_for(t.stages, sharing) * each + around;
    const double of_part = (double)blocks_for(t.stages, t.slices) * each + around;
    return (double)blocks_for(whole, slots) * of_tile +
           (double)blocks_for(parts, slots) * of_part;
}

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

/* The tile of item `number`, and in `at` which stages of its sums. With SHARING blocks to a
 * tile, block `rank` has its slice of each sum. */
template <int SHARING = 1>
GOP_DEVICE int tile_slice_of(const tile_schedule &t, int number, int rank, tile_item &at)
{
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
    return tile;
}

/* The same with its place, in tiles of ROWS by COLUMNS outputs. */
template <int ROWS, int COLUMNS, int SHARING = 1>
GOP_DEVICE tile_item tile_item_of(const tile_schedule &t, int number, int rank = 0)
{
    tile_item at;
    const int tile = tile_slice_of<SHARING>(t, number, rank, at), each = t.down * t.across;
    const int2 place = tile_coordinates(tile % each, t.down, t.across, t.group);
    at.batch = tile / each;
    at.i0 = place.x * ROWS;
    at.j0 = place.y * COLUMNS;
    return at;
}

#endif
