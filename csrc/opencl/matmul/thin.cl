/*
 * thin.cl - matmul of few rows and many columns for CPU devices: STRIP vectors of outputs a
 * work-item.
 *
 * Where b lies along the outputs (ALONG) each number of a meets a line of b as it lies: TERMS
 * of them at a time, for which sums are read and written once. Else b may lie along the terms
 * (ACROSS): then blocks are transposed in registers. Products of many rows and few columns come
 * with a and b, and rows and columns, in each other's place.
 */
#include "opencl/matmul/product.cl"
#include "opencl/block.cl"

enum { TERMS = 8 };

/* Columns c to c + LANES - 1 of a row of b, as far as they exist. */
static S line(__global const BASE *b, long apart, long c, long columns)
{
    return widened(gather(b + c * apart, apart, (int)min((long)LANES, columns - c)));
}

/* `count` terms of all columns. */
static void add_terms(S *sum, __global const BASE *a, __global const BASE *b, long a_col,
                      long b_row, int count, long columns)
{
    S x[TERMS];
    for (int t = 0; t < count; t++) x[t] = widened((V)a[t * a_col]);
    for (long c = 0; c < columns; c += LANES, sum++)
        for (int t = 0; t < count; t++)
            *sum = add_product(x[t],
                               c + LANES <= columns ? widened(LOAD(0, b + t * b_row + c))
                                                    : line(b + t * b_row, 1, c, columns),
                               *sum);
}

/* All terms of columns c to c + LANES - 1. */
static S all_terms(__global const BASE *a, __global const BASE *b, const struct product *p,
                   long c, long columns)
{
    S sum = (S)0;
    long l = 0;
    for (; ACROSS && l + LANES <= p->k; l += LANES) {
        V row[LANES];
        UNROLLED for (int i = 0; i < LANES; i++)
            row[i] = LOAD(0, b + min(c + i, columns - 1) * p->b_col + l);
        transpose_block(row);
        UNROLLED for (int t = 0; t < LANES; t++)
            sum = add_product(widened((V)a[(l + t) * p->a_col]), widened(row[t]), sum);
    }
    for (; l < p->k; l++)
        sum = add_product(widened((V)a[l * p->a_col]),
                          line(b + l * p->b_row, p->b_col, c, columns), sum);
    return sum;
}

__kernel void matmul_thin_kernel(OPERANDS, const struct product p)
{
    const long strips = (p.n + STRIP * LANES - 1) / (STRIP * LANES);
    const long number = (long)get_global_id(0), strip = number % strips * STRIP * LANES;
    const struct at of = batch_at(&p, number / strips / p.m);
    const long i = number / strips % p.m, columns = min(p.n - strip, (long)(STRIP * LANES));
    a += a_at + of.a + i * p.a_row;
    b += b_at + of.b + strip * p.b_col;
    out += out_at + of.out + i * p.out_row + strip * p.out_col;
    S sum[STRIP];
    long l = 0;
    for (int v = 0; ALONG && v < STRIP; v++) sum[v] = (S)0;
    for (; ALONG && l + TERMS <= p.k; l += TERMS)
        add_terms(sum, a + l * p.a_col, b + l * p.b_row, p.a_col, p.b_row, TERMS, columns);
    for (; ALONG && l < p.k; l++)
        add_terms(sum, a + l * p.a_col, b + l * p.b_row, p.a_col, p.b_row, 1, columns);
    if (!ALONG)
        for (int v = 0; v * LANES < columns; v++)
            sum[v] = all_terms(a, b, &p, v * LANES, columns);
    for (int v = 0; v * LANES < columns; v++)
        scatter(rounded(sum[v]), out + v * LANES * p.out_col, p.out_col,
                (int)min((long)LANES, columns - v * LANES));
}
