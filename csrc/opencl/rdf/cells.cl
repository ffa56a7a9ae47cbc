/*
 * cells.cl - rdf of near cells for GPUs: a work-item per point, in the order of the cells.
 *
 * Neighbouring work-items then have points of one cell or of the next ones, and read the same
 * points at about the same time. A pair of one set belongs to the point that comes first.
 */
#include "opencl/rdf/near.cl"

__kernel void rdf_cells_kernel(SETS, const struct guess g, __local uint *histogram)
{
    const int me = (int)get_local_id(0), i = (int)(r.i0 + (long)get_global_id(0));
    begin_counting(histogram, c, &g);
    if (i < r.i1) {
        const struct point p = POINT_A(i);
        const float4 mine = narrow(p, box, OF_TYPE(p.type, g) * TYPES(c));
        const int cell = key[key_at + i];
        FOR_RUNS(grid, cell, start + start_at, j, j1)
        {
            if (c.one_set && j <= i) j = i + 1;
            for (; j < j1; j++) {
                const struct point q = POINT_B(j);
                const float4 other = narrow(q, box, OF_TYPE(q.type, g));
                int face = 1;
                uint row = 0;
                if (EVEN) {
                    const uint place = place_of(guessed_square(mine, other, &g, &face), &g);
                    row = place >> g.shift;
                    face |= is_near_edge(place, &g);
                }
                if (face) row = settled(square(p, q, box), t + t_at, c, &g);
                atomic_inc(COUNTER(histogram, counter_of(row, me, &g) + as_uint(mine.w) +
                                                  as_uint(other.w)));
            }
        }
    }
    end_counting(out + 2 * out_at, histogram, c, &g);
}
