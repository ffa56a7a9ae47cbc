/*
 * rdf.h - a grid of cells for the points of rdf: which of them can hold a near pair.
 *
 * Only sorting and pruning happen here, in float64. Which pairs count is decided elsewhere, by
 * the definition, on the coordinates as they were given; a grid may name too many cells, never
 * too few. Static functions, for kernels of every backend.
 */
#ifndef GOP_CORE_RDF_H
#define GOP_CORE_RDF_H

#include "core/ops/rdf_box.h"

/* Where a coordinate lies in a period, 0 to 1. What spans one period at most is not wrapped. */
GOP_RDF_FN double gop_in_period(double s, double low, double per)
{
    const double t = (s - low) * per;
    return t <= 1 ? t : t - floor(t);
}

enum {
    GOP_GRID_REACH = 4, /* rows of cells looked at in each direction, at most */
    GOP_GRID_ROWS = (2 * GOP_GRID_REACH + 1) * (2 * GOP_GRID_REACH + 1),
};

/*
 * A grid of n[0] by n[1] by n[2] cells, those along a next to each other. Near a cell is cell
 * (i + o, j + oy, k + oz), modulo n, with first <= o <= last of row (oz, oy).
 *
 * An axis has one cell, or at least twice its reach and one: so no cell is named twice, and the
 * offset of a cell also says in which image it lies. Without a box the grid is periodic all the
 * same, which costs nothing but pairs too far to count: points far apart may share a cell, and
 * no bounds make it large.
 */
typedef struct gop_grid {
    int n[3], reach[3];
    int span;              /* cells along a that are taken together, near all of them */
    int wide;              /* 1: an axis is one cell, so that offsets do not tell images */
    int open[3];           /* axes whose periods were chosen here: there are no images */
    double most[3];        /* no |s| counts as more */
    double low[3], per[3]; /* place on an axis: (s - low)*per, modulo 1 */
    double cost;           /* predicted, in pairs of the double loop */
    int first[GOP_GRID_ROWS], last[GOP_GRID_ROWS];
} gop_grid;

GOP_RDF_FN int gop_grid_row(const gop_grid *g, int oz, int oy)
{
    return (oz + g->reach[2]) * (2 * g->reach[1] + 1) + oy + g->reach[1];
}

GOP_RDF_FN int gop_grid_place(const gop_grid *g, int axis, double s)
{
    if (g->n[axis] == 1) return 0;                 /* whatever s is */
    if (!(s > -g->most[axis])) s = -g->most[axis]; /* a NaN too */
    else if (s > g->most[axis]) s = g->most[axis];
    const int i = (int)(gop_in_period(s, g->low[axis], g->per[axis]) * g->n[axis]);
    return i < g->n[axis] ? i : g->n[axis] - 1;
}

GOP_RDF_FN int64_t gop_grid_cell(const gop_grid *g, const double s[3])
{
    const int64_t row = (int64_t)gop_grid_place(g, 2, s[2]) * g->n[1];
    return (row + gop_grid_place(g, 1, s[1])) * g->n[0] + gop_grid_place(g, 0, s[0]);
}

/* The differences of places, in periods, of two points in cells `offset` apart. */
static inline gop_range gop_grid_apart(const gop_near *near, const gop_grid *g, int axis,
                                       int offset)
{
    const double n = g->n[axis], most = near->radius / near->height[axis];
    const double error = near->error / near->box[4 * axis];
    gop_range d = {-most, most};
    if (g->n[axis] > 1) {
        d.low = fmax(d.low, (offset - 1) / n - error);
        d.high = fmin(d.high, (offset + 1) / n + error);
    }
    return d;
}

static inline int gop_grid_reach(const gop_near *near, const gop_grid *g, int axis)
{
    if (g->n[axis] == 1) return 0;
    const double n = g->n[axis];
    const double reach =
        floor(n * (near->radius / near->height[axis] + near->error / near->box[4 * axis]) + 1);
    return reach < 1e6 ? (int)reach : 1000000;
}

/*
 * Fills `first` and `last`. Two points at places that differ by (s, t, u) periods, some image
 * of them, are apart by u*cz along z, by t*by + u*cy along y, by s*ax + t*bx + u*cx along x. In
 * rows (oz, oy) t and u are in known ranges, so that y and z take a part of the radius, and
 * what is left bounds x, and with it s.
 *
 * Gives the number of cells that it names, or 0 where the cells along a would meet twice.
 */
