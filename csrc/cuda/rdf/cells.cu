/*
 * cells.cu - rdf that looks at near cells alone: a counting sort, then a thread per point.
 *
 * The points are sorted by cell: a histogram by atomics, its sums, and each point to its place.
 * Neighbouring threads then have points of one cell or of the next ones, and read the same
 * points at about the same time. How many pairs a point has depends on the data, so blocks take
 * so many points at a time from a queue. Counters are 32 bits in shared memory; a block adds
 * them to those in global memory before they could overflow. A pair of one set belongs to the
 * point that comes first in the order of cells; the order within a cell is left to chance, and
 * whole numbers do not show it.
 */
#include "cuda/rdf/sorting.h"

enum {
    POINTS = 128,      /* of a block, at a time */
    BLOCKS = 16,       /* per multiprocessor */
    ROUNDS = 4,        /* of all blocks in a step, at least */
    MOST = 1 << 24,    /* points of the second set for shared counters: POINTS*MOST is 2^31 */
    COUNTED = 1u << 31 /* pairs of a block after which it adds what it has */
};

template <typename T> struct sorted_sets {
    cell_set<T> a, b;
    unsigned long long *queue; /* of each step: items taken so far */
};

/* The bin of an r2 inside the edges, by a guess as in persistent.cu. */
template <typename T> GOP_DEVICE int guessed_bin(T r2, const T *t, const bin_search<T> &search)
{
    if (!search.uniform) return halve(r2, t, search.bins);
    const float big = 0x1.8p23f, s = (float)r2;
    const float r = s * rsqrtf(fmaxf(s, 1e-36f));
    const float x = fmaf(r, search.scale, search.shift);
    const float rounded = x + big;
    const float past = x - (rounded - big);
    const int edge = (int)(gop_float_to_bits(rounded) - gop_float_to_bits(big));
    return edge - (fabsf(past) > search.slack ? past < 0 : r2 < t[edge]);
}

template <typename T, int BOX, bool SHARED> __global__ void __launch_bounds__(POINTS)
    rdf_cells_kernel(arguments<T> x, sorted_sets<T> sets, gop_grid grid, int64_t begin,
                     int64_t end, int64_t step)
{
    extern __shared__ __align__(16) unsigned char memory[];
    __shared__ unsigned long long taken;
    __shared__ unsigned met;
    unsigned *histogram = reinterpret_cast<unsigned *>(memory);
    const int bins = x.search.bins, size = SHARED ? x.counts.rows * bins : 0;
    const T *t = x.search.thresholds, first = t[0], last = t[bins];
    for (int k = threadIdx.x; k < size; k += POINTS) histogram[k] = 0;
    if (threadIdx.x == 0) met = 0;
    for (;;) {
        __syncthreads();
        const bool full = met >= COUNTED; /* the same for all threads: nobody adds before */
        if (threadIdx.x == 0) taken = atomicAdd(&sets.queue[step], 1ull);
        __syncthreads();
        const int64_t item = begin + (int64_t)taken, i = item * POINTS + threadIdx.x;
        const bool over = item >= end;
        if (SHARED && (over || full)) {
            for (int k = threadIdx.x; k < size; k += POINTS) {
                if (histogram[k]) count(x.counts, k / bins, k % bins, histogram[k]);
                histogram[k] = 0;
            }
            __syncthreads();
            if (threadIdx.x == 0) met = 0;
            __syncthreads();
        }
        if (over) break;
        unsigned counted = 0;
        if (i < x.a.count) {
            const point<T> a = from_tile(&sets.a.points[i]);
            const int key = sets.a.sorted_key[i], row = key / grid.n[0];
            const int at0 = key % grid.n[0], at1 = row % grid.n[1], at2 = row / grid.n[1];
            for (int oz = -grid.reach[2]; oz <= grid.reach[2]; oz++)
                for (int oy = -grid.reach[1]; oy <= grid.reach[1]; oy++) {
                    const int named = gop_grid_row(&grid, oz, oy), n = grid.n[0];
                    const int z = (at2 + oz + grid.n[2]) % grid.n[2];
                    const int y = (at1 + oy + grid.n[1]) % grid.n[1];
                    const int base = (z * grid.n[1] + y) * n;
                    const int low = at0 + grid.first[named], high = at0 + grid.last[named];
                    for (int shift = -n; shift <= n; shift += n) {
                        const int from = max(low - shift, 0), to = min(high - shift, n - 1);
                        if (from > to) continue;
                        int64_t j = sets.b.start[base + from];
                        const int64_t j1 = sets.b.start[base + to + 1];
                        if (x.one_set && j <= i) j = i + 1;
                        for (; j < j1; j++) {
                            const point<T> b = from_tile(&sets.b.points[j]);
                            const T r2 = square<T, BOX>(a, b, x.box);
                            if (!(r2 >= first && r2 < last)) continue;
                            const int of = x.types ? row_of(a.type, b.type, x.types) : 0;
                            const int bin = guessed_bin(r2, t, x.search);
                            if (SHARED) atomicAdd(&histogram[of * bins + bin], 1u);
                            else count(x.counts, of, bin, 1);
                            counted++;
                        }
                    }
                }
        }
        if (SHARED) atomicAdd(&met, counted);
    }
}

