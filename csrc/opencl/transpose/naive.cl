/*
 * naive.cl - transpose, one item a work-item in the output's order.
 *
 * Neighbouring work-items write neighbours. What they read lies far apart: each read asks
 * memory for a line of which it takes one item, unless caches still have it.
 */
#include "opencl/axes.cl"
#include "opencl/vector.cl"

__kernel void transpose_naive_kernel(TO(BASE, out), FROM(BASE, in), const struct axes p)
{
    const INDEX i = (INDEX)get_global_id(0);
    if (i >= (INDEX)p.size) return;
    long at[2] = {out_at, in_at};
    place(&p, 0, (int)p.rank, i, 2, at);
    out[at[0]] = in[at[1]];
}
