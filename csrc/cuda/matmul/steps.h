/*
 * steps.h - the plan of a product by pieces, and the launches of a step.
 */
#ifndef GOP_CUDA_MATMUL_STEPS_H
#define GOP_CUDA_MATMUL_STEPS_H

#include "cuda/matmul/image.h"
#if GOP_SM90
#include "cuda/matmul/engine.h"
#include "cuda/matmul/pack.h"
#endif

/* ---- which tiles a block gets: the fastest cut of a product ---- */

/* The SMs compute one tile each at a time: a wave. Large tiles load less; small ones leave
 * fewer SMs idle in the last wave, whose tiles can also be cut along l. The unit of time is a
 * block of terms of a large tile. */
struct engine_cut : tile_schedule {
    int waves;   /* tiles of 128 rows that a block computes */
    int cluster; /* blocks side by side that share them */
    int each;    /* tiles of a product */
    double time; /* in blocks of terms of a large tile */
};

/* The time of a block of terms. */
struct engine_pace {
    double shared, single; /* of 128 rows, for blocks of two and for single ones */
    double less = 1;       /* how many times as long the block of six products takes */
};
static const engine_pace SPLIT_PACE = {0.52, 0.55}, SINGLE_PACE = {0.52, 0.55, 5.5};

static inline double cut_time(const engine_cut &cut, int64_t slots, double each, double less)
{
    const double around = 0.75 * less;                      /* beginning and end of a tile */
    const double fold = 2 * less, fold_part = 0.017 * less; /* adding parts */
    const int parts = cut.items - cut.whole;
    return tile_waves(cut, 1, slots, each, around) +
           (parts ? fold + parts * cut.waves * cut.cluster * fold_part : 0);
}

/* Depends only on the device and the shape, and so do the bits. `unit`: blocks that are added
 * at once. Tiles that are mirrored are square. */
static inline engine_cut cut_of(const gop_ctx *ctx, int64_t products, int64_t rows,
                                int64_t columns, int blocks, int unit, int mirrored,
                                const engine_pace &pace)
{
    static const int ways[][2] = {{2, 2}, {1, 2}, {1, 1}};
    const int processors = ctx->info.processors > 1 ? ctx->info.processors : 2;
    engine_cut best = {};
    for (const int *way : ways) {
        const int waves = way[0], cluster = way[1];
        if (mirrored && waves != cluster) continue;
        const int64_t m = blocks_for(rows, 128 * waves), n = blocks_for(columns, 128 * cluster);
        const int64_t wave = processors / cluster;
        const double each = waves == 2 ? 1 : cluster == 2 ? pace.shared : pace.single;
        for (int slices = 1; slices <= MOST_SLICES; slices++) {
            engine_cut cut;
            cut.waves = waves, cut.cluster = cluster;
            cut.each = (int)(mirrored ? m * (m + 1) / 2 : m * n);
            (tile_schedule &)cut = tile_schedule_of(1, cut.each, products, 16 / waves,
                                                    blocks / unit, wave, slices);
            cut.down = (int)m, cut.across = (int)n;
            if (slices > 1 && (cut.whole == cut.tiles || cut.stages / slices < 2)) continue;
            cut.time = cut_time(cut, wave, unit * each, pace.less);
            if (best.items == 0 || cut.time < best.time) best = cut;
        }
    }
    return best;
}

/* Bytes of the parts of sums. */
static inline size_t cut_parts(const engine_cut &cut)
{
    const size_t tile = (size_t)(cut.waves * cut.cluster) * 128 * 128 * sizeof(float);
    return (size_t)(cut.items - cut.whole) * tile;
}

/* ---- the plan ---- */

enum { LAST = 1, SYMMETRIC = 2, CUTS = 4 }; /* cuts are numbered by these bits */

