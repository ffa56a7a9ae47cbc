/*
 * rdf_persistent.cu - the good kernel of rdf: blocks that stay, and bins by a guess.
 *
 * A block keeps its counters in shared memory for as many pairs of tiles as it gets, so they
 * are added to global memory once per block, not once per tile. A thread holds POINTS points in
 * registers: one read of shared memory serves as many pairs. The bin is guessed from a cheap
 * root, and only a guess near an edge reads a threshold: what remains per pair is arithmetic
 * and one atomic in shared memory.
 */
#include "cuda/rdf.h"

enum {
    THREADS = 256,
    POINTS = 2, /* of a thread */
    TILE = THREADS * POINTS,
    BLOCKS = 8,      /* per multiprocessor; more than fit, so that the last ones even out */
    ITEMS = 1 << 15, /* pairs of tiles of a step: 2^33 pairs */
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

/* ---- launching ---- */

/* How a call is laid out; bytes 0: the counters stay in global memory. */
struct shape {
    int64_t ntiles, items, per_step, blocks;
    size_t bytes;
    int copies;
};

static shape shape_of(const gop_ctx *ctx, const gop_task *task)
{
    const gop_pairs *p = &task->geometry.pairs;
    const int64_t item = task->in[0].dtype == GOP_FLOAT32 ? 4 : 8,
                  size = task->out[0].shape[0] * p->bins;
    const int64_t ntiles = blocks_for(p->n, TILE), ntiles2 = blocks_for(p->n2, TILE);
    shape s;
    s.ntiles = ntiles;
    s.items = p->one_set ? ntiles * (ntiles + 1) / 2 : ntiles * ntiles2;
    s.copies = 1;
    while (s.copies < COPIES && 2 * s.copies * size <= COPIED) s.copies *= 2;
    const int64_t bytes = (p->bins + 1) * item + s.copies * size * 4;
    const int64_t fixed = TILE * (item == 4 ? 16 : 32) + 1024; /* the tile; the driver's own */
    s.bytes = bytes + fixed <= ctx->info.shared_per_block ? (size_t)bytes : 0;
    s.blocks = BLOCKS * (int64_t)ctx->info.processors;
    s.per_step = s.bytes && item == 4 ? ITEMS : ITEMS_SLOW;
    if (s.per_step > s.blocks * ITEMS_BLOCK) s.per_step = s.blocks * ITEMS_BLOCK;
    return s;
}

int64_t rdf_persistent_steps(const gop_ctx *ctx, const gop_task *task)
{
    const shape s = shape_of(ctx, task);
    return s.items > s.per_step ? blocks_for(s.items, s.per_step) : 1;
}

template <typename T, int BOX, bool TYPES>
static gop_status launch(gop_ctx *ctx, const arguments<T> &x, const shape &s, int64_t step)
{
    const int64_t begin = step * s.per_step;
    const int64_t end = begin + s.per_step < s.items ? begin + s.per_step : s.items;
    if (end <= begin) return GOP_OK;
    const dim3 grid((unsigned)(end - begin < s.blocks ? end - begin : s.blocks)),
        block(THREADS);
    if (s.bytes)
        return GOP_LAUNCH(ctx, (rdf_persistent_kernel<T, BOX, TYPES, true>), grid, block,
                          s.bytes, x, s.ntiles, begin, end, s.copies);
    return GOP_LAUNCH(ctx, (rdf_persistent_kernel<T, BOX, TYPES, false>), grid, block, 0, x,
                      s.ntiles, begin, end, 1);
}

template <typename T>
static gop_status rdf_persistent(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const arguments<T> x = arguments_of<T>(task);
    const shape s = shape_of(ctx, task);
    if (step == 0) GOP_TRY(rdf_clear(ctx, x.counts));
    switch (task->geometry.pairs.box * 2 + (x.types > 0)) {
    case 0:
        return launch<T, 0, false>(ctx, x, s, step);
    case 1:
        return launch<T, 0, true>(ctx, x, s, step);
    case 2:
        return launch<T, 1, false>(ctx, x, s, step);
    case 3:
        return launch<T, 1, true>(ctx, x, s, step);
    case 4:
        return launch<T, 2, false>(ctx, x, s, step);
    default:
        return launch<T, 2, true>(ctx, x, s, step);
    }
}

gop_status rdf_persistent_float32(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    return rdf_persistent<float>(ctx, task, step);
}

gop_status rdf_persistent_float64(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    return rdf_persistent<double>(ctx, task, step);
}
