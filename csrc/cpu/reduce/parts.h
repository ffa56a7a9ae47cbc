/*
 * parts.h - the parts of a reduction that depend on the dtype (gathers, folds, finishes), and
 * their choice.
 *
 * Minima, maxima and their positions use one operator, the minimum of signed integers: elements
 * are mapped to keys with the same order. In addition to cpu/runtime/dtypes.h, dtype.inc needs
 * for each dtype: KEY_WORD, the integer type of its keys; TO_KEY(x) and FROM_KEY(key), which
 * read a variable `key_flags`; SUM_WORD; TRUTH(x).
 */
#ifndef GOP_CPU_REDUCE_PARTS_H
#define GOP_CPU_REDUCE_PARTS_H

#include "cpu/reduce/folds.h"
#include "cpu/reduce/stored.h"
#include "cpu/runtime/halves.h"

typedef void (*reduce_finish)(const reduce_job *job, const reduce_run *run, const void *from,
                              const int64_t *number);

/* The parts of a dtype. */
typedef struct reduce_parts {
    size_t item;
    reduce_gather term, real, square, key, truth; /* real: integers as float64 */
    const reduce_fold *sum, *prod, *squares, *min;
    const reduce_direct *direct_sum, *direct_prod, *direct_min, *direct_all;
    reduce_finish total, extreme; /* total: sums, products and means */
} reduce_parts;

/* ---- keys: signed integers in the order of the elements; NaN is always first ---- */

static inline int16_t key16(uint16_t x, uint16_t infinity, int key_flags)
{
    const uint16_t magnitude = x & 0x7fff;
    const uint16_t bits = (key_flags & VALUE) && magnitude == 0 ? 0 : x;
    const int16_t key = (int16_t)(bits ^ (uint16_t)((int16_t)bits >> 15) >> 1);
    return magnitude > infinity ? INT16_MIN : (int16_t)(key ^ -(key_flags & FLIP));
}

static inline int32_t key32(float x, int key_flags)
{
    const uint32_t bits =
        gop_float_bits(x + (key_flags & VALUE ? 0.0f : -0.0f)); /* -0 + 0 is +0 */
    const int32_t key = (int32_t)(bits ^ (uint32_t)((int32_t)bits >> 31) >> 1);
    return x != x ? INT32_MIN : key ^ -(key_flags & FLIP);
}

static inline int64_t key64(double x, int key_flags)
{
    const double y = x + (key_flags & VALUE ? 0.0 : -0.0);
    int64_t bits;
    memcpy(&bits, &y, sizeof bits);
    const int64_t key = bits ^ (int64_t)((uint64_t)(bits >> 63) >> 1);
    return x != x ? INT64_MIN : key ^ -(int64_t)(key_flags & FLIP);
}

/* Complex numbers are ordered by the real part, then the imaginary part. A NaN in either makes
 * a NaN. */
static inline int64_t key_c64(gop_c64 x, int key_flags)
{
    if (x.re != x.re || x.im != x.im) return INT64_MIN;
    const uint32_t im = (uint32_t)key32(x.im, key_flags | VALUE) ^ 0x80000000u;
    return (int64_t)((uint64_t)(uint32_t)key32(x.re, key_flags | VALUE) << 32 | im);
}

static inline gop_i128 key_c128(gop_c128 x, int key_flags)
{
    __extension__ typedef unsigned __int128 bits128;
    if (x.re != x.re || x.im != x.im) return (gop_i128)((bits128)1 << 127);
    const uint64_t im = (uint64_t)key64(x.im, key_flags | VALUE) ^ 0x8000000000000000u;
    return (gop_i128)((bits128)(uint64_t)key64(x.re, key_flags | VALUE) << 64 | im);
}

/* From keys to elements. */
static inline uint16_t unkey16(int16_t key, uint16_t nan, int key_flags)
{
    if (key == INT16_MIN) return nan;
    const uint16_t bits = (uint16_t)(key_flags & FLIP ? ~key : key);
    return (uint16_t)(bits ^ (bits & 0x8000 ? 0x7fff : 0));
}

static inline float unkey32(int32_t key, int key_flags)
{
    const uint32_t bits = (uint32_t)(key_flags & FLIP ? ~key : key);
    return gop_bits_float(key == INT32_MIN ? 0x7fc00000u
                                           : bits ^ (bits >> 31 ? 0x7fffffffu : 0));
}

