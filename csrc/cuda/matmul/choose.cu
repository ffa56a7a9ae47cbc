/*
 * choose.cu - which kernel multiplies: the one that is expected to take the least time.
 *
 * No order of the kernels is right: `small` is the best for a thousand products of 30 x 30 and
 * the worst for one of 4096 x 4096, and between them each kernel has calls of its own. So each
 * has a pace, measured on an H200 for a class of dtypes, and a call's time follows from its
 * shape:
 *
 *     launches + (work^3 + moved^3 + reads^3)^(1/3)
 *
 * - launches: the kernel's own, those that copy operands first, one that adds pieces of sums;
 * - work: steps that an SM waits for and terms that it computes, wave by wave of blocks;
 * - moved: bytes of the operands and of the result, once, at the memory's rate;
 * - reads: bytes that tiles read again, at the rate of the L2 cache.
 *
 * Where operands and result do not fit into the L2 cache, steps and bytes take longer. The
 * cubes make it the longest of the three, a little more where two are alike. How many
 * blocks there are and what each does stands in tiling.h, where the kernels' plans have it from
 * as well. The paces are in choose_paces.inc, which benchmarks/fit_choose.py writes;
 * tests/ops/test_like.py holds how often they find the best kernel of the calls on file.
 * Candidates are asked in the order of their times, and the first that takes the call runs.
 */
#include <math.h>

#include "core/choice.h"
#include "cuda/matmul/dmma.h"
#include "cuda/matmul/outer.h"
#include "cuda/matmul/question.h"
#include "cuda/matmul/tall.h"
#include "cuda/matmul/thin.h"
#include "cuda/matmul/wgmma_f16.h"

/* clang-format off */
#define CANDIDATES(ROW) \
    ROW(naive) ROW(small) ROW(blocktiled) ROW(splitk) ROW(tall) ROW(outer) ROW(outer_mma) \
    ROW(imma) ROW(dmma) ROW(dmma_tma) \
    ROW(bf16x3_packed) ROW(bf16x3_small) ROW(bf16x3_batch) ROW(mma) ROW(bf16x3) ROW(wgmma_f16) \
    ROW(gemv_col) ROW(gemv_row) \
    ROW(ring) ROW(skinny_wgmma) ROW(tf32) ROW(fp16x2)
/* clang-format on */
#define NAMED(name) name,
#define DECLARED(name) extern const gop_row matmul_##name##_row;
CANDIDATES(DECLARED)
enum candidate { CANDIDATES(NAMED) CANDIDATE_COUNT };

/* Dtypes of one pace: by their bytes, and by what multiplies them. */
enum dtype_class { BIT, BYTE, SHORT, WORD, LONG, HALF, FLOAT, DOUBLE, PAIR, PAIRS, CLASSES };

static dtype_class class_of(gop_dtype dtype)
{
    switch (dtype) {
    case GOP_BOOL:
        return BIT;
    case GOP_INT8:
    case GOP_UINT8:
        return BYTE;
    case GOP_INT16:
    case GOP_UINT16:
        return SHORT;
    case GOP_INT32:
    case GOP_UINT32:
        return WORD;
    case GOP_INT64:
    case GOP_UINT64:
        return LONG;
    case GOP_FLOAT16:
    case GOP_BFLOAT16:
        return HALF;
    case GOP_FLOAT32:
        return FLOAT;
    case GOP_FLOAT64:
        return DOUBLE;
    case GOP_COMPLEX64:
        return PAIR;
    default:
        return PAIRS;
    }
}

/* Rows for few columns: where there are few rows, operands change places. */
static bool is_thin(candidate row)
{
    return row == gemv_row || row == gemv_col || row == ring || row == skinny_wgmma ||
           row == tall;
}

enum { WAYS = 7 }; /* tiles of a row at most */
enum factor { A_ALONG, B_ALONG, A_NARROW, B_NARROW, A_ODD, B_ODD, OUT_NARROW, FACTORS };
/* Of naive, which reads and writes item by item: how long it waits where terms of a or b are
 * neighbours, and OUT_NARROW where there is a batch, by whose extents it divides. */
static const factor A_LATE = A_NARROW, B_LATE = B_NARROW;

