/*
 * transfer.cu - copies between host arrays of any strides and dense device memory.
 *
 * Arrays travel in pieces through the slots of the ring. Threads of the pool take pieces: they
 * pack one and have it copied, or have one copied and unpack it. None waits for a whole array,
 * so packing, both directions of the bus and, if a call comes in panels, its kernels overlap.
 */
#include <sys/mman.h>

#include "cuda/runtime/flow.h"

enum {
    WORKERS = GOP_CUDA_SLOTS, /* more would have no slots */
    EACH = 2,                 /* slots of a worker per direction: one fills, one is copied */
};

/* ---- workers ---- */

struct worker {
    flow *f;
    gop_cuda_slot slots[2][EACH];
    int turn[2]; /* the slot to use next, per direction */
    int pending; /* downloads enqueued: pieces[0] first, in slots[.][at[0]] */
    piece pieces[EACH];
    int at[EACH];
};

static cudaEvent_t done_event(const worker *w, gop_direction direction, int at)
{
    return w->f->t->slot_done[direction][w->slots[direction][at].number];
}

static gop_status wait_for_slot(gop_cuda_slot *slot)
{
    gop_cuda_backoff backoff = {0};
    cudaError_t code = cudaSuccess;
    while (slot->busy && (code = cudaEventQuery(slot->busy)) == cudaErrorNotReady)
        GOP_TRY(gop_cuda_pause(&backoff));
    slot->busy = NULL;
    return gop_cuda_check(code, "running on the device");
}

/* Chooses the next of the worker's slots. It leases one more if one is free. */
static gop_status choose_slot(worker *w, gop_direction direction, int *at)
{
    gop_cuda_slot *slots = w->slots[direction];
    *at = w->turn[direction];
    if (slots[*at].number < 0) GOP_TRY(gop_cuda_lease(&w->f->part, direction, 0, &slots[*at]));
    if (slots[*at].number < 0) *at = 0;
    w->turn[direction] = (*at + 1) % EACH;
    return GOP_OK;
}

static gop_status enqueue_piece(worker *w, const piece *p, int at)
{
    flow *f = w->f;
    gop_cuda_slot *slot = &w->slots[p->direction][at];
    const size_t bytes = (size_t)(p->count * p->item);
    const int up = p->direction == GOP_UPLOAD;
    const cudaStream_t stream = up ? f->up : f->down;
    if (up)
        GOP_TRY(GOP_CUDA(
            "cuda.upload", "copying to the device",
            cudaMemcpyAsync(p->device, slot->memory, bytes, cudaMemcpyHostToDevice, stream)));
    else
        GOP_TRY(GOP_CUDA(
            "cuda.download", "copying from the device",
            cudaMemcpyAsync(slot->memory, p->device, bytes, cudaMemcpyDeviceToHost, stream)));
    slot->busy = done_event(w, p->direction, at);
    GOP_TRY(gop_cuda_check(cudaEventRecord(slot->busy, stream), "recording an event"));
    pthread_mutex_lock(&f->lock);
    gop_flow_enqueued(f, p);
    pthread_mutex_unlock(&f->lock);
    return GOP_OK;
}

static gop_status send(worker *w, const piece *p)
{
    int at;
    GOP_TRY(choose_slot(w, GOP_UPLOAD, &at));
    gop_cuda_slot *slot = &w->slots[GOP_UPLOAD][at];
    GOP_TRY(wait_for_slot(slot));
    gop_services->pack(&p->host, p->first, p->count, slot->memory);
    return enqueue_piece(w, p, at);
}

/* Waits for the oldest download and writes it into the host array. */
static gop_status finish_piece(worker *w)
{
    const piece *p = &w->pieces[0];
    gop_cuda_slot *slot = &w->slots[GOP_DOWNLOAD][w->at[0]];
    GOP_TRY(wait_for_slot(slot));
    gop_services->unpack(&p->host, p->first, p->count, slot->memory);
    pthread_mutex_lock(&w->f->lock);
    gop_flow_unpacked(w->f);
    pthread_mutex_unlock(&w->f->lock);
    w->pending--;
    for (int i = 0; i < w->pending; i++) {
        w->pieces[i] = w->pieces[i + 1];
        w->at[i] = w->at[i + 1];
    }
    return GOP_OK;
}

static int is_pending(const worker *w, int at)
{
    for (int i = 0; i < w->pending; i++)
        if (w->at[i] == at) return 1;
    return 0;
}

/* Has the kernel allocate the pages of a new result while the piece is on the bus, not when it
 * is unpacked. It is a hint: Linux before 5.14 does not know it. */
