/*
 * cells.cu - rdf that only looks at near cells: a counting sort, then a thread per point.
 *
 * The points are sorted by cell: a histogram by atomics, its sums, and each point to its place.
 * Neighbouring threads then have points of one cell or of the next ones, and read the same
 * points at about the same time. How many pairs a point has depends on the data, so blocks take
 * points from a queue. Counters are 32 bits in shared memory; a block adds them to those in
 * global memory before they could overflow. A pair of one set belongs to the point that comes
 * first in the order of cells; the order within a cell is random, which integer counts do not
 * show.
 */
#include "cuda/rdf/guess.h"
#include "cuda/rdf/sorting.h"

enum {
    POINTS = 128,      /* of a block, at a time */
    BLOCKS = 16,       /* per SM */
    ROUNDS = 4,        /* of all blocks in a step, at least */
    MOST = 1 << 24,    /* points of the second set for shared counters: POINTS*MOST is 2^31 */
    COUNTED = 1u << 31 /* pairs of a block after which it adds what it has */
};

template <typename T> struct sorted_sets {
    cell_set<T> a, b;
    unsigned long long *queue; /* of each step: items taken so far */
};

/* How pairs are counted: in global memory, in shared memory, or there by a guess (guess.h) with
 * edges that are even in r or in log r. */
enum { GLOBAL, SHARED, EVEN, EVEN_LOG };

/* What all threads of a block share. */
struct cells_block {
    unsigned *histogram;
    int size, per_type; /* counters; those of a guess for a type of the second point */
};

/* Point i with points [j, j1) of the second set. */
template <typename T, int BOX, int HOW>
GOP_DEVICE void meet(const arguments<T> &x, const sorted_sets<T> &sets, const bin_guess &g,
                     const cells_block &block, const point<T> &a, int64_t i, int64_t j,
                     int64_t j1)
{
    const T *t = x.search.thresholds;
    const int bins = x.search.bins;
    if (HOW >= EVEN) {
        const float4 near = sets.a.packed[i];
        unsigned *histogram = block.histogram - g.base;
        histogram += gop_float_to_bits(near.w) * (unsigned)(block.per_type * x.types);
#pragma unroll 4
        for (; j < j1; j++) {
            const float4 b = sets.b.packed[j];
            bool face = false;
            const float r2 = guessed_square<BOX>(near, b, g, face);
            const unsigned place = place_of<HOW == EVEN_LOG>(r2, g), row = place >> g.shift;
            const unsigned at = row + gop_float_to_bits(b.w) * (unsigned)block.per_type;
            atomicAdd(&histogram[at], 1u);
            if (near_edge(place, g) | face) {
                const T exact = square<T, BOX>(a, from_tile(&sets.b.points[j]), x.box);
                const unsigned is = settled<T, HOW == EVEN_LOG>(exact, t, g);
                if (is == row) continue;
                atomicAdd(&histogram[at], 0xffffffffu);
                atomicAdd(&histogram[at + (is - row)], 1u);
            }
        }
        return;
    }
    const T first = t[0], last = t[bins];
    for (; j < j1; j++) {
        const point<T> b = from_tile(&sets.b.points[j]);
        const T r2 = square<T, BOX>(a, b, x.box);
        if (!(r2 >= first && r2 < last)) continue;
        const int of = x.types ? row_of(a.type, b.type, x.types) : 0, bin = halve(r2, t, bins);
        if (HOW == SHARED) atomicAdd(&block.histogram[of * bins + bin], 1u);
        else count(x.counts, of, bin, 1);
    }
}

/* i modulo n, for i from -n to 2*n - 1. */
GOP_DEVICE int wrapped(int i, int n)
{
    return i < 0 ? i + n : i < n ? i : i - n;
}

/* Adds the counters of a block to those in global memory. */
template <typename T, int HOW> GOP_DEVICE void
add_counters(const arguments<T> &x, const bin_guess &g, const cells_block &block)
{
    const int bins = x.search.bins, types = x.types ? x.types : 1;
    for (int k = threadIdx.x; k < block.size; k += POINTS) {
        const int rows = HOW >= EVEN ? g.rows : bins, of = k / rows;
        const int bin = k % rows - (HOW >= EVEN ? (int)(g.first - g.base) : 0);
        const int row = HOW >= EVEN ? row_of(of / types, of % types, x.types) : of;
        if (block.histogram[k] && bin >= 0 && bin < bins)
            count(x.counts, row, bin, block.histogram[k]);
        block.histogram[k] = 0;
    }
}

