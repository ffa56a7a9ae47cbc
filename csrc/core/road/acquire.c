/*
 * acquire.c - the third phase of the road: gets all memory of a call before it writes any.
 *
 * On a GPU, allocating and freeing scratch memory costs more than a launch, so a context keeps
 * it for its next call. Work on the stream of device arrays runs in the order of the calls:
 * each may reuse the scratch memory of the one before. One block for each context serves all
 * but the largest calls.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/road/road.h"

/* ---- scratch memory ---- */

enum { CONTEXTS = 64, KEPT_BYTES = 64 << 10 };

/* A context belongs to one thread at a time, and lives as long as the process. */
typedef struct block {
    const gop_ctx *ctx;
    void *memory; /* made at first use */
    int taken;    /* a call uses it; meanwhile a signal's handler may make another call */
} block;

static block blocks[CONTEXTS];
static atomic_int nblocks;
static pthread_mutex_t blocks_lock = PTHREAD_MUTEX_INITIALIZER;

/* GPUOPS_KEEP_SCRATCH=0: every call gets memory of its own, so that tools see where it ends. */
static int wanted(void)
{
    static atomic_int known; /* 0: not yet */
    int is = atomic_load_explicit(&known, memory_order_relaxed);
    if (!is) {
        const char *wish = getenv("GPUOPS_KEEP_SCRATCH");
        is = wish && strcmp(wish, "0") == 0 ? -1 : 1;
        atomic_store_explicit(&known, is, memory_order_relaxed);
    }
    return is > 0;
}

static block *find_block(const gop_ctx *ctx)
{
    const int known = atomic_load_explicit(&nblocks, memory_order_acquire);
    for (int i = 0; i < known; i++)
        if (blocks[i].ctx == ctx) return &blocks[i];
    return NULL;
}

/* Returns NULL if there are too many contexts. */
static block *add_block(const gop_ctx *ctx)
{
    block *added = NULL;
    pthread_mutex_lock(&blocks_lock);
    const int known = atomic_load_explicit(&nblocks, memory_order_relaxed);
    if (known < CONTEXTS) {
        added = &blocks[known];
        added->ctx = ctx;
        atomic_store_explicit(&nblocks, known + 1, memory_order_release);
    }
    pthread_mutex_unlock(&blocks_lock);
    return added;
}

/* `in_order`: its work runs in order with that of all calls whose scratch memory is kept. */
static gop_status take_scratch(gop_ctx *ctx, size_t bytes, int in_order, void **memory)
{
    const gop_backend *backend = ctx->backend;
    block *kept = NULL;
    if (in_order && bytes <= KEPT_BYTES && wanted() && !(kept = find_block(ctx)))
        kept = add_block(ctx);
    if (!kept || kept->taken) return backend->alloc(ctx, bytes, memory);
    if (!kept->memory) GOP_TRY(backend->alloc(ctx, KEPT_BYTES, &kept->memory));
    kept->taken = 1;
    *memory = kept->memory;
    return GOP_OK;
}

void gop_scratch_give(gop_ctx *ctx, void *memory)
{
    block *kept = find_block(ctx);
    if (kept && kept->memory == memory) kept->taken = 0;
    else ctx->backend->release(ctx, memory);
}

gop_status gop_acquire_scratch(gop_ctx *ctx, gop_task *task, const gop_row **row,
                               gop_plan *plan, int in_order, int may_change)
{
    task->scratch = NULL;
    for (;;) {
        /* A call without results runs no kernel. */
        if (plan->scratch == 0 || gop_array_size(&task->out[0]) == 0) return GOP_OK;
        const gop_status status = take_scratch(ctx, plan->scratch, in_order, &task->scratch);
        if (!gop_lacks_memory(status) || !may_change) return status;
        if (gop_choose_before(ctx, task, row, plan) != GOP_OK) return status;
    }
}

/* ---- all memory ---- */

/* Up to this size, a kernel that reads over the bus is faster than copies. */
enum { LENT_BYTES = 128 << 10 };

gop_status gop_acquire_operand(gop_ctx *ctx, int small, gop_array *array, gop_staged *staged)
{
    const gop_backend *backend = ctx->backend;
    if (!staged->source) return GOP_OK;
    if (small && backend->zero_copy && staged->bytes <= LENT_BYTES &&
        gop_array_on_host(staged->source))
        staged->memory = backend->zero_copy(ctx, staged->bytes);
    staged->zero_copy = staged->memory != NULL;
    if (!staged->zero_copy)
        GOP_TRY(backend->alloc(ctx, staged->bytes ? staged->bytes : 1, &staged->memory));
    array->data = staged->memory;
    return GOP_OK;
}

static gop_status acquire_each(gop_road *r, int named, int timing)
{
    const int small = r->staged && r->op->once && r->row->role == GOP_CONFORMING && !timing &&
                      gop_road_waits(r);
    for (int o = 0; r->staged && o < r->task.nout; o++)
        GOP_TRY(gop_acquire_operand(r->ctx, small, &r->task.out[o], &r->out[o]));
    for (int i = 0; r->staged && i < r->task.nin; i++)
        GOP_TRY(gop_acquire_operand(r->ctx, small, &r->task.in[i], &r->in[i]));
    if (r->task.finding < 0) GOP_TRY(r->op->begin(r->ctx, &r->task, &r->findings));
    const int may_change =
        !named && !r->findings && !(r->op->bits_vary && r->op->bits_vary(&r->task));
    return gop_acquire_scratch(r->ctx, &r->task, &r->row, &r->plan, r->in_order, may_change);
}

gop_status gop_acquire(gop_road *r, int named, int timing)
{
    return gop_named(gop_call_name(r->call), acquire_each(r, named, timing));
}

static void give_back_operands(gop_ctx *ctx, gop_staged *staged, int count)
{
    for (int k = 0; k < count; k++)
        if (staged[k].memory) ctx->backend->release(ctx, staged[k].memory);
}

void gop_give_back(gop_road *r)
{
    if (r->staged) give_back_operands(r->ctx, r->in, r->task.nin);
    if (r->staged) give_back_operands(r->ctx, r->out, r->task.nout);
    if (r->findings) r->ctx->backend->release(r->ctx, r->findings);
    if (r->task.scratch) gop_scratch_give(r->ctx, r->task.scratch);
}
