/*
 * arguments.h - what a kernel of rdf is given: points, bins and counters.
 */
#ifndef GOP_CUDA_RDF_ARGUMENTS_H
#define GOP_CUDA_RDF_ARGUMENTS_H

#include "core/ops/rdf.h"
#include "cuda/rdf/pairs.h"

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
    float scale, shift, slack; /* the guess of core/ops/rdf.c */
};

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

GOP_DEVICE void count(const counters &c, int row, int bin, unsigned long long times)
{
    int64_t *at = c.out + row * c.row + bin * c.col;
    atomicAdd(reinterpret_cast<unsigned long long *>(at), times);
}

/* ---- from the task ---- */

template <typename T> struct arguments {
    point_set<T> a, b;
    bin_search<T> search;
    cell<T> box;
    counters counts;
    int one_set, types;
};

/* 1 / length where that is a normal number, else infinite: image_of then divides. */
template <typename T> GOP_RDF_FN T reciprocal_of(double length)
{
    return (T)(length > 1e-30 && length < 1e30 ? 1 / length : HUGE_VAL);
}

template <typename T> GOP_RDF_FN cell<T> cell_of(const double *c)
{
    return {(T)c[0],
            (T)c[3],
            (T)c[4],
            (T)c[6],
            (T)c[7],
            (T)c[8],
            reciprocal_of<T>(c[0]),
            reciprocal_of<T>(c[4]),
            reciprocal_of<T>(c[8])};
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
    x.box = cell_of<T>(p->cell);
    x.counts = {(int64_t *)out->data, out->strides[0] / 8, out->strides[1] / 8,
                (int)GOP_FRAMES(task)->rows, (int)p->bins};
    x.one_set = p->one_set;
    x.types = p->types;
    return x;
}

/* Sets all counters to 0: what every kernel enqueues first. In clear.cu. */
gop_status rdf_clear(gop_ctx *ctx, const counters &c);

/* Refuses, for a kernel, a call of several frames. */
static inline gop_status rdf_one_frame(const gop_task *task, const char *kernel)
{
    const int64_t count = GOP_FRAMES(task)->count;
    if (count <= 1) return GOP_OK;
    return gop_fail(GOP_REFUSED, "rdf: kernel '%s' takes one frame at a time, got %lld", kernel,
                    (long long)count);
}

enum : uint32_t { RDF_DTYPES = 1u << GOP_FLOAT32 | 1u << GOP_FLOAT64 };
#define RDF_LECTURE "radial distribution function"

/* f<T, box, ...>: by whether T is double, then by the box. */
/* clang-format off */
#define RDF_LAUNCHES(f, ...) \
    {{f<float, 0, ##__VA_ARGS__>, f<float, 1, ##__VA_ARGS__>, f<float, 2, ##__VA_ARGS__>}, \
     {f<double, 0, ##__VA_ARGS__>, f<double, 1, ##__VA_ARGS__>, f<double, 2, ##__VA_ARGS__>}}
/* clang-format on */

#endif
