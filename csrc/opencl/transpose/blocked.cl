/*
 * blocked.cl - transpose for CPU devices: tile after tile, and in it blocks that fit registers.
 *
 * A tile is as wide as a few lines of the caches, so that all of a line is used while it is
 * there. No local memory: a CPU has none, and its caches do that by themselves. A block of
 * LANES rows of LANES items is transposed in registers.
 */
#include "opencl/transpose/plane.cl"
#if LANES > 1
#include "opencl/block.cl"
#endif

/* nx by ny items, one by one: a line that is read is used up before the next. */
static void move(__global item *out, __global const item *in, long nx, long ny,
                 const struct plane *p)
{
    for (long y = 0; y < ny; y++)
        for (long x = 0; x < nx; x++)
            out[x * p->out_x + y * p->out_y] = in[x * p->in_x + y * p->in_y];
}

static void move_tile(__global item *out, __global const item *in, long nx,
                      long ny, const struct plane *p)
{
    long y = 0;
#if LANES > 1
    const long whole = p->in_x == 1 && p->out_y == 1 ? nx / LANES * LANES : 0;
    for (; whole && y + LANES <= ny; y += LANES) {
        for (long x = 0; x < whole; x += LANES) {
            V row[LANES];
#pragma unroll
            for (int j = 0; j < LANES; j++) row[j] = LOAD(0, in + x + (y + j) * p->in_y);
            transpose_block(row);
#pragma unroll
            for (int i = 0; i < LANES; i++) STORE(row[i], 0, out + (x + i) * p->out_x + y);
        }
        if (whole < nx)
            move(out + whole * p->out_x + y, in + whole + y * p->in_y, nx - whole, LANES, p);
    }
#endif
    move(out + y * p->out_y, in + y * p->in_y, nx, ny - y, p);
}

__kernel void transpose_blocked_kernel(__global item *out, long out_at, __global const item *in,
                                       long in_at, const struct plane p,
                                       const struct axes batch, const long chunk)
{
    const long begin = (long)get_global_id(0) * chunk, end = min(begin + chunk, p.tiles);
    for (long number = begin; number < end; number++) {
        const struct tile t = tile_of(&p, &batch, number, SIDE_X, SIDE_Y);
        move_tile(out + out_at + t.to + t.x * p.out_x + t.y * p.out_y,
                  in + in_at + t.from + t.x * p.in_x + t.y * p.in_y,
                  min(p.nx - t.x, (long)SIDE_X), min(p.ny - t.y, (long)SIDE_Y), &p);
    }
}
