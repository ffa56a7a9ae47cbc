/*
 * naive.cu - jacobi_step, a thread per row.
 *
 * The formula as it stands. Neighbouring threads read neighbouring rows, a whole row apart in
 * memory: every 32-byte sector is fetched for one element of it.
 */
#include "cuda/jacobi_step/system.h"

template <typename T> __global__ void jacobi_step_naive_kernel(jacobi_system<T> s)
{
    const gop_jacobi &g = s.g;
    const int64_t i = s.first + blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    if (i >= s.last) return;
    for (int64_t c = 0; c < g.k; c++) {
        T sum = 0;
        for (int64_t k = 0; k < g.n; k++)
            sum += s.a[i * g.a_row + k * g.a_col] * s.x[k * g.x_row + c * g.x_col];
        jacobi_update(s, i, c, sum, dense_diagonal(s, i));
    }
}

template <typename T>
static gop_status jacobi_step_naive(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const jacobi_system<T> s = jacobi_system_of<T>(task, step);
    return GOP_LAUNCH(ctx, jacobi_step_naive_kernel<T>,
                      dim3((unsigned)blocks_for(s.last - s.first, 256)), dim3(256), 0, s);
}

extern const gop_row jacobi_step_naive_row = {
    .name = "naive",
    .note = "a thread per row: neighbouring threads read a whole row apart",
    .role = GOP_TEACHING,
    .caveat = "adds a row's terms in column order, each product rounded, not in the order of "
              "tree/v1",
    .lecture = JACOBI_LECTURE,
    .launch = GOP_LAUNCH_REAL(jacobi_step_naive),
    .plan = jacobi_plan_dense,
};