/* What a row takes for a class of dtypes. Times are in ns, rates in bytes a ns. */
struct pace {
    candidate row;
    dtype_class dtypes;
    struct {
        int lines, columns;
    } tile[3];    /* the row takes the one that is done soonest; none: tiling.h has them */
    int held;     /* blocks that an SM has at once */
    int shortest; /* terms of the shortest piece of a sum, where tiles are given; 0: whole */
    float start, pack, add; /* a launch, one that copies first, one that adds pieces of sums */
    float step;             /* of a turn, for each step of its sums: waiting */
    float term, output, block; /* of an SM, for each term of an output, output, block */
    float turn, piece;         /* of a column that is copied, of a piece of a sum in turn */
    float memory, store, cache, packing;
    float far; /* how much longer steps and bytes take that the L2 cache does not hold */
    float factor[FACTORS]; /* slower where terms of a or b are neighbours, where these do not
                              come in groups of 16 bytes or in pairs, where results do not come
                              in groups of 16 bytes, or of two items */
    float way[WAYS];       /* a term or output of this tile beside others */
};

static const pace paces[] = {
#include "cuda/matmul/choose_paces.inc"
};

/* The GPU on which they were measured. */
enum { PACE_PROCESSORS = 132 };
/* Bytes that its L2 cache holds whole; from how many more on it holds little of them. */
static const float L2_FROM = 24e6f, L2_OVER = 40e6f;

/* An operand as tiles read it. */
struct read_operand {
    float bytes;
    bool along, narrow; /* terms are neighbours; groups of 16 bytes are not whole */
    bool pairs, quads;  /* all pairs, all fours of items are aligned and whole */
};

static read_operand operand_of(const gop_gemm &g, const void *data, int64_t item, int64_t lines,
                               int64_t line, int64_t term, const int64_t *batch)
{
    const int64_t group = item < 16 ? 16 / item : 1;
    const bool along = lines == 1 || (g.k > 1 && gop_magnitude(term) <= gop_magnitude(line));
    const int64_t near = along ? term : line, far = along ? line : term;
    const int64_t length = along ? g.k : lines, rest = along ? lines : g.k;
    bool straight = near == 1 && (rest == 1 || far % group == 0) && (uintptr_t)data % 16 == 0;
    const auto grouped = [&](int64_t items) {
        return matmul_wide(g, batch, data, near, far, length, items, (unsigned)(items * item));
    };
    float bytes = (float)(lines * g.k * item);
    for (int axis = 0; axis < g.batch_rank; axis++) {
        straight = straight && batch[axis] % group == 0;
        if (batch[axis]) bytes *= (float)g.extent[axis];
    }
    const bool narrow = !straight || g.k <= 1 || length % group != 0;
    return {bytes, along, narrow, grouped(2), grouped(4)};
}

struct seen {
    const gop_gemm &g;
    read_operand a, b;
    float result;
    float far;            /* 0: the L2 cache holds all; 1: little */
    bool narrow;          /* rows of results are no groups of 16 bytes, or of two items */
    int processors;       /* of the device */
    float faster, memory; /* beside the one that was measured */
};

static float cube(float x)
{
    return x * x * x;
}

/* Whole tiles, whose sums are cut where they leave SMs idle. */
static matmul_tiling tiles_tiling(const tiling_of &p, const pace &of, int way)
{
    matmul_tiling t = {};
    t.lines = of.tile[way].lines, t.columns = of.tile[way].columns;
    t.tiles = t.step = 1;
    t.way = way;
    t.wide = p.a_wide;
    const int64_t tiles =
        t.lines == 1 ? blocks_for(p.m * p.n * p.batches, t.columns)
                     : blocks_for(p.m, t.lines) * blocks_for(p.n, t.columns) * p.batches;
    t.split = 1;
    if (of.shortest && tiles > 0 && 2 * tiles <= (int64_t)p.processors * of.held) {
        const int64_t fill = (int64_t)p.processors * of.held / tiles, most = p.k / of.shortest;
        t.split = fill < most ? fill : most > 1 ? most : 1;
    }
    t.chunk = blocks_for(p.k, t.split);
    t.blocks = tiles * t.split;
    return t;
}

