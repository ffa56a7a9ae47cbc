/*
 * planes.h - the plane of the two fastest axes in square tiles, for kernels that move a tile
 * item by item.
 *
 * Any strides will do. A block has one tile; the other axes are a batch of planes.
 */
#ifndef GOP_CUDA_TRANSPOSE_PLANES_H
#define GOP_CUDA_TRANSPOSE_PLANES_H

#include "cuda/transpose/index.h"

/* Strides in items. */
struct planes {
    int64_t nx, ny, in_x, in_y, out_x, out_y;
    int64_t tiles;                  /* of all batches, below 2^31 */
    fast_divisor across, up, plane; /* tiles along x, along y, and of one batch */
    int rank;                       /* of the batch */
    fast_divisor extent[GOP_MAX_NDIM];
    int64_t in[GOP_MAX_NDIM], out[GOP_MAX_NDIM];
};

GOP_DEVICE tile_at tile_in_batch(const planes &p, uint32_t x, uint32_t y, uint32_t batch,
                                 int side)
{
    tile_at t = {(int64_t)x * side, (int64_t)y * side, 0, 0};
    for (int axis = p.rank - 1; axis >= 0; axis--) {
        const uint32_t outer = quotient(batch, p.extent[axis]);
        const int64_t i = batch - outer * p.extent[axis].d;
        t.to += i * p.out[axis];
        t.from += i * p.in[axis];
        batch = outer;
    }
    return t;
}

/* The block's tile: row by row of the input. */
GOP_DEVICE tile_at tile_of(const planes &p, int side)
{
    const uint32_t batch = quotient(blockIdx.x, p.plane);
    const uint32_t tile = blockIdx.x - batch * p.plane.d;
    const uint32_t y = quotient(tile, p.across);
    return tile_in_batch(p, tile - y * p.across.d, y, batch, side);
}

/* Finds the plane and lays tiles over it. GOP_REFUSED, with a sentence, if the fastest axis
 * stays in its place or a side of the plane is much shorter than a tile. */
gop_status transpose_planes(const gop_permutation &g, int side, planes *p);

/* ---- tunables: items along a tile, and rows of a block ---- */

/* clang-format off */
#define TRANSPOSE_SIDES {"side", 3, {32, 16, 64}}
#define TRANSPOSE_ROWS {"rows", 4, {8, 2, 4, 16}}
/* clang-format on */

/* The launch for a tile's side: f is a template over the item's type and the side. There is
 * none for 64 by 64 items of 16 bytes: a block has 48 KiB. */
#define TRANSPOSE_BY_SIDE(item, side, f)                                                       \
    ((side) == 16   ? TRANSPOSE_BY_ITEM(item, f, 16)                                           \
     : (side) == 32 ? TRANSPOSE_BY_ITEM(item, f, 32)                                           \
     : (item) == 16 ? nullptr                                                                  \
                    : TRANSPOSE_BY_SMALL_ITEM(item, f, 64))

/* The planes of a tile whose side and rows are tunables; `launch` is what TRANSPOSE_BY_SIDE
 * found. */
gop_status transpose_plan_sides(const gop_task *task, gop_launch launch, gop_plan *plan);

#endif
