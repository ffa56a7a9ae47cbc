/*
 * clear.cu - sets the counters of rdf to 0.
 */
#include "cuda/rdf/arguments.h"

__global__ void rdf_clear_kernel(counters c)
{
    const int64_t size = (int64_t)c.rows * c.bins, stride = (int64_t)gridDim.x * blockDim.x;
    for (int64_t k = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; k < size; k += stride)
        c.out[k / c.bins * c.row + k % c.bins * c.col] = 0;
}

gop_status rdf_clear(gop_ctx *ctx, const counters &c)
{
    const int64_t blocks = blocks_for((int64_t)c.rows * c.bins, 256);
    return GOP_LAUNCH(ctx, rdf_clear_kernel, (unsigned)blocks, 256, 0, c);
}