/* The plan. */
struct cells_layout {
    gop_grid grid;
    int cells;
    int64_t items, per_step, blocks;
    size_t shared; /* bytes; 0: the counters stay in global memory */
    struct {
        size_t points, key, rank, sorted_key, start; /* byte offsets in scratch */
    } set[2];
    size_t queue, queue_bytes;
};

template <typename T> static cell_set<T> set_of(const gop_task *task, const cells_layout &l,
                                                int which, const point_set<T> &from)
{
    char *scratch = (char *)task->scratch;
    return {from,
            (point<T> *)(scratch + l.set[which].points),
            (int *)(scratch + l.set[which].key),
            (int *)(scratch + l.set[which].rank),
            (int *)(scratch + l.set[which].sorted_key),
            (int *)(scratch + l.set[which].start)};
}

template <typename T> static gop_status sort_set(gop_ctx *ctx, const gop_task *task,
                                                 const cells_layout &l, const cell_set<T> &set)
{
    const gop_pairs *p = &task->geometry.pairs;
    const unsigned blocks = (unsigned)blocks_for(set.from.count + 1, 256);
    box_rows box = {{0}, p->box != 0};
    for (int k = 0; k < 9; k++) box.row[k] = p->cell[k];
    GOP_TRY(GOP_LAUNCH(ctx, rdf_zero_kernel, (unsigned)blocks_for(l.cells + 1, 256), 256, 0,
                       set.start, (int64_t)l.cells + 1));
    GOP_TRY(GOP_LAUNCH(ctx, (rdf_place_kernel<T>), blocks, 256, 0, set, box, l.grid));
    GOP_TRY(GOP_LAUNCH(ctx, (rdf_scan_kernel<T>), 1, SCAN_THREADS, 0, set, l.cells));
    return GOP_LAUNCH(ctx, (rdf_scatter_kernel<T>), blocks, 256, 0, set);
}

