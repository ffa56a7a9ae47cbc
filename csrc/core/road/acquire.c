/*
 * acquire.c - the third phase of the road: gets all memory of a call before it writes any.
 */
#include "core/road/road.h"

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

gop_status gop_acquire_scratch(gop_ctx *ctx, gop_task *task, const gop_row **row,
                               gop_plan *plan, int in_order, int may_change)
{
    task->scratch = NULL;
    for (;;) {
        /* A call without results runs no kernel. */
        if (plan->scratch == 0 || gop_array_size(&task->out[0]) == 0) return GOP_OK;
        const gop_status status =
            gop_scratch_take(ctx, plan->scratch, in_order, &task->scratch);
        if (!gop_lacks_memory(status) || !may_change) return status;
        if (gop_choose_before(ctx, task, row, plan) != GOP_OK) return status;
    }
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
