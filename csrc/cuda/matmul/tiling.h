/*
 * tiling.h - how kernels cut a product into blocks; plans ask, and choose.cu, to estimate
 * times.
 */
#ifndef GOP_CUDA_MATMUL_TILING_H
#define GOP_CUDA_MATMUL_TILING_H

#include <math.h>
#include <stdint.h>

#include "cuda/matmul/tiles.h"

/* What a cut depends on. If there are few columns, a is the large operand. */
struct tiling_of {
    int64_t m, n, k, batches;
    int item, processors;
    bool a_along, b_along; /* terms are contiguous */
    bool a_wide, b_wide;   /* all vectors of 16 bytes are aligned and whole */
    bool a_dense, b_dense; /* matmul_dense */
    bool a_pairs, b_pairs; /* all pairs of items are aligned and whole */
    bool clusters;         /* blocks of a cluster may share a tile */
    bool quads;            /* all fours of items of both are aligned and whole */
};

/* Whether an operand's lines are neighbours, its terms follow each other without gaps, and it
 * pays to read them as one line: lines are few, or that line is of whole 16 bytes. */
static inline bool matmul_dense(const gop_gemm &g, const int64_t *batch, const void *data,
                                int64_t lines, int64_t line, int64_t term, int64_t item)
{
    enum { FEW = 64 };
    return line == 1 && term == lines &&
           (lines <= FEW || (item < 16 && matmul_wide(g, batch, data, 1, 0, 0, 16 / item)));
}

/* The operands in each other's place. */
static inline tiling_of tiling_swapped(const tiling_of &p)
{
    return {p.n,       p.m,       p.k,        p.batches, p.item,    p.processors,
            p.b_along, p.a_along, p.b_wide,   p.a_wide,  p.b_dense, p.a_dense,
            p.b_pairs, p.a_pairs, p.clusters, p.quads};
}

/* Refuses, for `who`, devices whose blocks have less shared memory. */
static inline gop_status matmul_has_shared(const gop_ctx *ctx, const char *who, int64_t bytes)
{
    if (ctx->info.shared_per_block >= bytes) return GOP_OK;
    return gop_fail(GOP_REFUSED,
                    "matmul: kernel '%s' needs %lld bytes of shared memory, this device has "
                    "%lld for a block",
                    who, (long long)bytes, (long long)ctx->info.shared_per_block);
}

/* A product's shape; nothing is said of how its operands lie. */
static inline tiling_of tiling_of_shape(const gop_ctx *ctx, const gop_gemm &g, int64_t item)
{
    tiling_of p = {};
    p.m = g.m, p.n = g.n, p.k = g.k, p.batches = g.batches;
    p.item = (int)item, p.processors = ctx->info.processors;
    return p;
}

/* The call, for kernels that copy tiles of either order, by 16 bytes where they can. */
static inline tiling_of tiling_of_task(const gop_ctx *ctx, const gop_task *task)
{
    const gop_gemm &g = task->geometry.gemm;
    const void *const a = task->in[0].data, *const b = task->in[1].data;
    const int item = (int)matmul_item(task), items = 16 / item;
    const bool a_along = gop_magnitude(g.a_col) <= gop_magnitude(g.a_row) || g.m == 1;
    const bool b_along = gop_magnitude(g.b_row) <= gop_magnitude(g.b_col) && g.n > 1;
    const auto of_a = [&](int many, unsigned bytes) {
        return a_along ? matmul_wide(g, g.a, a, g.a_col, g.a_row, g.k, many, bytes)
                       : matmul_wide(g, g.a, a, g.a_row, g.a_col, g.m, many, bytes);
    };
    const auto of_b = [&](int many, unsigned bytes) {
        return b_along ? matmul_wide(g, g.b, b, g.b_row, g.b_col, g.k, many, bytes)
                       : matmul_wide(g, g.b, b, g.b_col, g.b_row, g.n, many, bytes);
    };
    tiling_of p = tiling_of_shape(ctx, g, item);
    p.a_along = a_along, p.b_along = b_along;
    p.a_wide = of_a(items, 16), p.b_wide = of_b(items, 16);
    p.a_pairs = item == 2 && of_a(2, 4), p.b_pairs = item == 2 && of_b(2, 4);
    p.quads = item == 2 && of_a(4, 8) && of_b(4, 8);
    p.clusters = ctx->info.major >= 9;
    return p;
}

