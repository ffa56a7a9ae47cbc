/*
 * pair.h - one pair of points: its bin, and the counter of its types.
 */
#ifdef D

/* The largest k with t[k] <= r2, or -1 if r2 is outside the edges. */
static ALWAYS_INLINE int64_t FN(bin_of)(T r2, const T *t, int64_t bins)
{
    if (!(r2 >= t[0] && r2 < t[bins])) return -1;
    int64_t low = 0, high = bins; /* t[low] <= r2 < t[high] */
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (r2 < t[middle]) high = middle;
        else low = middle;
    }
    return low;
}

#elif !defined(GOP_CPU_RDF_PAIR_H)
#define GOP_CPU_RDF_PAIR_H

#include "cpu/rdf/space.h"

#define GOP_TPL "cpu/rdf/pair.h"
#include "cpu/rdf/each_float.inc"

/* The plan of a kernel that has none; refuses a call of several frames. */
static gop_status plan_one_frame(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    const int64_t count = GOP_FRAMES(task)->count;
    (void)ctx, (void)plan;
    if (count <= 1) return GOP_OK;
    return gop_fail(GOP_REFUSED, "rdf: kernels on a CPU take one frame at a time, got %lld",
                    (long long)count);
}

static int64_t *count_at(const gop_task *task, int64_t row, int64_t k)
{
    const gop_array *out = &task->out[0];
    return (int64_t *)((char *)out->data + row * out->strides[0] + k * out->strides[1]);
}

static int32_t type_at(const gop_array *types, int64_t i)
{
    return *(const int32_t *)((const char *)types->data + i * types->strides[0]);
}

/* The types of the first or the second set; NULL without types. */
static const gop_array *types_of(const gop_task *task, int second)
{
    const gop_pairs *p = &task->geometry.pairs;
    if (p->types == 0) return NULL;
    return &task->in[p->one_set ? 2 : 3 + second];
}

/* The row of the unordered pair of types (s, t), in the order (0,0) (0,1) .. (1,1) .. */
static int64_t row_of(int64_t s, int64_t t, int64_t types)
{
    const int64_t low = s < t ? s : t, high = s < t ? t : s;
    return low * types - low * (low - 1) / 2 + high - low;
}

#endif
