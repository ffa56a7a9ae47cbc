/*
 * dmma_schedule.cu - which tiles, clusters and pieces of sums 'dmma' takes, and which tiles,
 * groups of warps and pieces 'dmma_tma': those that are expected to be done first.
 *
 * Tiles of blocks that an SM holds at once share its tensor cores, so a call is so many turns
 * of blocks, and a turn the products of all of them, or the waiting of one. Beside that,
 * memory has to move operands, results and pieces of sums, and the L2 cache what tiles fetch;
 * the squares make it the longest of the three, more where two are alike. Of dmma_tma an SM has
 * one block, whose groups go on from tile to tile.
 */
#include <math.h>

#include "cuda/matmul/dmma.h"
#include "cuda/matmul/question.h"

/* On an H200, fitted to 5418 ways of 403 products timed there on 2026-11-29, which it meets
 * within 11 %; the way it takes needs at most 10 % more than the best of 95 % of them.
 * Microseconds, and bytes of a microsecond. */
static const float AROUND = 0.023f, WAITING = 0.147f; /* of a block, of a stage */
static const float OUTPUT = 2.1e-4f, ODD_OUTPUT = 0.05f;
/* How much longer by copies of 8 bytes, and how many times that if the other lines are 16. */
static const float SINGLE_A = 0.06f, SINGLE_B = 0.046f, SINGLE_THIN = 12;
static const float MEMORY = 5.42e6f, STORE = 5.13e6f, CACHE = 13.7e6f;
/* How much longer where rows begin at odd numbers, or halfway in a sector of 32 bytes. */
static const float ODD_STORE = 0.5f, HALFWAY_STORE = 0.3f;
static const float ADDING = 2.29f, PIECE = 0.0028f, MEETING = 1.37f, MEMBER = 0.073f;
static const float FREE = 0.9f; /* the part of SMs that clusters find room on */
static const float PAIRS = 2.46f, COPIED = 1.02e6f; /* the copies of complex numbers */
static const float EIGHT = 1 / 30400.0f;            /* eight terms of an output, at 1.9 GHz */

/* The same of dmma_tma, fitted to 7069 ways of 262 products timed there on 2026-11-30 so that
 * the way it takes loses little: what is around a call, and around a tile that groups share or
 * that one has; pieces of sums, and their bytes; rows that begin within 16, within 32 bytes. */
static const float TMA_AROUND = 0.88f, TMA_TILE = 0.856f, TMA_OUTPUT = 1.32e-05f;
static const float TMA_APART = 0.000176f; /* for each output */
static const float TMA_ALONE = 1.38f; /* how much longer the products of a single group take */
static const float TMA_ACROSS = 0.0839f, TMA_ADDING = 1.15f, TMA_PIECE = 0.418f;
static const float TMA_PARTS = 1.30e6f, TMA_STORE = 4.66e6f, TMA_CACHE = 20.2e6f;
static const float TMA_ODD = 2.79f, TMA_HALFWAY = 1.9f;
static const double TMA_COPYING = 3.3, TMA_COPIES = 1.47e6; /* as of halves */
static const float TMA_THIN = 1.1f; /* slower with at most 16 lines or columns, or 8 terms */

/* What a row of results that begins within a sector of the L2 cache adds to its store. */
static float within_sector(const gop_gemm &g, float odd, float halfway)
{
    return g.n % 2 ? odd : g.n % 4 ? halfway : 0;
}

/* What all ways of a call have in common. */
struct dmma_call {
    const gop_gemm &g;
    int processors;
    bool whole, clusters; /* no sum is cut; blocks may share one */
    int a_mode, b_mode;
    float moved, stored;  /* microseconds of operands, of a result */
    float output;         /* of one output */
    float copies;         /* of complex numbers */
    float faster, memory; /* beside an H200 */
};

