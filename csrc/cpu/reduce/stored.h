/*
 * stored.h - elements that are stored in another dtype or byte order: they are cast while
 * gathered.
 *
 * The gather of the array's dtype reads them from a buffer in the L1 cache. The code that walks
 * memory knows only the bytes of an element.
 */
#ifndef GOP_CPU_REDUCE_STORED_H
#define GOP_CPU_REDUCE_STORED_H

#include "cpu/reduce/job.h"
#include "cpu/transpose/gather.h"

static void gather_stored(const reduce_job *job, void *to, int64_t n, const void *in,
                          int64_t stride, const int32_t *table, const uint8_t *where,
                          int64_t where_stride)
{
    enum { SOME = 128 };
    const reduce_plan *const p = job->plan;
    const gop_cast *const c = &p->cast;
    const int64_t item = (int64_t)p->item, apart = table ? item : stride * item;
    const int is_last = p->casts_alone && !where;
    if (is_last && !table) {
        c->run(c, to, in, apart, n);
        return;
    }
    _Alignas(16) char line[SOME * 16], cast[SOME * 16];
    for (int64_t i = 0, m; i < n; i += m) {
        char *const made = (char *)to + i * (int64_t)p->fold->bytes;
        const void *x = table ? line : (const char *)in + i * apart;
        m = gop_smaller(n - i, SOME);
        if (table) gather(item, m, 1, line, in, table + i);
        c->run(c, is_last ? made : cast, x, apart, m);
        if (!is_last)
            p->then(job, made, m, cast, 1, NULL, where ? where + i * where_stride : NULL,
                    where_stride);
    }
}

/* Inserts the cast before the gather. `alone`: cast elements need no gather. */
static void cast_first(reduce_plan *plan, const gop_task *task, int alone)
{
    plan->item = (size_t)gop_array_item(&task->in[0]);
    plan->cast = gop_cast_in(task->in[0].stored, task->in[0].dtype);
    plan->in_place = 0;
    plan->direct = NULL;
    plan->casts_alone = alone && task->nin == 1;
    plan->then = plan->gather;
    plan->gather = gather_stored;
}

/* Reads the element at an offset from the run's start, in its dtype. */
static void element_at(const reduce_job *job, const reduce_run *run, int64_t offset, void *to)
{
    const reduce_plan *const p = job->plan;
    const char *const at = run->in + offset * (int64_t)p->item;
    if (p->cast.run) p->cast.run(&p->cast, to, at, 0, 1);
    else memcpy(to, at, p->item);
}

#endif
