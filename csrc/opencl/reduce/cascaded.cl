/*
 * cascaded.cl - reduce: many numbers a work-item.
 *
 * As many work-items as the device holds step over the array: each adds many numbers in private
 * memory before it meets anybody, so that the meeting is paid once for all of them.
 */
#include "opencl/reduce/lecture.cl"

__kernel void reduce_cascaded_kernel(LECTURE)
{
    __local R sum[GROUP];
    const int t = (int)get_local_id(0);
    R mine = 0;
    for (long i = (long)get_global_id(0); i < n; i += (long)get_global_size(0))
        mine += (R)from[from_at + i];
    sum[t] = mine;
    barrier(CLK_LOCAL_MEM_FENCE);
    fold_sequential(sum);
    if (t == 0) to[to_at + get_group_id(0)] = sum[0];
}
