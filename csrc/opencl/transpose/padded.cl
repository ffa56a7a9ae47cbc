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
    out += out_at + t.to + t.x * p.out_x + (t.y + i) * p.out_y;
    in += in_at + t.from + (t.x + i) * p.in_x + t.y * p.in_y;
#pragma unroll
    for (int y = j; y < SIDE; y += ROWS)
        if (t.x + i < p.nx && t.y + y < p.ny) tile[y][i] = in[y * p.in_y];
    barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
    for (int x = j; x < SIDE; x += ROWS)
        if (t.x + x < p.nx && t.y + i < p.ny) out[x * p.out_x] = tile[i][x];
}