/* Microseconds beside the launch of the first kernel. */
static float way_time(const dmma_call &c, const dmma_schedule &s, int64_t tiles)
{
    const dmma_tile &tile = dmma_tiles[s.way];
    const float blocks = (float)(tiles * s.split * s.cluster),
                outputs = (float)(tile.m * tile.n);
    const float processors = (float)c.processors * (s.cluster > 1 ? FREE : 1);
    const float eights = (float)blocks_for(s.part, 8),
                stages = (float)blocks_for(s.part, DMMA_K);
    const auto single = [](int mode, float longer, int others) {
        return mode == DMMA_WIDE ? 0 : longer * (others == 16 ? SINGLE_THIN : 1);
    };
    const float copies =
        1 + single(c.a_mode, SINGLE_A, tile.n) + single(c.b_mode, SINGLE_B, tile.m);
    const float products = eights * outputs * EIGHT * tile.slower * copies;
    /* A turn of so many blocks of each SM. */
    const auto turn = [&](float count) {
        return AROUND + fmaxf(products * count, products + stages * WAITING) +
               count * outputs * c.output;
    };
    const float held = processors * (float)tile.held, turns = blocks / held,
                full = floorf(turns);
    const float rest = ceilf((blocks - full * held) / processors - 1e-3f);
    const float each = turn((float)tile.held);
    const float work = full >= 8 ? turns * each : full * each + (rest > 0 ? turn(rest) : 0);
    const float moved = c.moved + c.stored * (s.split > 1 ? 1 + 2 * (float)s.split : 1);
    const float lines = fminf((float)tile.m, (float)c.g.m) + fminf((float)tile.n, (float)c.g.n);
    const float reads = blocks * stages * lines * DMMA_LINE / CACHE;
    const float w = work / c.faster, m = moved / c.memory, r = reads / c.faster;
    return sqrtf(w * w + m * m + r * r) + (s.split > 1 ? ADDING + PIECE * (float)s.split : 0) +
           (s.cluster > 1 ? MEETING + MEMBER * (float)s.cluster : 0);
}

/* The best of a tile's cuts, if it is better than `least`. */
static void try_tile(const dmma_call &c, int way, float *least, dmma_schedule *best)
{
    enum { SHORTEST = 4, PIECES = 1024 }; /* stages of a piece; pieces of a sum */
    const dmma_tile &tile = dmma_tiles[way];
    const gop_gemm &g = c.g;
    const int64_t tiles = blocks_for(g.m, tile.m) * blocks_for(g.n, tile.n) * g.batches;
    const int64_t stages = blocks_for(g.k, DMMA_K), room = c.processors * tile.held;
    const float products = (float)tiles * (float)blocks_for(g.k, 8) * (float)(tile.m * tile.n) *
                           EIGHT * tile.slower;
    if (products / ((float)c.processors * c.faster) >= *least) return;
    const auto attempt = [&](int64_t split, int cluster) {
        dmma_schedule s = {way, cluster, c.a_mode, c.b_mode, split, g.k, g.k};
        s.chunk = split > 1 ? blocks_for(stages, split) * DMMA_K : g.k;
        s.split = blocks_for(g.k, s.chunk);
        s.part = cluster > 1 ? blocks_for(stages, cluster) * DMMA_K : s.chunk;
        if (cluster > 1 && blocks_for(g.k, s.part) != cluster) return;
        const float time = way_time(c, s, tiles);
        if (time < *least) *least = time, *best = s;
    };
    attempt(1, 1);
    if (c.whole) return;
    for (int cluster = 2; c.clusters && cluster <= 8; cluster *= 2)
        if (tiles * cluster <= 2 * room && stages >= 2 * cluster) attempt(1, cluster);
    for (int64_t fill = 1; fill <= 2; fill++) {
        const int64_t wanted = fill * room / tiles, most = stages / SHORTEST;
        const int64_t split = wanted < most ? wanted : most;
        if (split > 1) attempt(split < PIECES ? split : PIECES, 1);
    }
}

/* ---- dmma_tma ---- */

/* So many tiles one after the other, each of which a group multiplies in `products`. */
static float tma_turns(const dmma_tma_tiling &tiling, int rings, float tiles, float products)
{
    const float outputs = (float)(tiling.m * tiling.n);
    if (rings == 1) return tiles * (products + TMA_TILE + TMA_OUTPUT * outputs);
    const float around = TMA_APART * outputs;
    const float full = floorf(tiles / (float)rings), rest = tiles - full * (float)rings;
    return full * (products * (float)rings + around) +
           (rest > 0 ? products * fmaxf(rest, TMA_ALONE) + around : 0);
}

static float tma_time(const dmma_call &c, const dmma_tma_schedule &s)
{
    const dmma_tma_tiling &tiling = dmma_tma_tilings[s.way];
    const float outputs = (float)(tiling.m * tiling.n), parts = (float)(s.items - s.whole);
    const float stage = 2 * outputs * EIGHT * (s.rings > 1 ? tiling.apart : tiling.shared) *
                        (c.a_mode == DMMA_ACROSS ? 1 + TMA_ACROSS : 1);
    const auto turns = [&](int64_t items, int64_t stages) {
        return tma_turns(tiling, s.rings, (float)blocks_for(items, c.processors),
                         (float)stages * stage);
    };
    const float work = TMA_AROUND + turns(s.whole, s.stages) +
                       turns(s.items - s.whole, blocks_for(s.stages, s.slices));
    const float stored = (float)(c.g.batches * c.g.m * c.g.n * 8) / TMA_STORE *
                         (1 + within_sector(c.g, TMA_ODD, TMA_HALFWAY));
    const float moved = c.moved + stored + parts * outputs * 16 / TMA_PARTS;
    const float reads =
        (float)s.tiles * (float)s.stages * (float)(tiling.m + tiling.n) * DMMA_LINE / TMA_CACHE;
    const float w = work / c.faster, m = moved / c.memory, r = reads / c.faster;
    const bool thin = c.g.m <= 16 || c.g.n <= 16 || c.g.k <= 8;
    return sqrtf(w * w + m * m + r * r) * (thin ? TMA_THIN : 1) +
           (s.slices > 1 ? TMA_ADDING + TMA_PIECE * (float)s.slices : 0);
}

