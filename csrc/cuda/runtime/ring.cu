/*
 * ring.cu - the pinned slots through which host arrays travel, one set for the process.
 *
 * Only pinned memory gives the full speed of the bus and asynchronous copies, and pinning a
 * user's array costs more than copying it. A slot has the size of a huge page: what a worker
 * packs into it is still in its cache when the device reads it.
 */
#include <pthread.h>

#include "cuda/runtime/runtime.h"

struct slot {
    char *memory;
    int leased;
    cudaEvent_t busy; /* until it is done the device uses the slot; NULL: none */
};

/* Slots that only callers get. A signal's handler may make a call while it interrupts another
 * call, whose threads may have leased all other slots. */
enum { KEPT = 4 };

static pthread_mutex_t ring_lock = PTHREAD_MUTEX_INITIALIZER;
static slot ring[2][GOP_CUDA_SLOTS];
static int flows; /* under way */

void gop_cuda_part_begin(gop_cuda_part *part)
{
    part->leased[GOP_UPLOAD] = part->leased[GOP_DOWNLOAD] = 0;
    __atomic_add_fetch(&flows, 1, __ATOMIC_RELAXED);
}

void gop_cuda_part_end(void)
{
    __atomic_sub_fetch(&flows, 1, __ATOMIC_RELAXED);
}

/* Slots of a flow, a direction. */
static int most(void)
{
    const int under_way = __atomic_load_n(&flows, __ATOMIC_RELAXED);
    const int each = (GOP_CUDA_SLOTS - KEPT) / (under_way > 0 ? under_way : 1);
    return each > 0 ? each : 1;
}

int gop_cuda_part_exceeded(const gop_cuda_part *part)
{
    const int allowed = most();
    for (const int &leased : part->leased)
        if (__atomic_load_n(&leased, __ATOMIC_RELAXED) > allowed) return 1;
    return 0;
}

/* Slots are made on first use and kept. Pageable memory serves where none can be pinned. */
static gop_status furnish(slot *leased)
{
    if (leased->memory) return GOP_OK;
    void *memory = NULL;
    if (gop_services->fault("cuda.pinned") ||
        cudaHostAlloc(&memory, GOP_CUDA_SLOT_BYTES, cudaHostAllocPortable) != cudaSuccess) {
        cudaGetLastError();
        memory = gop_services->alloc(GOP_CUDA_SLOT_BYTES);
    }
    if (!memory)
        return gop_fail(GOP_NO_MEMORY, "cuda: no host memory for a transfer buffer of %d bytes",
                        (int)GOP_CUDA_SLOT_BYTES);
    leased->memory = (char *)memory;
    return GOP_OK;
}

/* A slot that is not leased, an idle one if there is; or -1. */
static int find_ring(gop_direction direction, int is_caller)
{
    int found = -1;
    for (int s = is_caller ? 0 : KEPT; s < GOP_CUDA_SLOTS; s++) {
        slot *candidate = &ring[direction][s];
        if (candidate->leased) continue;
        found = s;
        /* A failed copy counts as done: its own caller reports it. */
        if (!candidate->busy || cudaEventQuery(candidate->busy) != cudaErrorNotReady) break;
    }
    cudaGetLastError();
    return found;
}

gop_status gop_cuda_lease(gop_cuda_part *part, gop_direction direction, int is_caller,
                          gop_cuda_slot *leased)
{
    gop_cuda_backoff backoff = {0};
    int *const has = &part->leased[direction];
    leased->number = -1;
    while (leased->number < 0) {
        pthread_mutex_lock(&ring_lock);
        const int s = is_caller || *has < most() ? find_ring(direction, is_caller) : -1;
        if (s >= 0) ring[direction][s].leased = 1;
        if (s >= 0) __atomic_add_fetch(has, 1, __ATOMIC_RELAXED);
        pthread_mutex_unlock(&ring_lock);
        leased->number = s;
        if (s < 0 && !is_caller) return GOP_OK;
        if (s < 0) GOP_TRY(gop_cuda_pause(&backoff));
    }
    slot *found = &ring[direction][leased->number];
    const gop_status status = furnish(found);
    leased->memory = found->memory;
    leased->busy = found->busy;
    if (status != GOP_OK) gop_cuda_give_back(part, direction, leased);
    return status;
}

void gop_cuda_give_back(gop_cuda_part *part, gop_direction direction, gop_cuda_slot *leased)
{
    if (leased->number < 0) return;
    slot *owned = &ring[direction][leased->number];
    pthread_mutex_lock(&ring_lock);
    owned->busy = leased->busy;
    owned->leased = 0;
    __atomic_sub_fetch(&part->leased[direction], 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&ring_lock);
    leased->number = -1;
}
