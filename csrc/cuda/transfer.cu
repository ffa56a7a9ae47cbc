/*
 * transfer.cu - between host arrays of any strides and dense device memory, by a pinned ring.
 *
 * The bus runs at full speed, and beside the host, only from pinned memory, and pinning a
 * user's array costs more than copying it. So pieces go through three pinned slots a direction:
 * the host packs one while the device copies another. The ring is one per process; a slot is
 * leased for one piece, so threads share it, and a thread waits for one only while it holds
 * none.
 */
#include <pthread.h>

#include "cuda/runtime.h"

enum {
    SLOT_BYTES = 16 << 20,
    PIECE_BYTES = 256 << 10, /* of one worker's packing: long enough to pay for waking it */
};

struct slot {
    char *memory;
    int leased;
    cudaEvent_t busy; /* until it is done the device still reads the slot; NULL: none */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static slot ring[2][GOP_CUDA_SLOTS];

/* Leases a slot that nobody uses and gives its number, or -1. */
static int try_lease(gop_direction direction)
{
    int found = -1;
    pthread_mutex_lock(&lock);
    for (int s = 0; s < GOP_CUDA_SLOTS && found < 0; s++) {
        slot *candidate = &ring[direction][s];
        if (candidate->leased) continue;
        /* A failed copy counts as done: its own caller reports it. */
        if (candidate->busy && cudaEventQuery(candidate->busy) == cudaErrorNotReady) continue;
        candidate->leased = 1;
        candidate->busy = NULL;
        found = s;
    }
    pthread_mutex_unlock(&lock);
    cudaGetLastError();
    return found;
}

static void give_back(gop_direction direction, int s, cudaEvent_t busy)
{
    pthread_mutex_lock(&lock);
    ring[direction][s].busy = busy;
    ring[direction][s].leased = 0;
    pthread_mutex_unlock(&lock);
}

/* Slots are made on first use and kept. Pageable memory serves where none can be pinned. */
static gop_status furnish(slot *leased)
{
    if (leased->memory) return GOP_OK;
    void *memory = NULL;
    if (gop_lent->fault("cuda.pinned") ||
        cudaHostAlloc(&memory, SLOT_BYTES, cudaHostAllocPortable) != cudaSuccess) {
        cudaGetLastError();
        memory = gop_lent->alloc(SLOT_BYTES);
    }
    if (!memory)
        return gop_fail(GOP_NO_MEMORY, "cuda: no host memory for a transfer buffer of %d bytes",
                        (int)SLOT_BYTES);
    leased->memory = (char *)memory;
    return GOP_OK;
}

/* Waits for a slot if `wait`; else *s may be -1. */
static gop_status lease(gop_direction direction, int wait, int *s)
{
    gop_cuda_patience patience = {0, 0};
    while ((*s = try_lease(direction)) < 0 && wait) GOP_TRY(gop_cuda_pause(&patience));
    if (*s < 0) return GOP_OK;
    const gop_status status = furnish(&ring[direction][*s]);
    if (status != GOP_OK) give_back(direction, *s, NULL);
    return status;
}

/* ---- packing ---- */

struct piece {
    const gop_array *host;
    int64_t first; /* element, in dense order */
    int64_t item;
    char *memory; /* of the slot */
};

static void pack_some(void *argument, int64_t begin, int64_t end, int)
{
    const piece *p = (const piece *)argument;
    gop_lent->pack(p->host, p->first + begin, end - begin, p->memory + begin * p->item);
}

static void unpack_some(void *argument, int64_t begin, int64_t end, int)
{
    const piece *p = (const piece *)argument;
    gop_lent->unpack(p->host, p->first + begin, end - begin, p->memory + begin * p->item);
}

static gop_status spread(piece *p, int64_t count, gop_body body)
{
    const int64_t grain = PIECE_BYTES / p->item;
    if (count > grain) return gop_lent->parallel(count, grain, body, p);
    body(p, 0, count, 0);
    return GOP_OK;
}

static int64_t item_size(gop_dtype dtype)
{
    static const unsigned char size[] = {
#define X(enumerator, word, bytes) bytes,
        GOP_DTYPES(X)
#undef X
    };
    return size[dtype];
}

/* Elements of the dense layout: an axis of stride 0 is stored once. */
static int64_t dense_count(const gop_array *host)
{
    int64_t count = 1;
    for (int d = 0; d < host->ndim; d++)
        if (host->shape[d] == 0 || host->strides[d] != 0) count *= host->shape[d];
    return count;
}

/* ---- the two directions ---- */

static gop_status send(gop_cuda_thread *t, void *to, const gop_array *host)
{
    const int64_t item = item_size(host->dtype), total = dense_count(host);
    const int64_t most = SLOT_BYTES / item;
    for (int64_t first = 0; first < total; first += most) {
        const int64_t count = total - first < most ? total - first : most;
        int s;
        GOP_TRY(gop_lent->interrupted());
        GOP_TRY(lease(GOP_UPLOAD, 1, &s));
        piece p = {host, first, item, ring[GOP_UPLOAD][s].memory};
        const cudaEvent_t done = t->slot_done[GOP_UPLOAD][s];
        gop_status status = spread(&p, count, pack_some);
        if (status == GOP_OK)
            status = GOP_CUDA("cuda.upload", "copying to the device",
                              cudaMemcpyAsync((char *)to + first * item, p.memory,
                                              (size_t)(count * item), cudaMemcpyHostToDevice,
                                              t->cuda.stream));
        if (status == GOP_OK)
            status =
                gop_cuda_check(cudaEventRecord(done, t->cuda.stream), "recording an event");
        /* Where the event failed the copy may still read the slot. */
        if (status != GOP_OK) cudaStreamSynchronize(t->cuda.stream);
        give_back(GOP_UPLOAD, s, status == GOP_OK ? done : NULL);
        GOP_TRY(status);
    }
    return GOP_OK;
}

/* Pieces under way, oldest first; each holds its slot. */
struct flight {
    int count;
    struct {
        int slot;
        int64_t first, count;
    } at[GOP_CUDA_SLOTS];
};

static gop_status depart(gop_cuda_thread *t, const char *from, int64_t item, int64_t first,
                         int64_t count, int s, flight *f)
{
    const gop_status status = GOP_CUDA(
        "cuda.download", "copying from the device",
        cudaMemcpyAsync(ring[GOP_DOWNLOAD][s].memory, from + first * item,
                        (size_t)(count * item), cudaMemcpyDeviceToHost, t->cuda.stream));
    if (status != GOP_OK) {
        give_back(GOP_DOWNLOAD, s, NULL);
        return status;
    }
    f->at[f->count++] = {s, first, count};
    return gop_cuda_check(cudaEventRecord(t->slot_done[GOP_DOWNLOAD][s], t->cuda.stream),
                          "recording an event");
}

/* Waits for the oldest piece and writes it into the host array. */
static gop_status arrive(gop_cuda_thread *t, const gop_array *host, int64_t item, flight *f)
{
    const int s = f->at[0].slot;
    gop_cuda_patience patience = {0, 0};
    cudaError_t code;
    while ((code = cudaEventQuery(t->slot_done[GOP_DOWNLOAD][s])) == cudaErrorNotReady)
        GOP_TRY(gop_cuda_pause(&patience));
    GOP_TRY(gop_cuda_check(code, "running on the device"));
    piece p = {host, f->at[0].first, item, ring[GOP_DOWNLOAD][s].memory};
    GOP_TRY(spread(&p, f->at[0].count, unpack_some));
    give_back(GOP_DOWNLOAD, s, NULL);
    f->count--;
    for (int i = 0; i < f->count; i++) f->at[i] = f->at[i + 1];
    return GOP_OK;
}

static gop_status receive(gop_cuda_thread *t, const gop_array *host, const char *from)
{
    const int64_t item = item_size(host->dtype), total = dense_count(host);
    const int64_t most = SLOT_BYTES / item;
    flight f = {};
    gop_status status = GOP_OK;
    for (int64_t first = 0; status == GOP_OK && (first < total || f.count > 0);) {
        int s = -1;
        if (first < total && f.count < GOP_CUDA_SLOTS)
            status = lease(GOP_DOWNLOAD, f.count == 0, &s);
        if (status != GOP_OK) break;
        if (s < 0) {
            status = arrive(t, host, item, &f);
            continue;
        }
        const int64_t count = total - first < most ? total - first : most;
        status = depart(t, from, item, first, count, s, &f);
        first += count;
    }
    if (f.count > 0) cudaStreamSynchronize(t->cuda.stream); /* no copy may outlive its lease */
    for (int i = 0; i < f.count; i++) give_back(GOP_DOWNLOAD, f.at[i].slot, NULL);
    return status;
}

gop_status gop_cuda_upload(gop_ctx *ctx, const gop_array *device, const gop_array *host)
{
    int previous;
    GOP_TRY(gop_cuda_enter(ctx->device.ordinal, &previous));
    const gop_status status = send(thread_of(ctx), device->data, host);
    gop_cuda_leave(ctx->device.ordinal, previous);
    return status;
}

gop_status gop_cuda_download(gop_ctx *ctx, const gop_array *host, const gop_array *device)
{
    int previous;
    GOP_TRY(gop_cuda_enter(ctx->device.ordinal, &previous));
    const gop_status status = receive(thread_of(ctx), host, (const char *)device->data);
    gop_cuda_leave(ctx->device.ordinal, previous);
    return status;
}