struct split_plan {
    int transposed;                 /* out = (b^T a^T)^T, where out's columns are contiguous */
    int symmetric;                  /* reals of a number, where b is a's transpose */
    int64_t rows, panels, products; /* of a step */
    int blocks, unit;               /* of terms, and how many of them are added at once */
    engine_cut cut[CUTS];
    size_t at_b, at_parts, at_bad, at_wanted, end; /* in the scratch memory */
};

/* A step in the orientation of the images. */
template <typename T> struct split_step {
    matmul_product<T> p;
    const engine_cut *cut;
    int symmetric;
    uint8_t *scratch;
    const unsigned *only_if;
};

/* Whether runs along the contiguous direction start at multiples of `bytes`. */
static inline int in_runs(const matmul_geometry &g, const void *data, int64_t contiguous,
                          int64_t other, const int64_t *batch, int64_t item, int64_t bytes)
{
    int64_t all = (int64_t)(uintptr_t)data | other * item;
    for (int axis = 0; axis < g.batch_rank; axis++) all |= batch[axis] * item;
    return contiguous == 1 && all % bytes == 0;
}

static inline size_t aligned(size_t bytes)
{
    return (bytes + IMAGE_ALIGNED - 1) / IMAGE_ALIGNED * IMAGE_ALIGNED;
}

/* Lines of whole tiles. */
static inline int64_t tiles_up(int64_t lines, int tile)
{
    return blocks_for(lines, tile) * tile;
}

/* Cuts a product into steps that are short enough to be interrupted and need little memory. */
static inline void split_steps(const gop_ctx *ctx, const gop_gemm &g, int parts, size_t line,
                               split_plan *p)
{
    const double most = (double)ctx->info.processors * 3.5e10; /* multiply-adds, some 100 ms */
    const double images = 2e9;                                 /* bytes of a batch's */
    const double row = (double)g.n * (double)g.k * parts * parts, product = row * (double)g.m;
    const double lines = (double)(tiles_up(g.m, 256) + tiles_up(g.n * parts, 256));
    const double image = (double)line * lines;
    const int64_t longest = INT64_C(1) << 30; /* rows, which are counted as int */
    p->rows = g.m, p->panels = p->products = 1;
    if ((product > most && !p->symmetric) || g.m > longest) {
        const int64_t pieces = 1 + (int64_t)(product / most) + g.m / longest;
        p->rows = tiles_up((g.m + pieces - 1) / pieces, 256);
        p->panels = (g.m + p->rows - 1) / p->rows;
        p->symmetric = 0;
        return;
    }
    const double fit = most / product < images / image ? most / product : images / image;
    p->products = fit < 1 ? 1 : fit < (double)g.batches ? (int64_t)fit : g.batches;
}

/* The plan of `bf16x3_packed` for numbers of `parts` reals, in scratch memory from byte `from`
 * on. */
static inline void split_plan_of(const gop_ctx *ctx, const gop_task *task, int pieces,
                                 int parts, const engine_pace &pace, split_plan *p)
{
    gop_gemm g = task->geometry.gemm;
    p->transposed = g.out_col != 1 && g.out_row == 1;
    if (p->transposed) g = matmul_swapped(g);
    p->symmetric = of_itself(task->call) ? parts : 0;
    p->unit = pieces == 1 ? 4 : 1;
    const int64_t terms = IMAGE_TERMS * p->unit;
    p->blocks = (int)((g.k * parts + terms - 1) / terms) * p->unit;
    const size_t line = (size_t)pieces * (size_t)p->blocks * IMAGE_TERMS * 2;
    split_steps(ctx, g, parts, line, p);

    const int64_t batches = g.batches % p->products, rows = g.m % p->rows;
    const int64_t columns = g.n * parts;
    size_t most_parts = 0;
    for (int c = 0; c < CUTS; c++) {
        p->cut[c] = cut_of(ctx, c & LAST && batches ? batches : p->products,
                           c & LAST && rows ? rows : p->rows, columns, p->blocks, p->unit,
                           parts == 1 && c & SYMMETRIC, pace);
        if (cut_parts(p->cut[c]) > most_parts) most_parts = cut_parts(p->cut[c]);
    }
    const size_t count = (size_t)p->products;
    p->at_b = aligned((size_t)tiles_up(p->rows, 256) * line *
                      (uniform_batch(g, g.a) == 0 ? 1 : count));
    p->at_parts = p->at_b + aligned((size_t)tiles_up(columns, 256) * line *
                                    (uniform_batch(g, g.b) == 0 ? 1 : count));
    p->at_bad = p->at_parts + aligned(most_parts);
    p->at_wanted = p->at_bad + (size_t)ctx->info.processors * PACK_BLOCKS * sizeof(unsigned);
    p->end = aligned(p->at_wanted + sizeof(unsigned));
}

