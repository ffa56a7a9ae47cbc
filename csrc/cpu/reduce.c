/*
 * reduce.c - the CPU ladder of reduce.
 *
 * Floor: every element is read once. What makes it hard: each output waits for a chain of
 * additions, whose order is fixed. tree/v1 has 128 independent chains, wide enough for any
 * vector unit, and leaves of 2048 elements, which threads can take without touching the order.
 */
#include "cpu/cpu.h"
#include "cpu/reduce.h"
#include "cpu/reduce_folds.h"
#include "cpu/reduce_columns.h"
#include "cpu/reduce_cut.h"
#include "cpu/reduce_rows.h"
#include "cpu/reduce_dtypes.h"
#include "cpu/reduce_finish.h"

#define GOP_TPL "cpu/reduce_tpl.h"
#include "cpu/each_dtype.h"

static const reduce_parts *const parts_of[GOP_NDTYPES] = {
#define X(enumerator, word, bytes) [enumerator] = &parts_##word,
    GOP_DTYPES(X)
#undef X
};

/* ---- which gather, fold and finish make which reduction ---- */

static void assemble(reduce_job *job, const gop_task *task)
{
    const gop_dtype dtype = task->in[0].dtype;
    const reduce_parts *parts = parts_of[dtype];
    const gop_reduce_op op = task->call->params.reduce.op;
    const char kind = gop_dtype_kind(dtype);
    memset(job, 0, sizeof *job);
    job->task = task;
    job->g = &task->geometry.reduction;
    job->item = parts->item;
    switch (op) {
    case GOP_ANY:
    case GOP_ALL:
        job->twist = op == GOP_ANY ? FLIP : 0;
        job->stops = 1;
        job->gather = parts->truth, job->fold = &min_int8, job->finish = finish_truth;
        break;
    case GOP_MIN:
    case GOP_MAX:
    case GOP_ARGMIN:
    case GOP_ARGMAX:
        job->position = op == GOP_ARGMIN || op == GOP_ARGMAX || kind == 'c';
        job->twist =
            (op == GOP_MAX || op == GOP_ARGMAX ? FLIP : 0) | (job->position ? VALUE : 0);
        job->gather = parts->key, job->fold = parts->min;
        job->direct = parts->direct_min;
        job->finish = op == GOP_MIN || op == GOP_MAX ? parts->extreme : finish_position;
        break;
    case GOP_SUMSQ:
        job->gather = parts->square, job->fold = parts->squares;
        job->finish = (job->fold == &sum_float32 ? &parts_float32 : &parts_float64)->total;
        break;
    default:
        job->gather = parts->term, job->fold = op == GOP_PROD ? parts->prod : parts->sum;
        job->direct = op == GOP_PROD ? parts->direct_prod : parts->direct_sum;
        job->finish = parts->total;
        if (op == GOP_MEAN && parts->real) {
            job->gather = parts->real, job->fold = &sum_float64, job->direct = NULL;
            job->finish = parts_float64.total;
        }
    }
    job->fold->fill(job->none, 1);
    /* Elements that are their own accumulators need no gather. */
    const int plain_term = job->gather == parts->term && job->fold->bytes == job->item;
    const int plain_key = job->gather == parts->key && kind == 'i' && !(job->twist & FLIP);
    job->in_place = task->nin == 1 && (plain_term || plain_key);
}

/* ---- nodes, kept in scratch when an output has several ---- */

static char *node_values(const reduce_job *job, int64_t node, int64_t output)
{
    return (char *)job->task->scratch +
           (size_t)(node * job->g->outputs + output) * job->fold->bytes;
}

static int64_t *node_numbers(const reduce_job *job, int64_t node, int64_t output)
{
    if (!job->position) return NULL;
    return (int64_t *)((char *)job->task->scratch +
                       ((size_t)(job->nodes * job->g->outputs) * job->fold->bytes + 15) / 16 *
                           16) +
           node * job->g->outputs + output;
}

/* Of the nodes of every output; nothing where an output is one node. */
static size_t node_bytes(const reduce_job *job)
{
    if (job->nodes == 1) return 0;
    const size_t values = (size_t)(job->nodes * job->g->outputs);
    const size_t bytes =
        values * job->fold->bytes + 16 + (job->position ? values * sizeof(int64_t) : 0);
    return (bytes + LINE - 1) / LINE * LINE;
}

