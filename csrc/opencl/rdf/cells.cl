/*
 * cells.cl - rdf of near cells for GPUs: a work-item per point, in the order of the cells.
 *
 * Neighbouring work-items then have points of one cell or of the next ones, and read the same
 * points at about the same time. A pair of one set belongs to the point that comes first.
 */
#include "opencl/rdf/near.cl"
#include "opencl/rdf/ranges.cl"

__kernel void rdf_cells_kernel(SORTED, TO(uint, out), const struct call c,
                               const struct box box, const struct range r, const struct grid g,
                               __local BASE *nearby, __local uint *histogram)
{
    const long i = r.i0 + (long)get_global_id(0);
    begin_counting(t + t_at, nearby, histogram, c);
    __local uint *const mine = histogram + (int)get_local_id(0) % COPIES * c.counters;
    if (i < r.i1) {
        const struct point p = SORTED_POINT(a, 0, i);
        const BASE first = nearby[0], last = nearby[c.bins];
        const int cell = key[key_at + i];
        FOR_RUNS(g, cell, start + start_at, j, j1)
        {
            if (c.one_set && j <= i) j = (int)i + 1;
            for (; j < j1; j++) {
                const struct point q = SORTED_POINT(b, 1, j);
                const BASE r2 = square(p, q, box);
                if (r2 >= first && r2 < last)
                    atomic_inc(&mine[row_of(p.type, q.type, c.types) * c.bins +
                                     bin_of(r2, nearby, c)]);
            }
        }
    }
    end_counting(out + 2 * out_at, histogram, c);
}
