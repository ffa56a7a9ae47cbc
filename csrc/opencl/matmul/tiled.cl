/*
 * tiled.cl - matmul with tiles of a and b in local memory.
 *
 * The work-items of a group load a TILE x TILE tile of a and one of b together; each number
 * then serves TILE work-items. Beyond the edges a tile holds zeros, which only meet zeros or an
 * output that is not written.
 */
#include "opencl/matmul/product.cl"

__kernel void matmul_tiled_kernel(OPERANDS, const struct product p)
{
    __local S a_tile[TILE][TILE], b_tile[TILE][TILE];
    const int x = (int)get_local_id(0) % TILE, y = (int)get_local_id(0) / TILE;
    const long across = (p.n + TILE - 1) / TILE, down = (p.m + TILE - 1) / TILE;
    const long tile = (long)get_group_id(0);
    const struct at of = batch_at(&p, tile / (across * down));
    const long i = tile / across % down * TILE + y, j = tile % across * TILE + x;
    const int is_row = i < p.m, is_column = j < p.n;
    const long from_a = a_at + of.a + i * p.a_row, from_b = b_at + of.b + j * p.b_col;
    S sum = (S)0;
    for (long first = 0; first < p.k; first += TILE) {
        a_tile[y][x] =
            is_row && first + x < p.k ? widened(LOAD(from_a + (first + x) * p.a_col, a)) : (S)0;
        b_tile[y][x] = is_column && first + y < p.k
                           ? widened(LOAD(from_b + (first + y) * p.b_row, b))
                           : (S)0;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int l = 0; l < TILE; l++) sum = accumulate(a_tile[y][l], b_tile[l][x], sum);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (is_row && is_column)
        STORE(rounded(sum), out_at + of.out + i * p.out_row + j * p.out_col, out);
}
