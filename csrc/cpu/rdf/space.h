/*
 * space.h - reduces the difference of two points to the nearest image, as cheaply as the inputs
 * allow. The space is a constant wherever it is used, so that each one is compiled separately.
 *
 * The definition divides: n = rint(d / length), d -= n*length. Rounded division and rint are
 * monotonic and odd. So n >= 1 is equivalent to d >= one, the smallest number for which it
 * holds, and n >= 2 to d >= two. If no |d| can reach a larger n, comparisons with these give
 * exactly n. See docs/numerics.md.
 */
#ifdef D

/* The box, and the thresholds of images along a, b, c: |n| is at least 1 from `one`, 2 from
 * `two`. */
typedef struct FN(space) {
    T cell[9];
    T one[3], two[3];
    T shift[6]; /* FIXED spaces: for x by c, b, a; for y by c, b; for z by c */
} FN(space);

/* The integer nearest to q, ties to even. If the processor has no such instruction, adding 2^23
 * (2^52) rounds to an integer; larger numbers are already integers. */
static ALWAYS_INLINE T FN(nearest)(T q)
{
#if defined(__SSE4_1__) || !defined(__x86_64__)
    return sizeof(T) == 4 ? (T)rintf((float)q) : (T)rint((double)q);
#else
    const T big = sizeof(T) == 4 ? (T)0x1p23 : (T)0x1p52, size = q < 0 ? -q : q;
    const T n = (size + big) - big;
    return size < big ? (q < 0 ? -n : n) : q;
#endif
}

/* |d - n*length| for n of 0 and +-1. Only the square is used, so the sign does not matter. */
static ALWAYS_INLINE T FN(folded)(T d, T one, T length)
{
    const T size = d < 0 ? -d : d;
    return size - (size >= one ? length : 0);
}

/* n if |n| is at most 1 (image) or at most 2 (further). */
static ALWAYS_INLINE T FN(image)(T d, T one)
{
    return (d >= one ? (T)1 : (T)0) - (d <= -one ? (T)1 : (T)0);
}

static ALWAYS_INLINE T FN(further)(T d, T one, T two)
{
    return FN(image)(d, one) + FN(image)(d, two);
}

/* r2 of one pair by the definition, in the order of docs/numerics.md. */
static ALWAYS_INLINE T FN(square)(T dx, T dy, T dz, const FN(space) * s, int space)
{
    const T *cell = s->cell, *shift = s->shift;
    if (space == RIGHT_NEAR) {
        dx = FN(folded)(dx, s->one[0], cell[0]);
        dy = FN(folded)(dy, s->one[1], cell[4]);
        dz = FN(folded)(dz, s->one[2], cell[8]);
    } else if (space == RIGHT_FIXED) {
        dx -= shift[2];
        dy -= shift[4];
        dz -= shift[5];
    } else if (space == SKEW_FIXED) {
        dx = ((dx - shift[0]) - shift[1]) - shift[2];
        dy = (dy - shift[3]) - shift[4];
        dz -= shift[5];
    } else if (space != OPEN) {
        const int skew = space == SKEW || space == SKEW_NEAR, near = space == SKEW_NEAR;
        T n = near ? FN(image)(dz, s->one[2]) : FN(nearest)(dz / cell[8]);
        if (skew) {
            dx -= n * cell[6];
            dy -= n * cell[7];
        }
        dz -= n * cell[8];
        n = near ? FN(further)(dy, s->one[1], s->two[1]) : FN(nearest)(dy / cell[4]);
        if (skew) dx -= n * cell[3];
        dy -= n * cell[4];
        n = near ? FN(further)(dx, s->one[0], s->two[0]) : FN(nearest)(dx / cell[0]);
        dx -= n * cell[0];
    }
    return (dx * dx + dy * dy) + dz * dz;
}

/* The smallest d > 0 with rint(d / length) >= n, for n of 1, 2 and 3. */
static T FN(image_from)(T length, T n)
{
    const T far = (T)INFINITY;
    T d = (n - (T)0.5) * length;
    if (!(d < far)) return far;
    while (d > 0 && FN(nearest)(d / length) >= n)
        d = sizeof(T) == 4 ? (T)nextafterf((float)d, 0) : (T)nextafter((double)d, 0);
    while (!(FN(nearest)(d / length) >= n))
        d = sizeof(T) == 4 ? (T)nextafterf((float)d, INFINITY)
                           : (T)nextafter((double)d, INFINITY);
    return d;
}

/*
 * Fills *s and returns the space of these points' pairs. It is NEAR if the bounds of the points
 * show that images beyond the next one (along a and b of a skewed box, the next but one) are
 * never nearest. With S the extent of the points along an axis, in periods, and e what rounding
 * adds to a length (pair_error of rdf.h), |dz| is at most cz*S + e. Subtracting n times c
 * leaves |dz| <= cz/2 + e, and so on for b and a.
 */
static int FN(space_of)(const gop_pairs *p, FN(space) * s)
{
    for (int i = 0; i < 9; i++) s->cell[i] = (T)p->cell[i];
    for (int i = 0; i < 6; i++) s->shift[i] = 0;
    if (p->box == 0) return OPEN;
    const double *c = p->cell, e = gop_pair_error(p, sizeof(T) == 4 ? 0x1p-24 : 0x1p-53);
    double most[3], range[3];
    int near = p->bounded;
    for (int k = 0; k < 3; k++) range[k] = p->high[k] - p->low[k];
    most[2] = c[8] * range[2];
    most[1] = c[4] * range[1] + fabs(c[7]) / 2;
    most[0] = c[0] * range[0] + fabs(c[3]) * (0.5 + fabs(c[7]) / (2 * c[4])) + fabs(c[6]) / 2;
    for (int k = 0; k < 3; k++) {
        const T length = s->cell[4 * k];
        s->one[k] = FN(image_from)(length, 1);
        s->two[k] = FN(image_from)(length, 2);
        const T beyond = p->box == 1 || k == 2 ? s->two[k] : FN(image_from)(length, 3);
        near = near && most[k] + 2 * e < (double)beyond;
    }
    return p->box == 1 ? (near ? RIGHT_NEAR : RIGHT) : near ? SKEW_NEAR : SKEW;
}

#elif !defined(GOP_CPU_RDF_SPACE_H)
#define GOP_CPU_RDF_SPACE_H

#include "core/ops/rdf.h"
#include "cpu/runtime/cpu.h"

enum {
    OPEN,       /* no box */
    RIGHT,      /* a right-angled box; points may be anywhere */
    SKEW,       /* a triclinic box; points may be anywhere */
    RIGHT_NEAR, /* few images can be nearest: comparisons, no division */
    SKEW_NEAR,
    RIGHT_FIXED, /* the image is known in advance */
    SKEW_FIXED,
};

#define GOP_TPL "cpu/rdf/space.h"
#include "cpu/rdf/each_float.inc"

#endif
