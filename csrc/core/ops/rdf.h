/*
 * rdf.h - where points lie in a box, and a grid of cells: which of them can hold a near pair.
 *
 * Only sorting and pruning happen here, in float64. Which pairs count is decided elsewhere, by
 * the definition, on the coordinates as they were given; a grid may name too many cells, never
 * too few. Static functions, for kernels of every backend.
 */
#ifndef GOP_CORE_RDF_H
#define GOP_CORE_RDF_H

#include <math.h>
#include <stdint.h>

#include "core/arrays/geometry.h"

#if defined(__CUDACC__)
#define GOP_RDF_FN static inline __host__ __device__
#else
#define GOP_RDF_FN static inline
#endif

/* What is known of the frames of a call, in the geometry's memory: gop_pairs, and what follows
 * it. */
typedef struct gop_frames {
    gop_pairs pairs;       /* of the first frame; box and bounds are those of all */
    int64_t rows;          /* of counters in a frame: one, or one a pair of types */
    int64_t count;         /* of frames */
    int64_t frame, frame2; /* strides from frame to frame; 0: all have the same points */
    double first;          /* the first edge */
    double uneven;         /* how far edges are from even, in bins */
    int log_uniform;       /* edges are even in log r, bin near log2(r2)*scale - origin */
    double log_scale, log_origin, log_uneven;
    double middle[3], extent[3];         /* of coordinates */
    double guess_error, guess_margin[2]; /* of gop_guess_errors */
} gop_frames;

static inline gop_frames *gop_frames_of(const gop_geometry *geometry)
{
    enum { FITS = 1 / (sizeof(gop_frames) <= sizeof(gop_geometry)) };
    return (gop_frames *)((uintptr_t)geometry * FITS);
}
#define GOP_FRAMES(task) gop_frames_of(&(task)->geometry)

/* The distances between opposite faces of lower triangular rows. hypot(x, 0) is x, so that a
 * right-angled box has its edges exactly. */
static inline void gop_box_heights(const double box[9], double height[3])
{
    const double ax = box[0], bx = box[3], by = box[4], cx = box[6], cy = box[7], cz = box[8];
    const double bc = hypot(hypot(by * cz, bx * cz), bx * cy - by * cx);
    height[0] = ax * (by * cz / bc);
    height[1] = by * (cz / hypot(cz, cy));
    height[2] = cz;
}

/* s with p = s[0]*a + s[1]*b + s[2]*c; without a box, p itself. */
GOP_RDF_FN void gop_fractions(const double *box, double x, double y, double z, double s[3])
{
    s[0] = x, s[1] = y, s[2] = z;
    if (!box) return;
    s[2] = z / box[8];
    s[1] = (y - s[2] * box[7]) / box[4];
    s[0] = (x - s[1] * box[3] - s[2] * box[6]) / box[0];
}

/*
 * An axis along which nothing is ever shifted: without a box, or where the points reach less
 * than a quarter of a length that no other row leans on, so that |d/length| < 1/2.
 */
static inline int gop_axis_open(const gop_pairs *p, int axis)
{
    static const int leaning[3][2] = {{3, 6}, {3, 7}, {6, 7}};
    const double *c = p->cell;
    if (p->box == 0) return 1;
    return p->bounded && c[leaning[axis][0]] == 0 && c[leaning[axis][1]] == 0 &&
           c[4 * axis] > 5 * p->largest;
}

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
    if (g->n[axis] == 1) return 0; /* whatever s is */
    const int i = (int)(gop_in_period(s, g->low[axis], g->per[axis]) * g->n[axis]);
    return i < g->n[axis] ? i : g->n[axis] - 1;
}

GOP_RDF_FN int64_t gop_grid_cell(const gop_grid *g, const double s[3])
{
    const int64_t row = (int64_t)gop_grid_place(g, 2, s[2]) * g->n[1];
    return (row + gop_grid_place(g, 1, s[1])) * g->n[0] + gop_grid_place(g, 0, s[0]);
}

/*
 * How far the differences that the definition computes may be from true ones, as a length; u is
 * half a step of 1 in the points' dtype. With A the largest |coordinate|, M = 2*A + ax + by +
 * cz and q the largest of |bx|/by, |cx|/cz, |cy|/cz: |dz| <= M, and what is taken away for c is
 * at most |d*c/cz| + |c|, 2*q*M; so what is taken away for b is at most q*(1 + 2*q)*M + q*M,
 * and no number on the way is above 3*(1 + q)^2*M. A component takes 7 roundings, and three of
 * them together less than 37*(1 + q)^2*M*u. Places, in float64, take no more than that.
 */