/* Neighbours of two bytes that may be copied at once of an operand's lines: along their terms,
 * or from line to line. */
static inline int tiling_copied(const gop_gemm &g, const int64_t *batch, const void *data,
                                int64_t line, int64_t term, int64_t lines, bool along)
{
    const auto fits = [&](int many) {
        return along ? matmul_wide(g, batch, data, term, line, g.k, many, 2 * many)
                     : matmul_wide(g, batch, data, line, term, lines, many, 2 * many);
    };
    return fits(8) ? 8 : fits(4) ? 4 : fits(2) ? 2 : 1;
}

struct matmul_tiling {
    int lines, columns;   /* of a tile */
    int tiles;            /* of a block */
    int step;             /* terms that a block takes at once */
    int parts;            /* warps that share a sum, of few columns */
    int way;              /* which of the row's tiles it is */
    int cluster;          /* blocks that share the terms of a tile; 0: its own */
    int groups;           /* warpgroups of a block that do (bf16x3_batch) */
    bool packed;          /* b is first copied */
    bool wide;            /* loads are of 16 bytes */
    bool flat;            /* the terms of a row of blocks are read as one line (gemv_col) */
    int64_t blocks;       /* of all, chunks of sums included */
    int64_t split, chunk; /* chunks of a sum, terms of a chunk */
};

/* ---- few columns ---- */

enum { THIN_THREADS = 256, THIN_WARPS = THIN_THREADS / 32 };
/* Warps of an SM that load as fast as memory gives; from how many on all SMs end together. */
enum { THIN_FULL = 12, THIN_EVEN = 64 };

/* Columns of a block: 1, 2, 4, 8 or 16. */
static inline int thin_width(int64_t columns, int most)
{
    int width = 1;
    while (width < columns && width < most) width *= 2;
    return width;
}

/* Rows of a thread: its sums are some 64 registers. */
static inline constexpr int thin_rows_of(int width, int sum)
{
    const int fit = 256 / (width * sum);
    return fit < 1 ? 1 : fit < 4 ? fit : 4;
}

/* How many chunks of a sum, in so many blocks, fill the device, which has `a_processor` blocks
 * an SM at a time: once, or a few times if that leaves clearly fewer SMs idle in the end. A
 * block that is alone is so many times as fast. Depends only on the device and the shape, and
 * so do the bits. */
static inline void thin_split(const tiling_of &p, int64_t blocks, int64_t shortest,
                              int a_processor, matmul_tiling *t, float alone = 1)
{
    enum { CHUNKS = 1024, WAVES = 4, LAUNCH = 16 << 20 }; /* bytes in the time of one */
    const int64_t slots = a_processor * (int64_t)(p.processors > 0 ? p.processors : 1);
    const int64_t most = p.k / shortest < CHUNKS ? p.k / shortest : CHUNKS;
    /* In times of a block's whole sum: all of the product, a piece, a launch more. */
    const int sum = p.item < 4 ? 4 : p.item;
    const float whole = (float)blocks / (float)slots, line = (float)(p.k * p.item);
    const float piece = whole * 2.0f * (float)(p.n * sum) / line;
    const float launch = (float)LAUNCH / (line * (float)(t->lines * slots));
    const auto turns = [&](float x) {
        const float full = floorf(x);
        return x > full ? full + fmaxf(x - full, 1 / alone) : full;
    };
    float least = turns(whole);
    t->split = 1;
    for (int waves = 1; waves <= WAVES; waves++) {
        int64_t split = waves * slots / (blocks > 0 ? blocks : 1);
        if (split > most) split = most;
        if (split < 2 || split == t->split) continue;
        const float cut = (float)split;
        const float time = turns(whole * cut) / cut + cut * piece + launch;
        if (time > 0.8f * least) continue;
        least = time;
        t->split = split;
    }
    t->chunk = blocks_for(blocks_for(p.k, t->split), 256) * 256;
    t->split = blocks_for(p.k, t->chunk);
    if (t->split < 1) t->split = 1;
    t->blocks = blocks * t->split;
}

/* The index of the kernel of this width. */
static inline int thin_index(int width)
{
    return __builtin_ctz((unsigned)width);
}

/* Lanes that share a line. */
static inline int gemv_row_lanes(const tiling_of &p, bool wide)
{
    return wide && p.k < 64 * (16 / p.item) ? 8 : 32;
}

