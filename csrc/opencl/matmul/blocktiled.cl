/*
 * blocktiled.cl - matmul with SIDE x SIDE outputs of a work-item in private memory.
 *
 * A work-item that keeps SIDE x SIDE outputs reads 2 SIDE numbers from local memory for
 * SIDE * SIDE multiply-adds. It reads them as vectors of 16 bytes, QUAD parts of sums: a
 * GPU's local memory takes as long for a scalar. Neighbouring work-items form a patch of the
 * group's outputs, so that they read few different vectors.
 *
 * There are two tiles of DEPTH terms of each operand: while one is multiplied, the next one is
 * on its way from memory, and a barrier a tile is enough. A_ALONG and B_ALONG say that an
 * operand's neighbours are terms of a sum, else they are lines; WHOLE, that both operands may
 * be read by vectors.
 */
#include "opencl/matmul/product.cl"

#define GROUP (DOWN * ACROSS)
#define VECTOR WIDE(QUAD, SUM)

enum {
    EACH = QUAD / LANES, /* numbers of a vector */
    W = WHOLE ? EACH : 1, /* numbers that are read at once */
    HEIGHT = SIDE * DOWN, /* of the group's outputs */
    WIDTH = SIDE * ACROSS,
    A_LINE = HEIGHT / EACH + 1, /* vectors; with one more, stores meet different banks */
    B_LINE = WIDTH / EACH + 1,
    A_SHARE = HEIGHT * DEPTH / GROUP, /* numbers that a work-item brings of a tile */
    B_SHARE = WIDTH * DEPTH / GROUP,
};

/* Which those are: the first one, and how far the next W are. */
struct share {
    long at, apart;
    int line, l, line_step, l_step;
};

static struct share share_of(long from, long line_apart, long l_apart, int lines, int is_along)
{
    const int i = (int)get_local_id(0) * W;
    struct share s;
    s.line = is_along ? i / DEPTH : i % lines;
    s.l = is_along ? i % DEPTH : i / lines;
    s.line_step = is_along ? GROUP * W / DEPTH : 0;
    s.l_step = is_along ? 0 : GROUP * W / lines;
    s.at = from + s.line * line_apart + s.l * l_apart;
    s.apart = s.line_step * line_apart + s.l_step * l_apart;
    return s;
}

/* What lies outside of the operand is zero. */
static void fetch(S *next, int count, __global const BASE *x, const struct share *s, int lines,
                  long left)
{
    UNROLLED for (int e = 0; e < count / W; e++) {
        __global const BASE *const from = x + (s->at + e * s->apart) * LANES;
        const int exists = s->line + e * s->line_step < lines && s->l + e * s->l_step < left;
        BASE number[W * LANES];
#if WHOLE
        const WIDE(QUAD, BASE) zero = 0;
        JOIN(vstore, QUAD)(exists ? *(__global const WIDE(QUAD, BASE) *)from : zero, 0, number);
#else
        STORE(exists ? LOAD(0, from) : (V)0, 0, number);
#endif
        UNROLLED for (int w = 0; w < W; w++) next[e * W + w] = widened(LOAD(w, number));
    }
}

static void put(const S *next, int count, __local VECTOR *tile, int line, const struct share *s,
                int is_along)
{
    UNROLLED for (int e = 0; e < count / W; e++) {
        __local S *const to =
            (__local S *)(tile + (s->l + e * s->l_step) * line) + s->line + e * s->line_step;
        if (!is_along && W == EACH && W > 1)
            *(__local VECTOR *)to = JOIN(vload, QUAD)(0, (const SUM *)(next + e * W));
        else
            UNROLLED for (int w = 0; w < W; w++)
                to[is_along ? w * line * EACH : w] = next[e * W + w];
    }
}

/* The terms of a tile. */
static void multiply(S sum[SIDE][SIDE], __local const VECTOR *a, __local const VECTOR *b)
{
#pragma unroll 8 /* more would hold more numbers ahead than there are registers */
    for (int l = 0; l < DEPTH; l++, a += A_LINE, b += B_LINE) {
        S x[SIDE], y[SIDE];
        UNROLLED for (int v = 0; v < SIDE / EACH; v++)
            JOIN(vstore, QUAD)(a[v * DOWN], v, (SUM *)x);
        UNROLLED for (int v = 0; v < SIDE / EACH; v++)
            JOIN(vstore, QUAD)(b[v * ACROSS], v, (SUM *)y);
        UNROLLED for (int r = 0; r < SIDE; r++)
            UNROLLED for (int c = 0; c < SIDE; c++)
                sum[r][c] = accumulate(x[r], y[c], sum[r][c]);
    }
}

__attribute__((reqd_work_group_size(GROUP, 1, 1)))
__kernel void matmul_blocktiled_kernel(OPERANDS, const struct product p)
{
    __local VECTOR a_tile[2][DEPTH * A_LINE], b_tile[2][DEPTH * B_LINE];
    /* 32 neighbours are a patch of 8 x 4, and 8 of them one of 4 x 2: they read 6 vectors. */
    const int item = (int)get_local_id(0), patch = item / 32;
    const int x = patch % (ACROSS / 8) * 8 + item / 2 % 8;
    const int y = patch / (ACROSS / 8) * 4 + item / 16 % 2 * 2 + item % 2;
    const long across = (p.n + WIDTH - 1) / WIDTH, down = (p.m + HEIGHT - 1) / HEIGHT;
    const long tile = (long)get_group_id(0);
    const struct at of = batch_at(&p, tile / (across * down));
    const long i = tile / across % down * HEIGHT, j = tile % across * WIDTH;
    const int rows = (int)min(p.m - i, (long)HEIGHT), columns = (int)min(p.n - j, (long)WIDTH);
    struct share of_a = share_of(a_at + of.a + i * p.a_row, p.a_row, p.a_col, HEIGHT, A_ALONG);
    struct share of_b = share_of(b_at + of.b + j * p.b_col, p.b_col, p.b_row, WIDTH, B_ALONG);
    S sum[SIDE][SIDE], a_next[A_SHARE], b_next[B_SHARE];
    UNROLLED for (int r = 0; r < SIDE; r++)
        UNROLLED for (int c = 0; c < SIDE; c++) sum[r][c] = (S)0;
    int now = 1; /* which tile was filled last; before the first one none is multiplied */
    for (long l = -DEPTH; l < p.k; l += DEPTH) {
        const long left = p.k - (l + DEPTH);
        if (left > 0) {
            fetch(a_next, A_SHARE, a, &of_a, rows, left);
            fetch(b_next, B_SHARE, b, &of_b, columns, left);
            of_a.at += DEPTH * p.a_col;
            of_b.at += DEPTH * p.b_row;
        }
        if (l >= 0) multiply(sum, a_tile[now] + y, b_tile[now] + x);
        now = 1 - now;
        if (left > 0) {
            put(a_next, A_SHARE, a_tile[now], A_LINE, &of_a, A_ALONG);
            put(b_next, B_SHARE, b_tile[now], B_LINE, &of_b, B_ALONG);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    UNROLLED for (int r = 0; r < SIDE; r++)
        UNROLLED for (int c = 0; c < SIDE; c++) {
            const int down_by = (r / EACH * DOWN + y) * EACH + r % EACH;
            const int across_by = (c / EACH * ACROSS + x) * EACH + c % EACH;
            if (down_by < rows && across_by < columns)
                STORE(rounded(sum[r][c]),
                      out_at + of.out + (i + down_by) * p.out_row + (j + across_by) * p.out_col,
                      out);
        }
}
