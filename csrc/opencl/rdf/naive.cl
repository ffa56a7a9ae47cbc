/*
 * naive.cl - rdf, a work-item per point, which meets all later points and counts in global
 * memory.
 *
 * Neighbouring work-items read the same point at the same time, which is cheap; they add to the
 * same few counters at the same time, which is not: each atomic waits for its turn.
 */
#include "opencl/rdf/pairs.cl"

__kernel void rdf_naive_kernel(SETS)
{
    const long i = r.i0 + (long)get_global_id(0);
    t += t_at;
    if (i >= r.i1) return;
    const struct point p = POINT_A(i);
    for (long j = c.one_set && i + 1 > r.j0 ? i + 1 : r.j0; j < r.j1; j++) {
        const struct point q = POINT_B(j);
        const int bin = bin_of(square(p, q, box), t, c.bins, -1);
        if (bin >= 0) count(out + 2 * out_at, c, row_of(p.type, q.type, c.types), bin, 1);
    }
}