static inline matmul_tiling gemv_row_tiling(const tiling_of &p)
{
    matmul_tiling t = {};
    t.wide = p.a_along && p.a_wide && p.item < 16;
    const int vector = t.wide ? 16 / p.item : 1;
    const int lanes = gemv_row_lanes(p, t.wide);
    const int each = t.wide ? vector * 2 : 4; /* terms of a lane at a time */
    t.columns = thin_width(p.n, 8);
    const int rows = thin_rows_of(t.columns, p.item < 4 ? 4 : p.item);
    const int64_t groups = blocks_for(p.m, rows) * p.batches; /* which follow each other */
    const int64_t tiles = blocks_for(p.n, t.columns), warps = groups * tiles * lanes / 32;
    const int64_t full = THIN_FULL * (int64_t)p.processors;
    /* Two turns of a warp are enough if there are few rows; if columns are few too, five. */
    const int64_t even = THIN_EVEN * (int64_t)p.processors;
    t.parts = 1;
    while (t.parts < THIN_WARPS && warps * t.parts < (p.n > 1 ? even : full) &&
           p.k >= (warps * t.parts < full ? 64 : 320) * each * t.parts)
        t.parts *= 2;
    const int teams = THIN_WARPS / t.parts * (32 / lanes);
    t.lines = teams * rows;
    t.tiles = 1;
    t.step = lanes * vector * t.parts;
    t.packed = p.n > 1 || (t.wide && !(p.b_along && p.b_wide));
    const bool fills = warps * t.parts >= full;
    thin_split(p, blocks_for(groups, teams) * tiles, fills ? p.k + 1 : 32 * each * t.parts, 4,
               &t);
    return t;
}

/* Bytes of the large operand that a thread loads at once. */
static inline int gemv_col_load(int item, int width)
{
    return item == 2 && width > 2 ? 8 : 16;
}

/* Terms that a block's threads, of whole vectors each, read as one line at a time. */
static inline int flat_terms(const tiling_of &p)
{
    const int vector = p.item < 16 ? 16 / p.item : 1;
    int group = vector; /* the largest power of two that divides both */
    while (p.m % group) group /= 2;
    return (int)(THIN_THREADS / (p.m / group)) * (vector / group);
}

enum { GEMV_COL_FULL = 11 }; /* warps of an SM */

static inline matmul_tiling gemv_col_tiling(const tiling_of &p)
{
    enum { FLAT_LINES = 64 }; /* more are only read so where 16 bytes of a line are not whole */
    matmul_tiling t = {};
    t.step = flat_terms(p);
    if (p.a_dense && p.n <= (p.item == 2 ? 2 : 1) && p.m > 1 && t.step > 0 &&
        (p.m <= FLAT_LINES || (p.n == 1 && !p.a_wide))) {
        t.lines = (int)p.m, t.columns = (int)p.n, t.tiles = t.parts = 1;
        t.wide = t.flat = true;
        thin_split(p, p.batches, 256, 4, &t);
        return t;
    }
    t.columns = thin_width(p.n, p.item == 2 ? 8 : 16);
    const int vector = gemv_col_load(p.item, t.columns) / p.item;
    /* Terms of halves may begin one item before their first line, which is in the same word. */
    const int line = 32 * vector - (p.item == 2 && !p.a_pairs ? 2 : 0);
    const int64_t down = blocks_for(p.m, line), tiles = blocks_for(p.n, t.columns);
    const int64_t warps = down * tiles * p.batches; /* of one part */
    t.parts = 1; /* more where warps are few or idle, or terms lie side by side */
    while (t.parts < THIN_WARPS && p.k >= 16 * t.parts &&
           (warps * t.parts < GEMV_COL_FULL * (int64_t)p.processors || p.a_along ||
            down < THIN_WARPS / t.parts))
        t.parts *= 2;
    t.lines = THIN_WARPS / t.parts * line;
    t.tiles = 1;
    t.step = t.parts;
    t.wide = (!p.a_along && p.a_wide) || vector == 1;
    /* A block that is alone reads by itself what three of an SM do: not of halves, nor where
     * products of a batch leave lanes idle. */
    const bool reads = t.columns < 4 && p.item >= 4 && p.batches == 1;
    thin_split(p, blocks_for(p.m, t.lines) * tiles * p.batches, 256, t.columns < 4 ? 3 : 2, &t,
               reads ? 3.5f : 1);
    return t;
}