static inline double gop_pair_error(const gop_pairs *p, double u)
{
    const double *c = p->cell;
    if (p->box == 0) return 0x1p-43 * p->largest; /* of places alone: a difference is exact */
    const double q = fmax(fmax(fabs(c[3]) / c[4], fabs(c[6]) / c[8]), fabs(c[7]) / c[8]);
    double m = 2 * p->largest;
    for (int k = 0; k < 3; k++) m += gop_axis_open(p, k) ? 0 : c[4 * k];
    return 64 * u * (1 + q) * (1 + q) * m;
}

/* What a grid is made for. `box` are the rows that its periods are, also where there is none.
 */
typedef struct gop_near {
    double box[9], height[3];
    double radius; /* no pair that counts is further apart, nearest image, true coordinates */
    double error;  /* of a place on an axis, as a length, both points of a pair together */
} gop_near;

/*
 * A pair counts only where r2 < t = p->last. With g the smallest number above 0, a square
 * computed is at least x*x*(1 - u) - g, so that the sum of the three true squares is at most
 * (t + 8*g)*(1 + 16*u), also where squares underflow.
 */
static inline gop_near gop_near_of(const gop_pairs *p, int is_float)
{
    const double u = is_float ? 0x1p-24 : 0x1p-53, g = is_float ? 0x1p-149 : 0x1p-1074;
    gop_near near;
    for (int i = 0; i < 9; i++) near.box[i] = p->cell[i];
    near.error = gop_pair_error(p, u);
    near.radius = sqrt((p->last + 8 * g) * (1 + 16 * u)) * (1 + 1e-12) + near.error;
    near.error = 2 * near.error + 0x1p-43 * near.radius;
    if (p->box) gop_box_heights(near.box, near.height);
    return near;
}

typedef struct gop_range {
    double low, high;
} gop_range;

/*
 * What distances computed in float32 are off by, beside roundings of r2 and its root: the
 * kernels that guess bins so (cuda/rdf/guess.h) decide next to edges by the definition. Widens
 * guess_error, the length of the error of a difference, and guess_margin, see below.
 *
 * Coordinates of float64 are rounded, relative to the middle of all. With u = 2^-24: taking n*c
 * away rounds once in the guess and once in the definition, 2*u of what is left, and n*c is
 * rounded by the definition; but if |n| <= 1 and the points are float32 both do the same. (If
 * they are float64, c too is rounded by the guess.) A
 * quotient is off by 2*u of itself, and by what the difference is off: next to half a length
 * the guess may take the other image. That leaves a component whose size is off by twice the
 * former; but it changes its sign, so that in a triclinic box what was taken away from the
 * other components is another image's. A pair there whose y or z is less than guess_margin[0]
 * or [1] from half a length may be such.
 */