#if GOP_SM90

template <typename T>
static split_step<T> split_step_of(const gop_task *task, const split_plan &plan, int64_t step)
{
    const int64_t batch = step / plan.panels * plan.products;
    const int64_t row = step % plan.panels * plan.rows;
    const matmul_part part = {batch, plan.products,         row, plan.rows,
                              1,     task->geometry.gemm.k, 0};
    split_step<T> s = {matmul_product_of<T>(task, part), nullptr, 0, (uint8_t *)task->scratch,
                       nullptr};
    matmul_product<T> &p = s.p;
    s.symmetric = plan.symmetric && p.a == p.b;
    if (plan.transposed) {
        const T *const a = p.a;
        p.g = matmul_swapped(p.g);
        p.a = p.b, p.b = a;
    }
    if (p.part.batches > p.g.batches - batch) p.part.batches = p.g.batches - batch;
    if (p.part.rows > p.g.m - row) p.part.rows = p.g.m - row;
    const int last = p.part.batches < plan.products || p.part.rows < plan.rows;
    s.cut = &plan.cut[last * LAST + s.symmetric * SYMMETRIC];
    return s;
}

/* What the pack of a step is told. */
template <typename T, int PIECES>
static image_job image_job_of(const split_plan &plan, const split_step<T> &s)
{
    enum { PARTS = packing<T>::PARTS };
    const matmul_product<T> &p = s.p;
    const matmul_geometry &g = p.g;
    const int64_t line_bytes = (int64_t)PIECES * plan.blocks * IMAGE_TERMS * 2;
    image_job job = {};
    job.g = g;
    image_side &a = job.a, &b = job.b;
    a.from = p.a + p.part.row * g.a_row;
    a.line = g.a_row, a.term = g.a_col, a.lines = p.part.rows;
    a.to = s.scratch;
    a.tile = 128 * s.cut->waves;
    a.padded = s.cut->down * 128 * s.cut->waves;
    a.product = a.padded * line_bytes;
    a.shared = uniform_batch(g, g.a) == 0;
    a.transposed = llabs(g.a_row) < llabs(g.a_col);
    a.runs = g.a_col == 1;
    a.vectors = in_runs(g, a.from, g.a_col, g.a_row, g.a, sizeof(T), 16);
    b.from = p.b;
    b.line = g.b_col, b.term = g.b_row, b.lines = PARTS * g.n;
    b.to = s.scratch + plan.at_b;
    b.tile = IMAGE_COLUMNS;
    b.padded = s.cut->across * 128 * s.cut->cluster;
    b.product = b.padded * line_bytes;
    b.shared = uniform_batch(g, g.b) == 0;
    b.transposed = llabs(g.b_row) < llabs(g.b_col);
    b.runs = g.b_col == 1;
    b.vectors = in_runs(g, p.b, g.b_col, g.b_row, g.b, sizeof(T), 16);
    job.k = PARTS * g.k;
    job.blocks = plan.blocks;
    job.batch = p.part.batch;
    job.units_a = pack_units(a, plan.blocks, false, p.part.batches);
    job.units = job.units_a + pack_units(b, plan.blocks, true, p.part.batches);
    job.only_if = s.only_if;
    job.bad = (unsigned *)(s.scratch + plan.at_bad);
    return job;
}

