/*
 * blocked.cl - transpose for CPU devices: tile after tile, and in it blocks that fit registers.
 *
 * A block of LANES rows of LANES items is transposed in registers. A tile waits in private
 * memory, which the first cache holds, until whole rows of it are stored: rows of the output
 * may all belong to one set of a cache. An output that caches could not keep is STREAMED past
 * them. The next tile is fetched meanwhile: no processor guesses its rows.
 */
#define BY_ROWS /* then the next tile's lines follow */
#include "opencl/transpose/plane.cl"
#if LANES > 1
#include "opencl/block.cl"
#else
#define transpose_block(row)
#endif

enum { LINE = 64 }; /* bytes of a line of the caches */

/* A vector anywhere. PoCL makes vloadn of halves, which its compiler takes apart further. */
typedef struct __attribute__((packed)) loose {
    V v;
} loose;

/* nx by ny items, one by one: a line that is read is used up before the next. */
static void move(__global BASE *restrict out, __global const BASE *restrict in, long nx,
                 long ny, const struct plane *p)
{
    for (long y = 0; y < ny; y++, out += p->out_y, in += p->in_y)
        if (p->out_x == 1 && p->in_x == 1)
            for (long x = 0; x < nx; x++) out[x] = in[x];
        else
            for (long x = 0; x < nx; x++) out[x * p->out_x] = in[x * p->in_x];
}

/* Items of a row of the output, from the k-th one to `end`: returns that. */
static long copy(__global BASE *to, const BASE *from, long k, long end)
{
    for (; k + LANES <= end; k += LANES)
        ((__global loose *)(to + k))->v = ((const loose *)(from + k))->v;
    for (; k < end; k++) to[k] = from[k];
    return k;
}

static void put_row(__global BASE *to, const BASE *from, long count)
{
    long k = 0;
#if defined(STREAM)
    k = copy(to, from, 0, min((long)(-(size_t)to % LINE) / BYTES, count));
    for (; k + LANES <= count; k += LANES) STREAM(((const loose *)(from + k))->v, to + k);
#endif
    copy(to, from, k, count);
}

static void move_tile(__global BASE *out, __global const BASE *in, __global const BASE *next,
                      long nx, long ny, const struct plane *p)
{
    BASE kept[SIDE_X][SIDE_Y];
    const long whole = p->in_x == 1 && p->out_y == 1 ? nx / LANES * LANES : 0;
    long y = 0;
    for (; whole && y + LANES <= ny; y += LANES) {
#if defined(FETCH) /* as many rows of the next tile */
        for (int j = 0; j < LANES; j++)
            for (int x = 0; x < SIDE_X; x += LINE / BYTES) FETCH(next + x + (y + j) * p->in_y);
#endif
        for (long x = 0; x < whole; x += LANES) {
            V row[LANES];
            UNROLLED for (int j = 0; j < LANES; j++)
                row[j] = ((__global const loose *)(in + x + (y + j) * p->in_y))->v;
            transpose_block(row);
            UNROLLED for (int i = 0; i < LANES; i++) ((loose *)(kept[x + i] + y))->v = row[i];
        }
        if (whole < nx)
            move(out + whole * p->out_x + y, in + whole + y * p->in_y, nx - whole, LANES, p);
    }
    for (long x = 0; x < whole; x++) put_row(out + x * p->out_x, kept[x], y);
    move(out + y * p->out_y, in + y * p->in_y, nx, ny - y, p);
}

__kernel void transpose_blocked_kernel(OPERANDS, const long chunk)
{
    const long begin = (long)get_global_id(0) * chunk, end = min(begin + chunk, p.tiles);
    struct tile t = tile_of(&p, &batch, begin, SIDE_X, SIDE_Y);
    for (long number = begin; number < end; number++) {
        const struct tile next =
            tile_of(&p, &batch, number + 1 < end ? number + 1 : number, SIDE_X, SIDE_Y);
        move_tile(out + out_at + t.to + t.x * p.out_x + t.y * p.out_y,
                  in + in_at + t.from + t.x * p.in_x + t.y * p.in_y,
                  in + in_at + next.from + next.x * p.in_x + next.y * p.in_y,
                  min(p.nx - t.x, (long)SIDE_X), min(p.ny - t.y, (long)SIDE_Y), &p);
        t = next;
    }
}
