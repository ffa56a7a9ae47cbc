/*
 * job.h - the plan of a CPU reduction, the job of one call, and the places of its elements.
 *
 * Every reduction gathers elements into accumulators, folds accumulators and finishes an
 * output. `gather` knows the dtype, `fold` the operator. rows.h and columns.h know neither and
 * walk the axes: either one output after the other, leaf by leaf; or many outputs at a time,
 * one row of elements after the other; whichever is contiguous in memory. `direct` knows dtype
 * and operator: it saves the gather if the order of the fold is free.
 */
#ifndef GOP_CPU_REDUCE_JOB_H
#define GOP_CPU_REDUCE_JOB_H

#include "core/arrays/cast.h"
#include "core/numerics.h"
#include "cpu/runtime/cpu.h"
#include "cpu/runtime/stream.h"

__extension__ typedef __int128 gop_i128;

enum {
    DIRECT_LEAF = 16 * LEAF, /* if the order is free */
    ROWS = LEAF / LANES,     /* elements of a lane */
    PIECE = 1 << 16,         /* elements that are worth a thread */
    ROW_BYTES = 4096,        /* bytes of a row of gathered accumulators */
    ROW_ITEMS = 1024,
    WIDE_BYTES = 1 << 15, /* bytes of a row that is read in place */
    THIN_BYTES = 1 << 13, /* the same for few elements per output: fits in L1 */
#if defined(__AVX512F__)
    STRIP_BYTES = 512, /* eight vector registers */
#elif defined(__AVX__)
    STRIP_BYTES = 256,
#else
    STRIP_BYTES = 128,
#endif
    SHORT_ROW = 1 << 11,   /* bytes of a row that leave room in the L1 cache */
    SHORT_PARTS = 1 << 13, /* bytes of its partial results */
    STRIP_VECTORS = 8,
    STACK_ROWS = 8,        /* rows of a stack: streams of memory that are read at a time */
    STACK_AHEAD = 1 << 10, /* prefetch distance of each, in bytes */
    STACK_LEVELS = 3,      /* levels of the tree of its lanes, at most one per row */
    CAST_ROW = 128,        /* rows of at most these bytes are short: cast together */
    SMALL_ROOM = 2048,     /* bytes of scratch that a single worker has on its stack */
};

#define STRIP_UNROLL _Pragma("GCC unroll 8")
/* Prevents full unrolling, after which the compiler would not vectorize the loop. */
#define KEEP_LOOP _Pragma("GCC unroll 1")

/* A folding operator on accumulators of one type. */
typedef struct reduce_fold {
    size_t bytes;
    void (*fill)(void *to, int64_t n);                       /* with the identity */
    void (*merge)(void *left, const void *right, int64_t n); /* left[i] = left[i] . right[i] */
    /* If the order matters: to[i] folds item i of `lanes` lanes, a power of two, of `rows` rows
     * each; the lanes are in bit-reversed order. NULL if the order is free. */
    void (*stack)(void *to, const void *const *row, int lanes, int rows, int64_t n);
    /* to[i] = a leaf of the n elements at x + i * pitch, 0 < n <= LEAF */
    void (*leaves)(void *to, const void *x, int64_t n, int64_t pitch, int64_t outputs);
    /* For minima: if x[i] < best[i], takes x[i] and its position (at[i], or k). */
    void (*better)(void *best, int64_t *position, const void *x, const int64_t *at, int64_t k,
                   int64_t n);
    int64_t (*find)(const void *x, const void *value); /* the first that is equal */
} reduce_fold;

typedef struct reduce_job reduce_job;

/* Turns n elements into accumulators; masked ones into the identity. The elements are `stride`
 * apart, or at the table's offsets. */
typedef void (*reduce_gather)(const reduce_job *job, void *to, int64_t n, const void *in,
                              int64_t stride, const int32_t *table, const uint8_t *where,
                              int64_t where_stride);
enum {
    FLIP = 1,  /* maximum: the minimum of complemented keys; any: of complemented truths */
    VALUE = 2, /* -0 and +0 are equal, as for positions */
};

/* Folds elements in place, for operators whose order is free. */
typedef struct reduce_direct {
    /* to[i] = to[i] . row[0][i] . row[1][i] ..., at most ROWS rows */
    void (*rows)(const reduce_job *job, void *to, const void *const *row, int rows, int64_t n);
    /* to[i] folds the n elements at x + i * pitch, n <= DIRECT_LEAF */
    void (*leaves)(const reduce_job *job, void *to, const void *x, int64_t n, int64_t pitch,
                   int64_t outputs);
    /* For minima: the position of the first of n elements with the key `best`, which exists. */
    int64_t (*find)(const reduce_job *job, const void *x, int64_t n, const void *best);
} reduce_direct;