static void prepare(reduce_job *job, const gop_task *task, int columns, int threads)
{
    assemble(job, task);
    cut(job, columns, threads);
    job->buffers = job->span ? threads : 0;
    job->packed = (char *)task->scratch + node_bytes(job);
}

static size_t scratch_bytes(const gop_task *task, int columns, int threads)
{
    reduce_job job;
    if (task->geometry.reduction.outputs == 0) return 0; /* asked before nothing is launched */
    prepare(&job, task, columns, threads);
    return node_bytes(&job) + (size_t)job.buffers * pack_bytes(&job);
}

static size_t scratch_blocked(const gop_ctx *ctx, const gop_task *task)
{
    (void)ctx;
    return scratch_bytes(task, 0, 1);
}

static size_t scratch_simd(const gop_ctx *ctx, const gop_task *task)
{
    (void)ctx;
    return scratch_bytes(task, 1, 1);
}

static size_t scratch_threaded(const gop_ctx *ctx, const gop_task *task)
{
    return scratch_bytes(task, 1, ctx->info.processors);
}

/* ---- the two phases: nodes, then what they fold to ---- */

static void fold_nodes(void *argument, int64_t begin, int64_t end, int worker)
{
    const reduce_job *job = argument;
    const int64_t leaves = leaves_of(job->g);
    for (int64_t i = begin; i < end; i++) {
        _Alignas(64) char value[WIDE_BYTES];
        int64_t number[ROW_ITEMS];
        const reduce_run run = run_of(job, i / job->nodes);
        const int64_t node = i % job->nodes;
        const int64_t first = node << job->node_leaves;
        const int64_t after = (node + 1) << job->node_leaves;
        const int64_t last = after < leaves ? after : leaves;
        if (job->columns) fold_columns(job, &run, first, last, value, number);
        else fold_rows(job, &run, first, last, worker, value, number);
        if (job->nodes == 1) {
            complete(job, &run, value, number);
            continue;
        }
        memcpy(node_values(job, node, run.first), value, (size_t)run.n * job->fold->bytes);
        if (job->position)
            memcpy(node_numbers(job, node, run.first), number, (size_t)run.n * sizeof *number);
    }
}

static void fold_run(const reduce_job *job, const reduce_run *run)
{
    const reduce_fold *fold = job->fold;
    _Alignas(64) char node[56][ROW_BYTES], value[ROW_BYTES];
    int64_t number[ROW_ITEMS];
    reduce_counter counter = {0, ROW_BYTES, node[0]};
    for (int64_t j = 0; j < job->nodes; j++) {
        char *from = node_values(job, j, run->first);
        const int64_t *at = node_numbers(job, j, run->first);
        if (!job->position) push(fold, &counter, from, run->n);
        else if (j > 0) fold->better(value, number, from, at, 0, run->n);
        else {
            memcpy(value, from, (size_t)run->n * fold->bytes);
            memcpy(number, at, (size_t)run->n * sizeof *number);
        }
    }
    if (!job->position) root(fold, &counter, value, run->n);
    complete(job, run, value, number);
}

static void fold_roots(void *argument, int64_t begin, int64_t end, int worker)
{
    const reduce_job *job = argument;
    const int64_t piece = smaller(ROW_BYTES / (int64_t)job->fold->bytes, ROW_ITEMS);
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        const reduce_run run = run_of(job, i);
        for (int64_t first = 0; first < run.n; first += piece) {
            const reduce_run part = part_of(job, &run, first, piece);
            fold_run(job, &part);
        }
    }
}

/* The calling thread alone, listening for Ctrl-C between pieces. */
static gop_status one_by_one(int64_t items, int64_t grain, gop_body body, void *argument)
{
    for (int64_t i = 0; i < items; i += grain) {
        body(argument, i, items - i < grain ? items : i + grain, 0);
        GOP_TRY(gop_interrupted());
    }
    return GOP_OK;
}