enum { RING_LINES = 128, RING_LINE_BYTES = 128, SKINNY_WGMMA_COLUMNS = 128 };
/* Columns that the two take at most, ring of float32 and complex64. */
static const int RING_SPLIT_MOST = 512, SKINNY_WGMMA_MOST = 4096;

/* Whole lines through a ring of stages: as many chunks of a sum as fill the device. */
static inline void ring_split(const tiling_of &p, int columns, int64_t slots, matmul_tiling *t)
{
    enum { STAGES = 8 }; /* of a chunk at least */
    const int64_t blocks =
        blocks_for(p.m, RING_LINES) * blocks_for(columns, t->columns) * p.batches;
    const int64_t longest = blocks_for(p.k, STAGES * t->step);
    int64_t chunks = slots / (blocks > 0 ? blocks : 1);
    if (chunks > longest) chunks = longest;
    if (chunks < 1) chunks = 1;
    t->lines = RING_LINES;
    t->tiles = 1;
    t->packed = true;
    t->wide = p.a_wide;
    t->chunk = blocks_for(blocks_for(p.k, chunks), t->step) * t->step;
    t->split = blocks_for(p.k, t->chunk);
    t->blocks = blocks * t->split;
}

/* Complex numbers are `parts` columns. */
static inline matmul_tiling ring_tiling(const tiling_of &p, int parts)
{
    matmul_tiling t = {};
    const int most = p.item / parts < 8 ? 3 : 2;
    while (t.way < most && p.n * parts > 8 << t.way) t.way++;
    t.columns = 8 << t.way;
    t.step = RING_LINE_BYTES / p.item;
    ring_split(p, (int)(p.n * parts), 2 * (int64_t)p.processors, &t);
    return t;
}

static inline matmul_tiling skinny_wgmma_tiling(const tiling_of &p)
{
    matmul_tiling t = {};
    const int parts = p.item / 4;
    t.columns = SKINNY_WGMMA_COLUMNS;
    t.step = 32 / parts;
    ring_split(p, (int)(p.n * parts), p.processors, &t);
    return t;
}

/* ---- many small products ---- */

/* Tiles, how many a block has, and what a term costs a block where all SMs are busy: in
 * copies of items, and of 16 bytes; ratios, measured with float32 on an H200. Twice as many
 * outputs a thread need fewer reads of shared memory, but half as many threads copy. */
struct small_tile {
    int m, n, teams, cost[2];
};
static const small_tile small_tiles[] = {
    {8, 8, 8, {160, 160}},   {16, 16, 2, {74, 74}},   {32, 32, 1, {85, 85}},
    {48, 48, 1, {222, 222}}, {56, 64, 1, {279, 279}}, {56, 64, 1, {313, 262}},
    {64, 64, 1, {300, 300}},
};
enum { SMALL_TILES = sizeof small_tiles / sizeof *small_tiles, SMALL_TILES_OF_ALL = 3 };

static inline int small_tiles_of(gop_dtype dtype)
{
    return dtype == GOP_FLOAT32 ? SMALL_TILES : SMALL_TILES_OF_ALL;
}

/* The tile of the least time: waves of blocks, times the cost of a tile. Large tiles cost less
 * per output; small ones leave less of a tile, or of the device, empty. */
static inline matmul_tiling small_tiling(const tiling_of &p, int tiles_of_dtype)
{
    const bool wide = p.a_wide && p.b_wide;
    matmul_tiling best = {};
    int64_t least = 0;
    for (int way = 0; way < tiles_of_dtype; way++) {
        const small_tile &tile = small_tiles[way];
        const int64_t tiles = blocks_for(p.m, tile.m) * blocks_for(p.n, tile.n) * p.batches;
        const int64_t blocks = blocks_for(tiles, tile.teams);
        const int64_t time = blocks_for(blocks, p.processors) * tile.cost[wide];
        if (way > 0 && time >= least) continue;
        least = time;
        best.way = way;
        best.lines = tile.m, best.columns = tile.n, best.tiles = tile.teams;
        best.blocks = blocks;
    }
    best.step = 16;
    best.wide = wide;
    best.split = 1, best.chunk = p.k;
    return best;
}

/* ---- whole tiles ---- */

/* Cuts sums into chunks of whole steps of `step` terms: as many as are wanted to fill the
 * device, at most `most`; fewer than `least` are not worth a launch. */
