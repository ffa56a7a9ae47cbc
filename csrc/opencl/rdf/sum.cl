/*
 * sum.cl - the counters of a call from those of so many slots; of none they are 0.
 */
#include "opencl/rdf/pairs.cl"

__kernel void rdf_sum_kernel(IN(ulong, slots), OUT(ulong, out), const struct call c,
                             const int count)
{
    const int k = (int)get_global_id(0);
    const long row = k / c.bins, bin = k % c.bins;
    const long slot = (long)(c.counters / c.bins) * (c.bins + 1); /* one more: no bin */
    ulong sum = 0;
    if (k >= c.counters) return;
    for (int s = 0; s < count; s++)
        sum += slots[slots_at + s * slot + row * (c.bins + 1) + bin];
    out[out_at + row * c.out_row + bin * c.out_col] = sum;
}
