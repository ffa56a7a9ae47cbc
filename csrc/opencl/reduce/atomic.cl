/*
 * atomic.cl - reduce: work-groups add to one number.
 *
 * No second pass over partial sums: each group adds its own to the result. OpenCL 1.2 adds no
 * float atomically, but exchanges a word if it is still what it was: whoever finds that another
 * came first tries again. Who comes first is added first, so the last bits may change from run
 * to run.
 */
#include "opencl/reduce/lecture.cl"

__kernel void reduce_atomic_kernel(LECTURE)
{
    __local R sum[GROUP];
    const int t = (int)get_local_id(0);
    __global volatile uint *const word = (__global volatile uint *)(to + to_at);
    R mine = 0;
    for (long i = (long)get_global_id(0); i < n; i += (long)get_global_size(0))
        mine += (R)from[from_at + i];
    sum[t] = mine;
    barrier(CLK_LOCAL_MEM_FENCE);
    fold_sequential(sum);
    if (t != 0) return;
    uint seen = 0, before; /* as it was cleared */
    do {
        before = seen;
        seen = atomic_cmpxchg(word, before, as_uint(as_float(before) + sum[0]));
    } while (seen != before);
}

__kernel void reduce_atomic_clear_kernel(LECTURE)
{
    to[to_at] = 0;
}
