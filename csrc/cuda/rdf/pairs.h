/*
 * pairs.h - points, the box, and the definition of r2 for a pair of points.
 */
#ifndef GOP_CUDA_RDF_PAIRS_H
#define GOP_CUDA_RDF_PAIRS_H

#include "cuda/device.h"

/* One set of points; types is null without types. Strides are in elements. */
template <typename T> struct point_set {
    const T *points;
    int64_t count, row, col;
    const int32_t *types;
    int64_t type_stride;
};

/* The box, and reciprocals for the guess of image_of. */
template <typename T> struct cell {
    T ax, bx, by, cx, cy, cz;
    T per_ax, per_by, per_cz;
};

template <typename T> struct alignas(16) point {
    T x, y, z;
    int type;
};

/* n = rint(d / length) without the division: where the product with the reciprocal is not near
 * a half, both round to the same integer. NaN fails the test and divides too. */
template <typename T> GOP_DEVICE T image_of(T d, T length, T reciprocal)
{
    const T big = sizeof(T) == 4 ? (T)0x1.8p23 : (T)0x1.8p52;
    const T q = d * reciprocal;
    T n = (q + big) - big; /* rounds to an integer */
    if (!(fabs(q - n) <= (T)0.49999 && fabs(q) <= (T)16)) n = rint(d / length);
    return n;
}

/* r2 of one pair: the definition, in the order of docs/numerics.md. BOX: 0 none, 1
 * right-angled, 2 triclinic. */
template <typename T, int BOX>
GOP_DEVICE T square(const point<T> &a, const point<T> &b, const cell<T> &c)
{
    T dx = a.x - b.x, dy = a.y - b.y, dz = a.z - b.z;
    if (BOX > 0) {
        const T nz = image_of(dz, c.cz, c.per_cz);
        if (BOX == 2) {
            dx -= nz * c.cx;
            dy -= nz * c.cy;
        }
        dz -= nz * c.cz;
        const T ny = image_of(dy, c.by, c.per_by);
        if (BOX == 2) dx -= ny * c.bx;
        dy -= ny * c.by;
        dx -= image_of(dx, c.ax, c.per_ax) * c.ax;
    }
    return (dx * dx + dy * dy) + dz * dz;
}

template <typename T> GOP_DEVICE point<T> point_at(const point_set<T> &set, int64_t i)
{
    const T *p = set.points + i * set.row;
    return {p[0], p[set.col], p[2 * set.col], set.types ? set.types[i * set.type_stride] : 0};
}

/* A point of a tile in shared memory, 16 bytes an access. */
template <typename T> GOP_DEVICE point<T> from_tile(const point<T> *at)
{
    enum { WORDS = sizeof(point<T>) / 16 };
    uint4 words[WORDS];
    point<T> p;
#pragma unroll
    for (int w = 0; w < WORDS; w++) words[w] = reinterpret_cast<const uint4 *>(at)[w];
    __builtin_memcpy(&p, words, sizeof p);
    return p;
}

template <typename T> GOP_DEVICE void to_tile(point<T> *at, const point<T> &p)
{
    enum { WORDS = sizeof(point<T>) / 16 };
    uint4 words[WORDS];
    __builtin_memcpy(words, &p, sizeof p);
#pragma unroll
    for (int w = 0; w < WORDS; w++) reinterpret_cast<uint4 *>(at)[w] = words[w];
}

/* What is left of a block without a point: NaN is in no bin. */
template <typename T> GOP_DEVICE point<T> no_point()
{
    const T nan = (T)gop_bits_to_float(0x7fc00000u);
    return {nan, nan, nan, 0};
}

#endif
