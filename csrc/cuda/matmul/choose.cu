/*
 * choose.cu - which kernel multiplies: the one that is expected to take the least time.
 *
 * No order of the kernels is right: `small` is the best for a thousand products of 30 x 30 and
 * the worst for one of 4096 x 4096, and between them each kernel has calls of its own. So each
 * has a pace, measured on an H200 for a class of dtypes, and a call's time follows from its
 * shape:
 *
 *     launches + (work^3 + moved^3 + reads^3)^(1/3)
 *     work:  terms that a processor does one after another, tile by tile, whole turns of tiles
 *     moved: bytes of the operands and of the result, once, at the pace of the memory
 *     reads: bytes that tiles read again, at the pace of the second-level cache
 *
 * The cubes make it the longest of the three, a little more where two are alike. The paces are
 * in choose_paces.inc, which benchmarks/fit_choose.py writes; tests/test_like.py holds how
 * often they find the best kernel of the calls on file. Candidates are asked in the order of
 * their times, and the first that takes the call runs.
 */
#include <math.h>

#include "core/choice.h"
#include "cuda/matmul/product.h"

/* clang-format off */
#define CANDIDATES(ROW) \
    ROW(naive) ROW(small) ROW(blocktiled) ROW(splitk) ROW(bytes) ROW(doubles) ROW(mapped) \
    ROW(pieces) ROW(fused) ROW(direct) ROW(warpgroup) ROW(columns) ROW(dots) ROW(fragments) \
    ROW(ring) ROW(raw) ROW(rounded) ROW(halves)
/* clang-format on */
#define NAMED(name) name,
#define DECLARED(name) extern const gop_row matmul_##name##_row;
CANDIDATES(DECLARED)
enum candidate { CANDIDATES(NAMED) CANDIDATE_COUNT };

/* Dtypes of one pace: by their bytes, and by what multiplies them. */
enum dtype_class { BYTE, SHORT, WORD, LONG, HALF, FLOAT, DOUBLE, PAIR, PAIRS, CLASSES };

