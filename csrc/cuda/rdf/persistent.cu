/*
 * persistent.cu - rdf with persistent blocks, and bins by a guess.
 *
 * A block keeps its counters in shared memory for all its pairs of tiles, so they are added to
 * global memory once per block, not once per tile. A thread holds POINTS points in registers:
 * one read of shared memory serves as many pairs. The bin is guessed from a cheap root, and
 * only a guess near an edge reads a threshold: what remains per pair is arithmetic and one
 * atomic in shared memory.
 */
#include "cuda/rdf/arguments.h"

enum {
    THREADS = 256,
    POINTS = 2, /* of a thread */
    TILE = THREADS * POINTS,
    BLOCKS = 8,            /* per SM; more than fit, so that the last ones even out */
    ITEMS = 1 << 15,       /* pairs of tiles of a step: 2^33 pairs */
    ITEMS_SLOW = 1 << 12,  /* of a step that counts in global memory or in float64 */
    ITEMS_BLOCK = 1 << 13, /* of a block: 2^31 pairs at most, so that 32 bits hold a counter */
    COPIES = 8,            /* of the counters at most, a warp each: fewer collisions */
    COPIED = 2048,         /* counters of all copies at most */
};

/*
 * The bin of an r2 inside the edges. x is the position of r among the edges to within slack;
 * adding 1.5 * 2^23 rounds it to the nearest edge, an integer in the low bits of the sum. Only
 * within slack of that edge can x be on its wrong side: then its threshold decides.
 */
template <typename T> GOP_DEVICE int bin_of(T r2, const T *t, const bin_search<T> &search)
{
    if (!search.uniform) return halve(r2, t, search.bins);
    const float big = 0x1.8p23f, s = (float)r2;
    const float r = s * rsqrtf(fmaxf(s, 1e-36f)); /* 0 for 0 */
    const float x = fmaf(r, search.scale, search.shift);
    const float rounded = x + big;
    const float past = x - (rounded - big);
    const int edge = (int)(gop_float_to_bits(rounded) - gop_float_to_bits(big));
    return edge - (fabsf(past) > search.slack ? past < 0 : r2 < t[edge]);
}

/* Tiles of work item w, each pair once: of one set {i, i + d} around the ring of tiles, d = 0
 * first; for an even number of tiles the last d holds only half of them. */
GOP_DEVICE void tiles_at(int64_t w, int64_t ntiles, int one_set, int64_t &i, int64_t &j)
{
    i = w % ntiles;
    j = w / ntiles;
    if (one_set) j = i + j < ntiles ? i + j : i + j - ntiles;
}

template <typename T, int BOX, bool TYPES, bool SHARED>
__global__ void __launch_bounds__(THREADS, 4)
    rdf_persistent_kernel(arguments<T> x, int64_t ntiles, int64_t begin, int64_t end,
                          int copies)
{
    extern __shared__ __align__(16) unsigned char memory[];
    __shared__ point<T> tile[TILE];
    const int bins = x.search.bins, size = SHARED ? x.counts.rows * bins : 0;
    T *nearby = reinterpret_cast<T *>(memory);
    unsigned *histogram = reinterpret_cast<unsigned *>(nearby + (SHARED ? bins + 1 : 0));
    unsigned *mine = histogram + threadIdx.x / 32 % copies * size;
    for (int k = threadIdx.x; SHARED && k <= bins; k += THREADS)
        nearby[k] = x.search.thresholds[k];
    for (int k = threadIdx.x; k < copies * size; k += THREADS) histogram[k] = 0;
    const T *t = SHARED ? nearby : x.search.thresholds;
    const T first = x.search.thresholds[0], last = x.search.thresholds[bins];

    for (int64_t w = begin + blockIdx.x; w < end; w += gridDim.x) {
        int64_t itile, jtile;
        tiles_at(w, ntiles, x.one_set, itile, jtile);
        const int64_t i0 = itile * TILE, j0 = jtile * TILE;
        const int tiled = (int)min((int64_t)TILE, x.b.count - j0);
        point<T> a[POINTS];
        int after[POINTS]; /* of one tile with itself, only the points after this one */
        __syncthreads();
        for (int p = 0; p < POINTS; p++) {
            const int at = threadIdx.x + p * THREADS;
            a[p] = i0 + at < x.a.count ? point_at(x.a, i0 + at) : no_point<T>();
            after[p] = x.one_set && itile == jtile ? at : -1;
            if (at < tiled) to_tile(&tile[at], point_at(x.b, j0 + at));
        }
        __syncthreads();
#pragma unroll 4
        for (int j = 0; j < tiled; j++) {
            const point<T> b = from_tile(&tile[j]);
#pragma unroll
            for (int p = 0; p < POINTS; p++) {
                const T r2 = square<T, BOX>(a[p], b, x.box);
                if (!(r2 >= first && r2 < last && j > after[p])) continue;
                const int row = TYPES ? row_of(a[p].type, b.type, x.types) : 0;
                const int bin = bin_of(r2, t, x.search);
                if (SHARED) atomicAdd(&mine[row * bins + bin], 1u);
                else count(x.counts, row, bin, 1);
            }
        }
    }
    __syncthreads();
    for (int k = threadIdx.x; k < size; k += THREADS) {
        unsigned long long sum = 0;
        for (int c = 0; c < copies; c++) sum += histogram[c * size + k];
        if (sum) count(x.counts, k / bins, k % bins, sum);
    }
}

