/*
 * naive.cu - rdf, one thread per point, which meets all later points and counts in global
 * memory.
 *
 * Neighbouring threads read the same point at the same time, which is cheap; they add to the
 * same few counters at the same time, which is not: an atomic to global memory takes its turn
 * in the L2 cache.
 */
#include "cuda/rdf/arguments.h"
#include "cuda/rdf/ranges.h"

static constexpr int64_t NAIVE_POINTS = 1 << 16, NAIVE_OTHERS = 1 << 14;

template <typename T, int BOX>
__global__ void rdf_naive_kernel(arguments<T> x, step_range range)
{
    const int64_t i = range.i0 + blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    const T *t = x.search.thresholds;
    const int bins = x.search.bins;
    int64_t j = x.one_set && i + 1 > range.j0 ? i + 1 : range.j0;
    if (i >= x.a.count || j >= range.j1) return;
    const point<T> a = point_at(x.a, i);
    for (; j < range.j1; j++) {
        const point<T> b = point_at(x.b, j);
        const T r2 = square<T, BOX>(a, b, x.box);
        if (r2 >= t[0] && r2 < t[bins])
            count(x.counts, row_of(a.type, b.type, x.types), halve(r2, t, bins), 1);
    }
}

template <typename T, int BOX>
static gop_status rdf_naive(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const arguments<T> x = arguments_of<T>(task);
    const step_range range = range_of(task, step, NAIVE_POINTS, NAIVE_OTHERS);
    const int64_t left = x.a.count - range.i0;
    if (step == 0) GOP_TRY(rdf_clear(ctx, x.counts));
    if (left <= 0 || range.j1 <= range.j0) return GOP_OK;
    const dim3 grid((unsigned)blocks_for(left < NAIVE_POINTS ? left : NAIVE_POINTS, 128));
    return GOP_LAUNCH(ctx, (rdf_naive_kernel<T, BOX>), grid, 128, 0, x, range);
}

static gop_status rdf_naive_plan(const gop_ctx *, const gop_task *task, gop_plan *plan)
{
    GOP_TRY(rdf_one_frame(task, "naive"));
    static const gop_launch of[2][3] = RDF_LAUNCHES(rdf_naive);
    plan->launch = of[task->in[0].dtype == GOP_FLOAT64][task->geometry.pairs.box];
    plan->steps = ranges_of(task, NAIVE_POINTS, NAIVE_OTHERS);
    return GOP_OK;
}

extern const gop_row rdf_naive_row = {
    .name = "naive",
    .note = "one thread per point; every pair adds to a counter in global memory",
    .role = GOP_CONFORMING,
    .lecture = RDF_LECTURE,
    .plan = rdf_naive_plan,
    .dtypes = RDF_DTYPES,
};
