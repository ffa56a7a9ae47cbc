/*
 * rdf_guess.h - the bin of a pair, guessed in float32 to within a known distance of the truth.
 *
 * A guess computes r2 with fused operations, from coordinates rounded to float32, with
 * reciprocals of the box's lengths; takes its root (or logarithm, where the edges are even in
 * log r) approximately; and one more fused operation gives the position among the edges as a
 * number of fixed point: F bits below the point, the bin above them. All this is off by less
 * than `slack` bins. Positions are shifted up by slack, so that those within slack of an edge
 * have a fraction below 2*slack: for these alone the definition is computed, and a threshold
 * decides. `gop_guess_bins` derives slack, or refuses where it would be large.
 */
#ifndef GOP_CORE_RDF_GUESS_H
#define GOP_CORE_RDF_GUESS_H

#include <string.h>

#include "core/ops/rdf.h"

typedef struct gop_bin_guess {
    float scale, offset;
    unsigned near;            /* fractions below this are near an edge */
    unsigned fraction, shift; /* mask of the fraction, and its bits */
    unsigned outside,
        lowest;           /* places of what is in no bin: beyond the last, before the first */
    unsigned base, first; /* row number 0, and the row of bin 0, as (place >> shift) */
    int rows, is_log;     /* rows: of bins, and of what is in none */
    unsigned row_bytes;
    float ax, bx, by, cx, cy, cz, per_ax, per_by, per_cz;
    float face_y, face_z; /* differences of this much may have been brought to another image */
} gop_bin_guess;

/* The box of a frame, from its cell and the margins of gop_guess_errors. */
GOP_RDF_FN void gop_guess_box(gop_bin_guess *g, const double *c, double margin_y,
                              double margin_z)
{
    g->ax = (float)c[0], g->bx = (float)c[3], g->by = (float)c[4];
    g->cx = (float)c[6], g->cy = (float)c[7], g->cz = (float)c[8];
    g->per_ax = (float)(1 / c[0]), g->per_by = (float)(1 / c[4]), g->per_cz = (float)(1 / c[8]);
    g->face_y = (float)(c[4] / 2 - margin_y);
    g->face_z = (float)(c[8] / 2 - margin_z);
}

/*
 * With u = 2^-24: r2 is off by 6*u of itself, its root by 3*u, the instruction by root*u (of a
 * logarithm by 4*u of itself, or of 1), the scale by u, and a float64 is converted by half a u;
 * the sum is rounded to a fraction, by half a unit, and so is the offset, or by more if it is
 * large. Gives NULL, or why there can be no guess.
 */
static inline const char *gop_guess_bins(const gop_frames *f, double root, gop_bin_guess *g)
{
    const gop_pairs *p = &f->pairs;
    const double u = 0x1p-24, bins = (double)p->bins;
    memset(g, 0, sizeof *g);
    g->is_log = !p->uniform;
    if (!p->uniform && !f->log_uniform) return "edges that are even in r or in log r";
    const double scale = g->is_log ? f->log_scale : p->guess_scale;
    const double start = g->is_log ? f->log_origin : p->guess_origin * p->guess_scale;
    const double below = g->is_log ? 1 : fmax(ceil(start), 1), rows = below + bins + 1;
    int bits = 23;
    while (bits >= 0 && ldexp(1, 23 - bits) < rows + 2) bits--;
    if (bits < 4) return "fewer bins up to the last edge";
    const double end = start + bins; /* the position of the last edge */
    const double zero_at = ldexp(1, 23 - bits) + below - start;
    int exponent;
    frexp(fabs(zero_at) + 2, &exponent);
    double slack = ldexp(0.5, -bits) + ldexp(1, exponent - 25);
    if (g->is_log) {
        const double most = fmax(fmax(fabs(start), fabs(end)) / scale, 1);
        const double error = f->guess_error / f->first;
        slack += f->log_uneven + scale * (12 * u + 5 * u * most + 3 * error) + (error > 1e-3);
    } else {
        slack += f->uneven + (4.5 + root) * u * end + scale * f->guess_error;
    }
    const double near = ceil(slack * ldexp(1, bits));
    if (!(slack <= 0.0625)) return "bins of 16 times the error of a guess in float32";
    g->scale = (float)scale;
    g->offset = (float)(zero_at + near * ldexp(1, -bits));
    g->shift = (unsigned)bits;
    g->fraction = (1u << bits) - 1;
    g->near = 2 * (unsigned)near;
    const unsigned zero = (unsigned)(127 + 23 - bits) << 23; /* the bits of 2^(23 - bits) */
    g->base = zero >> bits;
    g->first = g->base + (unsigned)below;
    g->lowest = zero + g->near;
    g->rows = (int)rows;
    g->outside = zero + ((unsigned)(rows - 1) << bits) + g->near;
    return NULL;
}

#endif