static gop_status run_job(reduce_job *job,
                          gop_status (*each)(int64_t, int64_t, gop_body, void *))
{
    const int64_t whole = LEAF << job->node_leaves;
    const int64_t work = job->width * (job->g->count < whole ? job->g->count : whole);
    GOP_TRY(each(job->runs * job->nodes, PIECE / (work + 1) + 1, fold_nodes, job));
    if (job->nodes == 1) return GOP_OK;
    const int64_t nodes = job->width * job->nodes;
    return each(job->runs, PIECE / (nodes + 1) + 1, fold_roots, job);
}

/* ---- naive: one output at a time, one element at a time, the tree as it is defined ---- */

static gop_status reduce_naive(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    reduce_job job;
    (void)ctx, (void)step;
    assemble(&job, task);
    job.in_place = 0;
    job.direct = NULL;
    for (int64_t o = 0; o < job.g->outputs; o++) {
        const reduce_run run = run_at(&job, o, 1);
        _Alignas(16) char lane[LANES][16], value[16], x[16];
        _Alignas(64) char node[56][ROW_BYTES];
        int64_t number = 0;
        reduce_counter counter = {0, ROW_BYTES, node[0]};
        job.fold->fill(value, 1);
        for (int64_t k = 0; k < job.g->count; k++) {
            row_of(&job, &run, k, x);
            if (job.position) {
                if (k == 0) memcpy(value, x, job.fold->bytes);
                job.fold->better(value, &number, x, NULL, k, 1);
                continue;
            }
            if (k % LEAF == 0)
                for (int l = 0; l < LANES; l++) job.fold->fill(lane[l], 1);
            job.fold->merge(lane[k % LANES], x, 1);
            if ((k + 1) % LEAF != 0 && k + 1 != job.g->count) continue;
            for (int d = LANES / 2; d > 0; d /= 2)
                for (int l = 0; l < d; l++) job.fold->merge(lane[l], lane[l + d], 1);
            push(job.fold, &counter, lane[0], 1);
            GOP_TRY(gop_interrupted());
        }
        if (!job.position) root(job.fold, &counter, value, 1);
        complete(&job, &run, value, &number);
    }
    return gop_interrupted();
}

/* ---- blocked: a leaf at a time, in a buffer that the first-level cache holds ---- */

static gop_status reduce_blocked(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    reduce_job job;
    (void)ctx, (void)step;
    prepare(&job, task, 0, 1);
    job.plain = 1;
    return run_job(&job, one_by_one);
}

/* ---- simd: the 128 lanes lie side by side in vectors, or whole outputs do ---- */

static gop_status reduce_simd(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    reduce_job job;
    (void)ctx, (void)step;
    prepare(&job, task, 1, 1);
    return run_job(&job, one_by_one);
}

/* ---- threaded: nodes and runs go to whichever thread is free ---- */

static gop_status reduce_threaded(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    reduce_job job;
    (void)step;
    prepare(&job, task, 1, ctx->info.processors);
    return run_job(&job, gop_parallel);
}

/* ---- the table ---- */

#define EVERY_DTYPE(f)                                                                         \
    {                                                                                          \
        f, f, f, f, f, f, f, f, f, f, f, f, f, f, f                                            \
    }

static const gop_row rows[] = {
    {.name = "naive",
     .note = "one element at a time: each addition waits for the one before it in its lane",
     .role = GOP_CONFORMING,
     .launch = EVERY_DTYPE(reduce_naive)},
    {.name = "blocked",
     .note =
         "leaf after leaf, gathered line by line: no division tells where an element is, and "
         "elements that lie across memory are turned into order first",
     .role = GOP_CONFORMING,
     .launch = EVERY_DTYPE(reduce_blocked),
     .scratch = scratch_blocked},
    {.name = "simd",
     .note = "128 lanes side by side: a vector register holds 4 to 64 of them, and several "
             "registers hide the adder's latency",
     .role = GOP_CONFORMING,
     .launch = EVERY_DTYPE(reduce_simd),
     .scratch = scratch_simd},
    {.name = "threaded",
     .note = "whole subtrees to every core: one core cannot fill the memory bus",
     .role = GOP_CONFORMING,
     .launch = EVERY_DTYPE(reduce_threaded),
     .scratch = scratch_threaded},
};

const gop_ladder GOP_LADDER(reduce) = {sizeof rows / sizeof *rows, rows};
