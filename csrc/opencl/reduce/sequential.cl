/*
 * sequential.cl - reduce: those who work are neighbours, and so are the words that are added.
 */
#include "opencl/reduce/lecture.cl"

__kernel void reduce_sequential_kernel(LECTURE)
{
    __local R sum[GROUP];
    load_one(sum, from + from_at, n);
    fold_sequential(sum);
    if (get_local_id(0) == 0) to[to_at + get_group_id(0)] = sum[0];
}