/* Blocks of a kernel that takes unit after unit. */
static inline unsigned packers_of(const gop_ctx *ctx, const image_job &job)
{
    const int64_t most = (int64_t)ctx->info.processors * PACK_BLOCKS;
    return (unsigned)(job.units < most ? job.units : most);
}

/* What the engine is told. */
template <typename T>
static engine_job engine_job_of(const gop_ctx *ctx, const split_plan &plan,
                                const split_step<T> &s, const image_job &pack)
{
    const matmul_product<T> &p = s.p;
    const matmul_geometry &g = p.g;
    engine_job job = {};
    (tile_schedule &)job = *s.cut;
    job.g = g;
    job.a = pack.a.to, job.b = pack.b.to;
    job.a_product = pack.a.shared ? 0 : pack.a.product;
    job.b_product = pack.b.shared ? 0 : pack.b.product;
    job.out = p.out;
    job.parts = (float *)(s.scratch + plan.at_parts);
    job.batch = p.part.batch, job.row = p.part.row;
    job.rows = (int)p.part.rows, job.columns = (int)(packing<T>::PARTS * g.n);
    job.blocks = plan.blocks;
    job.each = s.cut->each;
    job.pairs = in_runs(g, p.out, g.out_col, g.out_row, g.out, sizeof(T), 2 * sizeof(T));
    job.mirrored = s.symmetric ? plan.symmetric : 0;
    job.bad = pack.bad, job.bad_words = (int)packers_of(ctx, pack);
    job.only_if = s.only_if;
    return job;
}

template <typename T, int PIECES, bool HALF, int W, int C>
static gop_status launch_engine_of(gop_ctx *ctx, const engine_job &job)
{
    const gop_cuda_grid grid = cluster_grid(job.items, ctx->info.processors, C);
    if (job.slices == 1)
        return GOP_LAUNCH_EARLY(ctx, (matmul_engine_kernel<PIECES, HALF, T, W, C>), grid,
                                BLOCK_THREADS, engine_stage<PIECES, W>::ring::SHARED, job);
    GOP_TRY(GOP_LAUNCH_FOLLOWED(ctx, true, (matmul_engine_kernel<PIECES, HALF, T, W, C>), grid,
                                BLOCK_THREADS, engine_stage<PIECES, W>::ring::SHARED, job));
    return GOP_LAUNCH_EARLY(ctx, (matmul_parts_kernel<HALF, T, W, C>),
                            (unsigned)((job.tiles - job.whole) * W * C * 16), CONSUMERS, 0,
                            job);
}

template <typename T, int PIECES, bool HALF>
static gop_status launch_engine(gop_ctx *ctx, const engine_cut &cut, const engine_job &job)
{
    if (cut.waves == 2) return launch_engine_of<T, PIECES, HALF, 2, 2>(ctx, job);
    return cut.cluster == 2 ? launch_engine_of<T, PIECES, HALF, 1, 2>(ctx, job)
                            : launch_engine_of<T, PIECES, HALF, 1, 1>(ctx, job);
}

/* Enqueues a step: pack, multiply, add parts, and the kernel for what pieces cannot hold. */
template <typename T, int PIECES>
gop_status matmul_pieces_step(gop_ctx *ctx, const split_plan &plan, const split_step<T> &s)
{
    const image_job pack = image_job_of<T, PIECES>(plan, s);
    engine_job job = engine_job_of(ctx, plan, s, pack);
    job.wanted = (unsigned *)(s.scratch + plan.at_wanted);
    /* Two kernels become one graph. */
    GOP_TRY(GOP_LAUNCH_FOLLOWED(ctx, job.slices == 1, (matmul_pack_kernel<T, PIECES>),
                                packers_of(ctx, pack), THREADS_OF_PACK, 0, pack));
    GOP_TRY((launch_engine<T, PIECES, false>(ctx, *s.cut, job)));
    matmul_product<T> rest = s.p;
    rest.part.wanted = job.wanted;
    return matmul_launch_blocks<T, T>(ctx, rest);
}

#endif
#endif