/* A table of offsets for several axes joined to one line (tables.h). */
typedef struct reduce_table {
    int axis;       /* the outermost of these axes, of which a line has a piece */
    int64_t within; /* elements of the other axes */
    int64_t size;   /* of a line, a multiple of within; 0: there is no table */
} reduce_table;

/* A run of outputs along the innermost kept axis. */
typedef struct reduce_run {
    int64_t first, n; /* the first output's number; number of outputs */
    const char *in;   /* the first output's first element */
    const uint8_t *where;
    char *out;
    int64_t in_stride, where_stride, out_stride; /* from one output to the next */
    const int32_t *table; /* columns: offsets of outputs, instead of in_stride; or NULL */
    const char *turned;   /* all elements, transposed; or NULL */
    const char *rows;     /* columns: row k is at rows + k * pitch bytes; or NULL */
    int64_t pitch;
} reduce_run;

/* The layout of a worker's scratch: byte offsets into its part. */
typedef struct reduce_room {
    size_t pitch;                /* bytes of a row of accumulators, at most ROW_BYTES */
    size_t group_size;           /* bytes of a group of lanes */
    size_t value, number;        /* of a run: accumulators, and positions or counts */
    size_t node, leaf;           /* nodes of the tree, a row per level; the next leaf */
    size_t gathered;             /* elements as accumulators: a leaf, or rows */
    int cast_rows;               /* columns: all rows of a leaf are cast into `gathered` */
    size_t group, lanes;         /* columns: groups of lanes */
    size_t joint, numbers;       /* columns: joined rows, and their positions */
    size_t turned, tile, packed; /* reordered elements */
    size_t bytes;                /* total */
} reduce_room;

/* A kernel's plan. It does not depend on the memory of a call. */
typedef struct reduce_plan {
    const reduce_fold *fold;
    const reduce_direct *direct; /* or NULL */
    reduce_gather gather, then;  /* then: of elements that `gather` has cast */
    gop_cast cast;
    /* Writes a run of outputs from accumulators. number[i]: the position, or the number of
     * elements of a mean. */
    void (*finish)(const reduce_job *job, const reduce_run *run, const void *from,
                   const int64_t *number);
    size_t item;     /* bytes of a stored element */
    int in_place;    /* elements need no gather */
    int casts_alone; /* elements need only the cast */
    int stops;       /* any, all, positions of booleans: the key `least` decides */
    int8_t least;
    int bytes;    /* the first byte that is 0, or the first that is not, decides */
    int position; /* positions are computed: argmin, argmax, and complex min and max */
    int key_flags;
    _Alignas(16) char none[16]; /* the identity */
    /* How plan.h divides the work. */
    int columns;                 /* many outputs at a time */
    int64_t line;                /* outputs along the innermost kept axes, cut into runs */
    int64_t width, blocks, runs; /* outputs of a run; runs of a line, of all lines */
    int64_t nodes;               /* pieces of an output, of 2^node_leaves leaves each */
    int node_leaves;
    int64_t leaf; /* elements of a leaf: LEAF, or fewer if the order of the fold is free */
    /* Elements that are reordered first. */
    int beside;   /* the reduced axis that is contiguous in memory */
    int64_t span; /* positions between two of its elements; 0: nothing is packed */
    int turned;   /* columns: elements of an output are contiguous, so they are transposed */
    int joint;    /* columns: contiguous rows that are folded as one */
    int plain;    /* blocked: one element at a time */
    reduce_table table; /* columns: of kept axes; rows: of reduced axes */
    int workers;
    reduce_room room;
    size_t node_bytes;    /* of all outputs' nodes; 0 if an output is one node */
    size_t table_bytes;   /* of the table */
    int small;            /* the scratch of the only worker is on its stack */
    gop_reduction joined; /* rows: the geometry with the table's axes joined */
} reduce_plan;

static size_t whole_lines(size_t bytes)
{
    return (bytes + LINE - 1) / LINE * LINE;
}

struct reduce_job {
    const reduce_plan *plan;
    const gop_task *task;
    const gop_reduction *g;
    char *rooms;          /* one for each worker */
    const int32_t *table; /* or NULL */
    int64_t *last;        /* the first node that has decided (see stops), or NULL */
};

static reduce_job job_of(const gop_task *task)
{
    const reduce_plan *const p = GOP_OWN(const reduce_plan, task->plan);
    const int joined = p->table.size && !p->columns;
    return (reduce_job){p,    task, joined ? &p->joined : &task->geometry.reduction,
                        NULL, NULL, NULL};
}

/* ---- the place of an element ---- */

static int64_t leaves_of(const reduce_plan *p, const gop_reduction *g)
{
    return g->count / p->leaf + (g->count % p->leaf != 0);
}

/* The offset of position k along the reduced axes, in elements. */
static inline int64_t offset_of(const gop_reduction *g, int64_t k)
{
    int64_t index[GOP_MAX_NDIM];
    gop_unravel(k, g->reduced, g->extent + g->kept, index);
    return gop_offset(g->reduced, index, g->in + g->kept);
}

