/*
 * cascaded.cl - reduce: many numbers a work-item.
 *
 * As many work-items as the device holds: each adds many numbers before it meets anybody, so
 * that the meeting is paid once for all of them. Those who work on are neighbours.
 */
#include "opencl/reduce/lecture.cl"

__kernel void reduce_cascaded_kernel(LECTURE)
{
    __local R sum[GROUP];
    sum_of_group(sum, from + from_at, n);
    if (get_local_id(0) == 0) to[to_at + get_group_id(0)] = sum[0];
}
