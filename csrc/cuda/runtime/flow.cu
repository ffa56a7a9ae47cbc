/*
 * flow.cu - decides which piece of which array travels next, and when a panel's kernels are
 * launched.
 *
 * Pieces have one size, except in a new array for a result: the system clears its pages at the
 * first touch, which bounds a long call. So those pieces end where huge pages do, and no two
 * threads clear one page.
 */
#include <string.h>

#include "core/counts.h"
#include "cuda/common/item_size.h"
#include "cuda/runtime/flow.h"

enum {
    LEAST_BYTES = 256 << 10, /* of a piece: long enough to pay for waking a thread */
    MANY = 32,               /* pieces that an array is cut into, if they are not less */
    AHEAD = 2,               /* panels that uploads are ahead of downloads */
};

/* ---- sides ---- */

/* Elements of the dense layout: an axis of stride 0 is stored once. */
static int64_t dense_count(const gop_array *host)
{
    int64_t count = 1;
    for (int d = 0; d < host->ndim; d++)
        if (host->shape[d] == 0 || host->strides[d] != 0) count *= host->shape[d];
    return count;
}

/* Whether dense order is the order of addresses without gaps. */
static int is_a_run(const gop_array *host, int64_t count, int64_t item)
{
    int64_t span = item;
    for (int d = 0; d < host->ndim; d++) {
        if (host->strides[d] < 0) return 0;
        span += (host->shape[d] - 1) * host->strides[d];
    }
    return span == count * item;
}

/* How the operand is cut: a new array's pages are huge, and a piece is one of them. */
static void flow_cut(side *s)
{
    const int64_t bytes = s->total * s->item;
    int64_t most = bytes / MANY < LEAST_BYTES ? LEAST_BYTES : bytes / MANY;
    if (s->direction == GOP_DOWNLOAD && bytes >= 2 * GOP_CUDA_SLOT_BYTES)
        most = GOP_CUDA_SLOT_BYTES;
    s->most = s->first = gop_smaller(most, GOP_CUDA_SLOT_BYTES) / s->item;
    s->is_a_run = is_a_run(&s->host, s->total, s->item);
    if (s->direction == GOP_UPLOAD || !s->is_a_run) return;
    const int64_t past = (int64_t)((uintptr_t)s->host.data % (uint64_t)(s->most * s->item));
    s->first = s->most - past / s->item;
}

static int first_operand(const flow *f, const side *s)
{
    return s->direction == GOP_UPLOAD ? 0 : f->panels->nin;
}

static int end_operand(const flow *f, const side *s)
{
    return s->direction == GOP_UPLOAD ? f->panels->nin : f->panels->nin + f->panels->nout;
}

/* Goes on to the next operand that has elements, in this panel or a later one. */
static void settle(flow *f, side *s)
{
    const int end = end_operand(f, s), begin = first_operand(f, s);
    while (s->panel < f->panels->count && s->next == s->total) {
        if (s->operand == end) {
            s->panel++;
            s->operand = begin;
            continue;
        }
        gop_array device;
        f->panels->operand(f->panels, s->panel, s->operand++, &s->host, &device);
        s->device = (char *)device.data;
        s->item = item_size(s->host.dtype);
        s->total = dense_count(&s->host);
        s->next = 0;
        flow_cut(s);
    }
}

/* How far it is, in panels. */
static double progress(const flow *f, const side *s)
{
    const int begin = first_operand(f, s), operands = end_operand(f, s) - begin;
    if (s->panel == f->panels->count) return s->panel;
    const double part = (double)s->next / (double)s->total;
    return s->panel + (s->operand - 1 - begin + part) / operands;
}

static void take_from(flow *f, side *s, piece *p)
{
    const int64_t most = s->next == 0 ? s->first : s->most;
    const size_t axes = (size_t)s->host.ndim * sizeof *s->host.shape;
    memcpy(&p->host, &s->host, offsetof(gop_array, shape));
    memcpy(p->host.shape, s->host.shape, axes);
    memcpy(p->host.strides, s->host.strides, axes);
    p->direction = s->direction;
    p->panel = s->panel;
    p->device = s->device + s->next * s->item;
    p->item = s->item;
    p->first = s->next;
    p->is_a_run = s->is_a_run;
    p->count = gop_smaller(most, s->total - s->next);
    s->next += p->count;
    f->under_way[p->direction][p->panel % f->panels->depth]++;
    f->unfinished++;
    settle(f, s);
}