static void make_pages(const piece *p)
{
#ifdef MADV_POPULATE_WRITE
    if (!p->is_a_run) return;
    const uintptr_t page = 4096, first = (uintptr_t)p->host.data + p->first * p->item;
    const uintptr_t begin = (first + page - 1) / page * page;
    const uintptr_t end = (first + p->count * p->item) / page * page;
    if (begin < end) madvise((void *)begin, end - begin, MADV_POPULATE_WRITE);
#endif
}

static gop_status fetch_piece(worker *w, const piece *p)
{
    int at;
    GOP_TRY(choose_slot(w, GOP_DOWNLOAD, &at));
    while (is_pending(w, at)) GOP_TRY(finish_piece(w));
    GOP_TRY(wait_for_slot(&w->slots[GOP_DOWNLOAD][at])); /* its last owner's copy */
    GOP_TRY(enqueue_piece(w, p, at));
    make_pages(p);
    w->at[w->pending] = at;
    w->pieces[w->pending++] = *p;
    return GOP_OK;
}

/* Does what can be done next. Returns 0 if nothing is left, or on failure. The calling thread
 * stays to the end: if it waited elsewhere, it would not handle signals. */
static int move_next(worker *w, int is_caller, gop_cuda_backoff *backoff, gop_status *status)
{
    piece p;
    pthread_mutex_lock(&w->f->lock);
    const turn found = gop_flow_take(w->f, &p);
    pthread_mutex_unlock(&w->f->lock);
    if (found == TOOK) {
        *backoff = {0};
        *status = p.direction == GOP_UPLOAD ? send(w, &p) : fetch_piece(w, &p);
    } else if (w->pending > 0) {
        *status = finish_piece(w);
    } else if (found == LATER || (found == ENDING && is_caller)) {
        *status = gop_cuda_pause(backoff);
    } else {
        return 0;
    }
    if (*status == GOP_OK && is_caller) *status = gop_services->interrupted();
    return *status == GOP_OK;
}

/* A forked child must not wait for another thread's lock, nor for a device. */
static void fail(flow *f, gop_status status)
{
    const int is_forked = gop_cuda_in_forked_child();
    if (!is_forked) pthread_mutex_lock(&f->lock);
    gop_flow_failed(f, status);
    const int stopped = f->stop;
    if (!is_forked) pthread_mutex_unlock(&f->lock);
    if (!stopped || is_forked) return;
    cudaStreamSynchronize(f->up); /* no copy may outlive the lease of its slot */
    cudaStreamSynchronize(f->down);
}

static void give_back_all(worker *w)
{
    if (gop_cuda_in_forked_child()) return;
    for (int d = 0; d < 2; d++)
        for (int i = 0; i < EACH; i++)
            gop_cuda_give_back(&w->f->part, (gop_direction)d, &w->slots[d][i]);
}

static int has_more(flow *f)
{
    pthread_mutex_lock(&f->lock);
    const int more = gop_flow_has_more(f);
    pthread_mutex_unlock(&f->lock);
    return more;
}

/* Leases a slot for each direction that the call has. It waits until there are any, or until
 * the worker is not needed: then *equipped is 0. */
static gop_status equip(worker *w, int is_caller, int *equipped)
{
    const gop_panels *panels = w->f->panels;
    const int needed[2] = {panels->nin > 0, panels->nout > 0};
    gop_cuda_backoff backoff = {0};
    for (*equipped = 0;;) {
        int missing = 0;
        for (int d = 0; d < 2 && !missing; d++) {
            if (!needed[d]) continue;
            gop_cuda_slot *slot = &w->slots[d][0];
            GOP_TRY(gop_cuda_lease(&w->f->part, (gop_direction)d, is_caller, slot));
            missing = slot->number < 0;
        }
        *equipped = !missing;
        if (*equipped) return GOP_OK;
        give_back_all(w);
        if (gop_services->wanted_elsewhere() || !has_more(w->f)) return GOP_OK;
        GOP_TRY(gop_cuda_pause(&backoff));
    }
}

/* Takes pieces until none is left, or until other flows or calls need this thread or its slots
 * more: then *leaves is 1. */
static gop_status take_pieces(worker *w, int is_caller, int *leaves)
{
    gop_cuda_backoff backoff = {0};
    gop_status status = GOP_OK;
    int equipped;
    GOP_TRY(equip(w, is_caller, &equipped));
    *leaves = !equipped;
    while (!*leaves && move_next(w, is_caller, &backoff, &status))
        *leaves = !is_caller &&
                  (gop_services->wanted_elsewhere() || gop_cuda_part_exceeded(&w->f->part));
    while (status == GOP_OK && w->pending > 0) status = finish_piece(w);
    return status;
}