/* The best of a tiling's cuts, if it is better than `least`. */
static void try_tiling(const dmma_call &c, int way, float *least, dmma_tma_schedule *best)
{
    enum { SHORTEST = 4, TURNS = 3 }; /* stages of a piece; turns of pieces */
    const dmma_tma_tiling &tiling = dmma_tma_tilings[way];
    const gop_gemm &g = c.g;
    const int64_t down = blocks_for(g.m, tiling.m), across = blocks_for(g.n, tiling.n);
    const int64_t stages = blocks_for(g.k, DMMA_K);
    if ((double)down * (double)across * (double)g.batches > 1e9) return;
    const int64_t rest = down * across * g.batches % c.processors;
    const auto attempt = [&](int slices, int rings) {
        dmma_tma_schedule s = {};
        (tile_schedule &)s =
            tile_schedule_of(down, across, g.batches, 8, stages, c.processors, slices);
        s.way = way, s.rings = rings;
        if (rings > 1 && s.items <= c.processors) return;
        if (c.whole && tiling.groups > 2 && rings == 1) return; /* whose order depends on it */
        const float time = tma_time(c, s);
        if (time < *least) *least = time, *best = s;
    };
    for (int turns = 0; turns <= TURNS; turns++) {
        if (turns > 0 && (c.whole || rest == 0)) break;
        const int64_t wanted = turns > 0 ? turns * c.processors / rest : 1;
        const int64_t slices = wanted < stages / SHORTEST ? wanted : stages / SHORTEST;
        if (turns > 0 && slices < 2) continue;
        attempt(turns > 0 ? (int)slices : 1, 1);
        if (tiling.groups > 1) attempt(turns > 0 ? (int)slices : 1, tiling.groups);
    }
}

/* ---- both ---- */

/* How an operand's terms are brought to shared memory. */
static int mode_of(const gop_gemm &g, const int64_t *batch, const void *data, int64_t line,
                   int64_t term, bool along)
{
    if (!along) return DMMA_ACROSS;
    return matmul_wide(g, batch, data, term, line, g.k, 2) ? DMMA_WIDE : DMMA_ALONG;
}

/* What is known of a call, whose product of real numbers is g. */
static dmma_call call_of(const gop_ctx *ctx, const gop_task *task, const gop_gemm &g,
                         const dmma_pairs &pairs, bool whole)
{
    const bool a_along = gop_magnitude(g.a_col) <= gop_magnitude(g.a_row) || g.m == 1;
    const bool b_along = gop_magnitude(g.b_row) <= gop_magnitude(g.b_col) && g.n > 1;
    const void *const a = pairs.a_copied ? nullptr : task->in[0].data;
    const int a_mode = mode_of(g, g.a, a, g.a_row, g.a_col, a_along),
              b_mode = mode_of(g, g.b, task->in[1].data, g.b_col, g.b_row, b_along);
    const gop_device_info &info = ctx->info;
    const matmul_speed speed = matmul_speed_of(info);
    const auto bytes = [&](int64_t lines, const int64_t *batch) {
        float all = (float)(lines * g.k * 8);
        for (int axis = 0; axis < g.batch_rank; axis++)
            if (batch[axis]) all *= (float)g.extent[axis];
        return all;
    };
    const float read = pairs.complex_kind /* of b each number becomes four */
                           ? bytes(g.n, g.b) / 2 + (pairs.a_copied ? bytes(g.m, g.a) : 0)
                           : 0;
    return {g,
            info.processors > 0 ? info.processors : 1,
            whole,
            info.major >= 9,
            a_mode,
            b_mode,
            (bytes(g.m, g.a) + bytes(g.n, g.b)) / MEMORY,
            (float)(g.batches * g.m * g.n * 8) / STORE *
                (1 + within_sector(g, ODD_STORE, HALFWAY_STORE)),
            OUTPUT * (g.n % 2 ? 1 + ODD_OUTPUT : 1),
            pairs.complex_kind ? PAIRS + read / COPIED : 0,
            speed.clock,
            speed.memory};
}