/* How a row cuts the product. */
static matmul_tiling tiling_by(const pace &of, const tiling_of &p, gop_dtype dtype, int way)
{
    tiling_of rows = p;
    switch (of.row) {
    case small: /* copies rows of both */
        rows.a_wide = p.a_wide && p.a_along;
        rows.b_wide = p.b_wide && !p.b_along;
        return small_tiling(rows, small_tiles_of(dtype));
    case bf16x3_small:
        return bf16x3_small_tiling(p);
    case bf16x3_batch:
        return bf16x3_batch_tiling(p, of.dtypes == PAIR ? 2 : 1);
    case mma:
        return mma_tiling(p);
    case splitk:
        return splitk_tiling(p);
    case tall:
        return tall_tiling(p, of.dtypes == PAIR);
    case gemv_row:
        return gemv_row_tiling(p);
    case gemv_col:
        return gemv_col_tiling(p);
    case ring:
        return ring_tiling(p, of.dtypes >= PAIR ? 2 : 1);
    case skinny_wgmma:
        return skinny_wgmma_tiling(p);
    default:
        return tiles_tiling(p, of, way);
    }
}

/* naive: how long a term takes where a warp's two reads are of so many lines of a cache. */
static float naive_term(const tiling_of &p)
{
    enum { WARP = 32, LINE = 128, COMPUTES = 12 }; /* the last in lines that are read */
    const int64_t columns = p.n < WARP ? p.n : WARP;
    const auto lines = [&](int64_t count, bool along) {
        const float near = (float)(count * p.item) / LINE;
        return fmaxf(1, along ? fminf((float)count, (float)p.k * near) : near);
    };
    return (COMPUTES + lines(columns < WARP ? blocks_for(WARP, columns) : 1, p.a_along) +
            lines(columns, p.b_along)) /
           (COMPUTES + 2);
}

/* What a row copies before it multiplies. */
struct copies {
    int kernels;
    float bytes;
};

static copies copies_of(const seen &s, const pace &of, const tiling_of &p,
                        const matmul_tiling &t, float b_bytes)
{
    const auto each = [&](bool a, bool b) {
        return copies{a + b, (a ? s.a.bytes : 0) + (b ? s.b.bytes : 0)};
    };
    const auto whole = [](int64_t extent, int tile) {
        return (float)(blocks_for(extent, tile) * tile) / (float)extent;
    };
    switch (of.row) {
    case bf16x3_packed: /* both, whole tiles of them */
        return {1, s.a.bytes * whole(p.m, t.lines) + s.b.bytes * whole(p.n, t.columns)};
    case imma: /* what does not have its terms side by side */
        return each(!s.a.along || s.a.narrow, !s.b.along || s.b.narrow);
    default: /* the small operand */
        return t.packed ? copies{1, b_bytes} : copies{};
    }
}

/* Seconds of a product cut like this; `p` has the operands as the kernel sees them. */
static double time_of(const seen &s, const pace &of, const tiling_of &p, const matmul_tiling &t,
                      float a_bytes, float b_bytes)
{
    const int64_t held = (int64_t)p.processors * of.held;
    const int64_t full = t.blocks < held ? 0 : t.blocks / held, left = t.blocks - full * held;
    const float rest = full < 8 ? (float)((left + p.processors - 1) / p.processors)
                                : (float)left / (float)p.processors;
    const float rounds = (float)(full * of.held) + rest;
    const int sharers = t.cluster > 1 ? t.cluster : 1;
    const float terms = (float)(t.chunk < p.k ? t.chunk : p.k) / (float)sharers;
    const float outputs = (float)(t.lines * t.columns * t.tiles) * of.way[t.way];
    const float steps = ceilf(terms / (float)t.step);
    const auto factors = [&](bool of_a, factor a, bool of_b, factor b) {
        return (of_a ? of.factor[a] : 1) * (of_b ? of.factor[b] : 1);
    };
    const bool is_naive = of.row == naive;
    float slower = factors(p.a_along, A_ALONG, p.b_along, B_ALONG), late;
    if (is_naive) late = factors(p.a_along, A_LATE, p.b_along, B_LATE);
    else {
        slower *= factors(!t.wide, A_NARROW, !p.b_wide, B_NARROW);
        late = slower *= factors(!p.a_pairs, A_ODD, !p.b_pairs, B_ODD);
    }
    const float narrow = (is_naive ? p.batches > 1 : s.narrow) ? of.factor[OUT_NARROW] : 1;
    const float term = is_naive ? of.term * naive_term(p) : of.term;
    const float away = 1 + s.far * of.far;
    const float work = (float)(full + (left > 0)) * steps * of.step * late * away +
                       rounds * outputs * (terms * term * slower + of.output * narrow) +
                       rounds * of.block;
    const float pieces = t.split > 1 ? 2 * (float)t.split * s.result : 0;
    const float moved =
        (a_bytes + b_bytes + pieces) / of.memory * away + s.result / of.store * narrow;
    const float lines = fminf((float)t.lines, (float)p.m) + fminf((float)t.columns, (float)p.n);
    const float reads =
        (float)t.blocks * (float)t.tiles * terms * lines * (float)p.item / of.cache * slower;
    const copies c = copies_of(s, of, p, t, b_bytes);
    float start = of.start + (float)c.kernels * of.pack + c.bytes / of.packing;
    if (t.packed) {
        const int64_t blocks = blocks_for(p.k, 256) * p.batches;
        start += (float)(blocks_for(blocks, 8 * (int64_t)p.processors) * p.n) * of.turn;
    }
    if (t.split > 1) start += of.add + (float)splitk_turns(t.split) * of.piece;
    const float cubes = cube(work / s.faster) + cube(moved / s.memory) + cube(reads / s.faster);
    /* Its cubic root: cbrtf takes ten times as long. */
    return 1e-9 * (double)(start + exp2f(log2f(cubes) * (1 / 3.0f)));
}