/* How a call is laid out. */
struct persistent_layout {
    int64_t ntiles, items, per_step, blocks;
    size_t bytes; /* 0: the counters stay in global memory */
    int copies;
};

template <typename T, int BOX, bool TYPES, bool SHARED>
static gop_status rdf_persistent(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const arguments<T> x = arguments_of<T>(task);
    const persistent_layout &l = *GOP_OWN(const persistent_layout, task->plan);
    const int64_t begin = step * l.per_step;
    const int64_t end = begin + l.per_step < l.items ? begin + l.per_step : l.items;
    if (step == 0) GOP_TRY(rdf_clear(ctx, x.counts));
    if (end <= begin) return GOP_OK;
    const dim3 grid((unsigned)(end - begin < l.blocks ? end - begin : l.blocks));
    return GOP_LAUNCH(ctx, (rdf_persistent_kernel<T, BOX, TYPES, SHARED>), grid, THREADS,
                      l.bytes, x, l.ntiles, begin, end, l.copies);
}

static gop_status rdf_persistent_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    GOP_TRY(rdf_one_frame(task, "persistent"));
    const gop_pairs *p = &task->geometry.pairs;
    const bool is_float = task->in[0].dtype == GOP_FLOAT32;
    const int64_t item = is_float ? 4 : 8, size = task->out[0].shape[0] * p->bins;
    const int64_t ntiles = blocks_for(p->n, TILE), ntiles2 = blocks_for(p->n2, TILE);
    persistent_layout &l = *GOP_OWN(persistent_layout, plan);
    l.ntiles = ntiles;
    l.items = p->one_set ? ntiles * (ntiles + 1) / 2 : ntiles * ntiles2;
    l.copies = 1;
    while (l.copies < COPIES && 2 * l.copies * size <= COPIED) l.copies *= 2;
    const int64_t bytes = (p->bins + 1) * item + l.copies * size * 4;
    const int64_t fixed = TILE * (is_float ? 16 : 32) + 1024; /* the tile; the driver's own */
    const bool shared = bytes + fixed <= ctx->info.shared_per_block;
    l.bytes = shared ? (size_t)bytes : 0;
    if (!shared) l.copies = 1;
    l.blocks = BLOCKS * (int64_t)ctx->info.processors;
    l.per_step = shared && is_float ? ITEMS : ITEMS_SLOW;
    if (l.per_step > l.blocks * ITEMS_BLOCK) l.per_step = l.blocks * ITEMS_BLOCK;
    plan->steps = l.items > l.per_step ? blocks_for(l.items, l.per_step) : 1;
    static const gop_launch of[2][2][2][3] = {
        {RDF_LAUNCHES(rdf_persistent, false, false), RDF_LAUNCHES(rdf_persistent, false, true)},
        {RDF_LAUNCHES(rdf_persistent, true, false), RDF_LAUNCHES(rdf_persistent, true, true)}};
    plan->launch = of[p->types > 0][shared][!is_float][p->box];
    return GOP_OK;
}

extern const gop_row rdf_persistent_row = {
    .name = "persistent",
    .note = "blocks stay and take pairs of tiles, two points a thread in registers; a guess "
            "names the bin, and thresholds are read only near an edge",
    .role = GOP_CONFORMING,
    .plan = rdf_persistent_plan,
    .dtypes = RDF_DTYPES,
};
