/*
 * vectorized.cl - transpose by vectors only, of memory and of local memory.
 *
 * A vector is N items along x. A work-item reads one of each of N rows and turns the square of
 * items in private memory, so that it has N vectors along y. Local memory only reorders them:
 * a row of the tile is one x and SIDE vectors along y. Those written together belong to
 * neighbouring squares, N rows apart and so in the same banks: their places are XORed with the
 * square's number. Those read together are a row, which fills all banks in any order.
 */
#include "opencl/transpose/plane.cl"

enum {
    N = (int)sizeof(VECTOR) / BYTES,
    ITEMS = SIDE * N,           /* along a tile; squares are SIDE */
    UNITS = SIDE * SIDE / GROUP, /* squares of a work-item */
    STEP = GROUP / SIDE,        /* rows that are written at once */
    BANKS = 128 / (int)sizeof(VECTOR), /* vectors that fill all */
    ORDERS = BANKS < SIDE ? BANKS : SIDE,
};

/* A piece is an item, or of small ones PER that are 4 bytes. */
#if BYTES < 4
#define PER (4 / BYTES)
typedef uint piece;
#else
#define PER 1
typedef BASE piece;
#endif
typedef union row {
    VECTOR whole;
    piece at[N / PER];
} row;

/* PER rows of a piece each. */
static void turn_pieces(piece r[PER])
{
#if PER == 4
    const uint a = (r[0] & 0xffffu) | r[2] << 16, b = (r[1] & 0xffffu) | r[3] << 16;
    const uint c = r[0] >> 16 | (r[2] & 0xffff0000u), d = r[1] >> 16 | (r[3] & 0xffff0000u);
    const uint even = 0x00ff00ffu;
    r[0] = (a & even) | (b & even) << 8;
    r[1] = (a >> 8 & even) | (b & ~even);
    r[2] = (c & even) | (d & even) << 8;
    r[3] = (c >> 8 & even) | (d & ~even);
#elif PER == 2
    const uint low = (r[0] & 0xffffu) | r[1] << 16;
    r[1] = r[0] >> 16 | (r[1] & 0xffff0000u);
    r[0] = low;
#endif
}

static void turn(row to[N], const row from[N])
{
    UNROLLED for (int x = 0; x < N; x += PER)
        UNROLLED for (int y = 0; y < N; y += PER) {
            piece r[PER];
            UNROLLED for (int k = 0; k < PER; k++) r[k] = from[y + k].at[x / PER];
            turn_pieces(r);
            UNROLLED for (int k = 0; k < PER; k++) to[x + k].at[y / PER] = r[k];
        }
}

__attribute__((reqd_work_group_size(GROUP, 1, 1)))
__kernel void transpose_vectorized_kernel(OPERANDS)
{
    __local VECTOR tile[ITEMS * SIDE];
    const struct tile t = tile_of(&p, &batch, (long)get_group_id(0), ITEMS, ITEMS);
    const int number = (int)get_local_id(0), first = number / SIDE, along = number % SIDE;
    const int nx = (int)min(p.nx - t.x, (long)ITEMS), ny = (int)min(p.ny - t.y, (long)ITEMS);
    row square[UNITS][N];
    in += in_at + t.from + t.x + t.y * p.in_y;
    out += out_at + t.to + t.y + t.x * p.out_x;
    /* All loads are on their way before any result is used. */
    UNROLLED for (int u = 0; u < UNITS; u++) {
        const int x = along * N, y = (first + u * STEP) * N;
        if (x < nx && y < ny)
            UNROLLED for (int k = 0; k < N; k++)
                square[u][k].whole = *(__global const VECTOR *)(in + x + (y + k) * p.in_y);
    }
    UNROLLED for (int u = 0; u < UNITS; u++) {
        const int x = along * N, y = (first + u * STEP) * N;
        row turned[N];
        if (x >= nx || y >= ny) break;
        turn(turned, square[u]);
        UNROLLED for (int k = 0; k < N; k++)
            tile[(x + k) * SIDE + (y / N ^ along % ORDERS)] = turned[k].whole;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (along * N >= ny) return;
    UNROLLED for (int x = first; x < ITEMS; x += STEP)
        if (x < nx)
            *(__global VECTOR *)(out + x * p.out_x + along * N) =
                tile[x * SIDE + (along ^ x / N % ORDERS)];
}
