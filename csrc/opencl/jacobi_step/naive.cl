/*
 * naive.cl - jacobi_step, a work-item per row of a dense A.
 *
 * The formula as it stands. Neighbouring work-items read neighbouring rows, a whole row apart
 * in memory: of all that memory gives at once each uses one element.
 */
#include "opencl/jacobi_step/system.cl"

__kernel void jacobi_step_naive_kernel(SYSTEM)
{
    const struct operands o = OPERANDS;
    const long i = s.first + (long)get_global_id(0);
    if (i >= s.last) return;
    for (long c = 0; c < s.k; c++) {
        T sum = 0;
        for (long k = 0; k < s.n; k++)
            sum += o.a[i * s.a_row + k * s.a_col] * o.x[k * s.x_row + c * s.x_col];
        update(o, s, factor, i, c, sum, o.a[i * (s.a_row + s.a_col)]);
    }
}
