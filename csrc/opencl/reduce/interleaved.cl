/*
 * interleaved.cl - reduce: a number a work-item, and a work-group meets in local memory.
 *
 * Many levels to a launch. The work-items that still work are numbers 2, 4, 8, .. apart: most
 * of what a GPU runs together idles.
 */
#include "opencl/reduce/lecture.cl"

__kernel void reduce_interleaved_kernel(LECTURE)
{
    __local R sum[GROUP];
    const long i = (long)get_global_id(0);
    const int t = (int)get_local_id(0);
    sum[t] = i < n ? (R)from[from_at + i] : (R)0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int d = 1; d < GROUP; d *= 2) {
        if (t % (2 * d) == 0) sum[t] += sum[t + d];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (t == 0) to[to_at + get_group_id(0)] = sum[0];
}
