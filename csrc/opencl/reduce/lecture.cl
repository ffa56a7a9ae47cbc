/*
 * lecture.cl - what the lecture's kernels share: numbers T of which sums R are made, and the
 * first step, which loads one for each work-item of a group.
 */
#ifndef LECTURE_CL
#define LECTURE_CL

#if defined(DOUBLE)
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

/* To `to`, from n numbers; of a launch that follows another these are that one's sums. */
#define LECTURE __global R *to, long to_at, __global const T *from, long from_at, const long n

/* A number for each work-item into local memory, for all of the group to see. */
static void load_one(__local R *sum, __global const T *from, long n)
{
    const long i = (long)get_global_id(0);
    sum[get_local_id(0)] = i < n ? (R)from[i] : (R)0;
    barrier(CLK_LOCAL_MEM_FENCE);
}

/* The second half is added to the first, again and again: whole parts of the group retire, and
 * neighbours read neighbours, which lie in different banks. */
static void fold_sequential(__local R *sum)
{
    const int t = (int)get_local_id(0);
    for (int d = GROUP / 2; d > 0; d /= 2) {
        if (t < d) sum[t] += sum[t + d];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

#endif
