/*
 * guessed.cu - rdf without a branch: the bin of every pair is guessed in float32 and counted at
 * once; where the guess is near an edge, the definition is computed and the count put right.
 *
 * Guesses (guess.h) are fused and rooted approximately, for float64 points too. Pairs in no bin
 * count in a row that is never read. A warp has its own share of the pairs and its own tile of
 * points, and waits for no other: the block shares only the counters. A lane holds POINTS
 * points in registers, which meet one point of the tile after the other.
 */
#include "cuda/rdf/guess.h"

enum {
    WARPS = 32, /* of a block; a block per SM */
    POINTS = 4, /* of a lane */
    ROW = 32 * POINTS,
    CHUNK = 32,          /* points of a tile: an item of work is ROW by CHUNK pairs */
    FIRST = ROW / CHUNK, /* items that hold pairs of a row with itself */
    COPIES = 8           /* of the counters at most, side by side, for lanes that collide */
};

/* Work: rows of items, of one set beginning at the row's own points. */
struct guessed_work {
    int64_t rows, items, begin, end;
    int chunks, one_set;
};

template <typename T> struct guessed {
    arguments<T> x;
    bin_guess guess;
    guessed_work work;
    double middle[3];
    int copies, types;     /* types: 1 without */
    int size, per_type;    /* counters of all types and copies; bytes of a type's, 0 without */
    const double *boxes;   /* of each frame, or null: all have that of `x` */
    int64_t frame, frame2; /* elements from frame to frame */
    double margin_y, margin_z;
};

/* The item at which a row begins. */
GOP_DEVICE int64_t row_begin(const guessed_work &w, int64_t row)
{
    return row * w.chunks - (w.one_set ? FIRST * (row * (row - 1) / 2) : 0);
}

GOP_DEVICE int64_t row_of_item(const guessed_work &w, int64_t item)
{
    if (!w.one_set) return item / w.chunks;
    const double most = 2.0 * w.chunks + FIRST;
    const double root = sqrt(fmax(most * most - 8.0 * FIRST * (double)item, 0.0));
    int64_t row = (int64_t)((most - root) / (2 * FIRST));
    row = row < 0 ? 0 : row < w.rows ? row : w.rows - 1;
    while (row > 0 && row_begin(w, row) > item) row--;
    while (row + 1 < w.rows && row_begin(w, row + 1) <= item) row++;
    return row;
}

/* Point i in float32, those of float64 relative to the middle of all; with it, where the
 * counters of its type begin. */
template <typename T>
GOP_DEVICE float4 narrow(const guessed<T> &s, const point_set<T> &set, int64_t i)
{
    const point<T> p = point_at(set, i);
    float4 q;
    q.x = (float)(sizeof(T) == 4 ? p.x : p.x - (T)s.middle[0]);
    q.y = (float)(sizeof(T) == 4 ? p.y : p.y - (T)s.middle[1]);
    q.z = (float)(sizeof(T) == 4 ? p.z : p.z - (T)s.middle[2]);
    q.w = gop_bits_to_float((uint32_t)(p.type * s.per_type));
    return q;
}

/* Point i as it was given: what is in float32 is that already. */
GOP_DEVICE point<float> given(const point_set<float> &, int64_t, const float4 &q)
{
    return {q.x, q.y, q.z, 0};
}
GOP_DEVICE point<double> given(const point_set<double> &set, int64_t i, const float4 &)
{
    return point_at(set, i);
}

