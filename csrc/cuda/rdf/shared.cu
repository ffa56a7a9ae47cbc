/*
 * shared.cu - rdf that counts in shared memory, 32 bits a counter.
 *
 * A block stages a tile of points there too; at its end it adds what it counted to global
 * memory. Atomics to shared memory stay inside the SM, and those to global memory
 * fall from one per pair to one per counter and block.
 */
#include "cuda/rdf/arguments.h"
#include "cuda/rdf/ranges.h"

static constexpr int SHARED_THREADS = 256;
static constexpr int64_t SHARED_POINTS = 1 << 18, SHARED_OTHERS = 1 << 15;

template <typename T, int BOX> __global__ void __launch_bounds__(SHARED_THREADS)
    rdf_shared_kernel(arguments<T> x, step_range range)
{
    extern __shared__ unsigned histogram[];
    __shared__ point<T> tile[SHARED_THREADS];
    const int64_t i0 = range.i0 + blockIdx.x * (int64_t)SHARED_THREADS, i = i0 + threadIdx.x;
    const int bins = x.search.bins, size = x.counts.rows * bins;
    const T *t = x.search.thresholds;
    if (x.one_set && range.j1 <= i0 + 1) return; /* all pairs belong to other blocks */
    for (int k = threadIdx.x; k < size; k += SHARED_THREADS) histogram[k] = 0;
    const point<T> a = i < x.a.count ? point_at(x.a, i) : no_point<T>();
    const T first = t[0], last = t[bins];

    for (int64_t j0 = range.j0; j0 < range.j1; j0 += SHARED_THREADS) {
        __syncthreads();
        if (j0 + threadIdx.x < range.j1)
            to_tile(&tile[threadIdx.x], point_at(x.b, j0 + threadIdx.x));
        __syncthreads();
        const int tiled = (int)min((int64_t)SHARED_THREADS, range.j1 - j0);
        for (int j = 0; j < tiled; j++) {
            const point<T> b = from_tile(&tile[j]);
            const T r2 = square<T, BOX>(a, b, x.box);
            if (r2 >= first && r2 < last && (!x.one_set || j0 + j > i))
                atomicAdd(
                    &histogram[row_of(a.type, b.type, x.types) * bins + halve(r2, t, bins)],
                    1u);
        }
    }
    __syncthreads();
    for (int k = threadIdx.x; k < size; k += SHARED_THREADS)
        if (histogram[k]) count(x.counts, k / bins, k % bins, histogram[k]);
}

struct shared_counters {
    size_t bytes;
};

template <typename T, int BOX>
static gop_status rdf_shared(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const arguments<T> x = arguments_of<T>(task);
    const step_range range = range_of(task, step, SHARED_POINTS, SHARED_OTHERS);
    const int64_t left = x.a.count - range.i0;
    if (step == 0) GOP_TRY(rdf_clear(ctx, x.counts));
    if (left <= 0 || range.j1 <= range.j0) return GOP_OK;
    const dim3 grid(
        (unsigned)blocks_for(left < SHARED_POINTS ? left : SHARED_POINTS, SHARED_THREADS));
    return GOP_LAUNCH(ctx, (rdf_shared_kernel<T, BOX>), grid, SHARED_THREADS,
                      GOP_OWN(const shared_counters, task->plan)->bytes, x, range);
}

static gop_status rdf_shared_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    GOP_TRY(rdf_one_frame(task, "shared"));
    static const gop_launch of[2][3] = RDF_LAUNCHES(rdf_shared);
    const int64_t *const shape = task->out[0].shape;
    const size_t bytes = (size_t)(shape[0] * shape[1]) * sizeof(unsigned);
    /* The tile takes its share, and a few bytes are the driver's own. */
    const int64_t room = ctx->info.shared_per_block - 9 * 1024;
    if ((int64_t)bytes > room)
        return gop_fail(
            GOP_REFUSED,
            "rdf: kernel 'shared' needs %lld bytes of shared memory for its counters, "
            "this device leaves %lld",
            (long long)bytes, (long long)room);
    GOP_OWN(shared_counters, plan)->bytes = bytes;
    plan->launch = of[task->in[0].dtype == GOP_FLOAT64][task->geometry.pairs.box];
    plan->steps = ranges_of(task, SHARED_POINTS, SHARED_OTHERS);
    return GOP_OK;
}

extern const gop_row rdf_shared_row = {
    .name = "shared",
    .note = "a tile of points and the counters in shared memory: atomics stay inside the "
            "multiprocessor",
    .role = GOP_CONFORMING,
    .lecture = RDF_LECTURE,
    .plan = rdf_shared_plan,
    .dtypes = RDF_DTYPES,
};
