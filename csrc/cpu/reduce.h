/*
 * reduce.h - the parts that a CPU reduction is put together from.
 *
 * Every reduction is: gather elements into accumulators, fold accumulators, finish an output.
 * `gather` knows the dtype, `fold` knows the operator, and reduce_rows.h and reduce_columns.h,
 * which know neither, walk the axes. `direct` knows both: it saves the gather where the order
 * of the fold is free. Minima, maxima and their positions all fold with one operator, the
 * minimum of signed integers, because elements are turned into keys that are ordered like them.
 */
#ifndef GOP_CPU_REDUCE_H
#define GOP_CPU_REDUCE_H

#include "cpu/cpu.h"

__extension__ typedef __int128 gop_i128;

enum {
    LEAF = 2048, /* elements of a leaf of tree/v1 */
    LANES = 128,
    DIRECT_LEAF = 16 * LEAF, /* where there is no tree */
    ROWS = LEAF / LANES,     /* elements of a lane */
    ROW_BYTES = 4096,        /* gathered accumulators side by side */
    ROW_ITEMS = 1024,
    WIDE_BYTES = 1 << 15, /* accumulators side by side that are read where they lie */
#if defined(__AVX512F__)
    STRIP_BYTES = 512, /* eight vector registers */
#elif defined(__AVX__)
    STRIP_BYTES = 256,
#else
    STRIP_BYTES = 128,
#endif
    SHORT_ROW = 1 << 11, /* bytes of a row that leave room in the first-level cache */
    STRIP_VECTORS = 8,
    STACK_ROWS = 8,        /* of a stack: streams of memory that are read at once */
    STACK_AHEAD = 1 << 10, /* bytes by which each of them is fetched before it is read */
    STACK_LEVELS = 3,      /* of the tree of its lanes, at most one a row */
};

#define STRIP_UNROLL _Pragma("GCC unroll 8")
/* A loop that is unrolled whole before the compiler looks for vectors is no vector. */
#define KEEP_LOOP _Pragma("GCC unroll 1")

/* A folding operator on accumulators of one type. */
typedef struct reduce_fold {
    size_t bytes;
    void (*fill)(void *to, int64_t n);                       /* with the identity */
    void (*merge)(void *left, const void *right, int64_t n); /* left[i] = left[i] . right[i] */
    /* Where the order counts: to[i] folds item i of `lanes` lanes, a power of two, of `rows`
     * rows each; the lanes in bit-reversed order. NULL where the order is free. */
    void (*stack)(void *to, const void *const *row, int lanes, int rows, int64_t n);
    /* to[i] = a leaf of the n elements at x + i * pitch, 0 < n <= LEAF */
    void (*leaves)(void *to, const void *x, int64_t n, int64_t pitch, int64_t outputs);
    /* Of the minimum: where x[i] < best[i], takes it and its position (at[i], or k). */
    void (*better)(void *best, int64_t *position, const void *x, const int64_t *at, int64_t k,
                   int64_t n);
    int64_t (*find)(const void *x, const void *value); /* the first that equals */
} reduce_fold;

typedef struct reduce_job reduce_job;

/* Turns n elements into accumulators; where a mask says no, into the identity. */
typedef void (*reduce_gather)(const reduce_job *job, void *to, int64_t n, const void *in,
                              int64_t stride, const uint8_t *where, int64_t where_stride);
enum {
    FLIP = 1,  /* a maximum: the minimum of complemented keys; any: of complemented truth */
    VALUE = 2, /* -0 and +0 are one value, as positions want it */
};

/* Folds elements where they lie, n side by side, for operators whose order is free. */
typedef struct reduce_direct {
    /* to[i] = to[i] . row[0][i] . row[1][i] ..., at most ROWS rows */
    void (*rows)(const reduce_job *job, void *to, const void *const *row, int rows, int64_t n);
    /* to[i] folds the n elements at x + i * pitch, n <= DIRECT_LEAF */
    void (*leaves)(const reduce_job *job, void *to, const void *x, int64_t n, int64_t pitch,
                   int64_t outputs);
    /* Of the minimum: the first of n elements whose key is `best`, which one of them has. */
    int64_t (*find)(const reduce_job *job, const void *x, int64_t n, const void *best);
} reduce_direct;

/* Outputs side by side along the innermost kept axis. */
typedef struct reduce_run {
    int64_t first, n; /* the first output's number, and how many */
    const char *in;   /* of the first output's first element */
    const uint8_t *where;
    char *out;
    int64_t in_stride, where_stride, out_stride; /* from one output to the next */
    const char *turned; /* all elements, those of one position side by side; or NULL */
    const char *rows;   /* columns: row k lies k * pitch bytes behind this; or NULL */
    int64_t pitch;
} reduce_run;

