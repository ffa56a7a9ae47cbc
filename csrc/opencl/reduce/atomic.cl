/*
 * atomic.cl - reduce: work-groups add to one number, without a second pass over partial sums.
 *
 * OpenCL 1.2 adds no float atomically, but exchanges a word if it is still what it was: whoever
 * finds that another came first tries again. The order may change from run to run, and with it
 * the last bits.
 */
#include "opencl/reduce/cascaded.cl"

__kernel void reduce_atomic_kernel(LECTURE)
{
    __local R sum[GROUP];
    __global volatile uint *const word = (__global volatile uint *)(to + to_at);
    sum_of_group(sum, from + from_at, n);
    if (get_local_id(0) != 0) return;
    if (n == 0) { /* a launch of its own before all others */
        *word = 0;
        return;
    }
    uint seen = 0, before; /* as it was cleared */
    do {
        before = seen;
        seen = atomic_cmpxchg(word, before, as_uint(as_float(before) + sum[0]));
    } while (seen != before);
}