static inline void gop_guess_errors(gop_frames *f, int is_float)
{
    const gop_pairs *p = &f->pairs;
    const double *c = p->cell, u = 0x1p-24;
    double most[3], error[3];
    for (int k = 0; k < 3; k++) {
        most[k] = f->extent[k] * (1 + 1e-6);
        error[k] = is_float ? 0 : 3 * u * most[k];
    }
    for (int axis = 2; axis >= 0 && p->box; axis--) {
        const double length = c[4 * axis], n = floor(most[axis] / length * (1 + 1e-6) + 0.5);
        const double rounds = (n > 1 ? n : 0) + (is_float ? 0 : n);
        const double zone = 2 * u * (n - 0.5) * length + error[axis];
        if (n < 1) continue;
        if (axis > 0)
            f->guess_margin[axis - 1] =
                fmax(f->guess_margin[axis - 1], 2 * zone + 8 * u * length);
        for (int k = 0; k <= axis; k++) {
            const double row = fabs(c[3 * axis + k]);
            if (row == 0) continue;
            most[k] = k == axis ? length / 2 + zone : most[k] + n * row;
            if (rounds > 0) error[k] += u * (rounds * row + 2 * most[k]);
            if (k == axis && (p->box == 1 || axis == 0)) error[k] += 4 * u * (n - 0.5) * length;
        }
    }
    f->guess_error = fmax(f->guess_error, hypot(hypot(error[0], error[1]), error[2]));
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

static inline gop_range gop_range_times(gop_range r, double factor)
{
    const double a = r.low * factor, b = r.high * factor;
    const gop_range product = {fmin(a, b), fmax(a, b)};
    return product;
}

/* The least |x| in a range. */
static inline double gop_range_least(gop_range r)
{
    return r.low > 0 ? r.low : r.high < 0 ? -r.high : 0;
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

/* Places and reach of a grid of cells of a size, g->n[0] of them along a still without span. */
static inline void gop_grid_scale(const gop_pairs *p, gop_near *near, gop_grid *g, double size,
                                  const double extent[3], const double unit[3])
{
    for (int k = 0; k < 3; k++) {
        g->low[k] = p->low[k];
        g->per[k] = 1;
        if (g->open[k]) {
            const double period = g->n[k] > 1 ? size * g->n[k] : fmax(extent[k], size);
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
 */
static inline gop_grid gop_grid_choose(const gop_pairs *p, const gop_near *need,
                                       const gop_grid_costs *costs)
{
    gop_grid best = {.n = {1, 1, 1}, .span = 1, .wide = 1}; /* row (0, 0) names the cell */
    gop_near near = *need;
    const double n = (double)p->n, n2 = (double)p->n2, pairs = p->one_set ? n / 2 : n2;
    const double limit = fmin(fmax(64, fmax(n, n2)), 1e9); /* of cells */
    double extent[3], unit[3];
    best.cost = n * pairs + n + n2;
    if (n < 1 || n2 < 1 || !p->bounded) return best;
    for (int k = 0; k < 3; k++) {
        best.open[k] = gop_axis_open(p, k);
        unit[k] = p->box ? p->cell[4 * k] : 1;
        extent[k] = (p->high[k] - p->low[k]) * unit[k];
    }
    for (double size = near.radius / GOP_GRID_REACH * 1.001; size < 1e300; size *= 1.2599) {
        gop_grid g = {.span = 4};
        const double reach = floor(near.radius / size) + 1;
        double cells = 1, volume = 1, several = 0;
        for (int k = 0; k < 3; k++) {
            const int open = g.open[k] = best.open[k];
            double along = floor((open ? extent[k] : near.height[k]) / size) + open;
            if (open && along > 1) along += reach + 1;
            if (!(along >= 2 * reach + 1)) along = 1;
            g.n[k] = (int)fmin(along, limit);
            cells *= along;
            several += along > 1;
            volume *= open ? fmax(extent[k] / size, 1) : along;
        }
        if (several == 0) break;
        for (;;) { /* fold the longest open axis, until they are not too many */
            int k = -1;
            cells = (double)g.n[0] * g.n[1] * g.n[2];
            for (int i = 0; i < 3; i++)
                if (g.open[i] && (k < 0 || g.n[i] > g.n[k])) k = i;
            if (cells <= limit || k < 0 || g.n[k] < 2 * GOP_GRID_REACH + 8) break;
            g.n[k] = g.n[k] / 2 + 1;
        }
        if (cells > limit) continue;
        if (g.n[0] == 1) g.span = 1;
        while (g.span > 1 && cells * g.span > limit) g.span /= 2;
        gop_grid_scale(p, &near, &g, size, extent, unit);
        if (g.reach[1] > GOP_GRID_REACH || g.reach[2] > GOP_GRID_REACH) continue;
        const double named = gop_grid_fill(&near, &g);
        if (named == 0) continue;
        const double rows = (2.0 * g.reach[1] + 1) * (2.0 * g.reach[2] + 1);
        const double each = 1 / (fmin(volume, cells) * g.span); /* share of a cell */
        const double group = fmin(fmax(n * each * g.span, 1), costs->grouped);
        const double met = (named + rows * (g.span - 1)) * each * n2 * (p->one_set ? 0.5 : 1);
        g.cost = (n + (p->one_set ? 0 : n2)) * costs->point + n * met * costs->paired +
                 n / group * (costs->group + rows * costs->placed + met * costs->copied);
        if (g.cost < best.cost) best = g;
        else if (g.cost > 4 * best.cost && best.span * best.n[0] > 1) break;
    }
    return best;
}

#endif