template <typename T, int BOX, bool SHARED>
static gop_status rdf_cells(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const arguments<T> x = arguments_of<T>(task);
    const cells_layout &l = *GOP_OWN(const cells_layout, task->plan);
    sorted_sets<T> sets;
    sets.a = set_of<T>(task, l, 0, x.a);
    sets.b = x.one_set ? sets.a : set_of<T>(task, l, 1, x.b);
    sets.queue = (unsigned long long *)((char *)task->scratch + l.queue);
    if (step == 0) {
        GOP_TRY(rdf_clear(ctx, x.counts));
        GOP_TRY(GOP_LAUNCH(ctx, rdf_zero_kernel, 1, 256, 0, (int *)(void *)sets.queue,
                           (int64_t)(l.queue_bytes / sizeof(int))));
        GOP_TRY(sort_set(ctx, task, l, sets.a));
        if (!x.one_set) GOP_TRY(sort_set(ctx, task, l, sets.b));
    }
    const int64_t begin = step * l.per_step;
    const int64_t end = begin + l.per_step < l.items ? begin + l.per_step : l.items;
    if (end <= begin) return GOP_OK;
    const dim3 grid((unsigned)(end - begin < l.blocks ? end - begin : l.blocks));
    return GOP_LAUNCH(ctx, (rdf_cells_kernel<T, BOX, SHARED>), grid, POINTS, l.shared, x, sets,
                      l.grid, begin, end, step);
}

static size_t room_for(size_t *end, int64_t bytes)
{
    const size_t at = *end;
    *end = (at + (size_t)bytes + 255) / 256 * 256;
    return at;
}

template <typename T> static gop_launch launch_of(int box, bool shared)
{
    static const gop_launch of[3][2] = {{rdf_cells<T, 0, false>, rdf_cells<T, 0, true>},
                                        {rdf_cells<T, 1, false>, rdf_cells<T, 1, true>},
                                        {rdf_cells<T, 2, false>, rdf_cells<T, 2, true>}};
    return of[box][shared];
}

static gop_status rdf_cells_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    const gop_pairs *p = &task->geometry.pairs;
    const bool is_float = task->in[0].dtype == GOP_FLOAT32;
    const gop_near near = gop_near_of(p, is_float);
    const int64_t most = p->n > p->n2 ? p->n : p->n2,
                  counters = task->out[0].shape[0] * p->bins;
    cells_layout &l = *GOP_OWN(cells_layout, plan);
    size_t end = 0;
    if (most > INT32_MAX / 2)
        return gop_fail(GOP_REFUSED,
                        "rdf: kernel 'cells' takes sets of up to 2^30 points, got %lld",
                        (long long)most);
    l.grid = gop_grid_choose(p, &near);
    l.cells = l.grid.n[0] * l.grid.n[1] * l.grid.n[2];
    l.items = blocks_for(p->n, POINTS);
    l.blocks = BLOCKS * (int64_t)ctx->info.processors;
    l.shared = (size_t)counters * sizeof(unsigned);
    if ((int64_t)l.shared + 1024 > ctx->info.shared_per_block || p->n2 > MOST) l.shared = 0;
    l.per_step = (INT64_C(1) << 35) / (POINTS * (p->n2 > 0 ? p->n2 : 1));
    if (l.per_step < ROUNDS * l.blocks) l.per_step = ROUNDS * l.blocks;
    plan->steps = l.items > l.per_step ? blocks_for(l.items, l.per_step) : 1;
    for (int k = 0; k <= !p->one_set; k++) {
        const int64_t n = k ? p->n2 : p->n;
        l.set[k].points = room_for(&end, n * (is_float ? 16 : 32));
        l.set[k].key = room_for(&end, n * 4);
        l.set[k].rank = room_for(&end, n * 4);
        l.set[k].sorted_key = room_for(&end, n * 4);
        l.set[k].start = room_for(&end, ((int64_t)l.cells + 1) * 4);
    }
    l.queue_bytes = (size_t)plan->steps * sizeof(unsigned long long);
    l.queue = room_for(&end, (int64_t)l.queue_bytes);
    plan->scratch = end;
    plan->launch = (is_float ? launch_of<float> : launch_of<double>)(p->box, l.shared > 0);
    return GOP_OK;
}

extern const gop_row rdf_cells_row = {
    .name = "cells",
    .note = "points sorted into cells on the device; blocks take them from a queue and look at "
            "near cells alone",
    .role = GOP_CANDIDATE,
    .plan = rdf_cells_plan,
    .dtypes = RDF_DTYPES,
};