template <typename T, int BOX, int HOW> __global__ void __launch_bounds__(POINTS)
    rdf_cells_kernel(arguments<T> x, sorted_sets<T> sets, gop_grid grid, bin_guess guess,
                     int64_t begin, int64_t end, int64_t step)
{
    extern __shared__ __align__(16) unsigned char memory[];
    __shared__ unsigned long long taken;
    __shared__ unsigned met;
    const int types = x.types ? x.types : 1;
    const cells_block block = {reinterpret_cast<unsigned *>(memory),
                               HOW >= EVEN     ? types * types * guess.rows
                               : HOW == SHARED ? x.counts.rows * x.counts.bins
                                               : 0,
                               x.types ? guess.rows : 0};
    for (int k = threadIdx.x; k < block.size; k += POINTS) block.histogram[k] = 0;
    if (threadIdx.x == 0) met = 0;
    for (;;) {
        __syncthreads();
        const bool full = met >= COUNTED; /* the same for all threads: none adds before */
        if (threadIdx.x == 0) taken = atomicAdd(&sets.queue[step], 1ull);
        __syncthreads();
        const int64_t item = begin + (int64_t)taken, i = item * POINTS + threadIdx.x;
        const bool over = item >= end;
        if (HOW != GLOBAL && (over || full)) {
            add_counters<T, HOW>(x, guess, block);
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
                    const int z = wrapped(at2 + oz, grid.n[2]);
                    const int y = wrapped(at1 + oy, grid.n[1]);
                    const int base = (z * grid.n[1] + y) * n;
                    const int low = at0 + grid.first[named], high = at0 + grid.last[named];
                    for (int shift = -n; shift <= n; shift += n) {
                        const int from = max(low - shift, 0), to = min(high - shift, n - 1);
                        if (from > to) continue;
                        int64_t j = sets.b.start[base + from];
                        const int64_t j1 = sets.b.start[base + to + 1];
                        if (x.one_set && j <= i) j = i + 1;
                        if (j >= j1) continue;
                        counted += (unsigned)(j1 - j);
                        meet<T, BOX, HOW>(x, sets, guess, block, a, i, j, j1);
                    }
                }
        }
        if (HOW != GLOBAL) atomicAdd(&met, counted);
    }
}

/* The plan. */
struct cells_layout {
    gop_grid grid;
    int cells;
    int64_t items, per_step, blocks;
    int how;
    bin_guess guess;
    size_t shared; /* bytes of counters */
    struct {
        size_t points, packed, key, rank, sorted_key, start; /* byte offsets in scratch */
    } set[2];
    size_t queue, queue_bytes;
};

template <typename T> static cell_set<T> set_of(const gop_task *task, const cells_layout &l,
                                                int which, const point_set<T> &from)
{
    char *scratch = (char *)task->scratch;
    return {from,
            (point<T> *)(scratch + l.set[which].points),
            (float4 *)(scratch + l.set[which].packed),
            (int *)(scratch + l.set[which].key),
            (int *)(scratch + l.set[which].rank),
            (int *)(scratch + l.set[which].sorted_key),
            (int *)(scratch + l.set[which].start)};
}

template <typename T> static gop_status sort_set(gop_ctx *ctx, const gop_task *task,
                                                 const cells_layout &l, const cell_set<T> &set)
{
    const gop_frames *f = GOP_FRAMES(task);
    const gop_pairs *p = &f->pairs;
    const unsigned blocks = (unsigned)blocks_for(set.from.count + 1, 256);
    box_rows box = {{0}, p->box != 0};
    for (int k = 0; k < 9; k++) box.row[k] = p->cell[k];
    GOP_TRY(GOP_LAUNCH(ctx, rdf_zero_kernel, (unsigned)blocks_for(l.cells + 1, 256), 256, 0,
                       set.start, (int64_t)l.cells + 1));
    GOP_TRY(GOP_LAUNCH(ctx, (rdf_place_kernel<T>), blocks, 256, 0, set, box, l.grid));
    GOP_TRY(GOP_LAUNCH(ctx, (rdf_scan_kernel<T>), 1, SCAN_THREADS, 0, set, l.cells));
    return GOP_LAUNCH(ctx, (rdf_scatter_kernel<T>), blocks, 256, 0, set, f->middle[0],
                      f->middle[1], f->middle[2]);
}

template <typename T, int BOX, int HOW>
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
    bin_guess guess = l.guess;
    const gop_frames *f = GOP_FRAMES(task);
    if (f->pairs.box)
        gop_guess_box(&guess, f->pairs.cell, f->guess_margin[0], f->guess_margin[1]);
    const int64_t begin = step * l.per_step;
    const int64_t end = begin + l.per_step < l.items ? begin + l.per_step : l.items;
    if (end <= begin) return GOP_OK;
    const dim3 grid((unsigned)(end - begin < l.blocks ? end - begin : l.blocks));
    return GOP_LAUNCH(ctx, (rdf_cells_kernel<T, BOX, HOW>), grid, POINTS, l.shared, x, sets,
                      l.grid, guess, begin, end, step);
}

