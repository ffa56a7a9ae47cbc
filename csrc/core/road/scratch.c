/*
 * scratch.c - scratch memory of a call, which its context keeps for the next one.
 *
 * On a GPU, allocating and freeing memory costs more than a launch. Work on the stream of
 * device arrays runs in the order of the calls, so each may reuse the scratch memory of the one
 * before. One block for each context serves all but the largest calls.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/road/road.h"

enum { CONTEXTS = 64, BYTES = 64 << 10 };

/* A context belongs to one thread at a time, and lives as long as the process. */
typedef struct block {
    const gop_ctx *ctx;
    void *memory; /* made at first use */
    int taken;    /* a call uses it; meanwhile a signal's handler may make another call */
} block;

static block blocks[CONTEXTS];
static atomic_int count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

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
    const int known = atomic_load_explicit(&count, memory_order_acquire);
    for (int i = 0; i < known; i++)
        if (blocks[i].ctx == ctx) return &blocks[i];
    return NULL;
}

/* Returns NULL if there are too many contexts. */
static block *add_block(const gop_ctx *ctx)
{
    block *added = NULL;
    pthread_mutex_lock(&lock);
    const int known = atomic_load_explicit(&count, memory_order_relaxed);
    if (known < CONTEXTS) {
        added = &blocks[known];
        added->ctx = ctx;
        atomic_store_explicit(&count, known + 1, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
    return added;
}

gop_status gop_scratch_take(gop_ctx *ctx, size_t bytes, int in_order, void **memory)
{
    const gop_backend *backend = ctx->backend;
    block *kept = NULL;
    if (in_order && bytes <= BYTES && wanted() && !(kept = find_block(ctx)))
        kept = add_block(ctx);
    if (!kept || kept->taken) return backend->alloc(ctx, bytes, memory);
    if (!kept->memory) GOP_TRY(backend->alloc(ctx, BYTES, &kept->memory));
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