/* The points of a lane with point j. ITSELF: only those before it. */
template <typename T, int BOX, bool LOG, bool TYPES, bool ITSELF>
GOP_DEVICE void meet(const guessed<T> &s, const float4 (&a)[POINTS], int i, const float4 &b,
                     int j, unsigned char *memory, unsigned mine)
{
    const bin_guess &g = s.guess;
    unsigned place[POINTS], at[POINTS];
    bool doubtful = false;
#pragma unroll
    for (int p = 0; p < POINTS; p++) {
        bool face = false;
        place[p] = place_of<LOG>(guessed_square<BOX>(a[p], b, g, face), g);
        if (ITSELF && j <= i + 32 * p) place[p] = g.outside, face = false;
        doubtful |= near_edge(place[p], g) | face;
        at[p] = (place[p] >> g.shift) * g.row_bytes + mine;
        if (TYPES) at[p] += gop_float_to_bits(a[p].w) + gop_float_to_bits(b.w);
        atomicAdd(reinterpret_cast<unsigned *>(memory + at[p]), 1u);
    }
    if (!doubtful) return;
#pragma unroll
    for (int p = 0; p < POINTS; p++) {
        if (a[p].x != a[p].x || (ITSELF && j <= i + 32 * p)) continue; /* NaN: no point */
        bool face = false;
        if (BOX == 2) guessed_square<BOX>(a[p], b, g, face);
        if (!near_edge(place[p], g) && !face) continue;
        const T r2 =
            square<T, BOX>(given(s.x.a, i + 32 * p, a[p]), given(s.x.b, j, b), s.x.box);
        const unsigned was = place[p] >> g.shift,
                       is = settled<T, LOG>(r2, s.x.search.thresholds, g);
        if (is == was) continue;
        atomicAdd(reinterpret_cast<unsigned *>(memory + at[p]), 0xffffffffu);
        atomicAdd(reinterpret_cast<unsigned *>(memory + (at[p] + (is - was) * g.row_bytes)),
                  1u);
    }
}

/* Items [item, end) of a warp, through its tile. */
template <typename T, int BOX, bool LOG, bool TYPES> GOP_DEVICE void
work_on(const guessed<T> &s, int64_t item, int64_t end, float4 *tile, unsigned char *memory)
{
    const int lane = threadIdx.x % 32, count = (int)s.x.b.count;
    const unsigned mine =
        (unsigned)(lane % s.copies * 4) - s.guess.base * s.guess.row_bytes; /* modulo 2^32 */
    const guessed_work &w = s.work;
    int64_t row = item < end ? row_of_item(w, item) : 0;
    for (; item < end; row++) {
        const int64_t first = row_begin(w, row), own = w.one_set ? row * FIRST : 0;
        const int64_t stop = min(end, row_begin(w, row + 1));
        const int i = (int)(row * ROW) + lane;
        float4 a[POINTS];
#pragma unroll
        for (int p = 0; p < POINTS; p++) {
            a[p].x = gop_bits_to_float(0x7fc00000u);
            a[p].y = a[p].z = a[p].w = 0;
            if (i + 32 * p < s.x.a.count) a[p] = narrow(s, s.x.a, i + 32 * p);
            if (TYPES)
                a[p].w = gop_bits_to_float(gop_float_to_bits(a[p].w) * (unsigned)s.types);
        }
        int j = (int)(item - first + own) * CHUNK;
        const int last = min((int)(stop - first + own) * CHUNK, count);
        const int before = w.one_set ? (int)(own + FIRST) * CHUNK : 0;
        item = stop;
        float4 next = a[0];
        if (j + lane < last) next = narrow(s, s.x.b, j + lane);
        for (; j < last; j += CHUNK) {
            __syncwarp();
            tile[lane] = next;
            __syncwarp();
            if (j + CHUNK + lane < last) next = narrow(s, s.x.b, j + CHUNK + lane);
            const int met = min(last - j, (int)CHUNK);
            if (j < before)
                for (int k = 0; k < met; k++)
                    meet<T, BOX, LOG, TYPES, true>(s, a, i, tile[k], j + k, memory, mine);
            else if (met == CHUNK) {
#pragma unroll 4
                for (int k = 0; k < CHUNK; k++)
                    meet<T, BOX, LOG, TYPES, false>(s, a, i, tile[k], j + k, memory, mine);
            } else
                for (int k = 0; k < met; k++)
                    meet<T, BOX, LOG, TYPES, false>(s, a, i, tile[k], j + k, memory, mine);
        }
    }
}

