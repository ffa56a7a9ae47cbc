/*
 * slots.h - a queue of work items for slots. Each thread has a slot with its own counters, so
 * that no increment waits for another core. The counters are added at the end; they are
 * integers, so the order does not matter.
 */
#ifndef GOP_CPU_RDF_SLOTS_H
#define GOP_CPU_RDF_SLOTS_H

#include <stdatomic.h>

#include "cpu/rdf/chunks.h"

/* The layout of the counters in scratch. */
typedef struct slots {
    size_t histograms;           /* byte offset */
    int64_t copy, copies, count; /* counters of a copy, copies of a slot, slots */
} slots;

static size_t room_for(size_t *end, size_t bytes)
{
    const size_t at = *end;
    *end = (at + bytes + 63) / 64 * 64;
    return at;
}

static slots plan_histograms(const gop_task *task, int64_t count, size_t *end)
{
    slots s = {.count = count};
    s.copy = task->out[0].shape[0] * (task->geometry.pairs.bins + 1); /* one more for no bin */
    s.copies = s.copy <= 1 << 14 ? 4 : 1;
    s.histograms = room_for(end, (size_t)(count * s.copies * s.copy) * sizeof(int64_t));
    return s;
}

static bin_search search_of(const gop_task *task, const slots *at)
{
    const gop_pairs *p = &task->geometry.pairs;
    const bin_search search = {.thresholds = task->in[1].data,
                               .guess = {.scale = (float)p->guess_scale,
                                         .shift = (float)(-p->guess_origin * p->guess_scale),
                                         .slack = (float)p->guess_slack,
                                         .bins = (int32_t)p->bins},
                               .uniform = p->uniform,
                               .types = p->types,
                               .copy_mask = (int)at->copies - 1,
                               .copy = at->copy};
    return search;
}

/* Counts an item's pairs into the histogram of a slot. */
typedef void (*count_item)(const void *work, int64_t item, int64_t slot, int64_t *histogram);

typedef struct queue {
    const gop_task *task;
    const slots *at;
    count_item count;
    const void *work;
    int64_t items;
    _Atomic int64_t next;
    atomic_int status; /* of the calling thread, the only one to check for Ctrl-C */
} queue;

static void take_items(void *argument, int64_t begin, int64_t end, int worker)
{
    queue *q = argument;
    const size_t size = (size_t)(q->at->copies * q->at->copy);
    for (int64_t slot = begin; slot < end; slot++) {
        int64_t *histogram =
            (int64_t *)((char *)q->task->scratch + q->at->histograms) + slot * (int64_t)size;
        memset(histogram, 0, size * sizeof *histogram);
        while (atomic_load_explicit(&q->status, memory_order_relaxed) == GOP_OK) {
            const int64_t item = atomic_fetch_add(&q->next, 1);
            if (item >= q->items) break;
            q->count(q->work, item, slot, histogram);
            if (worker == 0 && gop_interrupted() != GOP_OK)
                atomic_store(&q->status, GOP_INTERRUPTED);
        }
    }
}

static void add_slots(const gop_task *task, const slots *at)
{
    const int64_t *all = (const int64_t *)((const char *)task->scratch + at->histograms);
    const int64_t bins = task->geometry.pairs.bins;
    for (int64_t row = 0; row < task->out[0].shape[0]; row++)
        for (int64_t k = 0; k < bins; k++) {
            int64_t sum = 0;
            for (int64_t c = 0; c < at->count * at->copies; c++)
                sum += all[c * at->copy + row * (bins + 1) + k];
            *count_at(task, row, k) = sum;
        }
}

static gop_status count_in_slots(const gop_task *task, const slots *at, count_item count,
                                 const void *work, int64_t items)
{
    queue q = {.task = task, .at = at, .count = count, .work = work, .items = items};
    if (at->count == 1) take_items(&q, 0, 1, 0);
    else GOP_TRY(gop_parallel(at->count, 1, take_items, &q));
    if (atomic_load(&q.status) != GOP_OK) return GOP_INTERRUPTED; /* its error is already set */
    add_slots(task, at);
    return GOP_OK;
}

#endif
