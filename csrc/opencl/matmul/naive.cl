/*
 * naive.cl - matmul, an output a work-item.
 *
 * Neighbouring work-items take neighbouring columns: on a GPU they read a row of b in whole
 * transactions, and one number of a for all. Still two loads for every multiply-add.
 */
#include "opencl/matmul/product.cl"

__kernel void matmul_naive_kernel(OPERANDS, const struct product p)
{
    const long at = (long)get_global_id(0);
    if (at >= p.batches * p.m * p.n) return;
    const long j = at % p.n, row = at / p.n, i = row % p.m;
    const struct at of = batch_at(&p, row / p.m);
    const long from_a = a_at + of.a + i * p.a_row, from_b = b_at + of.b + j * p.b_col;
    S sum = (S)0;
    for (long l = 0; l < p.k; l++)
        sum = accumulate(widened(LOAD(from_a + l * p.a_col, a)),
                         widened(LOAD(from_b + l * p.b_row, b)), sum);
    STORE(rounded(sum), out_at + of.out + i * p.out_row + j * p.out_col, out);
}
