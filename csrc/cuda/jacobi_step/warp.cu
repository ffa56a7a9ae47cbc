/*
 * warp.cu - jacobi_step, a warp per row.
 *
 * 32 threads read 32 neighbours of a row: whole sectors without shared memory, and the sum
 * moves between registers by shuffles. Takes every call: any strides, dense and CSR.
 */
#include "cuda/jacobi_step/tree.h"

enum { WARPS = 8 };

template <typename T> __global__ void jacobi_step_warp_kernel(jacobi_system<T> s)
{
    const int64_t warps = gridDim.x * (int64_t)WARPS;
    for (int64_t i = s.first + blockIdx.x * (int64_t)WARPS + threadIdx.y; i < s.last;
         i += warps) {
        const T diagonal = s.csr ? warp_diagonal(s, i) : dense_diagonal(s, i);
        for (int64_t c = 0; c < s.g.k; c++) {
            const T sum = warp_row(s, i, c);
            if (threadIdx.x == 0) jacobi_update(s, i, c, sum, diagonal);
        }
    }
}

template <typename T>
static gop_status jacobi_step_warp(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const jacobi_system<T> s = jacobi_system_of<T>(task, step);
    return GOP_LAUNCH(ctx, jacobi_step_warp_kernel<T>,
                      dim3((unsigned)blocks_for(s.last - s.first, WARPS)), dim3(WARP, WARPS), 0,
                      s);
}

extern const gop_row jacobi_step_warp_row = {
    .name = "warp",
    .note = "a warp per row, summed by register shuffles: no shared memory, no barriers, CSR "
            "too",
    .role = GOP_CONFORMING,
    .launch = JACOBI_LAUNCHES(jacobi_step_warp),
    .plan = jacobi_plan_slices,
};
