/*
 * padded.cl - transpose through a tile whose rows are a word longer than they need to be.
 *
 * The words of a column then lie in different banks of a GPU's local memory, and all who write
 * it are answered at once. A word is an item, or of small ones WIDE, where rows are whole words
 * of 4 bytes: a work-item then reads a word of each of WIDE rows and turns that square in
 * private memory, so that memory is read and written by whole words. Rows of the tile are the
 * output's. After SIDE of them one begins a word later: WIDE of them are written at once.
 */
#include "opencl/transpose/plane.cl"

#define ITEMS (SIDE * WIDE) /* of a row of a tile */
#if WIDE == 1
typedef item word;
#define PAD (BYTES < 4 ? 4 / BYTES : 1)
#else
typedef uint word;
#define PAD 1
#endif

#if WIDE == 4
static void turn(word row[4])
{
    const uchar4 a = as_uchar4(row[0]), b = as_uchar4(row[1]), c = as_uchar4(row[2]),
                 d = as_uchar4(row[3]);
    row[0] = as_uint((uchar4)(a.s0, b.s0, c.s0, d.s0));
    row[1] = as_uint((uchar4)(a.s1, b.s1, c.s1, d.s1));
    row[2] = as_uint((uchar4)(a.s2, b.s2, c.s2, d.s2));
    row[3] = as_uint((uchar4)(a.s3, b.s3, c.s3, d.s3));
}
#elif WIDE == 2
static void turn(word row[2])
{
    const ushort2 a = as_ushort2(row[0]), b = as_ushort2(row[1]);
    row[0] = as_uint((ushort2)(a.s0, b.s0));
    row[1] = as_uint((ushort2)(a.s1, b.s1));
}
#else
#define turn(row)
#endif

__kernel void transpose_padded_kernel(__global item *out, long out_at, __global const item *in,
                                      long in_at, const struct plane p, const struct axes batch)
{
    __local word tile[ITEMS][SIDE + PAD];
    const struct tile t = tile_of(&p, &batch, (long)get_group_id(0), ITEMS, ITEMS);
    const int i = (int)get_local_id(0), first = (int)get_local_id(1);
    const int nx = (int)min(p.nx - t.x, (long)ITEMS), ny = (int)min(p.ny - t.y, (long)ITEMS);
    out += out_at + t.to + t.x * p.out_x + (t.y + i * WIDE) * p.out_y;
    in += in_at + t.from + (t.x + i * WIDE) * p.in_x + t.y * p.in_y;
    if (i * WIDE < nx) {
#pragma unroll
        for (int j = first; j < SIDE; j += ROWS) {
            word row[WIDE];
            if (j * WIDE >= ny) break;
#pragma unroll
            for (int r = 0; r < WIDE; r++)
                row[r] = *(__global const word *)(in + (j * WIDE + r) * p.in_y);
            turn(row);
#pragma unroll
            for (int r = 0; r < WIDE; r++) {
                const int x = i * WIDE + r;
                tile[x][(j + x / SIDE) % SIDE] = row[r];
            }
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (i * WIDE < ny) {
#pragma unroll
        for (int x = first; x < ITEMS; x += ROWS)
            if (x < nx) *(__global word *)(out + x * p.out_x) = tile[x][(i + x / SIDE) % SIDE];
    }
}
