/*
 * shared.cl - rdf by all pairs for GPUs, any edges: several points a work-item.
 *
 * A work-item holds POINTS points in registers: one read of local memory serves as many pairs.
 * The bin is guessed from a root, and only a guess near an edge reads a threshold. COPIES of
 * the counters keep neighbours from waiting for each other's increments.
 */
#include "opencl/rdf/near.cl"

__kernel void rdf_shared_kernel(SETS, const struct call c, const struct box box,
                                 const struct range r, __local BASE *nearby,
                                 __local uint *histogram)
{
    __local struct point tile[GROUP];
    const int me = (int)get_local_id(0);
    const long i0 = r.i0 + (long)get_group_id(0) * (GROUP * POINTS);
    const struct point nowhere = {NAN, NAN, NAN, 0}; /* in no bin */
    struct point p[POINTS];
    if (c.one_set && r.j1 <= i0 + 1) return; /* all its pairs are other work-groups' */
    begin_counting(t + t_at, nearby, histogram, c);
    __local uint *const mine = histogram + me % COPIES * c.counters;
    const BASE first = nearby[0], last = nearby[c.bins];
    for (int k = 0; k < POINTS; k++) {
        const long i = i0 + me + k * GROUP;
        p[k] = i < r.i1 ? POINT_A(i) : nowhere;
    }

    for (long j0 = c.one_set && i0 > r.j0 ? i0 : r.j0; j0 < r.j1; j0 += GROUP) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (j0 + me < r.j1) tile[me] = POINT_B(j0 + me);
        barrier(CLK_LOCAL_MEM_FENCE);
        const int tiled = (int)min((long)GROUP, r.j1 - j0);
        for (int j = 0; j < tiled; j++) {
            const struct point q = tile[j];
            for (int k = 0; k < POINTS; k++) {
                const BASE r2 = square(p[k], q, box);
                const int is_pair = !c.one_set || j0 + j > i0 + me + k * GROUP;
                if (r2 >= first && r2 < last && is_pair)
                    atomic_inc(&mine[row_of(p[k].type, q.type, c.types) * c.bins +
                                     bin_of(r2, nearby, c)]);
            }
        }
    }
    end_counting(out + 2 * out_at, histogram, c);
}