template <typename T, int BOX> GOP_DEVICE void go_to_frame(guessed<T> &s, int64_t frame)
{
    s.x.a.points += frame * s.frame;
    s.x.b.points += frame * s.frame2;
    s.x.counts.out += frame * s.x.counts.rows * s.x.counts.row;
    if (BOX > 0 && s.boxes) {
        double c[9];
#pragma unroll
        for (int i = 0; i < 9; i++) c[i] = (double)(T)s.boxes[9 * frame + i];
        s.x.box = cell_of<T>(c);
        gop_guess_box(&s.guess, c, s.margin_y, s.margin_z);
    }
}

/* FRAMES: blockIdx.y is a frame. */
template <typename T, int BOX, bool LOG, bool TYPES, bool FRAMES>
__global__ void __launch_bounds__(32 * WARPS, 1) rdf_guessed_kernel(guessed<T> s)
{
    extern __shared__ __align__(16) unsigned char memory[];
    __shared__ float4 tiles[WARPS * CHUNK];
    unsigned *counters = reinterpret_cast<unsigned *>(memory);
    const int warp = threadIdx.x / 32;
    for (int k = threadIdx.x; k < s.size; k += 32 * WARPS) counters[k] = 0;
    grid_dependency_sync();
    if (FRAMES) go_to_frame<T, BOX>(s, blockIdx.y);
    __syncthreads();
    const int64_t items = s.work.end - s.work.begin, warps = (int64_t)gridDim.x * WARPS;
    const int64_t each = blockIdx.x * (int64_t)WARPS + warp;
    work_on<T, BOX, LOG, TYPES>(s, s.work.begin + items * each / warps,
                                s.work.begin + items * (each + 1) / warps, tiles + warp * CHUNK,
                                memory);
    __syncthreads();
    const int bins = s.x.search.bins, all = s.types * s.types * bins;
    const int before = (int)(s.guess.first - s.guess.base);
    for (int k = threadIdx.x; k < all; k += 32 * WARPS) {
        const int bin = k % bins, of = k / bins;
        const unsigned *from = counters + (of * s.guess.rows + before + bin) * s.copies;
        unsigned long long sum = 0;
        for (int c = 0; c < s.copies; c++) sum += from[(c + threadIdx.x) % s.copies];
        if (sum) count(s.x.counts, row_of(of / s.types, of % s.types, s.x.types), bin, sum);
    }
}

/* The plan. */
enum { MOST_FRAMES = 65535 }; /* of a launch */

struct guessed_layout {
    bin_guess guess;
    guessed_work work;
    int64_t per_step;
    int copies, blocks, size;
};

template <typename T, int BOX, bool LOG, bool TYPES>
static gop_status rdf_guessed(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const guessed_layout &l = *GOP_OWN(const guessed_layout, task->plan);
    const gop_frames *f = GOP_FRAMES(task);
    const gop_pairs *p = &f->pairs;
    const arguments<T> x = arguments_of<T>(task);
    const int per_type = TYPES ? l.guess.rows * (int)l.guess.row_bytes : 0;
    const bool boxes = p->box && task->call->params.rdf.has_box > 1;
    guessed<T> s = {x,
                    l.guess,
                    l.work,
                    {f->middle[0], f->middle[1], f->middle[2]},
                    l.copies,
                    TYPES ? x.types : 1,
                    l.size,
                    per_type,
                    boxes ? (const double *)task->in[task->nin - 1].data : nullptr,
                    f->frame,
                    x.one_set ? f->frame : f->frame2,
                    f->guess_margin[0],
                    f->guess_margin[1]};
    const size_t shared = (size_t)l.size * 4;
    if (p->box) gop_guess_box(&s.guess, p->cell, s.margin_y, s.margin_z);
    if (f->count > 1) {
        counters all = x.counts;
        all.rows *= (int)f->count;
        s.work.end = l.work.items;
        GOP_TRY(rdf_clear(ctx, all));
        return GOP_LAUNCH_EARLY(ctx, (rdf_guessed_kernel<T, BOX, false, TYPES, true>),
                                dim3((unsigned)l.blocks, (unsigned)f->count), 32 * WARPS,
                                shared, s);
    }
    if (step == 0) GOP_TRY(rdf_clear(ctx, x.counts));
    s.work.begin = step * l.per_step;
    s.work.end =
        s.work.begin + l.per_step < l.work.items ? s.work.begin + l.per_step : l.work.items;
    if (s.work.end <= s.work.begin) return GOP_OK;
    return GOP_LAUNCH_EARLY(ctx, (rdf_guessed_kernel<T, BOX, LOG, TYPES, false>),
                            (unsigned)l.blocks, 32 * WARPS, shared, s);
}

