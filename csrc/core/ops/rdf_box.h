/*
 * rdf_box.h - what is known of rdf's frames: their box, where points lie in it, and how far off
 * the distances are that are computed.
 */
#ifndef GOP_CORE_RDF_BOX_H
#define GOP_CORE_RDF_BOX_H

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
    double
        share; /* of all pairs, those less than r_max apart along each open axis; 0: unknown */
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

/*
 * Beyond this a coordinate along an open axis counts, for its place, as no further out: that
 * brings no two points further apart, and places keep their precision where a coordinate was
 * never set, as the 1e36 of a file.
 */
static inline double gop_open_reach(const gop_pairs *p)
{
    return 0x1p36 * sqrt(p->last);
}

/* The largest |coordinate| along axes that are not open, from the bounds of places. */
static inline double gop_closed_reach(const gop_pairs *p)
{
    double most = 0;
    for (int k = 0; k < 3; k++) {
        double sum = 0;
        for (int i = k; i < 3; i++)
            sum += fmax(fabs(p->low[i]), fabs(p->high[i])) * fabs(p->cell[3 * i + k]);
        if (!gop_axis_open(p, k)) most = fmax(most, sum * (1 + 1e-12));
    }
    return fmin(most, p->largest);
}

/*
 * How far the differences that the definition computes may be from true ones, as a length; u is
 * half a step of 1 in the points' dtype. Along an open axis a difference is exact but for its
 * own rounding, and a place, in float64, is off by less than 2^-43 of a coordinate. Else let A
 * be the largest |coordinate|, M = 2*A + ax + by + cz and q the largest of |bx|/by, |cx|/cz,
 * |cy|/cz: |dz| <= M, and what is taken away for c is at most |d*c/cz| + |c|, 2*q*M; so what is
 * taken away for b is at most q*(1 + 2*q)*M + q*M, and no number on the way is above
 * 3*(1 + q)^2*M. A component takes 7 roundings, and three of them together less than
 * 37*(1 + q)^2*M*u. Places take no more than that.
 */
static inline double gop_pair_error(const gop_pairs *p, double u)
{
    const double *c = p->cell;
    int open = 0;
    for (int k = 0; k < 3; k++) open += gop_axis_open(p, k);
    const double places = open ? 0x1p-43 * fmin(p->largest, gop_open_reach(p)) : 0;
    if (p->box == 0) return places;
    const double q = fmax(fmax(fabs(c[3]) / c[4], fabs(c[6]) / c[8]), fabs(c[7]) / c[8]);
    double m = 2 * (open ? gop_closed_reach(p) : p->largest);
    for (int k = 0; k < 3; k++) m += gop_axis_open(p, k) ? 0 : c[4 * k];
    return 64 * u * (1 + q) * (1 + q) * m + places;
}

/* What a grid is made for. `box` are the rows that its periods are, also where there is none.
 */
typedef struct gop_near {
    double box[9], height[3];
    double radius; /* no pair that counts is further apart, nearest image, true coordinates */
    double error;  /* of a place on an axis, as a length, both points of a pair together */
    double share;  /* of gop_frames */
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
    near.share = ((const gop_frames *)p)->share; /* p is how they begin */
    if (p->box) gop_box_heights(near.box, near.height);
    return near;
}

typedef struct gop_range {
    double low, high;
} gop_range;

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

/*
 * What distances computed in float32 are off by, beside roundings of r2 and its root: the
 * kernels that guess bins so (rdf_guess.h) decide next to edges by the definition. Widens
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

#endif
