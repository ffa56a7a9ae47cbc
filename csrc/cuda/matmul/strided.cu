/*
 * strided.cu - matmul, a thread an output, neighbouring threads in a column.
 *
 * A warp's loads of a and its stores lie a row apart, a sector of memory for each thread, of
 * which an element is used. The arithmetic is naive's, to the bit: only who computes what
 * differs.
 */
#include "cuda/matmul/product.h"

template <typename T> __global__ void matmul_strided_kernel(const matmul_product<T> p)
{
    const int64_t count = p.part.batches * p.part.rows * p.g.n;
    const int64_t threads = (int64_t)gridDim.x * blockDim.x;
    for (int64_t at = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; at < count;
         at += threads) {
        const int64_t i = p.part.row + at % p.part.rows, column = at / p.part.rows;
        const int64_t j = column % p.g.n;
        const matmul_offsets of = matmul_batch(p.g, p.part.batch + column / p.g.n);
        const T *a = p.a + of.a + i * p.g.a_row;
        const T *b = p.b + of.b + j * p.g.b_col;
        sum_t<T> sum = {};
        for (int64_t l = 0; l < p.g.k; l++, a += p.g.a_col, b += p.g.b_row)
            sum = accumulate(widen(*a), widen(*b), sum);
        put((T *)p.out + of.out + i * p.g.out_row + j * p.g.out_col, sum);
    }
}

template <typename T>
static gop_status matmul_strided(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const matmul_product<T> p = matmul_product_of<T>(task, matmul_part_of(task, step));
    const int64_t count = p.part.batches * p.part.rows * p.g.n;
    return GOP_LAUNCH(ctx, matmul_strided_kernel<T>, (unsigned)blocks_for(count, 256), 256, 0,
                      p);
}

extern const gop_row matmul_strided_row = {
    .name = "strided",
    .note = "a thread an output, neighbours in a column: a sector of memory for each element "
            "of a that a warp loads and each output it stores",
    .role = GOP_CONFORMING,
    .launch = MATMUL_LESSONS(matmul_strided),
    .plan = matmul_steps_plan<128>,
};