/* The next piece, with the lock held: an upload as long as uploads are not far ahead. */
turn gop_flow_take(flow *f, piece *p)
{
    side *up = &f->sides[GOP_UPLOAD], *down = &f->sides[GOP_DOWNLOAD];
    const int count = f->panels->count;
    if (f->stop) return DONE;
    if (up->panel == count && down->panel == count) return f->unfinished > 0 ? ENDING : DONE;
    const int can_send = up->panel < count && up->panel < f->launched + f->panels->depth;
    const int can_fetch = down->panel < f->launched;
    if (!can_send && !can_fetch) return LATER;
    const int far = progress(f, up) >= progress(f, down) + AHEAD;
    take_from(f, can_fetch && (far || !can_send) ? down : up, p);
    return TOOK;
}

/* ---- kernels: each panel's once its uploads are enqueued ---- */

static gop_status after(flow *f, cudaStream_t first, cudaStream_t then)
{
    if (first == then) return GOP_OK;
    GOP_TRY(
        GOP_CUDA("cuda.event", "recording an event", cudaEventRecord(f->t->ordered, first)));
    return gop_cuda_check(cudaStreamWaitEvent(then, f->t->ordered, 0), "ordering streams");
}

static gop_status flow_launch(flow *f, int panel)
{
    const cudaStream_t stream = f->t->stream;
    const int reuses = f->panels->count > f->panels->depth; /* the memory of earlier panels */
    if (!f->panels->launch) return GOP_OK;
    GOP_TRY(after(f, f->up, stream));
    if (reuses) GOP_TRY(after(f, f->down, stream));
    GOP_TRY(f->panels->launch(f->panels, &f->t->base, panel));
    f->last_kernel = gop_cuda_last_kernel;
    if (reuses) GOP_TRY(after(f, stream, f->up));
    return after(f, stream, f->down);
}

void gop_flow_failed(flow *f, gop_status status)
{
    if (status == GOP_OK || f->stop) return;
    f->error = *gop_services->error();
    f->stop = 1;
}

/* Launches all panels that are ready. With the lock held. */
static void launch_ready(flow *f)
{
    const int depth = f->panels->depth;
    while (!f->stop && f->launched < f->sides[GOP_UPLOAD].panel) {
        const int p = f->launched, at = p % depth;
        if (f->under_way[GOP_UPLOAD][at] > 0) return;
        /* Its results go where those of an earlier panel were. */
        if (p >= depth &&
            (f->sides[GOP_DOWNLOAD].panel <= p - depth || f->under_way[GOP_DOWNLOAD][at] > 0))
            return;
        gop_flow_failed(f, flow_launch(f, p));
        f->launched++;
    }
}

void gop_flow_enqueued(flow *f, const piece *p)
{
    f->under_way[p->direction][p->panel % f->panels->depth]--;
    if (p->direction == GOP_UPLOAD) f->unfinished--;
    launch_ready(f);
}

void gop_flow_unpacked(flow *f)
{
    f->unfinished--;
}

void gop_flow_begin(flow *f)
{
    for (int d = 0; d < 2; d++) {
        f->sides[d].direction = (gop_direction)d;
        f->sides[d].operand = first_operand(f, &f->sides[d]);
        settle(f, &f->sides[d]);
    }
    launch_ready(f);
}

int gop_flow_has_more(const flow *f)
{
    const int count = f->panels->count;
    return !f->stop && (f->sides[0].panel < count || f->sides[1].panel < count);
}

int64_t gop_flow_pieces(const flow *f)
{
    int64_t count = 0;
    for (const side &s : f->sides)
        if (s.total > 0) count += (s.total - 1) / s.most + 1;
    return count;
}
