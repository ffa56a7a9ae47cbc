/*
 * splitk.cu - matmul of few outputs and long sums: the chunks of a sum in blocks of their own.
 *
 * The blocks of blocktiled fill the device only when there are many tiles. Here `split` of them
 * sum chunks of the same outputs into scratch, and the kernel below adds the chunks, first to
 * last.
 */
#include "cuda/matmul/tiling.h"

enum { ACROSS = 32, FEW = SPLITK_FEW }; /* outputs of a block, or a FEW-th of them */

/* Each of DOWN threads adds every DOWN-th chunk, then the first one what the others have. */
template <typename T, int DOWN> __global__ void __launch_bounds__(ACROSS *DOWN)
    matmul_splitk_kernel(const matmul_product<T> p, const sum_t<T> *partials)
{
    __shared__ sum_t<T> meet[DOWN][ACROSS];
    const matmul_geometry &g = p.g;
    const int64_t count = g.batches * g.m * g.n, blocks = (count + ACROSS - 1) / ACROSS;
    const int x = threadIdx.x, y = threadIdx.y;
    grid_dependency_sync();
    for (int64_t block = blockIdx.x; block < blocks; block += gridDim.x) {
        const int64_t at = block * ACROSS + x;
        sum_t<T> sum = {};
        if (at < count)
#pragma unroll 4
            for (int64_t s = y; s < p.part.split; s += DOWN)
                sum = plus(sum, partials[at + s * p.part.split_stride]);
        meet[y][x] = sum;
        __syncthreads();
        if (y == 0 && at < count) {
            for (int part = 1; part < DOWN; part++) sum = plus(sum, meet[part][x]);
            const int64_t j = at % g.n, i = at / g.n % g.m;
            const matmul_offsets of = matmul_batch(g, at / g.n / g.m);
            put((T *)p.out + of.out + i * g.out_row + j * g.out_col, sum);
        }
        __syncthreads();
    }
}

/* A thread adds the few chunks of an output, as above. */
template <typename T> __global__ void __launch_bounds__(ACROSS *FEW)
    matmul_splitk_few_kernel(const matmul_product<T> p, const sum_t<T> *partials)
{
    const matmul_geometry &g = p.g;
    const int64_t at = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    grid_dependency_sync();
    if (at >= g.batches * g.m * g.n) return;
    sum_t<T> sum = {};
#pragma unroll 4
    for (int64_t s = 0; s < p.part.split; s++)
        sum = plus(sum, partials[at + s * p.part.split_stride]);
    const int64_t j = at % g.n, i = at / g.n % g.m;
    put((T *)p.out + matmul_batch(g, at / g.n / g.m).out + i * g.out_row + j * g.out_col, sum);
}

template <typename T>
gop_status matmul_add_partials(gop_ctx *ctx, const matmul_product<T> &p, const void *partials)
{
    const int64_t count = p.part.split_stride;
    const int adders = splitk_adders(p.part.split);
    const unsigned blocks = (unsigned)blocks_for(count, ACROSS);
    if (adders == 1)
        return GOP_LAUNCH_EARLY(ctx, matmul_splitk_few_kernel<T>,
                                (unsigned)blocks_for(count, ACROSS * FEW), ACROSS * FEW, 0, p,
                                (const sum_t<T> *)partials);
    if (adders == 8)
        return GOP_LAUNCH_EARLY(ctx, (matmul_splitk_kernel<T, 8>), blocks, dim3(ACROSS, 8), 0,
                                p, (const sum_t<T> *)partials);
    return GOP_LAUNCH_EARLY(ctx, (matmul_splitk_kernel<T, 32>), blocks, dim3(ACROSS, 32), 0, p,
                            (const sum_t<T> *)partials);
}

template <typename T>
static gop_status matmul_splitk(gop_ctx *ctx, const gop_task *task, int64_t)
{
    const matmul_part &part = *GOP_OWN(const matmul_part, task->plan);
    const matmul_product<T> p = matmul_product_of<T>(task, part);
    GOP_TRY((matmul_launch_blocks<T, sum_t<T>>(ctx, matmul_partials_of(p, task->scratch))));
    return matmul_add_partials(ctx, p, task->scratch);
}

static gop_status matmul_splitk_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    const gop_gemm &g = task->geometry.gemm;
    GOP_TRY(matmul_takes_batch(g, "splitk"));
    const int64_t item = matmul_item(task) < 4 ? 4 : matmul_item(task);
    const matmul_tiling t = splitk_tiling(tiling_of_shape(ctx, g, item));
    if (t.split < 2)
        return gop_fail(
            GOP_REFUSED,
            "matmul: kernel 'splitk' takes sums of at least %d terms and fewer outputs than "
            "fill the device, got (%lld, %lld) outputs of %lld terms",
            2 * SPLITK_SHORTEST, (long long)g.m, (long long)g.n, (long long)g.k);
    /* A sum is never wider than 16 bytes, nor than twice its dtype or 4 bytes. */
    plan->scratch = (size_t)(t.split * g.batches * g.m * g.n * item);
    *GOP_OWN(matmul_part,
             plan) = {0, g.batches, 0, g.m, t.split, t.chunk, g.batches * g.m * g.n};
    return GOP_OK;
}

extern const gop_row matmul_splitk_row = {
    .name = "splitk",
    .note = "where outputs are few and sums long, blocks share a sum: its pieces are added in "
            "a fixed order afterwards",
    .role = GOP_CONFORMING,
    .launch = MATMUL_LAUNCHES(matmul_splitk),
    .plan = matmul_splitk_plan,
};

/* For the other kernels that split sums. */
#define ADDING(T)                                                                              \
    template gop_status matmul_add_partials<T>(gop_ctx *, const matmul_product<T> &,           \
                                               const void *);
MATMUL_FLOATS(ADDING)
