/*
 * wgmma_f16_schedule.cu - which tiles, clusters and slices of sums 'wgmma_f16' takes: those
 * that are expected to be done first.
 *
 * Blocks stay and take tile after tile, so a call is so many waves of tiles, and a wave so
 * many slots of a tile and what is around them. Where the tiles are few, blocks of a cluster
 * may share each, and then wait for each other. Beside that, the L2 cache has to deliver what
 * tiles fetch, of which blocks of a cluster share a part, and memory has to move the operands
 * and the results; the cubes make it the longest of the three, a little more where two are
 * alike. What no map describes is copied before.
 */
#include <math.h>

#include "cuda/matmul/question.h"
#include "cuda/matmul/wgmma_f16.h"

/* On an H200, fitted to 77800 schedules of some 1000 products timed there on 2026-11-30: to the
 * times, which it meets within 9 %, and to the choice, which takes 2.6 % longer than the best.
 * In microseconds, and bytes of a microsecond. */
struct wgmma_f16_pace {
    float slot, both,
        around; /* a slot of one tile, of a tile of each warpgroup; start and end */
};
static const wgmma_f16_pace paces[WGMMA_F16_SHAPES] = {
    {0.655f, 0, 2.06f},  {0.507f, 0, 1.4f},        {0.434f, 0, 1.38f}, {0.407f, 0, 1.42f},
    {0.357f, 0, 0.921f}, {0.246f, 0, 0.629f},      {0.638f, 0, 1.74f}, {0.563f, 0, 1.97f},
    {0.409f, 0, 1.03f},  {0.174f, 0.424f, 0.535f},
};
static const float CLUSTER = 1.03f, ADDING = 2.92f, COPYING = 2.78f;
/* Where blocks share sums, fitted to 47000 ways of 2700 products, 2026-11-30: how long a slot
 * takes where few SMs have a block, and what the others add to it; a block of a cluster that
 * the others wait for; bytes that a block reads of the others' sums; the end, where no map can
 * write the results. */
static const float SLOT_ALONE = 0.49f, SLOT_OTHERS = 0.56f, MEETING = 0.18f, MEETS = 16.4e3f,
                   MEETS_NARROW = 1.1f;
static const float MEMORY = 5.39e6f, CACHE = 10.8e6f, PIECES = 4.28e6f, COPIES = 1.48e6f;
/* The end of a tile whose results no map can write, by two items at a time or by one. */
static const float NARROW = 1.76f, NARROWEST = 2;
static const float PARTLY = 0.15f; /* how far an SM without a tile makes others faster */
static const float ACROSS = 1.01f; /* clusters that lie the other way: see try_tiles */

static float turns_time(const wgmma_f16_pace &of, int tiles, int slots, float stages,
                        float around)
{
    const int each = of.both > 0 ? 2 * slots : slots, full = tiles / each;
    const int left = tiles - full * each;
    const float wave = stages * (of.both > 0 ? of.both : of.slot) + around;
    const float last = left > slots ? wave : left > 0 ? stages * of.slot + around : 0;
    return (float)full * wave + (1 - PARTLY) * last + PARTLY * wave * (float)left / (float)each;
}

static float cube(float x)
{
    return x * x * x;
}

static float sharing_time(const matmul_schedule &t, int slots, float narrow)
{
    const wgmma_f16_shape &shape = wgmma_f16_shapes[t.shape];
    const float busy = (float)(t.tiles * t.sharing) / (float)slots;
    const float slot = paces[t.shape].slot * (SLOT_ALONE + SLOT_OTHERS * busy);
    const float bytes = (float)(shape.rows() * shape.columns) * sizeof(float);
    return (float)blocks_for(t.stages, t.sharing) * slot +
           ((float)t.sharing * MEETING + bytes / MEETS) * (narrow > 1 ? MEETS_NARROW : 1);
}

/* Cubes of the SMs' time and of the cache's. `boxed`: b comes in boxes of 64 columns. */
static float work_time(const matmul_schedule &t, int slots, float narrow, bool boxed)
{
    wgmma_f16_pace of = paces[t.shape];
    const wgmma_f16_shape &shape = wgmma_f16_shapes[t.shape];
    const bool shared = t.below * t.beside > 1;
    const int rest = t.tiles - t.whole;
    const float around = of.around * narrow;
    float time = t.sharing > 1 ? sharing_time(t, slots, narrow)
                               : turns_time(of, t.whole, slots, (float)t.stages, around);
    if (shared) time += CLUSTER;
    if (rest > 0 && t.sharing == 1)
        time += turns_time(of, rest * t.slices, slots,
                           (float)((t.stages + t.slices - 1) / t.slices), around) +
                ADDING + 2 * (float)wgmma_f16_partials_bytes(t) / PIECES;
    const int columns = boxed ? (int)blocks_for(shape.columns, 64) * 64 : shape.columns;
    const float lines = (float)(shape.rows() * t.below + columns * t.beside);
    const float fetched = (float)t.tiles * (float)t.stages * lines * 2 * TILE_K;
    return cube(time) + cube(fetched / CACHE);
}

static matmul_schedule cut_into(const gop_gemm &g, int slots, int shape, int below, int beside,
                                bool swapped, int split)
{
    const wgmma_f16_shape &of = wgmma_f16_shapes[shape];
    const int rows = of.rows() * below, columns = of.columns * beside;
    const int m = (int)(swapped ? g.n : g.m), n = (int)(swapped ? g.m : g.n);
    matmul_schedule t;
    t.shape = (short)shape, t.below = (short)below, t.beside = (short)beside;
    t.sharing = 1, t.cluster = (short)(below * beside), t.swapped = swapped;
    (tile_schedule &)t = tile_schedule_of(blocks_for(m, rows), blocks_for(n, columns),
                                          g.batches, 8, blocks_for(g.k, TILE_K), slots, split);
    return t;
}