static inline double unkey64(int64_t key, int key_flags)
{
    uint64_t bits = (uint64_t)(key_flags & FLIP ? ~key : key);
    bits = key == INT64_MIN ? 0x7ff8000000000000u : bits ^ (bits >> 63 ? INT64_MAX : 0);
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* ---- types and operations of each dtype ---- */

#define GOP_T_int128 gop_i128
#define GOP_FLIPPED (-(key_flags & FLIP)) /* all bits or none */

#define GOP_KEY_bool int8
#define GOP_KEY_int8 int8
#define GOP_KEY_int16 int16
#define GOP_KEY_int32 int32
#define GOP_KEY_int64 int64
#define GOP_KEY_uint8 int8
#define GOP_KEY_uint16 int16
#define GOP_KEY_uint32 int32
#define GOP_KEY_uint64 int64
#define GOP_KEY_float16 int16
#define GOP_KEY_bfloat16 int16
#define GOP_KEY_float32 int32
#define GOP_KEY_float64 int64
#define GOP_KEY_complex64 int64
#define GOP_KEY_complex128 int128

#define GOP_TO_KEY_bool(x) ((int8_t)(((x) != 0) ^ GOP_FLIPPED))
#define GOP_TO_KEY_int8(x) ((int8_t)((x) ^ GOP_FLIPPED))
#define GOP_TO_KEY_int16(x) ((int16_t)((x) ^ GOP_FLIPPED))
#define GOP_TO_KEY_int32(x) ((x) ^ GOP_FLIPPED)
#define GOP_TO_KEY_int64(x) ((x) ^ (int64_t)GOP_FLIPPED)
#define GOP_TO_KEY_uint8(x) ((int8_t)((x) ^ 0x80 ^ GOP_FLIPPED))
#define GOP_TO_KEY_uint16(x) ((int16_t)((x) ^ 0x8000 ^ GOP_FLIPPED))
#define GOP_TO_KEY_uint32(x) ((int32_t)((x) ^ 0x80000000u ^ (uint32_t)GOP_FLIPPED))
#define GOP_TO_KEY_uint64(x) ((int64_t)((x) ^ 1ull << 63 ^ (uint64_t)(int64_t)GOP_FLIPPED))
#define GOP_TO_KEY_float16(x) key16(x, 0x7c00, key_flags)
#define GOP_TO_KEY_bfloat16(x) key16(x, 0x7f80, key_flags)
#define GOP_TO_KEY_float32(x) key32(x, key_flags)
#define GOP_TO_KEY_float64(x) key64(x, key_flags)
#define GOP_TO_KEY_complex64(x) key_c64(x, key_flags)
#define GOP_TO_KEY_complex128(x) key_c128(x, key_flags)

/* Complex results are read from the array, at the position found. */
#define GOP_FROM_KEY_bool(key) ((uint8_t)((key) ^ GOP_FLIPPED))
#define GOP_FROM_KEY_int8 GOP_TO_KEY_int8
#define GOP_FROM_KEY_int16 GOP_TO_KEY_int16
#define GOP_FROM_KEY_int32 GOP_TO_KEY_int32
#define GOP_FROM_KEY_int64 GOP_TO_KEY_int64
#define GOP_FROM_KEY_uint8(key) ((uint8_t)GOP_TO_KEY_uint8(key))
#define GOP_FROM_KEY_uint16(key) ((uint16_t)GOP_TO_KEY_uint16(key))
#define GOP_FROM_KEY_uint32(key) ((uint32_t)GOP_TO_KEY_uint32((uint32_t)(key)))
#define GOP_FROM_KEY_uint64(key) ((uint64_t)GOP_TO_KEY_uint64((uint64_t)(key)))
#define GOP_FROM_KEY_float16(key) unkey16(key, 0x7e00, key_flags)
#define GOP_FROM_KEY_bfloat16(key) unkey16(key, 0x7fc0, key_flags)
#define GOP_FROM_KEY_float32(key) unkey32(key, key_flags)
#define GOP_FROM_KEY_float64(key) unkey64(key, key_flags)

/* The name of the fold of sums and products, and the type of squares. */
#define GOP_SUM_bool whole
#define GOP_SUM_int8 whole
#define GOP_SUM_int16 whole
#define GOP_SUM_int32 whole
#define GOP_SUM_int64 whole
#define GOP_SUM_uint8 whole
#define GOP_SUM_uint16 whole
#define GOP_SUM_uint32 whole
#define GOP_SUM_uint64 whole
#define GOP_SUM_float16 float32
#define GOP_SUM_bfloat16 float32
#define GOP_SUM_float32 float32
#define GOP_SUM_float64 float64
#define GOP_SUM_complex64 complex64
#define GOP_SUM_complex128 complex128
#define GOP_SQUARE_whole double
#define GOP_SQUARE_float32 float
#define GOP_SQUARE_float64 double
#define GOP_SQUARE_complex64 float
#define GOP_SQUARE_complex128 double

/* Types wide enough for the sum of 256 elements. */
#define GOP_PARTIAL_bool uint16_t
#define GOP_PARTIAL_int8 int16_t
#define GOP_PARTIAL_int16 int32_t
#define GOP_PARTIAL_int32 int64_t
#define GOP_PARTIAL_int64 uint64_t
#define GOP_PARTIAL_uint8 uint16_t
#define GOP_PARTIAL_uint16 uint32_t
#define GOP_PARTIAL_uint32 uint64_t
#define GOP_PARTIAL_uint64 uint64_t

static inline gop_c64 divide_complex64(gop_c64 a, int64_t n)
{
    return (gop_c64){a.re / (float)n, a.im / (float)n};
}

static inline gop_c128 divide_complex128(gop_c128 a, int64_t n)
{
    return (gop_c128){a.re / (double)n, a.im / (double)n};
}

static inline gop_c64 from_scalar_complex64(gop_scalar s)
{
    return (gop_c64){(float)s.f[0], (float)s.f[1]};
}

static inline gop_c128 from_scalar_complex128(gop_scalar s)
{
    return (gop_c128){s.f[0], s.f[1]};
}

/* Truth by kind: 1 bool, 2 integer, 3 float, 4 complex. */
#define GOP_TRUTH_1(x) ((x) != 0)
#define GOP_TRUTH_2(x) ((x) != 0)
#define GOP_TRUTH_3(x) (LOAD(x) != 0)
#define GOP_TRUTH_4(x) (((x).re != 0) | ((x).im != 0))

#define SUM_WORD GOP_PASTE(GOP_SUM, D)
#define PARTIAL GOP_PASTE(GOP_PARTIAL, D)
#define SQUARE_R GOP_PASTE(GOP_SQUARE, SUM_WORD)
#define KEY_WORD GOP_PASTE(GOP_KEY, D)
#define KEY GOP_PASTE(GOP_T, KEY_WORD)
#define TO_KEY(x) GOP_PASTE(GOP_TO_KEY, D)(x)
#define FROM_KEY(key) GOP_PASTE(GOP_FROM_KEY, D)(key)
#define TRUTH(x) GOP_PASTE(GOP_TRUTH, GOP_PASTE(GOP_KIND, D))(x)

#define GOP_TPL "cpu/reduce/dtype.inc"
#include "cpu/runtime/each_dtype.inc"

static const reduce_parts *const parts_of[GOP_NDTYPES] = {
#define X(enumerator, word, bytes) [enumerator] = &parts_##word,
    GOP_DTYPES(X)
#undef X
};

/* ---- from accumulators to outputs ---- */

static void finish_position(const reduce_job *job, const reduce_run *run, const void *from,
                            const int64_t *number)
{
    (void)job, (void)from;
    for (int64_t i = 0; i < run->n; i++) ((int64_t *)run->out)[i * run->out_stride] = number[i];
}

/* any: the minimum of complemented truths is 0. all: the minimum of truths is not 0. */
static void finish_truth(const reduce_job *job, const reduce_run *run, const void *from,
                         const int64_t *number)
{
    const uint8_t any = job->plan->key_flags & FLIP;
    const int8_t *const restrict x = from;
    const int64_t n = run->n; /* a local copy, because stores of bytes may alias it */
    uint8_t *const restrict out = (uint8_t *)run->out;
    (void)number;
    if (run->out_stride == 1)
        for (int64_t i = 0; i < n; i++) out[i] = (uint8_t)(x[i] != 0) ^ any; /* vectorized */
    else
        for (int64_t i = 0; i < n; i++) out[i * run->out_stride] = (uint8_t)(x[i] != 0) ^ any;
}

/* Counts the elements that the mask keeps in each output of a run. */
static void count_where(const reduce_job *job, const reduce_run *run, int64_t *number)
{
    const gop_reduction *g = job->g;
    const int inner = g->kept + g->reduced - 1;
    const int64_t line = g->reduced ? g->extent[inner] : 1;
    reduce_cursor cursor;
    memset(number, 0, (size_t)run->n * sizeof *number);
    if (g->count == 0) return;
    cursor_set(&cursor, g, 0);
    for (int64_t k = 0; k < g->count;) {
        const uint8_t *where = run->where + cursor.at.where;
        const int64_t steps = run->n == 1 ? line : 1;
        if (run->n == 1)
            for (int64_t i = 0; i < line; i++)
                number[0] += where[g->reduced ? i * g->where[inner] : 0] != 0;
        else
            for (int64_t i = 0; i < run->n; i++) number[i] += where[i * run->where_stride] != 0;
        if (g->reduced) cursor_move(&cursor, g, steps);
        k += steps;
    }
}

/* Advances `number` from the start of the leaf that has the best element to that element. */
static void find_best(const reduce_job *job, const reduce_run *run, const char *value,
                      int64_t *number)
{
    const reduce_plan *const p = job->plan;
    const gop_reduction *g = job->g;
    const int64_t line = g->reduced ? g->extent[g->kept + g->reduced - 1] : 1;
    for (int64_t i = 0; i < run->n; i++) {
        const int64_t at = i * run->in_stride + offset_of(g, number[i]);
        number[i] +=
            p->direct->find(job, run->in + at * (int64_t)p->item, line - number[i] % line,
                            value + (size_t)i * p->fold->bytes);
    }
}

static void complete(const reduce_job *job, const reduce_run *run, char *value, int64_t *number)
{
    const reduce_plan *const p = job->plan;
    const gop_reduce_op op = job->task->call->params.reduce.op;
    if (run->n > ROW_ITEMS) { /* `number` has room for ROW_ITEMS */
        for (int64_t first = 0; first < run->n; first += ROW_ITEMS) {
            const reduce_run part = part_of(job, run, first, ROW_ITEMS);
            complete(job, &part, value + (size_t)first * p->fold->bytes, number);
        }
        return;
    }
    if (p->position && p->direct && !p->bytes) find_best(job, run, value, number);
    if (op == GOP_MEAN && run->where) count_where(job, run, number);
    else if (op == GOP_MEAN)
        for (int64_t i = 0; i < run->n; i++) number[i] = job->g->count;
    p->finish(job, run, value, number);
}

/* Means of integers whose sums are exact in float64. */
static void finish_whole_mean(const reduce_job *job, const reduce_run *run, const void *from,
                              const int64_t *number)
{
    const uint64_t *const x = from;
    (void)job;
    for (int64_t i = 0; i < run->n; i++)
        ((double *)run->out)[i * run->out_stride] = (double)(int64_t)x[i] / (double)number[i];
}

/* ---- the choice of gather, fold and finish ---- */

static void assemble(reduce_plan *plan, const gop_task *task)
{
    const gop_dtype dtype = task->in[0].dtype;
    const reduce_parts *parts = parts_of[dtype];
    const char kind = gop_dtype_kind(dtype);
    gop_reduce_op op = task->call->params.reduce.op;
    if (kind == 'b' && !task->call->params.reduce.has_initial)
        op = op == GOP_MIN ? GOP_ALL : op == GOP_MAX ? GOP_ANY : op;
    memset(plan, 0, offsetof(reduce_plan, joined));
    plan->item = parts->item;
    switch (op) {
    case GOP_ANY:
    case GOP_ALL:
        plan->key_flags = op == GOP_ANY ? FLIP : 0;
        plan->stops = 1;
        plan->gather = parts->truth, plan->fold = &min_int8, plan->finish = finish_truth;
        plan->direct = parts->direct_all;
        break;
    case GOP_MIN:
    case GOP_MAX:
    case GOP_ARGMIN:
    case GOP_ARGMAX:
        plan->position = op == GOP_ARGMIN || op == GOP_ARGMAX || kind == 'c';
        plan->key_flags =
            (op == GOP_MAX || op == GOP_ARGMAX ? FLIP : 0) | (plan->position ? VALUE : 0);
        plan->gather = parts->key, plan->fold = parts->min;
        plan->direct = parts->direct_min;
        plan->stops = kind == 'b' && plan->position;
        plan->least = op == GOP_ARGMAX ? -2 : 0; /* the key of True, or of False */
        plan->finish = op == GOP_MIN || op == GOP_MAX ? parts->extreme : finish_position;
        break;
    case GOP_SUMSQ:
        plan->gather = parts->square, plan->fold = parts->squares;
        plan->finish = (plan->fold == &sum_float32 ? &parts_float32 : &parts_float64)->total;
        break;
    default:
        plan->gather = parts->term, plan->fold = op == GOP_PROD ? parts->prod : parts->sum;
        plan->direct = op == GOP_PROD ? parts->direct_prod : parts->direct_sum;
        plan->finish = parts->total;
        if (op == GOP_MEAN && parts->real && plan->item <= 4 &&
            task->geometry.reduction.count <= INT64_C(1) << (53 - 8 * plan->item)) {
            plan->finish = finish_whole_mean; /* any order gives the same bits */
        } else if (op == GOP_MEAN && parts->real) {
            plan->gather = parts->real, plan->fold = &sum_float64, plan->direct = NULL;
            plan->finish = parts_float64.total;
        }
    }
    plan->bytes = plan->stops && plan->item == 1;
    plan->fold->fill(plan->none, 1);
    /* Elements that are their own accumulators need no gather. */
    const int plain_term = plan->gather == parts->term && plan->fold->bytes == plan->item;
    const int plain_key =
        plan->gather == parts->key && kind == 'i' && !(plan->key_flags & FLIP);
    plan->in_place = task->nin == 1 && (plain_term || plain_key);
    if (task->in[0].stored) cast_first(plan, task, plain_term);
}

#endif