struct reduce_job {
    const gop_task *task;
    const gop_reduction *g;
    const reduce_fold *fold;
    const reduce_direct *direct; /* or NULL */
    reduce_gather gather;
    /* Writes a run of outputs from accumulators. number[i]: the position found, or how many
     * elements a mean has. */
    void (*finish)(const reduce_job *job, const reduce_run *run, const void *from,
                   const int64_t *number);
    size_t item;  /* bytes of an element */
    int in_place; /* elements are accumulators already */
    int stops;    /* any, all: nothing comes before a key of 0 */
    int position; /* positions are wanted: argmin, argmax, and complex min and max */
    int twist;
    _Alignas(16) char none[16]; /* the identity */
    /* How reduce_cut.h cuts the work. */
    int columns;                 /* outputs side by side rather than one by one */
    int64_t width, blocks, runs; /* of a run; runs to an innermost kept axis, and in all */
    int64_t nodes;               /* pieces of an output, of 2^node_leaves leaves each */
    int node_leaves;
    /* Of reduce_pack.h. */
    int beside;   /* the reduced axis along which memory goes on */
    int64_t span; /* positions from one of its elements to the next; 0: nothing is packed */
    int turned;   /* columns: neighbours in memory are elements of one output, not outputs */
    char *packed; /* a buffer a thread, of so many */
    int buffers;
    int plain; /* blocked: one element at a time */
};

typedef void (*reduce_finish)(const reduce_job *job, const reduce_run *run, const void *from,
                              const int64_t *number);

/* What a dtype brings: gathers, folds, finishes. */
typedef struct reduce_parts {
    size_t item;
    reduce_gather term, real, square, key, truth; /* real: of integers, as float64 */
    const reduce_fold *sum, *prod, *squares, *min;
    const reduce_direct *direct_sum, *direct_prod, *direct_min;
    reduce_finish total, extreme; /* total: sums, products and means */
} reduce_parts;

/* Offset of position k along the reduced axes, in elements. */
static inline int64_t offset_of(const gop_reduction *g, int64_t k)
{
    int64_t offset = 0;
    for (int d = g->kept + g->reduced - 1; d >= g->kept; d--) {
        offset += k % g->extent[d] * g->in[d];
        k /= g->extent[d];
    }
    return offset;
}

/* ---- keys: signed integers in the order of the elements; NaN first whatever the twist ---- */

static inline int16_t key16(uint16_t x, uint16_t infinity, int twist)
{
    const uint16_t magnitude = x & 0x7fff;
    const uint16_t bits = (twist & VALUE) && magnitude == 0 ? 0 : x;
    const int16_t key = (int16_t)(bits ^ (uint16_t)((int16_t)bits >> 15) >> 1);
    return magnitude > infinity ? INT16_MIN : (int16_t)(key ^ -(twist & FLIP));
}

static inline int32_t key32(float x, int twist)
{
    const uint32_t bits = gop_float_bits(x + (twist & VALUE ? 0.0f : -0.0f)); /* -0 + 0 is +0 */
    const int32_t key = (int32_t)(bits ^ (uint32_t)((int32_t)bits >> 31) >> 1);
    return x != x ? INT32_MIN : key ^ -(twist & FLIP);
}

static inline int64_t key64(double x, int twist)
{
    const double y = x + (twist & VALUE ? 0.0 : -0.0);
    int64_t bits;
    memcpy(&bits, &y, sizeof bits);
    const int64_t key = bits ^ (int64_t)((uint64_t)(bits >> 63) >> 1);
    return x != x ? INT64_MIN : key ^ -(int64_t)(twist & FLIP);
}

/* Complex numbers by real part, then imaginary part; a NaN in either makes a NaN. */
static inline int64_t key_c64(gop_c64 x, int twist)
{
    if (x.re != x.re || x.im != x.im) return INT64_MIN;
    const uint32_t im = (uint32_t)key32(x.im, twist | VALUE) ^ 0x80000000u;
    return (int64_t)((uint64_t)(uint32_t)key32(x.re, twist | VALUE) << 32 | im);
}

static inline gop_i128 key_c128(gop_c128 x, int twist)
{
    __extension__ typedef unsigned __int128 u128;
    if (x.re != x.re || x.im != x.im) return (gop_i128)((u128)1 << 127);
    const uint64_t im = (uint64_t)key64(x.im, twist | VALUE) ^ 0x8000000000000000u;
    return (gop_i128)((u128)(uint64_t)key64(x.re, twist | VALUE) << 64 | im);
}

/* Back from keys. */
static inline uint16_t unkey16(int16_t key, uint16_t nan, int twist)
{
    if (key == INT16_MIN) return nan;
    const uint16_t bits = (uint16_t)(twist & FLIP ? ~key : key);
    return (uint16_t)(bits ^ (bits & 0x8000 ? 0x7fff : 0));
}

static inline float unkey32(int32_t key, int twist)
{
    const uint32_t bits = (uint32_t)(twist & FLIP ? ~key : key);
    return gop_bits_float(key == INT32_MIN ? 0x7fc00000u
                                           : bits ^ (bits >> 31 ? 0x7fffffffu : 0));
}

static inline double unkey64(int64_t key, int twist)
{
    uint64_t bits = (uint64_t)(twist & FLIP ? ~key : key);
    bits = key == INT64_MIN ? 0x7ff8000000000000u : bits ^ (bits >> 63 ? INT64_MAX : 0);
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

#endif