static inline double gop_grid_fill(const gop_near *near, gop_grid *g)
{
    const double *box = near->box, r = near->radius;
    double named = 0;
    g->reach[0] = 0;
    for (int oz = -g->reach[2]; oz <= g->reach[2]; oz++) {
        const gop_range u = gop_grid_apart(near, g, 2, oz);
        const double z = gop_range_least(gop_range_times(u, box[8]));
        for (int oy = -g->reach[1]; oy <= g->reach[1]; oy++) {
            const int row = gop_grid_row(g, oz, oy);
            const gop_range t = gop_grid_apart(near, g, 1, oy);
            const gop_range tby = gop_range_times(t, box[4]), ucy = gop_range_times(u, box[7]);
            const gop_range tbx = gop_range_times(t, box[3]), ucx = gop_range_times(u, box[6]);
            const gop_range dy = {tby.low + ucy.low, tby.high + ucy.high};
            const double y = gop_range_least(dy), left = r * r - y * y - z * z;
            g->first[row] = 0, g->last[row] = -1;
            if (u.low > u.high || t.low > t.high || left < -1e-9 * (r * r)) continue;
            g->last[row] = 0;
            named += 1;
            if (g->n[0] == 1) continue;
            const double x = sqrt(fmax(left, 0) + 1e-9 * (r * r)), n = g->n[0];
            const double most = r / near->height[0], error = near->error / box[0];
            const double low = fmax((-x - tbx.high - ucx.high) / box[0], -most) - error;
            const double high = fmin((x - tbx.low - ucx.low) / box[0], most) + error;
            g->first[row] = (int)ceil(low * n - 1);
            g->last[row] = (int)floor(high * n + 1);
            if (g->reach[0] < -g->first[row]) g->reach[0] = -g->first[row];
            if (g->reach[0] < g->last[row]) g->reach[0] = g->last[row];
            named += g->last[row] - g->first[row];
        }
    }
    return g->n[0] > 1 && 2 * g->reach[0] + g->span > g->n[0] ? 0 : named;
}

/* Places and reach of a grid of cells of these sizes, g->n[0] of them along a still without
 * span. */
static inline void gop_grid_scale(const gop_pairs *p, gop_near *near, gop_grid *g,
                                  const double size[3], const double extent[3],
                                  const double unit[3])
{
    for (int k = 0; k < 3; k++) {
        g->most[k] = g->open[k] ? gop_open_reach(p) / unit[k] : INFINITY;
        g->low[k] = fmin(fmax(p->low[k], -g->most[k]), g->most[k]);
        g->per[k] = 1;
        if (g->open[k]) {
            const double period = g->n[k] > 1 ? size[k] * g->n[k] : fmax(extent[k], size[k]);
            near->height[k] = near->box[4 * k] = period;
            g->per[k] = unit[k] / period;
        }
        if (k == 0) g->n[k] *= g->span;
        g->wide |= g->n[k] == 1 && !g->open[k];
        g->reach[k] = gop_grid_reach(near, g, k);
        if (k > 0 && g->n[k] > 1 && 2 * g->reach[k] + 1 > g->n[k]) g->reach[k] = 1000000;
    }
}

/* What things cost a processor, in pairs of its double loop. */
typedef struct gop_grid_costs {
    double point;  /* to sort a point */
    double group;  /* to begin with a group of points */
    double placed; /* to find a row of cells */
    double copied; /* to copy a point beside others */
    double paired; /* a pair of a group */
    int grouped;   /* points of a group, at most */
} gop_grid_costs;

/*
 * The grid that costs least, among cells of a quarter of the radius and more. Falls back to one
 * cell, which is the double loop.
 *
 * Along an open axis no cell is longer than what reaches the next one alone, unless a sample of
 * the pairs says that points fill their bounds: where they fill little, longer cells would hold
 * most of them. How many points a cell holds is predicted from the bounds, or by the sample if
 * that says that they lie closer together.
 */