/* The best of all ways of a kernel, whose shortest time `attempt` finds one by one. */
template <typename schedule, typename trier>
static double search(const gop_ctx *ctx, const gop_task *task, bool whole, int ways,
                     const trier &attempt, schedule *best)
{
    dmma_pairs pairs;
    dmma_plan_pairs(task, 0, &pairs);
    const gop_gemm g = dmma_geometry(task, pairs);
    if (g.m <= 0 || g.n <= 0 || g.k <= 0 || g.batches <= 0) return 1e-6 * DMMA_LAUNCH;
    const dmma_call c = call_of(ctx, task, g, pairs, whole);
    float least = INFINITY;
    for (int way = 0; way < ways; way++) attempt(c, way, &least, best);
    return 1e-6 * (DMMA_LAUNCH + (double)(least + c.copies));
}

/* What search() found of this question. */
template <typename schedule> struct dmma_answer {
    schedule best;
    double seconds;
};

double dmma_choose(const gop_ctx *ctx, const gop_task *task, bool whole, dmma_schedule *best)
{
    typedef dmma_answer<dmma_schedule> answer;
    static remembered<matmul_question, answer, 256> known; /* choice and plan ask, each call */
    const answer found = matmul_ask(&known, ctx, task, whole, [&] {
        answer of = {};
        of.best.cluster = 1, of.best.split = 1;
        of.seconds = search(ctx, task, whole, DMMA_TILES, try_tile, &of.best);
        return of;
    });
    *best = found.best;
    return found.seconds;
}

/* Microseconds of the copies of operands that no map describes. */
static double tma_copying(const gop_task *task)
{
    dmma_pairs pairs;
    dmma_plan_pairs(task, 0, &pairs);
    const dmma_tma_operands of = dmma_tma_operands_of(task, dmma_geometry(task, pairs), pairs);
    const auto each = [](const straight_operand &o) {
        return o.copied ? TMA_COPYING + (double)straight_bytes(o) / TMA_COPIES : 0;
    };
    return each(of.a) + each(of.b);
}

double dmma_tma_choose(const gop_ctx *ctx, const gop_task *task, dmma_tma_schedule *best)
{
    typedef dmma_answer<dmma_tma_schedule> answer;
    static remembered<matmul_question, answer, 256> known;
    const answer found = matmul_ask(&known, ctx, task, false, [&] {
        answer of = {};
        of.best.slices = of.best.rings = of.best.stages = 1;
        of.seconds =
            search(ctx, task, of_itself(task->call), DMMA_TMA_TILINGS, try_tiling, &of.best) +
            1e-6 * tma_copying(task);
        return of;
    });
    *best = found.best;
    return found.seconds;
}

/* ---- complex numbers ---- */

#ifdef __CUDACC__
/* Complex products as real ones: copies each number of b as (re, im; -im, re), and a as it is
 * where its terms are not neighbours. */
static __global__ void matmul_dmma_pairs_kernel(const matmul_product<complex128> p,
                                                complex128 *a, complex128 *b)
{
    const matmul_geometry &g = p.g;
    const uint64_t m = (uint64_t)g.m, n = (uint64_t)g.n, k = (uint64_t)g.k;
    const uint64_t threads = (uint64_t)gridDim.x * blockDim.x;
    const uint64_t first = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
    const uint64_t a_count = a ? g.batches * m * k : 0, b_count = g.batches * k * n;
    for (uint64_t at = first; at < a_count; at += threads) {
        const uint64_t row = at / k, batch = row / m, i = row - batch * m, l = at - row * k;
        a[at] = p.a[matmul_batch(g, batch).a + (int64_t)i * g.a_row + (int64_t)l * g.a_col];
    }
    for (uint64_t at = first; at < b_count; at += threads) {
        const uint64_t line = at / n, batch = line / k, l = line - batch * k, j = at - line * n;
        const complex128 z =
            p.b[matmul_batch(g, batch).b + (int64_t)l * g.b_row + (int64_t)j * g.b_col];
        complex128 *const row = b + line * 2 * n + j;
        row[0] = z;
        row[n] = {-z.im, z.re};
    }
}

gop_status dmma_product(gop_ctx *ctx, const gop_task *task, int64_t step,
                        const matmul_part &part, const dmma_pairs &pairs,
                        matmul_product<double> *p)
{
    *p = matmul_product_of<double>(task, part);
    p->g = matmul_geometry_of(dmma_geometry(task, pairs));
    if (!pairs.complex_kind) return GOP_OK;
    complex128 *const b = (complex128 *)((char *)task->scratch + pairs.b_at);
    complex128 *const a =
        pairs.a_copied ? (complex128 *)((char *)task->scratch + pairs.a_at) : nullptr;
    p->b = (const double *)b;
    if (a) p->a = (const double *)a;
    if (step > 0) return GOP_OK;
    const gop_gemm &of = task->geometry.gemm;
    return GOP_LAUNCH(ctx, matmul_dmma_pairs_kernel,
                      (unsigned)blocks_for(of.batches * of.k * of.n, 256), 256, 0,
                      matmul_product_of<complex128>(task, part), a, b);
}
#endif
