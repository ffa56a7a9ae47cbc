/*
 * thin.cl - matmul of few rows and many columns for CPU devices: STRIP vectors of outputs a
 * work-item.
 *
 * Each number of a meets a line of b as it lies in memory; where that is no line, LANES is 1. Products of many rows and few
 * columns come with a and b, and rows and columns, in each other's place.
 */
#include "opencl/matmul/product.cl"

/* Columns c to c + LANES - 1 of a row of b, of which `columns` exist. */
static S line(__global const BASE *b, long apart, long c, long columns)
{
#if LANES == 1
    return widened(b[c * apart]);
#else
    BASE number[LANES];
    if (apart == 1 && c + LANES <= columns) return widened(LOAD(0, b + c));
    for (int i = 0; i < LANES; i++) number[i] = b[min(c + i, columns - 1) * apart];
    return widened(LOAD(0, number));
#endif
}

__kernel void matmul_thin_kernel(OPERANDS, const struct product p, const struct part part)
{
    const long strips = (part.columns + STRIP * LANES - 1) / (STRIP * LANES);
    const long number = (long)get_global_id(0), strip = number % strips * STRIP * LANES;
    const struct at of = batch_at(&p, part.batch + number / strips / part.rows);
    const long i = part.row + number / strips % part.rows, columns = part.columns - strip;
    const int vectors = (int)min((long)STRIP, (columns + LANES - 1) / LANES);
    a += a_at + of.a + i * p.a_row;
    b += b_at + of.b + (part.column + strip) * p.b_col;
    out += out_at + of.out + i * p.out_row + (part.column + strip) * p.out_col;
    const long apart = p.b_col, a_col = p.a_col, b_row = p.b_row;
    S sum[STRIP];
#pragma unroll
    for (int v = 0; v < STRIP; v++) sum[v] = (S)0;
    for (long l = 0; l < p.k; l++, a += a_col, b += b_row) {
        const S x = widened((V)*a);
        if (vectors == STRIP) {
#pragma unroll
            for (int v = 0; v < STRIP; v++)
                sum[v] = add_product(x, line(b, apart, v * LANES, columns), sum[v]);
        } else
            for (int v = 0; v < vectors; v++)
                sum[v] = add_product(x, line(b, apart, v * LANES, columns), sum[v]);
    }
    for (int v = 0; v < vectors; v++) {
        BASE made[LANES];
        STORE(rounded(sum[v]), 0, made);
        for (int c = 0; c < LANES && v * LANES + c < columns; c++)
            out[(v * LANES + c) * p.out_col] = made[c];
    }
}