static size_t room_for(size_t *end, int64_t bytes)
{
    const size_t at = *end;
    *end = (at + (size_t)bytes + 255) / 256 * 256;
    return at;
}

/* How pairs are counted, and the bytes of counters. */
static void plan_counters(const gop_ctx *ctx, const gop_frames *f, cells_layout *l)
{
    const gop_pairs *p = &f->pairs;
    const int64_t room = ctx->info.shared_per_block - 1024, types = p->types ? p->types : 1;
    const int64_t most = p->n2 > MOST ? 0 : room;
    if (!gop_guess_bins(f, FAST_ROOT, &l->guess) && types < 1 << 15 &&
        types * types * l->guess.rows * 4 <= most) {
        l->how = l->guess.is_log ? EVEN_LOG : EVEN;
        l->shared = (size_t)(types * types * l->guess.rows * 4);
        return;
    }
    l->how = f->rows * p->bins * 4 <= most ? SHARED : GLOBAL;
    l->shared = l->how == SHARED ? (size_t)(f->rows * p->bins * 4) : 0;
}

/* Measured; every point is by itself. */
static const gop_grid_costs costs = {20.0, 0.0, 15.0, 0.0, 1.0, 1};

static gop_status rdf_cells_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    const gop_pairs *p = &task->geometry.pairs;
    const bool is_float = task->in[0].dtype == GOP_FLOAT32;
    const gop_near near = gop_near_of(p, is_float);
    const int64_t most = p->n > p->n2 ? p->n : p->n2;
    cells_layout &l = *GOP_OWN(cells_layout, plan);
    size_t end = 0;
    GOP_TRY(rdf_one_frame(task, "cells"));
    if (most > INT32_MAX / 2)
        return gop_fail(GOP_REFUSED,
                        "rdf: kernel 'cells' takes sets of up to 2^30 points, got %lld",
                        (long long)most);
    l.grid = gop_grid_choose(p, &near, &costs);
    l.cells = l.grid.n[0] * l.grid.n[1] * l.grid.n[2];
    plan->cost = l.cells == 1 ? INFINITY : (float)l.grid.cost; /* in pairs of a double loop */
    l.items = blocks_for(p->n, POINTS);
    l.blocks = BLOCKS * (int64_t)ctx->info.processors;
    plan_counters(ctx, GOP_FRAMES(task), &l);
    l.per_step = (INT64_C(1) << 35) / (POINTS * (p->n2 > 0 ? p->n2 : 1));
    if (l.per_step < ROUNDS * l.blocks) l.per_step = ROUNDS * l.blocks;
    /* Fewer where cells are full: 2^36 pairs, were the points spread evenly. */
    const double even = 0x1p36 * (double)p->n / (l.grid.cost * POINTS);
    if (even < (double)l.per_step) l.per_step = (int64_t)even + ctx->info.processors;
    plan->steps = l.items > l.per_step ? blocks_for(l.items, l.per_step) : 1;
    for (int k = 0; k <= !p->one_set; k++) {
        const int64_t n = k ? p->n2 : p->n;
        l.set[k].points = room_for(&end, n * (is_float ? 16 : 32));
        l.set[k].packed = is_float ? l.set[k].points : room_for(&end, n * 16);
        l.set[k].key = room_for(&end, n * 4);
        l.set[k].rank = room_for(&end, n * 4);
        l.set[k].sorted_key = room_for(&end, n * 4);
        l.set[k].start = room_for(&end, ((int64_t)l.cells + 1) * 4);
    }
    l.queue_bytes = (size_t)plan->steps * sizeof(unsigned long long);
    l.queue = room_for(&end, (int64_t)l.queue_bytes);
    plan->scratch = end;
    static const gop_launch of[4][2][3] = {
        RDF_LAUNCHES(rdf_cells, GLOBAL), RDF_LAUNCHES(rdf_cells, SHARED),
        RDF_LAUNCHES(rdf_cells, EVEN), RDF_LAUNCHES(rdf_cells, EVEN_LOG)};
    plan->launch = of[l.how][!is_float][p->box];
    return GOP_OK;
}

extern const gop_row rdf_cells_row = {
    .name = "cells",
    .note = "points sorted into cells on the device; blocks take them from a queue and look at "
            "near cells alone",
    .role = GOP_CONFORMING,
    .plan = rdf_cells_plan,
    .dtypes = RDF_DTYPES,
};