/* A worker's body. Returns 0 if nothing is left for others to take. */
static int move_pieces(void *argument, int number)
{
    worker w;
    flow *f = w.f = (flow *)argument;
    int leaves = 0;
    w.pending = w.turn[0] = w.turn[1] = 0;
    for (int d = 0; d < 2; d++)
        for (int i = 0; i < EACH; i++) w.slots[d][i].number = -1;
    const gop_cuda_current current(f->t->base.device.ordinal);
    gop_status status = current.status;
    if (status == GOP_OK) status = take_pieces(&w, number == 0, &leaves);
    fail(f, status);
    give_back_all(&w);
    return leaves && has_more(f);
}

/* ---- all pieces of a call ---- */

static gop_status move_panels(gop_cuda_thread *t, const gop_panels *panels, cudaStream_t up,
                              cudaStream_t down)
{
    flow f = {};
    f.t = t;
    f.panels = panels;
    f.up = up;
    f.down = down;
    pthread_mutex_init(&f.lock, NULL);
    gop_cuda_part_begin(&f.part);
    gop_flow_begin(&f);
    const int64_t pieces = gop_flow_pieces(&f);
    const int workers = panels->count > 1 || pieces > WORKERS ? WORKERS : (int)pieces;
    gop_status status = GOP_OK;
    if (workers > 1) status = gop_services->crew(workers, move_pieces, &f);
    else move_pieces(&f, 0);
    gop_cuda_part_end();
    pthread_mutex_destroy(&f.lock);
    if (f.last_kernel) gop_cuda_last_kernel = f.last_kernel;
    if (!f.stop) return status;
    *gop_services->error() = f.error;
    return f.error.code;
}

/* A copy of one array in one direction, in stream order with the context's other work. */
struct one_way {
    gop_panels panels;
    const gop_array *host, *device;
};

static void only_operand(const gop_panels *panels, int, int, gop_array *host, gop_array *device)
{
    const one_way *way = (const one_way *)panels;
    *host = *way->host;
    device->data = way->device->data;
}

static gop_status move_array(gop_ctx *ctx, const gop_array *device, const gop_array *host,
                             int nin)
{
    gop_cuda_thread *t = thread_of(ctx);
    const one_way way = {{1, nin, 1 - nin, 1, only_operand, NULL}, host, device};
    const gop_cuda_current current(ctx->device.ordinal);
    GOP_TRY(current.status);
    return move_panels(t, &way.panels, t->stream, t->stream);
}

gop_status gop_cuda_upload(gop_ctx *ctx, const gop_array *device, const gop_array *host)
{
    return move_array(ctx, device, host, 1);
}

gop_status gop_cuda_download(gop_ctx *ctx, const gop_array *host, const gop_array *device)
{
    return move_array(ctx, device, host, 0);
}

/* ---- panels: both directions at once, on streams of their own ---- */

static gop_status open_streams(gop_cuda_thread *t)
{
    cudaStream_t *const streams[] = {&t->up, &t->down};
    for (cudaStream_t *stream : streams)
        if (!*stream)
            GOP_TRY(GOP_CUDA("cuda.context", "making a stream",
                             cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking)));
    return GOP_OK;
}

/* All three streams first wait for what the caller's stream has enqueued: kernels, copies, and
 * allocations from the memory pool. */
static gop_status run_panels(gop_cuda_thread *t, gop_cuda_thread *own, const gop_panels *panels)
{
    cudaEvent_t before = own->ordered;
    own->stream = own->own;
    GOP_TRY(open_streams(own));
    GOP_TRY(GOP_CUDA("cuda.event", "recording an event", cudaEventRecord(before, t->stream)));
    const cudaStream_t streams[] = {own->own, own->up, own->down};
    for (const cudaStream_t stream : streams)
        GOP_TRY(gop_cuda_check(cudaStreamWaitEvent(stream, before, 0), "ordering streams"));
    const gop_status status = move_panels(own, panels, own->up, own->down);
    /* After a failure nothing may use the memory any more: it is freed in the order of the
     * caller's stream, which does not wait for this one. */
    if (status != GOP_OK && !gop_cuda_in_forked_child()) cudaStreamSynchronize(own->own);
    return status;
}

/* Threads of the pool launch the kernels. Meanwhile a signal handler of the caller may make
 * calls, which use the thread's context. So the panels borrow a context of their own. */
gop_status gop_cuda_panels(gop_ctx *ctx, const gop_panels *panels)
{
    const int ordinal = ctx->device.ordinal;
    gop_cuda_thread *own = NULL;
    const gop_cuda_current current(ordinal);
    GOP_TRY(current.status);
    GOP_TRY(gop_cuda_borrow(ordinal, &own));
    const gop_status status = run_panels(thread_of(ctx), own, panels);
    gop_cuda_hand_back(own);
    return status;
}
