/*
 * naive.cu - matmul, a thread an output.
 *
 * Neighbouring threads take neighbouring columns, so that a warp reads a row of b in whole
 * sectors and one element of a for all. Still two loads for every multiply-add.
 */
#include "cuda/matmul/product.h"

template <typename T> __global__ void matmul_naive_kernel(const matmul_product<T> p)
{
    const int64_t count = p.part.batches * p.part.rows * p.g.n;
    const int64_t threads = (int64_t)gridDim.x * blockDim.x;
    for (int64_t at = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; at < count;
         at += threads) {
        const int64_t j = at % p.g.n, row = at / p.g.n;
        const int64_t i = p.part.row + row % p.part.rows;
        const matmul_offsets of = matmul_batch(p.g, p.part.batch + row / p.part.rows);
        const T *a = p.a + of.a + i * p.g.a_row;
        const T *b = p.b + of.b + j * p.g.b_col;
        sum_t<T> sum = {};
        for (int64_t l = 0; l < p.g.k; l++, a += p.g.a_col, b += p.g.b_row)
            sum = accumulate(widen(*a), widen(*b), sum);
        put((T *)p.out + of.out + i * p.g.out_row + j * p.g.out_col, sum);
    }
}

template <typename T>
static gop_status matmul_naive(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const matmul_product<T> p = matmul_product_of<T>(task, matmul_part_of(task, step));
    const int64_t count = p.part.batches * p.part.rows * p.g.n;
    return GOP_LAUNCH(ctx, matmul_naive_kernel<T>, (unsigned)blocks_for(count, 256), 256, 0, p);
}

extern const gop_row matmul_naive_row = {
    .name = "naive",
    .note = "a thread an output, neighbours in a row: two loads for every multiply-add",
    .role = GOP_CONFORMING,
    .lecture = "matrix multiplication",
    .launch = MATMUL_LAUNCHES(matmul_naive),
    .plan = matmul_steps_plan<16>,
};
