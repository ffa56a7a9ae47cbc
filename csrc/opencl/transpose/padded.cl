/*
 * padded.cl - transpose through a tile whose rows are a little longer than they need to be.
 *
 * The items of a column then lie in different banks of a GPU's local memory, and all who read
 * it are answered at once. The loops are unrolled, so that all that a work-item reads is on its
 * way before it waits for any.
 */
#include "opencl/transpose/plane.cl"

#define PAD (BYTES < 4 ? 4 / BYTES : 1) /* items: a bank is 4 bytes wide */

__kernel void transpose_padded_kernel(OPERANDS)
{
    __local BASE tile[SIDE][SIDE + PAD];
    const struct tile t = tile_of(&p, &batch, (long)get_group_id(0), SIDE, SIDE);
    const int i = (int)get_local_id(0), first = (int)get_local_id(1);
    const int nx = (int)min(p.nx - t.x, (long)SIDE), ny = (int)min(p.ny - t.y, (long)SIDE);
    out += out_at + t.to + t.x * p.out_x + (t.y + i) * p.out_y;
    in += in_at + t.from + (t.x + i) * p.in_x + t.y * p.in_y;
    UNROLLED for (int j = first; j < SIDE; j += ROWS)
        if (i < nx && j < ny) tile[j][i] = in[j * p.in_y];
    barrier(CLK_LOCAL_MEM_FENCE);
    UNROLLED for (int j = first; j < SIDE; j += ROWS)
        if (j < nx && i < ny) out[j * p.out_x] = tile[i][j];
}
