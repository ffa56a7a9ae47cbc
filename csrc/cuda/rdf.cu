/*
 * rdf.cu - pair-distance histograms on CUDA: count, per bin, the pairs of points whose distance
 * falls into it.
 *
 * The floor is arithmetic: about ten operations per pair, and n(n-1)/2 pairs of 3n numbers.
 * What makes it hard is the histogram: all threads increment the same few counters, so each
 * row of this ladder brings the counters, and the way to them, nearer to the thread. What the
 * kernels share stands in cuda/rdf.h, the last of them in cuda/rdf_persistent.cu.
 *
 * core/rdf.c turned the edges into thresholds t: bin k holds t[k] <= r2 < t[k+1], exactly.
 */
#include "cuda/rdf.h"

__global__ void rdf_clear_kernel(counters c)
{
    const int64_t size = (int64_t)c.rows * c.bins, stride = (int64_t)gridDim.x * blockDim.x;
    for (int64_t k = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; k < size; k += stride)
        c.out[k / c.bins * c.row + k % c.bins * c.col] = 0;
}

gop_status rdf_clear(gop_ctx *ctx, const counters &c)
{
    const int64_t blocks = blocks_for((int64_t)c.rows * c.bins, 256);
    return GOP_LAUNCH(ctx, rdf_clear_kernel, (unsigned)blocks, 256, 0, c);
}

/* Steps of the first two kernels: `points` of set a by `others` of set b. */
struct step_range {
    int64_t i0, j0, j1;
};

static step_range range_of(const gop_task *task, int64_t step, int64_t points, int64_t others)
{
    const gop_pairs *p = &task->geometry.pairs;
    const int64_t columns = p->n2 / others + (p->n2 % others != 0);
    if (columns == 0) return {0, 0, 0};
    const int64_t j0 = step % columns * others;
    return {step / columns * points, j0, j0 + others < p->n2 ? j0 + others : p->n2};
}

static int64_t ranges_of(const gop_task *task, int64_t points, int64_t others)
{
    const gop_pairs *p = &task->geometry.pairs;
    const int64_t steps =
        (p->n / points + (p->n % points != 0)) * (p->n2 / others + (p->n2 % others != 0));
    return steps > 0 ? steps : 1; /* one, to clear the counters */
}

/* ---- naive: one thread per point, which meets all later points and counts in global memory.
 * Neighbouring threads read the same point at the same time, which is cheap; they add to the
 * same few counters at the same time, which is not: an atomic to global memory takes its turn
 * in the second-level cache. ---- */

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

template <typename T>
static gop_status rdf_naive(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const arguments<T> x = arguments_of<T>(task);
    const step_range range = range_of(task, step, NAIVE_POINTS, NAIVE_OTHERS);
    const int box = task->geometry.pairs.box;
    const int64_t left = x.a.count - range.i0;
    if (step == 0) GOP_TRY(rdf_clear(ctx, x.counts));
    if (left <= 0 || range.j1 <= range.j0) return GOP_OK;
    const dim3 grid((unsigned)blocks_for(left < NAIVE_POINTS ? left : NAIVE_POINTS, 128));
    if (box == 0) return GOP_LAUNCH(ctx, (rdf_naive_kernel<T, 0>), grid, 128, 0, x, range);
    if (box == 1) return GOP_LAUNCH(ctx, (rdf_naive_kernel<T, 1>), grid, 128, 0, x, range);
    return GOP_LAUNCH(ctx, (rdf_naive_kernel<T, 2>), grid, 128, 0, x, range);
}

static int64_t naive_steps(const gop_ctx *, const gop_task *task)
{
    return ranges_of(task, NAIVE_POINTS, NAIVE_OTHERS);
}

/* ---- shared: a block stages a tile of points in shared memory and counts there, 32 bits a
 * counter; at its end it adds what it counted to global memory. Atomics to shared memory stay
 * inside the multiprocessor, and those to global memory fall from one per pair to one per
 * counter and block. ---- */

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

static size_t shared_bytes(const gop_task *task)
{
    return (size_t)(task->out[0].shape[0] * task->out[0].shape[1]) * sizeof(unsigned);
}

template <typename T>
static gop_status rdf_shared(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const arguments<T> x = arguments_of<T>(task);
    const step_range range = range_of(task, step, SHARED_POINTS, SHARED_OTHERS);
    const int box = task->geometry.pairs.box;
    const int64_t left = x.a.count - range.i0;
    const size_t bytes = shared_bytes(task);
    if (step == 0) GOP_TRY(rdf_clear(ctx, x.counts));
    if (left <= 0 || range.j1 <= range.j0) return GOP_OK;
    const dim3 grid(
        (unsigned)blocks_for(left < SHARED_POINTS ? left : SHARED_POINTS, SHARED_THREADS));
    const dim3 block(SHARED_THREADS);
    if (box == 0)
        return GOP_LAUNCH(ctx, (rdf_shared_kernel<T, 0>), grid, block, bytes, x, range);
    if (box == 1)
        return GOP_LAUNCH(ctx, (rdf_shared_kernel<T, 1>), grid, block, bytes, x, range);
    return GOP_LAUNCH(ctx, (rdf_shared_kernel<T, 2>), grid, block, bytes, x, range);
}

static int64_t shared_steps(const gop_ctx *, const gop_task *task)
{
    return ranges_of(task, SHARED_POINTS, SHARED_OTHERS);
}

static gop_status shared_accepts(const gop_ctx *ctx, const gop_task *task)
{
    /* The tile takes its share, and a few bytes are the driver's own. */
    const int64_t room = ctx->info.shared_per_block - 9 * 1024;
    if ((int64_t)shared_bytes(task) <= room) return GOP_OK;
    return gop_fail(GOP_REFUSED,
                    "rdf: kernel 'shared' needs %lld bytes of shared memory for its counters, "
                    "this device leaves %lld",
                    (long long)shared_bytes(task), (long long)room);
}

extern "C" {
extern const gop_ladder gop_cuda_rdf;
}

#define BY_FLOAT(f32, f64)                                                                     \
    {                                                                                          \
        nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,       \
            nullptr, nullptr, f32, f64, nullptr, nullptr                                       \
    }

static const gop_row rows[] = {
    {"naive", "one thread per point; every pair adds to a counter in global memory",
     GOP_CONFORMING, nullptr, "radial distribution function",
     BY_FLOAT(rdf_naive<float>, rdf_naive<double>), nullptr, nullptr, naive_steps},
    {"shared",
     "a tile of points and the counters in shared memory: atomics stay inside the "
     "multiprocessor",
     GOP_CONFORMING, nullptr, "radial distribution function",
     BY_FLOAT(rdf_shared<float>, rdf_shared<double>), shared_accepts, nullptr, shared_steps},
    {"persistent",
     "blocks stay and take pairs of tiles, two points a thread in registers; a guess names the "
     "bin, and thresholds are read only near an edge",
     GOP_CONFORMING, nullptr, nullptr, BY_FLOAT(rdf_persistent_float32, rdf_persistent_float64),
     nullptr, nullptr, rdf_persistent_steps},
};

const gop_ladder gop_cuda_rdf = {sizeof rows / sizeof *rows, rows};
