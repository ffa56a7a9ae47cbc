/*
 * splitk.cu - matmul of few outputs and long sums: the pieces of a sum in blocks of their own.
 *
 * The blocks of blocktiled fill the device only when there are many tiles. Here `split` of them
 * sum pieces of the same outputs into scratch, and the kernel below adds the pieces, first to
 * last.
 */
#include "cuda/matmul/tiles.h"

template <typename T>
__global__ void matmul_splitk_kernel(const matmul_product<T> p, const sum_t<T> *pieces)
{
    const gop_gemm &g = p.g;
    const int64_t count = g.batches * g.m * g.n, threads = (int64_t)gridDim.x * blockDim.x;
    for (int64_t at = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; at < count;
         at += threads) {
        sum_t<T> sum = pieces[at];
        for (int64_t s = 1; s < p.part.split; s++)
            sum = plus(sum, pieces[at + s * p.part.split_stride]);
        const int64_t j = at % g.n, i = at / g.n % g.m;
        const matmul_offsets of = matmul_batch(g, at / g.n / g.m);
        put((T *)p.out + of.out + i * g.out_row + j * g.out_col, sum);
    }
}

template <typename T>
static gop_status matmul_splitk(gop_ctx *ctx, const gop_task *task, int64_t)
{
    const gop_gemm &g = task->geometry.gemm;
    const matmul_part &part = *GOP_OWN(const matmul_part, task->plan);
    const matmul_product<T> p = matmul_product_of<T>(task, part);

    matmul_product<T> pieces = p; /* the same product, into contiguous scratch */
    pieces.out = task->scratch;
    pieces.g.out_row = g.n;
    pieces.g.out_col = 1;
    for (int axis = g.batch_rank - 1, inner = axis; axis >= 0; axis--)
        pieces.g.out[axis] =
            axis == inner ? g.m * g.n : pieces.g.out[axis + 1] * g.extent[axis + 1];
    GOP_TRY((matmul_launch_blocks<T, sum_t<T>>(ctx, pieces)));
    return GOP_LAUNCH(ctx, matmul_splitk_kernel<T>,
                      (unsigned)blocks_for(part.split_stride, THREADS), THREADS, 0, p,
                      (const sum_t<T> *)task->scratch);
}

enum { SHORTEST = 256, PIECES = 1024 }; /* terms of a piece at least, pieces of a sum at most */

/* Two blocks a multiprocessor, pieces of whole tiles. The same for the same device and shape,
 * so the bits are, too. */
static int64_t matmul_split(const gop_ctx *ctx, const gop_gemm &g, int64_t tiles)
{
    const int64_t wanted = 2 * (int64_t)ctx->info.processors / (tiles > 0 ? tiles : 1);
    const int64_t most = g.k / SHORTEST < PIECES ? g.k / SHORTEST : PIECES;
    return wanted < most ? wanted : most;
}

/* Tiles, counted as 64 x 64, which no dtype's tile is smaller than. */
static int64_t splitk_tiles(const gop_gemm &g)
{
    return (g.m + 63) / 64 * ((g.n + 63) / 64) * g.batches;
}

static gop_status matmul_splitk_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    const gop_gemm &g = task->geometry.gemm;
    const int64_t split = matmul_split(ctx, g, splitk_tiles(g));
    if (split < 2)
        return gop_fail(
            GOP_REFUSED,
            "matmul: kernel 'splitk' takes sums of at least %d terms and fewer outputs than "
            "fill the device, got (%lld, %lld) outputs of %lld terms",
            2 * SHORTEST, (long long)g.m, (long long)g.n, (long long)g.k);
    /* A sum is never wider than 16 bytes, nor than twice its dtype or 4 bytes. */
    const int64_t item = matmul_item(task) < 4 ? 4 : matmul_item(task);
    const int64_t even = (g.k + split - 1) / split, chunk = (even + BK - 1) / BK * BK;
    plan->scratch = (size_t)(split * g.batches * g.m * g.n * item);
    *GOP_OWN(matmul_part, plan) = {
        0, g.batches, 0, g.m, (g.k + chunk - 1) / chunk, chunk, g.batches * g.m * g.n};
    return GOP_OK;
}

#define LAUNCH(T) matmul_splitk<T>
extern const gop_row matmul_splitk_row = {
    .name = "splitk",
    .note = "where outputs are few and sums long, blocks share a sum: its pieces are added in "
            "a fixed order afterwards",
    .role = GOP_CONFORMING,
    .launch = MATMUL_LAUNCHES(LAUNCH),
    .plan = matmul_splitk_plan,
};
