/*
 * rdf.h - what the kernels of rdf share: their arguments, the definition of r2, and bins.
 */
#ifndef GOP_CUDA_RDF_H
#define GOP_CUDA_RDF_H

#include "cuda/device.h"

/* One set of points; types is null without types. Strides are in elements. */
template <typename T> struct point_set {
    const T *points;
    int64_t count, row, col;
    const int32_t *types;
    int64_t type_stride;
};

/* The counters: out[row, bin]. */
struct counters {
    int64_t *out;
    int64_t row, col;
    int rows, bins;
};

/* Where bins are looked for. */
template <typename T> struct bin_search {
    const T *thresholds;
    int bins, uniform;
    float scale, shift, slack; /* the guess of core/rdf.c */
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

/* The largest k with t[k] <= r2, for r2 inside the edges, by halving. */
template <typename T> GOP_DEVICE int halve(T r2, const T *t, int bins)
{
    int low = 0, high = bins;
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (r2 < t[middle]) high = middle;
        else low = middle;
    }
    return low;
}

/* Row of the unordered pair of types (s, t) in the order (0,0) (0,1) .. (1,1) .. */
GOP_DEVICE int row_of(int s, int t, int types)
{
    const int low = min(s, t), high = max(s, t);
    return low * types - low * (low - 1) / 2 + high - low;
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

GOP_DEVICE void count(const counters &c, int row, int bin, unsigned long long times)
{
    int64_t *at = c.out + row * c.row + bin * c.col;
    atomicAdd(reinterpret_cast<unsigned long long *>(at), times);
}

/* ---- from the task to the kernels' arguments ---- */

template <typename T> struct arguments {
    point_set<T> a, b;
    bin_search<T> search;
    cell<T> box;
    counters counts;
    int one_set, types;
};

/* 1 / length where that is a normal number, else NaN: image_of then divides. */
template <typename T> static T reciprocal_of(double length)
{
    return (T)(length > 1e-30 && length < 1e30 ? 1 / length : __builtin_nan(""));
}

template <typename T> static arguments<T> arguments_of(const gop_task *task)
{
    const gop_pairs *p = &task->geometry.pairs;
    const gop_array *out = &task->out[0];
    const int second = p->one_set ? 0 : 2, types = p->one_set ? 2 : 3;
    arguments<T> x;
    x.a = {(const T *)task->in[0].data, p->n, p->row, p->col, nullptr, 0};
    x.b = {(const T *)task->in[second].data, p->n2, p->row2, p->col2, nullptr, 0};
    if (p->types) {
        const gop_array *of_a = &task->in[types], *of_b = &task->in[types + !p->one_set];
        x.a.types = (const int32_t *)of_a->data;
        x.a.type_stride = of_a->strides[0] / 4;
        x.b.types = (const int32_t *)of_b->data;
        x.b.type_stride = of_b->strides[0] / 4;
    }
    x.search = {(const T *)task->in[1].data,
                (int)p->bins,
                p->uniform,
                (float)p->guess_scale,
                (float)(-p->guess_origin * p->guess_scale),
                (float)p->guess_slack};
    x.box = {(T)p->cell[0],
             (T)p->cell[3],
             (T)p->cell[4],
             (T)p->cell[6],
             (T)p->cell[7],
             (T)p->cell[8],
             reciprocal_of<T>(p->cell[0]),
             reciprocal_of<T>(p->cell[4]),
             reciprocal_of<T>(p->cell[8])};
    x.counts = {(int64_t *)out->data, out->strides[0] / 8, out->strides[1] / 8,
                (int)out->shape[0], (int)p->bins};
    x.one_set = p->one_set;
    x.types = p->types;
    return x;
}

/* Sets all counters to 0: what every kernel enqueues first. */
gop_status rdf_clear(gop_ctx *ctx, const counters &c);

/* rdf_persistent.cu */
gop_status rdf_persistent_float32(gop_ctx *ctx, const gop_task *task, int64_t step);
gop_status rdf_persistent_float64(gop_ctx *ctx, const gop_task *task, int64_t step);
int64_t rdf_persistent_steps(const gop_ctx *ctx, const gop_task *task);

#endif