static gop_status rdf_guessed_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    const gop_frames *f = GOP_FRAMES(task);
    const gop_pairs *p = &f->pairs;
    const bool is_float = task->in[0].dtype == GOP_FLOAT32;
    const int64_t types = p->types ? p->types : 1, most = p->n > p->n2 ? p->n : p->n2;
    const int64_t room = ctx->info.shared_per_block - WARPS * CHUNK * 16 - 1024;
    guessed_layout &l = *GOP_OWN(guessed_layout, plan);
    if (most > INT32_MAX / 2)
        return gop_fail(GOP_REFUSED,
                        "rdf: kernel 'guessed' takes sets of up to 2^30 points, got %lld",
                        (long long)most);
    const char *const needs = gop_guess_bins(f, FAST_ROOT, &l.guess);
    if (needs)
        return gop_fail(GOP_REFUSED, "rdf: kernel 'guessed' takes %s; other kernels take any",
                        needs);
    const int64_t counters = types < 1 << 15 ? types * types * l.guess.rows : room;
    l.copies = COPIES;
    while (l.copies > 0 && counters * l.copies * 4 > room) l.copies /= 2;
    if (l.copies == 0)
        return gop_fail(GOP_REFUSED,
                        "rdf: kernel 'guessed' needs %lld bytes of shared memory for its "
                        "counters, this device leaves %lld",
                        (long long)counters * 4, (long long)room);
    l.guess.row_bytes = (unsigned)l.copies * 4;
    l.size = (int)counters * l.copies;
    l.work = {};
    l.work.one_set = p->one_set;
    l.work.rows = blocks_for(p->n, ROW);
    l.work.chunks = (int)blocks_for(p->n2, CHUNK);
    l.work.items = l.work.rows * l.work.chunks -
                   (p->one_set ? FIRST * (l.work.rows * (l.work.rows - 1) / 2) : 0);
    const int64_t blocks = blocks_for(l.work.items > 0 ? l.work.items : 1, WARPS);
    l.blocks = (int)(blocks < ctx->info.processors ? blocks : ctx->info.processors);
    /* A step has 2^35 pairs, and a block at most 2^31, so that 32 bits hold a counter. */
    l.per_step = INT64_C(1) << 23;
    if (l.per_step > l.blocks * (INT64_C(1) << 19)) l.per_step = l.blocks * (INT64_C(1) << 19);
    plan->steps = l.work.items > l.per_step ? blocks_for(l.work.items, l.per_step) : 1;
    if (f->count > 1) { /* in one launch, of about two blocks an SM in all */
        const int64_t share = 2 * ctx->info.processors / f->count + 1;
        l.blocks = (int)(blocks < share ? blocks : share);
        if (f->count > MOST_FRAMES || l.work.items > l.per_step / f->count ||
            f->rows * f->count > INT32_MAX || l.guess.is_log)
            return gop_fail(GOP_REFUSED,
                            "rdf: kernel 'guessed' takes frames of 2^35 pairs together, up to "
                            "%d of them, and edges that are even in r; got %lld frames",
                            (int)MOST_FRAMES, (long long)f->count);
    }
    static const gop_launch of[2][2][2][3] = {
        {RDF_LAUNCHES(rdf_guessed, false, false), RDF_LAUNCHES(rdf_guessed, false, true)},
        {RDF_LAUNCHES(rdf_guessed, true, false), RDF_LAUNCHES(rdf_guessed, true, true)}};
    plan->launch = of[l.guess.is_log][p->types > 0][!is_float][p->box];
    return GOP_OK;
}

extern const gop_row rdf_guessed_row = {
    .name = "guessed",
    .note = "bins are guessed in float32 and counted without a branch; only near an edge the "
            "definition is computed",
    .role = GOP_CONFORMING,
    .plan = rdf_guessed_plan,
    .dtypes = RDF_DTYPES,
};
