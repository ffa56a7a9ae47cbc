/*
 * sorting.cl - points in the order of the cells of a grid (core/ops/rdf.h): how many each cell
 * has, where it begins, and each point to its place.
 *
 * The order within a cell is left to chance: whole numbers do not show it. With one cell, ONE,
 * points stay in their order, which needs no float64: so those of all kernels lie alike.
 */
#if !ONE
#define PLACES
#endif
#include "opencl/rdf/pairs.cl"

__kernel void rdf_zero_kernel(TO(int, start), const struct set set)
{
    const int k = (int)get_global_id(0);
    if (k <= set.cells) start[start_at + k] = 0;
}

#if !ONE
/* As gop_grid_place. */
static int place_of(const struct places g, int axis, double s)
{
    if (g.n[axis] == 1) return 0;
    if (!(s > -g.most[axis])) s = -g.most[axis];
    else if (s > g.most[axis]) s = g.most[axis];
    const double t = (s - g.low[axis]) * g.per[axis];
    const int i = (int)((t <= 1 ? t : t - floor(t)) * g.n[axis]);
    return i < g.n[axis] ? i : g.n[axis] - 1;
}

/* Each point's cell, and how many came to that cell before. */
__kernel void rdf_place_kernel(FROM(BASE, p), TO(int, key), TO(int, rank), TO(int, start),
                               const struct set set, const struct places g)
{
    const int i = (int)get_global_id(0);
    if (i >= set.n) return;
    const __global BASE *const at = p + p_at + i * set.row;
    double s[3] = {at[0], at[set.col], at[2 * set.col]};
    if (g.is_box) {
        s[2] = s[2] / g.row[8];
        s[1] = (s[1] - s[2] * g.row[7]) / g.row[4];
        s[0] = (s[0] - s[1] * g.row[3] - s[2] * g.row[6]) / g.row[0];
    }
    const int cell = (place_of(g, 2, s[2]) * g.n[1] + place_of(g, 1, s[1])) * g.n[0] +
                     place_of(g, 0, s[0]);
    key[key_at + i] = cell;
    rank[rank_at + i] = atomic_inc((volatile __global int *)start + start_at + cell);
}

/* Numbers of points become where cells begin: one work-group, each item a stretch of cells. */
__kernel void rdf_scan_kernel(TO(int, start), const struct set set)
{
    __local int sums[GROUP];
    const int me = (int)get_local_id(0), cells = set.cells, each = cells / GROUP + 1;
    const int begin = min(me * each, cells), end = min(begin + each, cells);
    int sum = 0;
    start += start_at;
    for (int k = begin; k < end; k++) sum += start[k];
    sums[me] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int d = 1; d < GROUP; d *= 2) {
        const int before = me >= d ? sums[me - d] : 0;
        barrier(CLK_LOCAL_MEM_FENCE);
        sums[me] += before;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    int at = sums[me] - sum;
    for (int k = begin; k < end; k++) {
        const int own = start[k];
        start[k] = at;
        at += own;
    }
    if (me == GROUP - 1) start[cells] = at;
}
#endif

/* x, y and z of all points, each by itself and `room` long; what is behind the last is 0. */
__kernel void rdf_scatter_kernel(FROM(BASE, p), FROM(int, types), FROM(int, key),
                                 FROM(int, rank), TO(int, start), TO(BASE, sorted),
                                 TO(int, sorted_types), TO(int, sorted_key),
                                 const struct set set)
{
    const int i = (int)get_global_id(0), n = set.n;
    if (i >= set.room) return;
    int to = i, cell = 0;
    if (ONE && i == 0) {
        start[start_at] = 0;
        start[start_at + 1] = n;
    } else if (!ONE && i < n) {
        cell = key[key_at + i];
        to = start[start_at + cell] + rank[rank_at + i];
    }
    for (int axis = 0; axis < 3; axis++)
        sorted[sorted_at + axis * set.room + to] =
            i < n ? p[p_at + i * set.row + axis * set.col] : 0;
    if (TYPED)
        sorted_types[sorted_types_at + to] = i < n ? types[types_at + i * set.type_row] : 0;
    if (i < n) sorted_key[sorted_key_at + to] = cell;
}

/* At the begin of a call: all counters are 0. */
__kernel void rdf_clear_kernel(TO(ulong, out), const struct call c)
{
    const int k = (int)get_global_id(0);
    if (k < c.counters) out[out_at + k / c.bins * c.out_row + k % c.bins * c.out_col] = 0;
}
