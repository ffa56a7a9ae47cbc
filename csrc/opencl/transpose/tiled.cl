/*
 * tiled.cl - transpose through a tile in local memory.
 *
 * Neighbouring work-items read rows along x and write columns along y: memory is asked for
 * neighbours on both sides. But the items of a column lie SIDE apart, at 32 in one bank of a
 * GPU's local memory, and those who read it take turns. A work-group is SIDE work-items wide;
 * each moves several items.
 */
#include "opencl/transpose/plane.cl"

__kernel void transpose_tiled_kernel(OPERANDS)
{
    __local BASE tile[SIDE][SIDE];
    const struct tile t = tile_of(&p, &batch, (long)get_group_id(0), SIDE, SIDE);
    const int i = (int)get_local_id(0), rows = (int)get_local_size(1);
    out += out_at + t.to;
    in += in_at + t.from;
    for (int j = (int)get_local_id(1); j < SIDE; j += rows)
        if (t.x + i < p.nx && t.y + j < p.ny)
            tile[j][i] = in[(t.x + i) * p.in_x + (t.y + j) * p.in_y];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int j = (int)get_local_id(1); j < SIDE; j += rows)
        if (t.x + j < p.nx && t.y + i < p.ny)
            out[(t.x + j) * p.out_x + (t.y + i) * p.out_y] = tile[i][j];
}