/* Whether gemv_col may be chosen for integers. Few of the others were timed, and gemv_row takes
 * them in a tenth of the time. */
static bool suits_whole_col(bool swapped, const tiling_of &p)
{
    const bool along = swapped ? p.b_along : p.a_along, dense = swapped ? p.b_dense : p.a_dense;
    return !along && ((swapped ? p.n : p.m) >= 32 || dense);
}

/* Columns that a row for few takes at most. */
static int64_t most_columns(candidate row, gop_dtype dtype)
{
    if (row == tall) return INT64_MAX;
    if (row == skinny_wgmma) return SKINNY_WGMMA_MOST;
    if (row == ring && (dtype == GOP_FLOAT32 || dtype == GOP_COMPLEX64)) return RING_SPLIT_MOST;
    return thin_most(dtype);
}

/* Whether a block of outer would have a product of a batch to itself, and wait for its
 * operands: 100 drawn batches of up to 32 x 32 took 1.7 times as long as by small in the
 * median. */
static bool is_within_tile(const tiling_of &p)
{
    enum { TILE = 32 };
    return p.batches > 1 && p.m <= TILE && p.n <= TILE;
}

/* Seconds of the best of a row's tiles. */
static double row_time(const seen &s, const pace &of, const tiling_of &whole, gop_dtype dtype)
{
    if ((of.row == outer || of.row == outer_mma) && whole.k > OUTER_TERMS) return INFINITY;
    if (of.row == outer && is_within_tile(whole)) return INFINITY;
    if (of.row == outer && of.dtypes == HALF && whole.n > OUTER_NARROW_N) return INFINITY;
    const bool is_few = is_thin(of.row), swapped = is_few && whole.m < whole.n;
    if (is_few && (swapped ? whole.m : whole.n) > most_columns(of.row, dtype)) return INFINITY;
    if (of.row == gemv_col && of.dtypes < HALF && !suits_whole_col(swapped, whole))
        return INFINITY;
    tiling_of p = whole;
    if (of.dtypes == PAIR && of.row == bf16x3_packed) /* of real numbers */
        p.n *= 2, p.k *= 2, p.item /= 2;
    if (swapped) p = tiling_swapped(p);
    const float a_bytes = swapped ? s.b.bytes : s.a.bytes,
                b_bytes = swapped ? s.a.bytes : s.b.bytes;
    double least = INFINITY;
    int way = 0;
    do {
        const matmul_tiling t = tiling_by(of, p, dtype, way);
        const double time = time_of(s, of, p, t, a_bytes, b_bytes);
        if (time < least) least = time;
        way++;
    } while (way < 3 && of.tile[way].lines);
    return least;
}

/* Those of lower precision, for calls that ask for it: so much faster that nothing else is
 * compared. */
static void expect_lower(const gop_task *task, double *seconds)
{
    const gop_gemm &g = task->geometry.gemm;
    const double outputs = (double)g.batches * (double)g.m * (double)g.n;
    const double terms = outputs * (double)g.k;
    const gop_precision asked = task->call->params.matmul.precision;
    const bool few = outputs < 2e6 && terms < 4.5e8; /* tiles of 128 x 128 that stay empty */
    const bool is_wide = g.m >= 128 && g.n >= 128 && (g.m > 128 || g.n > 128);
    if (asked >= GOP_TF32 && !few && is_wide) seconds[tf32] = 0;
    if (asked >= GOP_FAST && asked != GOP_BF16 && g.m >= 1024 && g.n >= 1024 && g.k >= 256 &&
        terms >= 3e9)
        seconds[fp16x2] = 1e-12;
}

