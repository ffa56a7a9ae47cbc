/*
 * guess.h - a guess of core/ops/rdf_guess.h on the device: r2, its root or logarithm, the
 * place.
 */
#ifndef GOP_CUDA_RDF_GUESS_H
#define GOP_CUDA_RDF_GUESS_H

#include "core/ops/rdf_guess.h"
#include "cuda/rdf/arguments.h"

/* A root with a relative error of 2^-23 at most, and a logarithm with one of 2^-22, or an error
 * of 2^-22 between 1/2 and 2: an instruction each. Subnormal numbers count as 0. */
#ifdef __CUDACC__
GOP_DEVICE float fast_root(float value)
{
    float root;
    asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(value));
    return root;
}
GOP_DEVICE float fast_log2(float value)
{
    float log;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(log) : "f"(value));
    return log;
}
#else
GOP_DEVICE float fast_root(float value)
{
    return sqrtf(value);
}
GOP_DEVICE float fast_log2(float value)
{
    return log2f(value);
}
#endif

typedef gop_bin_guess bin_guess;
enum { FAST_ROOT = 2 }; /* fast_root's error, in 2^-24 of itself */

/* d brought to the nearest image but for roundings; if two are about equally near, either. */
GOP_DEVICE float guessed_image(float d, float per)
{
    const float big = 0x1.8p23f;
    return fmaf(d, per, big) - big;
}

/* r2 but for roundings; NaN only where it is none of a pair that counts. */
template <int BOX> GOP_DEVICE float guessed_square(const float4 &a, const float4 &b,
                                                   const bin_guess &g, bool &face)
{
    float dx = a.x - b.x, dy = a.y - b.y, dz = a.z - b.z;
    if (BOX > 0) {
        const float nz = guessed_image(dz, g.per_cz);
        if (BOX == 2) {
            dx = fmaf(-nz, g.cx, dx);
            dy = fmaf(-nz, g.cy, dy);
        }
        dz = fmaf(-nz, g.cz, dz);
        const float ny = guessed_image(dy, g.per_by);
        if (BOX == 2) dx = fmaf(-ny, g.bx, dx);
        dy = fmaf(-ny, g.by, dy);
        dx = fmaf(-guessed_image(dx, g.per_ax), g.ax, dx);
        if (BOX == 2) face = (fabsf(dz) >= g.face_z) | (fabsf(dy) >= g.face_y);
    }
    return fmaf(dz, dz, fmaf(dy, dy, dx * dx));
}

/* The place among the edges; floats above 0 are ordered as their bits are. */
template <bool LOG> GOP_DEVICE unsigned place_of(float r2, const bin_guess &g)
{
    if (!LOG) {
        const float x = fmaf(fast_root(r2), g.scale, g.offset);
        return min(gop_float_to_bits(x), g.outside);
    }
    const float x = fmaf(fast_log2(r2), g.scale, g.offset);
    const int place = min((int)gop_float_to_bits(x), (int)g.outside);
    return (unsigned)max(place, (int)g.lowest);
}

GOP_DEVICE bool near_edge(unsigned place, const bin_guess &g)
{
    return (place & g.fraction) < g.near;
}

/* The row of an r2 that the definition gave. */
template <typename T, bool LOG>
GOP_DEVICE unsigned settled(T r2, const T *thresholds, const bin_guess &g)
{
    const unsigned place = place_of<LOG>((float)r2, g), row = place >> g.shift;
    if (!near_edge(place, g) || row < g.first) return row;
    return row - (r2 < thresholds[row - g.first]);
}

#endif