static inline gop_grid gop_grid_choose(const gop_pairs *p, const gop_near *need,
                                       const gop_grid_costs *costs)
{
    gop_grid best = {.n = {1, 1, 1}, .span = 1, .wide = 1}; /* row (0, 0) names the cell */
    gop_near near = *need;
    const double n = (double)p->n, n2 = (double)p->n2, pairs = p->one_set ? n / 2 : n2;
    const double limit = fmin(fmax(64, fmax(n, n2)), 1e9); /* of cells */
    double longest = (near.radius + near.error) * 1.01;
    double extent[3], unit[3], size[3], filled = 1;
    best.cost = n * pairs + n + n2;
    if (n < 1 || n2 < 1 || !p->bounded) return best;
    for (int k = 0; k < 3; k++) {
        best.open[k] = gop_axis_open(p, k);
        unit[k] = p->box ? p->cell[4 * k] : 1;
        extent[k] = (p->high[k] - p->low[k]) * unit[k];
        if (best.open[k]) filled *= fmin(2 * near.radius / extent[k], 1);
    }
    if (near.share > 0 && near.share < 2 * filled) longest = INFINITY;
    for (double most = near.radius / GOP_GRID_REACH * 1.001; most < 1e300; most *= 1.2599) {
        gop_grid g = {.span = 4};
        int reach[3];
        double cells = 1, closed = 1, even = 1, dense = 1, several = 0;
        for (int k = 0; k < 3; k++) {
            const int open = g.open[k] = best.open[k];
            size[k] = open ? fmin(most, longest) : most;
            reach[k] = (int)(near.radius / size[k]) + 1;
            double along = floor((open ? extent[k] : near.height[k]) / size[k]) + open;
            if (open && along > 1) along += reach[k] + 1;
            if (!(along >= 2 * reach[k] + 1)) along = 1;
            g.n[k] = (int)fmin(along, limit);
            cells *= along;
            several += along > 1 && (!open || most < 1.26 * longest);
            if (open) even *= fmax(extent[k] / size[k], 1);
            if (open) dense *= 2 * near.radius / size[k];
            else closed *= along;
        }
        if (several == 0) break;
        for (;;) { /* fold the longest open axis, until they are not too many */
            int k = -1;
            cells = (double)g.n[0] * g.n[1] * g.n[2];
            for (int i = 0; i < 3; i++)
                if (g.open[i] && (k < 0 || g.n[i] > g.n[k])) k = i;
            if (cells <= limit || k < 0 || g.n[k] <= 4 * reach[k]) break;
            g.n[k] = (int)(g.n[k] * 0.75) + 1;
        }
        if (cells > limit) continue;
        if (g.n[0] == 1) g.span = 1;
        while (g.span > 1 && cells * g.span > limit) g.span /= 2;
        gop_grid_scale(p, &near, &g, size, extent, unit);
        if (g.reach[1] > GOP_GRID_REACH || g.reach[2] > GOP_GRID_REACH) continue;
        const double named = gop_grid_fill(&near, &g);
        if (named == 0) continue;
        const double rows = (2.0 * g.reach[1] + 1) * (2.0 * g.reach[2] + 1);
        const double held = closed * (near.share > 0 ? fmin(even, dense / near.share) : even);
        const double each = 1 / (fmin(held, cells) * g.span); /* share of a cell */
        const double group = fmin(fmax(n * each * g.span, 1), costs->grouped);
        const double met = (named + rows * (g.span - 1)) * each * n2 * (p->one_set ? 0.5 : 1);
        g.cost = (n + (p->one_set ? 0 : n2)) * costs->point + n * met * costs->paired +
                 n / group * (costs->group + rows * costs->placed + met * costs->copied);
        if (g.cost < best.cost) best = g;
        else if (g.cost > 4 * best.cost && best.span * best.n[0] > 1) break;
    }
    return best;
}

/* Whether a GPU should compare only the points of near cells. `cost` is the time of that, in
 * pairs of the kernel that compares all points. A pair costs more if the points are too few for
 * their threads to fill the device. */
static inline int gop_are_near_pairs_few(const gop_pairs *p, double cost)
{
    const double n = (double)p->n, few = n < 8e4 ? 8e4 / n : 1;
    const double pairs = n * (double)p->n2 / (p->one_set ? 2 : 1);
    return cost * few * (p->box ? 4 : 2) + 4e7 <= pairs;
}

#endif
