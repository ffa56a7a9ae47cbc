/*
 * tiled.cu - jacobi_step with rows loaded through shared memory.
 *
 * A block loads a 32 by 32 tile of A along its rows, so that a warp reads whole sectors, and
 * reads it back down its columns, a thread per row again. The 33rd column shifts each row by a
 * bank, so that 32 threads reading 32 rows meet 32 banks.
 */
#include "cuda/jacobi_step/system.h"

enum { TILE = 32, PARTS = 8 };

template <typename T> __global__ void jacobi_step_tiled_kernel(jacobi_system<T> s)
{
    __shared__ T tile[TILE][TILE + 1];
    __shared__ T part[PARTS][TILE];
    const gop_jacobi &g = s.g;
    const int64_t i0 = s.first + blockIdx.x * (int64_t)TILE;
    for (int64_t c = 0; c < g.k; c++) {
        T sum = 0;
        for (int64_t k0 = 0; k0 < g.n; k0 += TILE) {
            const int64_t k = k0 + threadIdx.x;
            for (int y = threadIdx.y; y < TILE; y += PARTS) {
                T product = 0;
                if (i0 + y < s.last && k < g.n)
                    product =
                        s.a[(i0 + y) * g.a_row + k * g.a_col] * s.x[k * g.x_row + c * g.x_col];
                tile[y][threadIdx.x] = product;
            }
            __syncthreads();
            for (int l = threadIdx.y; l < TILE; l += PARTS) sum += tile[threadIdx.x][l];
            __syncthreads();
        }
        part[threadIdx.y][threadIdx.x] = sum;
        __syncthreads();
        const int64_t i = i0 + threadIdx.x;
        if (threadIdx.y == 0 && i < s.last) {
            for (int p = 1; p < PARTS; p++) sum += part[p][threadIdx.x];
            jacobi_update(s, i, c, sum, dense_diagonal(s, i));
        }
        __syncthreads();
    }
}

template <typename T>
static gop_status jacobi_step_tiled(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const jacobi_system<T> s = jacobi_system_of<T>(task, step);
    return GOP_LAUNCH(ctx, jacobi_step_tiled_kernel<T>,
                      dim3((unsigned)blocks_for(s.last - s.first, TILE)), dim3(TILE, PARTS), 0,
                      s);
}

extern const gop_row jacobi_step_tiled_row = {
    .name = "tiled",
    .note = "tiles of A pass through shared memory: a warp reads along rows, whole sectors at "
            "a time",
    .role = GOP_TEACHING,
    .caveat = "adds a row's terms in 8 interleaved parts, each product rounded, not in the "
              "order of tree/v1",
    .lecture = JACOBI_LECTURE,
    .launch = GOP_LAUNCH_REAL(jacobi_step_tiled),
    .plan = jacobi_plan_dense,
};