static inline void tiling_cut(const tiling_of &p, int64_t wanted, int64_t most, int least,
                              int step, matmul_tiling *t)
{
    int64_t split = wanted < most ? wanted : most;
    if (wanted < least || split < 2) split = 1;
    t->chunk = blocks_for(blocks_for(p.k, split), step) * step;
    t->split = blocks_for(p.k, t->chunk);
    t->blocks *= t->split;
}

enum { BF16X3_SMALL_TILE = 32 }; /* rows, and columns */

static inline matmul_tiling bf16x3_small_tiling(const tiling_of &p)
{
    enum { SHORTEST = 256, FULL = 4 }; /* terms of a chunk; chunks that are worth a launch */
    matmul_tiling t = {};
    t.lines = t.columns = BF16X3_SMALL_TILE;
    t.blocks = blocks_for(p.m, t.lines) * blocks_for(p.n, t.columns) * p.batches;
    const int64_t wanted = 2 * (int64_t)p.processors / (t.blocks > 0 ? t.blocks : 1);
    t.tiles = 1;
    t.step = 64;
    t.wide = p.a_wide && p.b_wide;
    tiling_cut(p, wanted, p.k / SHORTEST, FULL, 64, &t);
    return t;
}

enum { BF16X3_BATCH_GROUPS = 4 }; /* warpgroups that share the terms of a tile at most */
enum { CLUSTERED = 8 };           /* blocks of a cluster at most */

/* How many warpgroups share a tile of so many stages: those by which an SM is done first with
 * its blocks, which have four at once. */
static inline int bf16x3_batch_groups(int64_t tiles, int64_t stages, int processors)
{
    enum { ALL = BF16X3_BATCH_GROUPS };
    /* A stage where an SM has so many warpgroups, in times of one where it has all of them, and
     * what is around a block of one, two and four, measured on an H200. */
    static const float busy[ALL + 1] = {0, 0.6f, 0.72f, 0.82f, 1}, around[] = {0.5f, 1.6f, 2};
    const int64_t each = blocks_for(tiles, processors);
    float least = INFINITY;
    int best = 1;
    for (int groups = 1; groups <= ALL; groups *= 2) {
        const int64_t turns = blocks_for(stages, groups), held = ALL / groups;
        const float outside = around[groups / 2];
        const float last = (float)turns * busy[each % held * groups] + outside;
        const float time =
            (float)(each / held) * ((float)turns + outside) + (each % held > 0 ? last : 0);
        if (time < least) least = time, best = groups;
    }
    return best;
}

/* Tiles of 64 x 64 reals. Where they are few, warpgroups of a block share the terms, blocks of
 * a cluster do, and chunks: what takes the least time. Complex numbers have `parts` columns, or
 * rows: what makes fewer tiles. */
static inline matmul_tiling bf16x3_batch_tiling(const tiling_of &p, int parts)
{
    enum { SIDE = 64, LONG = 96 }; /* reals of a sum that is worth sharing */
    /* us, on an H200: of a turn; of a cluster, and each of its blocks; of further chunks. */
    const float TURN = 1.3f, MEETING = 1, MEMBER = 0.2f, ADDING = 3.2f, PIECE = 0.02f;
    const int processors = p.processors > 0 ? p.processors : 1;
    const auto tiles = [&](int lines, int columns) {
        return blocks_for(p.m, lines) * blocks_for(p.n, columns) * p.batches;
    };
    const bool swapped = tiles(SIDE / parts, SIDE) < tiles(SIDE, SIDE / parts);
    matmul_tiling t = {};
    t.lines = swapped ? SIDE / parts : SIDE, t.columns = swapped ? SIDE : SIDE / parts;
    const int64_t all = tiles(t.lines, t.columns);
    t.tiles = t.cluster = 1, t.split = 1, t.chunk = p.k, t.blocks = all;
    t.wide = p.a_wide && p.b_wide;
    t.groups = p.k * parts <= LONG ? 1
               : all <= processors
                   ? BF16X3_BATCH_GROUPS
                   : bf16x3_batch_groups(all, blocks_for(p.k * parts, 32), processors);
    t.way = t.groups > 1;
    t.step = (t.way ? BF16X3_BATCH_GROUPS : 1) * 32 / parts;
    const int64_t turns = blocks_for(p.k, t.step);
    float least = INFINITY;
    for (int cluster = 1; t.way && cluster <= (p.clusters ? CLUSTERED : 1); cluster *= 2) {
        /* Clusters do not find room on all SMs, but two SMs always are neighbours. */
        if (100 * cluster * all > (cluster > 2 ? 90 : 100) * processors && cluster > 1) break;
        const int64_t fill = processors / (cluster * (all > 0 ? all : 1));
        for (int cut = 0; cut < 2; cut++) {
            const int64_t each = blocks_for(turns, cut && fill > 1 ? fill : 1);
            const int64_t split = blocks_for(turns, each);
            const float time = (float)blocks_for(each, cluster) * TURN +
                               (cluster > 1 ? MEETING + MEMBER * (float)cluster : 0) +
                               (split > 1 ? ADDING + PIECE * (float)split : 0);
            if (time >= least) continue;
            least = time;
            t.cluster = cluster, t.split = split, t.chunk = each * t.step;
        }
    }
    t.blocks = all * t.cluster * t.split;
    return t;
}

