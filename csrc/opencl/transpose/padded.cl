/*
 * padded.cl - transpose through a tile whose rows are a word longer than they need to be.
 *
 * The items of a column then lie in different banks of a GPU's local memory, and all who read
 * it are answered at once.
 */
#include "opencl/transpose/plane.cl"

#define PAD (BYTES < 4 ? 4 / BYTES : 1)

__kernel void transpose_padded_kernel(__global item *out, long out_at, __global const item *in,
                                      long in_at, const struct plane p, const struct axes batch)
{
    __local item tile[SIDE][SIDE + PAD];
    const struct tile t = tile_of(&p, &batch, (long)get_group_id(0), SIDE, SIDE);
    const int i = (int)get_local_id(0), j = (int)get_local_id(1);
    const int nx = (int)min(p.nx - t.x, (long)SIDE), ny = (int)min(p.ny - t.y, (long)SIDE);
    out += out_at + t.to + (t.x + j) * p.out_x + (t.y + i) * p.out_y;
    in += in_at + t.from + (t.x + i) * p.in_x + (t.y + j) * p.in_y;
    if (i < nx) {
#pragma unroll
        for (int y = 0; y < SIDE; y += ROWS)
            if (y + j < ny) tile[y + j][i] = in[y * p.in_y];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (i < ny) {
#pragma unroll
        for (int x = 0; x < SIDE; x += ROWS)
            if (x + j < nx) out[x * p.out_x] = tile[i][x + j];
    }
}