static dtype_class class_of(gop_dtype dtype)
{
    switch (dtype) {
    case GOP_BOOL:
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

enum { TILES = 3 }; /* of a row at most */
enum factor { A_ALONG, B_ALONG, A_NARROW, B_NARROW, OUT_NARROW, FACTORS };

/* What a row takes for a class of dtypes. Times are in ns. */
struct pace {
    candidate row;
    dtype_class dtypes;
    struct {
        int m, n;
        float cost; /* of a term, beside `each` */
    } tile[TILES];  /* the row takes the one that is done soonest */
    bool thin;      /* for few columns: tiles are as narrow as these, and operands may swap */
    int held;       /* blocks that a processor has at once */
    int shortest;   /* terms of the shortest piece of a sum; 0: sums stay whole */
    float start;    /* of a launch */
    float term;     /* of a turn, for each term of its sums: waiting */
    float each;     /* of a processor, for each term of a tile: computing */
    float around;   /* of a tile, before its first term and after the last */
    float memory, store, cache; /* bytes a ns */
    float factor[FACTORS];      /* slower where terms of a or b are neighbours, where these or
                                   results do not come in groups of 16 bytes */
};

static const pace paces[] = {
#include "cuda/matmul/choose_paces.inc"
};

/* The GPU on which they were measured. */
enum { PACE_PROCESSORS = 132 };
static const double PACE_CLOCK = 1.98e9, PACE_MEMORY = 4.92e12; /* Hz; bytes a second */

/* An operand as tiles read it. */
struct read_operand {
    float bytes;
    bool along, narrow; /* terms are neighbours; groups of 16 bytes are not whole */
};

static read_operand operand_of(const gop_gemm &g, const void *data, int64_t item, int64_t lines,
                               int64_t line, int64_t term, const int64_t *batch)
{
    const int64_t group = item < 16 ? 16 / item : 1;
    const bool along = gop_magnitude(term) <= gop_magnitude(line);
    const int64_t near = along ? term : line, far = along ? line : term;
    const int64_t length = along ? g.k : lines, rest = along ? lines : g.k;
    bool wide = near == 1 && length % group == 0 && (rest == 1 || far % group == 0) &&
                (uintptr_t)data % 16 == 0;
    float bytes = (float)(lines * g.k * item);
    for (int axis = 0; axis < g.batch_rank; axis++) {
        wide = wide && batch[axis] % group == 0;
        if (batch[axis]) bytes *= (float)g.extent[axis];
    }
    return {bytes, along && lines > 1, !wide};
}

struct seen {
    const gop_gemm &g;
    read_operand a, b;
    float result, item;
    bool narrow;          /* rows of results are no groups of 16 bytes */
    int processors;       /* of the device */
    float faster, memory; /* beside the one that was measured */
};

/* How many tiles of 2^shift cover the items. */
static int64_t tiles_over(int64_t items, int shift)
{
    return (items + (INT64_C(1) << shift) - 1) >> shift;
}

/* All sides of tiles, and pieces of sums, are powers of two. */
static int log2_of(int power)
{
    return __builtin_ctz((unsigned)power);
}

static float cube(float x)
{
    return x * x * x;
}

/* Seconds of a tile of a row. A short call waits for this: it divides where it must. */
static double tile_time(const seen &s, const pace &p, int t)
{
    const bool swapped = p.thin && s.g.m < s.g.n;
    const int64_t m = swapped ? s.g.n : s.g.m, n = swapped ? s.g.m : s.g.n, k = s.g.k;
    const read_operand &a = swapped ? s.b : s.a, &b = swapped ? s.a : s.b;
    const int tile_m = p.tile[t].m;
    const float cost = p.tile[t].cost;
    int across = log2_of(p.tile[t].n);
    if (p.thin) {
        const int least = n > 1 ? 64 - __builtin_clzll((uint64_t)n - 1) : 0;
        across = least < across ? least : across;
    }
    const int64_t tiles =
        tile_m == 1 ? tiles_over(m * n * s.g.batches, across)
                    : tiles_over(m, log2_of(tile_m)) * tiles_over(n, across) * s.g.batches;
    const int64_t held = (int64_t)s.processors * p.held;
    int64_t split = 1;
    if (p.shortest && 2 * tiles <= held && tiles > 0) {
        const int64_t fill = held / tiles, most = k >> log2_of(p.shortest);
        split = fill < most ? fill : most;
        if (split < 1) split = 1;
    }
    const int64_t blocks = tiles * split, full = blocks < held ? 0 : blocks / held;
    const int64_t left = blocks - full * held;
    const float rest = full < 8 ? (float)((left + s.processors - 1) / s.processors)
                                : (float)left / (float)s.processors;
    const float terms = (float)(split > 1 ? (k + split - 1) / split : k);
    const float rounds = (float)(full * p.held) + rest;
    float slower = 1;
    if (a.along) slower *= p.factor[A_ALONG];
    if (b.along) slower *= p.factor[B_ALONG];
    if (a.narrow) slower *= p.factor[A_NARROW];
    if (b.narrow) slower *= p.factor[B_NARROW];
    const float width = (float)(1 << across);
    const float work = (float)(full + (left > 0)) * terms * p.term +
                       rounds * terms * p.each * cost * width / (float)p.tile[t].n * slower +
                       rounds * p.around * cost;
    const float pieces = split > 1 ? 2 * (float)split * s.result : 0;
    const float moved = (a.bytes + b.bytes + pieces) / p.memory +
                        s.result / p.store * (s.narrow ? p.factor[OUT_NARROW] : 1);
    const float read = fminf((float)tile_m, (float)m) + fminf(width, (float)n);
    const float reads = (float)tiles * (float)k * read * s.item / p.cache * slower;
    const float start = p.start * (split > 1 ? 2 : 1);
    const float cubes = cube(work / s.faster) + cube(moved / s.memory) + cube(reads / s.faster);
    /* Its cubic root: cbrtf takes ten times as long. */
    return 1e-9 * (double)(start + exp2f(log2f(cubes) * (1 / 3.0f)));
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
    if (asked >= GOP_TF32 && !few && is_wide) seconds[rounded] = 0;
    if (asked >= GOP_FAST && asked != GOP_BF16 && g.m >= 1024 && g.n >= 1024 && g.k >= 256 &&
        terms >= 3e9)
        seconds[halves] = 1e-12;
}

static void matmul_expect(const gop_ctx *ctx, const gop_task *task, double *seconds)
{
    const gop_gemm &g = task->geometry.gemm;
    const gop_dtype dtype = task->in[0].dtype;
    const dtype_class dtypes = class_of(dtype);
    const int64_t item = matmul_item(task);
    const gop_device_info &info = ctx->info;
    const float faster = info.clock > 0 ? (float)(info.clock / PACE_CLOCK) : 1;
    const float memory = info.bandwidth > 0 ? (float)(info.bandwidth / PACE_MEMORY) : 1;
    const seen s = {g,
                    operand_of(g, task->in[0].data, item, g.m, g.a_row, g.a_col, g.a),
                    operand_of(g, task->in[1].data, item, g.n, g.b_col, g.b_row, g.b),
                    (float)(g.batches * g.m * g.n * item),
                    (float)item,
                    g.n * item % 16 != 0,
                    info.processors > 0 ? info.processors : PACE_PROCESSORS,
                    faster,
                    memory};
    for (int c = 0; c < CANDIDATE_COUNT; c++) seconds[c] = INFINITY;
    for (const pace &p : paces) {
        if (p.dtypes != dtypes) continue;
        for (int t = 0; t < TILES && p.tile[t].m; t++) {
            const double time = tile_time(s, p, t);
            if (time < seconds[p.row]) seconds[p.row] = time;
        }
    }
    if (task->call->params.matmul.precision > GOP_HIGHEST) expect_lower(task, seconds);
}

#define WHY "its pace on an H200 with CUDA 13.0, fitted to 2780 products, 2026-11-28"
#define CANDIDATE(name) {&matmul_##name##_row, nullptr, nullptr, WHY},
static const gop_candidate candidates[] = {CANDIDATES(CANDIDATE)};

extern const gop_choice matmul_choice;
const gop_choice matmul_choice = {CANDIDATE_COUNT, candidates, matmul_expect};
