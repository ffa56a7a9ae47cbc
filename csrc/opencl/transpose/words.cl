/*
 * words.cl - transpose of items of 1 and 2 bytes on GPUs: whole words are read and written.
 *
 * A word holds WIDE items of a row. A work-item reads a word of each of WIDE rows, turns that
 * square in private memory, and puts its columns into the tile, whose rows are the output's.
 * A row of the tile begins a word later than the one before, and after 32 rows one more: so
 * neither those who write it nor those who read it meet in a bank.
 */
#include "opencl/transpose/plane.cl"

enum {
    WORDS = 32, /* of a row of a tile, and work-items side by side */
    WIDE = 4 / BYTES,
    SIDE = WORDS * WIDE, /* items */
};

#if BYTES == 1
static void turn(uint word[4])
{
    const uchar4 a = as_uchar4(word[0]), b = as_uchar4(word[1]), c = as_uchar4(word[2]),
                 d = as_uchar4(word[3]);
    word[0] = as_uint((uchar4)(a.s0, b.s0, c.s0, d.s0));
    word[1] = as_uint((uchar4)(a.s1, b.s1, c.s1, d.s1));
    word[2] = as_uint((uchar4)(a.s2, b.s2, c.s2, d.s2));
    word[3] = as_uint((uchar4)(a.s3, b.s3, c.s3, d.s3));
}
#else
static void turn(uint word[2])
{
    const ushort2 a = as_ushort2(word[0]), b = as_ushort2(word[1]);
    word[0] = as_uint((ushort2)(a.s0, b.s0));
    word[1] = as_uint((ushort2)(a.s1, b.s1));
}
#endif

__kernel void transpose_words_kernel(__global item *out, long out_at, __global const item *in,
                                     long in_at, const struct plane p, const struct axes batch)
{
    __local uint tile[SIDE][WORDS + 1];
    const struct tile t = tile_of(&p, &batch, (long)get_group_id(0), SIDE, SIDE);
    const int i = (int)get_local_id(0), first = (int)get_local_id(1);
    out += out_at + t.to + t.x * p.out_x + t.y + i * WIDE;
    in += in_at + t.from + t.x + i * WIDE + t.y * p.in_y;
#pragma unroll
    for (int j = first; j < WORDS; j += ROWS) {
        uint word[WIDE];
#pragma unroll
        for (int r = 0; r < WIDE; r++) {
            const int y = j * WIDE + r;
            word[r] = t.x + i * WIDE < p.nx && t.y + y < p.ny
                          ? *(__global const uint *)(in + y * p.in_y)
                          : 0;
        }
        turn(word);
#pragma unroll
        for (int r = 0; r < WIDE; r++) {
            const int x = i * WIDE + r;
            tile[x][(j + x / WORDS) % WORDS] = word[r];
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
    for (int x = first; x < SIDE; x += ROWS)
        if (t.x + x < p.nx && t.y + i * WIDE < p.ny)
            *(__global uint *)(out + x * p.out_x) = tile[x][(i + x / WORDS) % WORDS];
}
