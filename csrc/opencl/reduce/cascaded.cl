/*
 * cascaded.cl - reduce: many numbers a work-item.
 *
 * As many work-items as the device holds: each adds many numbers T in private memory before it
 * meets anybody, so that the meeting is paid once for all of them. They make sums R.
 */
#if defined(DOUBLE)
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

/* To `to`, from n numbers; of a launch that follows another these are that one's sums. */
#define LECTURE __global R *to, long to_at, __global const T *from, long from_at, const long n

/* The sum of a work-group. The second half of it is added to the first, again and again: whole
 * parts of the group retire, and neighbours read neighbours, which lie in different banks. */
static void sum_of_group(__local R *sum, __global const T *from, long n)
{
    const int t = (int)get_local_id(0);
    R mine = 0;
    for (long i = (long)get_global_id(0); i < n; i += (long)get_global_size(0))
        mine += (R)from[i];
    sum[t] = mine;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int d = GROUP / 2; d > 0; d /= 2) {
        if (t < d) sum[t] += sum[t + d];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

__kernel void reduce_cascaded_kernel(LECTURE)
{
    __local R sum[GROUP];
    sum_of_group(sum, from + from_at, n);
    if (get_local_id(0) == 0) to[to_at + get_group_id(0)] = sum[0];
}
