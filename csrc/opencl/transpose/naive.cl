/*
 * naive.cl - transpose, one item a work-item in the output's order.
 *
 * Neighbouring work-items write neighbours. What they read lies far apart: each read asks
 * memory for a line of which it takes one item, unless caches still have it.
 */
#include "opencl/transpose/item.cl"

__kernel void transpose_naive_kernel(__global item *out, long out_at, __global const item *in,
                                     long in_at, const struct axes p)
{
    const INDEX i = (INDEX)get_global_id(0);
    if (i >= (INDEX)p.size) return;
    long at[2] = {out_at, in_at};
    place(&p, 0, (int)p.rank, i, 2, at);
    out[at[0]] = in[at[1]];
}
