/*
 * naive.cl - reduce: neighbours in pairs, a launch a level.
 *
 * The sum as a tournament. Every level goes through global memory and waits for a launch.
 */
#include "opencl/reduce/lecture.cl"

__kernel void reduce_naive_kernel(LECTURE)
{
    const long i = (long)get_global_id(0);
    from += from_at;
    if (2 * i + 1 < n) to[to_at + i] = (R)from[2 * i] + (R)from[2 * i + 1];
    else if (2 * i < n) to[to_at + i] = (R)from[2 * i];
}
