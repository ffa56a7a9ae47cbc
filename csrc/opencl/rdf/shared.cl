/*
 * shared.cl - rdf that counts in local memory, 32 bits a counter. (CUDA says shared memory.)
 *
 * A work-group brings a tile of points there too; at its end it adds what it counted to global
 * memory. Atomics to local memory stay inside the compute unit, and those to global memory fall
 * from one a pair to one a counter and work-group.
 */
#include "opencl/rdf/pairs.cl"

__kernel void rdf_shared_kernel(SETS, const struct call c, const struct box box,
                                const struct range r, __local uint *histogram)
{
    __local struct point tile[GROUP];
    const int me = (int)get_local_id(0);
    const long i0 = r.i0 + (long)get_group_id(0) * GROUP, i = i0 + me;
    const struct point nowhere = {NAN, NAN, NAN, 0}; /* in no bin */
    t += t_at;
    if (c.one_set && r.j1 <= i0 + 1) return; /* all its pairs are other work-groups' */
    for (int k = me; k < c.counters; k += GROUP) histogram[k] = 0;
    const struct point p = i < r.i1 ? POINT_A(i) : nowhere;

    for (long j0 = r.j0; j0 < r.j1; j0 += GROUP) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (j0 + me < r.j1) tile[me] = POINT_B(j0 + me);
        barrier(CLK_LOCAL_MEM_FENCE);
        const int tiled = (int)min((long)GROUP, r.j1 - j0);
        for (int j = 0; j < tiled; j++) {
            const BASE r2 = square(p, tile[j], box);
            if (r2 >= t[0] && r2 < t[c.bins] && (!c.one_set || j0 + j > i))
                atomic_inc(&histogram[row_of(p.type, tile[j].type, c.types) * c.bins +
                                      halve(r2, t, c.bins)]);
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int k = me; k < c.counters; k += GROUP)
        if (histogram[k]) count(out + 2 * out_at, c, k / c.bins, k % c.bins, histogram[k]);
}