static void expect_anew(const gop_ctx *ctx, const gop_task *task, int all, double *seconds)
{
    const gop_gemm &g = task->geometry.gemm;
    const gop_dtype dtype = task->in[0].dtype;
    const dtype_class dtypes = class_of(dtype);
    const int64_t item = matmul_item(task);
    const gop_device_info &info = ctx->info;
    const matmul_speed speed = matmul_speed_of(info);
    const read_operand a = operand_of(g, task->in[0].data, item, g.m, g.a_row, g.a_col, g.a),
                       b = operand_of(g, task->in[1].data, item, g.n, g.b_col, g.b_row, g.b);
    const float result = (float)(g.batches * g.m * g.n * item);
    const float beyond = (a.bytes + b.bytes + result - L2_FROM) / L2_OVER;
    const seen s = {g,
                    a,
                    b,
                    result,
                    fminf(fmaxf(beyond, 0), 1),
                    g.n % (item < 16 ? 16 / item : 2) != 0,
                    info.processors > 0 ? info.processors : PACE_PROCESSORS,
                    speed.clock,
                    speed.memory};
    for (int c = 0; c < CANDIDATE_COUNT; c++) seconds[c] = INFINITY;
    /* where there is nothing to do all are as good, but extents divide */
    const auto some = [](int64_t extent) { return extent > 0 ? extent : 1; };
    tiling_of p = {some(g.m), some(g.n), some(g.k), some(g.batches), (int)item, s.processors};
    p.a_along = s.a.along, p.b_along = s.b.along;
    p.a_wide = !s.a.narrow, p.b_wide = !s.b.narrow;
    p.a_dense = matmul_dense(g, g.a, task->in[0].data, g.m, g.a_row, g.a_col, item);
    p.b_dense = matmul_dense(g, g.b, task->in[1].data, g.n, g.b_col, g.b_row, item);
    p.a_pairs = s.a.pairs, p.b_pairs = s.b.pairs, p.quads = s.a.quads && s.b.quads;
    p.clusters = info.major >= 9;
    double least = INFINITY; /* of rows that take every call, which stand first */
    for (const pace &of : paces) {
        if (of.dtypes != dtypes || (!all && 1e-9 * of.start >= least)) continue;
        const double time = row_time(s, of, p, dtype);
        seconds[of.row] = time;
        if ((of.row == naive || of.row == small) && time < least) least = time;
    }
    /* Three have a pace for each of their tiles: wgmma_f16_schedule.cu, dmma_schedule.cu. */
    if (dtypes == HALF && (all || 1e-6 * WGMMA_F16_LAUNCH < least)) {
        matmul_schedule schedule;
        seconds[wgmma_f16] = wgmma_f16_choose(ctx, task, &schedule);
    }
    if ((dtypes == DOUBLE || dtypes == PAIRS) && (all || 1e-6 * DMMA_LAUNCH < least)) {
        dmma_schedule schedule;
        dmma_tma_schedule tiles;
        seconds[dmma] = dmma_choose(ctx, task, false, &schedule);
        seconds[dmma_tma] = dmma_tma_choose(ctx, task, &tiles);
    }
    if (task->call->params.matmul.precision > GOP_HIGHEST) expect_lower(task, seconds);
}

static void matmul_expect(const gop_ctx *ctx, const gop_task *task, int all, double *seconds)
{
    struct answer {
        double seconds[CANDIDATE_COUNT];
    };
    static remembered<matmul_question, answer, 256> known;
    const answer found = matmul_ask(&known, ctx, task, all != 0, [&] {
        answer of;
        expect_anew(ctx, task, all, of.seconds);
        return of;
    });
    memcpy(seconds, found.seconds, sizeof found.seconds);
}

#define WHY "its pace on an H200 with CUDA 13.0, fitted to products timed there, 2026-11-30"
#define CANDIDATE(name) {&matmul_##name##_row, nullptr, nullptr, WHY},
static const gop_candidate candidates[] = {CANDIDATES(CANDIDATE)};

extern const gop_choice matmul_choice;
const gop_choice matmul_choice = {CANDIDATE_COUNT, candidates, matmul_expect};