enum { MMA_TILES = 2 };

/* The same for halves; sums are cut if their tiles leave SMs idle. */
static inline matmul_tiling mma_tiling(const tiling_of &p)
{
    static const int tiles[MMA_TILES][3] = {{64, 64, 4096 + 2048}, {128, 128, 13000 + 4096}};
    enum { SHORTEST = 256 }; /* terms of a chunk */
    matmul_tiling best = {};
    int64_t least = 0;
    for (int way = 0; way < MMA_TILES; way++) {
        const int64_t blocks =
            blocks_for(p.m, tiles[way][0]) * blocks_for(p.n, tiles[way][1]) * p.batches;
        const int64_t time = blocks_for(blocks, p.processors) * tiles[way][2];
        if (way > 0 && (time >= least || !p.quads)) continue; /* words: too many copies */
        least = time;
        best.way = way;
        best.lines = tiles[way][0], best.columns = tiles[way][1], best.blocks = blocks;
    }
    /* Four blocks an SM hide each other's waits, but a tile's many chunks wait to be added. */
    const int64_t fill = 4 * (int64_t)p.processors / (best.blocks > 0 ? best.blocks : 1);
    const int64_t wanted = fill < 2 * p.processors ? fill : 2 * p.processors;
    best.tiles = 1;
    best.step = 32;
    best.wide = p.a_wide && p.b_wide;
    tiling_cut(p, wanted, p.k / SHORTEST, 2, 32, &best);
    return best;
}

enum { SPLITK_SHORTEST = 256 };            /* terms of a chunk at least */
enum { SPLITK_FEW = 8, SPLITK_MANY = 64 }; /* chunks that a thread adds, that eight share */

/* Threads that share the chunks of an output, and how many additions wait for each other. */
static inline int splitk_adders(int64_t split)
{
    return split <= SPLITK_FEW ? 1 : split <= SPLITK_MANY ? 8 : 32;
}
static inline int64_t splitk_turns(int64_t split)
{
    const int adders = splitk_adders(split);
    return adders == 1 ? split : blocks_for(split, adders) + adders;
}

/* Two blocks an SM, chunks of whole tiles; split < 2: no chunk would be long enough.
 * Depends only on the device and the shape, and so do the bits. */
static inline matmul_tiling splitk_tiling(const tiling_of &p)
{
    enum { CHUNKS = 1024 }; /* of a sum at most */
    enum { COUNTED = 64 };  /* tiles as small as no dtype's */
    const int64_t counted = blocks_for(p.m, COUNTED) * blocks_for(p.n, COUNTED) * p.batches;
    const int64_t wanted = 2 * (int64_t)p.processors / (counted > 0 ? counted : 1);
    const int64_t most = p.k / SPLITK_SHORTEST < CHUNKS ? p.k / SPLITK_SHORTEST : CHUNKS;
    matmul_tiling t = {};
    t.lines = p.item > 8 ? +block_tile<16>::BM : +block_tile<8>::BM;
    t.columns = p.item > 4 ? +block_tile<8>::BN : +block_tile<4>::BN;
    t.tiles = 1;
    t.step = BK;
    t.wide = p.a_wide;
    t.split = wanted < most ? wanted : most;
    if (t.split < 2) t.split = 1;
    t.chunk = blocks_for(blocks_for(p.k, t.split), BK) * BK;
    if (t.split > 1) t.split = blocks_for(p.k, t.chunk);
    t.blocks = blocks_for(p.m, t.lines) * blocks_for(p.n, t.columns) * p.batches * t.split;
    return t;
}

#endif