/* What it adds to a call's time that an operand is copied. */
static float moving_time(const straight_operand &o, float *moved)
{
    const float bytes = 2 * (float)o.inner * (float)o.outer * (float)o.batches;
    *moved += bytes;
    return o.copied ? bytes / COPIES : 0;
}

/* The best schedule so far, and the cube of its time. */
struct wgmma_f16_found {
    const gop_gemm &g;
    const straight_operand out;
    float narrow; /* how much longer a tile's end takes, as the results lie */
    int processors;
    bool alike;    /* all sums are cut, or none */
    bool boxed[2]; /* b; a, where the product is transposed */
    float least;
    matmul_schedule best;

    /* These tiles with whole sums, and with as many slices as fill a wave or two. */
    void try_tiles(int shape, int below, int beside, bool swapped)
    {
        enum { SHORTEST = 2, MOST = 64 }; /* stages of a slice; slices */
        const int slots = processors / (below * beside);
        /* Alone, or two below each other, tiles go better down the lines of results; two beside
         * each other across them. */
        const bool across = swapped == out.transposed;
        const float far = across == (beside > 1) ? 1 : cube(ACROSS);
        int rest = 0, most = 1;
        for (int waves = 0; waves <= (rest > 0 ? 2 : 0); waves++) {
            const int fill = waves > 0 ? waves * slots / rest : 1;
            if (waves > 0 && fill < 2) continue;
            const int split = fill < most ? fill : most;
            const matmul_schedule t = cut_into(g, slots, shape, below, beside, swapped, split);
            if (waves == 0) {
                rest = t.tiles % slots;
                most = t.stages / SHORTEST < MOST ? t.stages / SHORTEST : MOST;
                if (most < 2) rest = 0; /* nothing to cut */
            }
            if (alike && t.whole > 0 && t.whole < t.tiles) continue;
            const float time = work_time(t, slots, narrow, boxed[swapped]) * far;
            if (time < least) least = time, best = t;
        }
    }

    /* The same where blocks of a cluster have a slice of the sums each, and one tile. A cluster
     * lies within a part of the GPU (a GPC), whose SMs larger clusters do not fill: an H200
     * holds 66 clusters of two blocks, 30 of four, 15 of eight. */
    void try_sharing(int shape, bool swapped)
    {
        enum { SHORTEST = 2, MOST = 8 }; /* stages of a slice; slices */
        if (wgmma_f16_shapes[shape].apart) return;
        matmul_schedule t = cut_into(g, processors, shape, 1, 1, swapped, 1);
        t.whole = 0;
        for (int slices = 2; slices <= MOST && slices * SHORTEST <= t.stages; slices *= 2) {
            const int held = slices > 2 ? processors * 10 / 11 : processors;
            if (t.tiles > held / slices) return;
            t.sharing = t.cluster = (short)(t.slices = slices);
            const float time = work_time(t, processors, narrow, boxed[swapped]);
            if (time < least) least = time, best = t;
        }
    }
};

static double search(const gop_ctx *ctx, const gop_task *task, matmul_schedule *best)
{
    const gop_gemm &g = task->geometry.gemm;
    const int64_t longest = g.m > g.n ? g.m : g.n;
    if ((double)g.m * (double)g.n * (double)g.batches > 4e11 ||
        (longest > g.k ? longest : g.k) > INT32_MAX / 2)
        return INFINITY; /* what it refuses */
    const straight_operand a = straight_operand_of(g, g.a, task->in[0].data, g.m, g.a_row,
                                                   g.a_col),
                           b = straight_operand_of(g, g.b, task->in[1].data, g.n, g.b_col,
                                                   g.b_row);
    const straight_operand out = straight_result(g, task->out[0].data);
    const bool pairs = straight_pairs(out, task->out[0].data);
    wgmma_f16_found found = {g,
                             out,
                             !out.copied ? 1
                             : pairs     ? NARROW
                                         : NARROWEST,
                             ctx->info.processors > 1 ? ctx->info.processors : 2,
                             of_itself(task->call),
                             {b.transposed, a.transposed},
                             1e30f,
                             {}};
    for (int shape = 0; shape < WGMMA_F16_SHAPES; shape++)
        for (int swapped = 0; swapped < 2; swapped++) {
            found.try_tiles(shape, 1, 1, swapped);
            found.try_tiles(shape, 1, 2, swapped);
            found.try_tiles(shape, 2, 1, swapped);
            found.try_sharing(shape, swapped);
        }
    *best = found.best;
    float moved = 2 * (float)g.batches * (float)g.m * (float)g.n;
    const float before =
        moving_time(a, &moved) + moving_time(b, &moved) + (a.copied || b.copied ? COPYING : 0);
    return 1e-6 *
           (double)(WGMMA_F16_LAUNCH + before + cbrtf(found.least + cube(moved / MEMORY)));
}

double wgmma_f16_choose(const gop_ctx *ctx, const gop_task *task, matmul_schedule *best)
{
    struct answer {
        matmul_schedule best;
        double seconds;
    };
    static remembered<matmul_question, answer, 256> known; /* choice and plan ask, each call */
    const answer found = matmul_ask(&known, ctx, task, false, [&] {
        answer of = {};
        of.seconds = search(ctx, task, &of.best);
        return of;
    });
    *best = found.best;
    return found.seconds;
}