typedef struct reduce_place {
    int64_t in, where, out; /* offsets, in elements */
} reduce_place;

/* The offsets of item i, in C order of axes [first, last). */
static reduce_place locate(const gop_reduction *g, int first, int last, int64_t i)
{
    const int rank = last - first;
    int64_t index[GOP_MAX_NDIM];
    gop_unravel(i, rank, g->extent + first, index);
    return (reduce_place){gop_offset(rank, index, g->in + first),
                          gop_offset(rank, index, g->where + first),
                          gop_offset(rank, index, g->out + first)};
}

/* A position along the reduced axes that moves forward cheaply. */
typedef struct reduce_cursor {
    reduce_place at;
    int64_t x[GOP_MAX_NDIM];
} reduce_cursor;

static void cursor_set(reduce_cursor *c, const gop_reduction *g, int64_t k)
{
    c->at = locate(g, g->kept, g->kept + g->reduced, k);
    gop_unravel(k, g->reduced, g->extent + g->kept, c->x + g->kept);
}

/* Moves `steps` along the innermost reduced axis, at most to its end; then to the next line. */
static void cursor_move(reduce_cursor *c, const gop_reduction *g, int64_t steps)
{
    for (int d = g->kept + g->reduced - 1; d >= g->kept; d--, steps = 1) {
        c->x[d] += steps;
        c->at.in += steps * g->in[d];
        c->at.where += steps * g->where[d];
        if (c->x[d] < g->extent[d] || d == g->kept) return;
        c->x[d] = 0;
        c->at.in -= g->extent[d] * g->in[d];
        c->at.where -= g->extent[d] * g->where[d];
    }
}

/* The run of outputs [first, first + n) of one line. */
static reduce_run run_at(const reduce_job *job, int64_t first, int64_t n)
{
    const gop_reduction *g = job->g;
    const gop_task *task = job->task;
    const reduce_place at = locate(g, 0, g->kept, first);
    const int inner = g->kept - 1;
    reduce_run run = {.first = first, .n = n};
    run.in = (const char *)task->in[0].data + at.in * (int64_t)job->plan->item;
    run.out = (char *)task->out[0].data + at.out * gop_dtype_size(task->out[0].dtype);
    run.where = task->nin > 1 ? (const uint8_t *)task->in[1].data + at.where : NULL;
    run.table = job->plan->columns ? job->table : NULL;
    run.in_stride = inner < 0 || run.table ? 0 : g->in[inner];
    run.where_stride = inner < 0 ? 0 : g->where[inner];
    run.out_stride = inner < 0 ? 0 : g->out[inner];
    return run;
}

/* At most n outputs of a run, from output `first` on. */
static reduce_run part_of(const reduce_job *job, const reduce_run *run, int64_t first,
                          int64_t n)
{
    reduce_run part = *run;
    part.first += first;
    part.n = run->n - first < n ? run->n - first : n;
    part.in += first * run->in_stride * (int64_t)job->plan->item;
    part.where += run->where ? first * run->where_stride : 0;
    part.out += first * run->out_stride * gop_dtype_size(job->task->out[0].dtype);
    return part;
}

/* ---- the tree above the leaves: equal subtrees merge, as a binary counter carries ---- */

typedef struct reduce_counter {
    uint64_t pushed;
    size_t room; /* bytes of a node */
    char *nodes; /* level j: a row of full subtrees of 2^j pushes, if bit j is set */
} reduce_counter;

static char *node_at(const reduce_counter *c, int level)
{
    return c->nodes + (size_t)level * c->room;
}

/* Adds a row. It may be the node of level 0 itself while that is free: before every other push.
 */
static void push(const reduce_fold *fold, reduce_counter *c, void *row, int64_t n)
{
    char *carry = row;
    int level = 0;
    for (uint64_t bits = c->pushed++; bits & 1; bits >>= 1, level++) {
        fold->merge(node_at(c, level), carry, n);
        carry = node_at(c, level);
    }
    if (carry != node_at(c, level)) memcpy(node_at(c, level), carry, (size_t)n * fold->bytes);
}

/* Writes the root. Padding is the identity, so the subtrees fold from the lowest on. Without
 * any push, it is the identity. */
static void root(const reduce_fold *fold, reduce_counter *c, void *to, int64_t n)
{
    char *carry = NULL;
    int level = 0;
    for (uint64_t bits = c->pushed; bits; bits >>= 1, level++) {
        if (!(bits & 1)) continue;
        if (carry) fold->merge(node_at(c, level), carry, n);
        carry = node_at(c, level);
    }
    if (carry) memcpy(to, carry, (size_t)n * fold->bytes);
    else fold->fill(to, n);
}

#endif
