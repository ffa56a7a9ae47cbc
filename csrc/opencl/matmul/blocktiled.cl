/*
 * blocktiled.cl - matmul with ROWS x COLUMNS outputs of a work-item in private memory.
 *
 * Local memory gives fewer numbers a clock than a GPU multiplies: a work-item that keeps ROWS x
 * COLUMNS outputs reads ROWS + COLUMNS numbers for ROWS * COLUMNS multiply-adds. Its outputs
 * lie DOWN rows and ACROSS columns apart, so that neighbouring work-items read neighbours. The
 * next tile of DEPTH terms is on its way from memory while this one is multiplied.
 */
#include "opencl/matmul/product.cl"

#define HEIGHT (ROWS * DOWN) /* of the group's outputs */
#define WIDTH (COLUMNS * ACROSS)
#define GROUP (DOWN * ACROSS)
#define A_EACH (HEIGHT * DEPTH / GROUP) /* numbers that a work-item loads of a tile */
#define B_EACH (WIDTH * DEPTH / GROUP)

/* Loads number `e` of a work-item's share, of a tile of `lines` by DEPTH. Neighbours follow the
 * operand's own: along l, or from line to line. */
static S number_of(__global const BASE *x, long from, long line_apart, long l_apart, int e,
                   int lines, long exist, long left, int *to)
{
    const int i = (int)get_local_id(0) + e * GROUP;
    const int along = abs(l_apart) < abs(line_apart);
    const int line = along ? i / DEPTH : i % lines, l = along ? i % DEPTH : i / lines;
    *to = l * (lines + 1) + line;
    return line < exist && l < left ? widened(LOAD(from + line * line_apart + l * l_apart, x))
                                    : (S)0;
}

__kernel void matmul_blocktiled_kernel(OPERANDS, const struct product p, const struct part part)
{
    __local S a_tile[DEPTH * (HEIGHT + 1)], b_tile[DEPTH * (WIDTH + 1)];
    const int x = (int)get_local_id(0) % ACROSS, y = (int)get_local_id(0) / ACROSS;
    const long across = (part.columns + WIDTH - 1) / WIDTH;
    const long down = (part.rows + HEIGHT - 1) / HEIGHT, tile = (long)get_group_id(0);
    const struct at of = batch_at(&p, part.batch + tile / (across * down));
    const long row = tile / across % down * HEIGHT, column = tile % across * WIDTH;
    const long rows = part.rows - row, columns = part.columns - column;
    const long i = part.row + row, j = part.column + column;
    const long from_a = a_at + of.a + i * p.a_row, from_b = b_at + of.b + j * p.b_col;
    S sum[ROWS][COLUMNS], a_next[A_EACH], b_next[B_EACH];
    int a_to[A_EACH], b_to[B_EACH];
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int c = 0; c < COLUMNS; c++) sum[r][c] = (S)0;
    for (long l0 = -DEPTH; l0 < p.k; l0 += DEPTH) {
        const long next = l0 + DEPTH, left = p.k - next;
#pragma unroll
        for (int e = 0; e < A_EACH; e++)
            a_next[e] = number_of(a, from_a + next * p.a_col, p.a_row, p.a_col, e, HEIGHT, rows,
                                  left, &a_to[e]);
#pragma unroll
        for (int e = 0; e < B_EACH; e++)
            b_next[e] = number_of(b, from_b + next * p.b_row, p.b_col, p.b_row, e, WIDTH,
                                  columns, left, &b_to[e]);
        for (int l = 0; l0 >= 0 && l < DEPTH; l++) {
            S a_part[ROWS];
#pragma unroll
            for (int r = 0; r < ROWS; r++) a_part[r] = a_tile[l * (HEIGHT + 1) + r * DOWN + y];
#pragma unroll
            for (int c = 0; c < COLUMNS; c++) {
                const S b_part = b_tile[l * (WIDTH + 1) + c * ACROSS + x];
#pragma unroll
                for (int r = 0; r < ROWS; r++)
                    sum[r][c] = accumulate(a_part[r], b_part, sum[r][c]);
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
        for (int e = 0; e < A_EACH; e++) a_tile[a_to[e]] = a_next[e];
#pragma unroll
        for (int e = 0; e < B_EACH; e++) b_tile[b_to[e]] = b_next[e];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int c = 0; c < COLUMNS; c++) {
            const int down_by = r * DOWN + y, across_by = c * ACROSS + x;
            if (down_by < rows && across_by < columns)
                STORE(rounded(sum[r][c]),
                      out_at + of.out + (i + down_by) * p.out_row + (j + across_by) * p.out_col,
                      out);
        }
}
