/*
 * vectorized.c - the row of vectorized.cl.
 */
#include "opencl/add/operands.h"

typedef struct vectorized {
    char options[GOP_CL_OPTIONS];
    int items; /* of a vector */
    int group;
} vectorized;

static gop_status add_vectorized(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const vectorized *const own = GOP_OWN(const vectorized, task->plan);
    const int64_t size = task->geometry.elementwise.size;
    gop_cl_launch launch = {
        .source = "add/vectorized",
        .kernel = "add_vectorized_kernel",
        .options = own->options,
        .values = 1,
        .value = {{sizeof size, &size}},
        .dimensions = 1,
        .global = {(size_t)((size + own->items - 1) / own->items)},
        .local = {(size_t)own->group},
    };
    (void)step;
    gop_cl_add_operands(task, &launch);
    return gop_cl_run(ctx, &launch);
}

/* Whether vectors of so many bytes may be read where each operand begins. */
static int are_aligned(const gop_task *task, int64_t bytes)
{
    uintptr_t bits = (uintptr_t)task->out[0].data;
    for (int i = 0; i < task->nin; i++) bits |= (uintptr_t)task->in[i].data;
    return bits % (uintptr_t)bytes == 0;
}

static gop_status add_vectorized_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    vectorized *const own = GOP_OWN(vectorized, plan);
    const gop_elementwise *e = &task->geometry.elementwise;
    const gop_dtype dtype = task->in[0].dtype;
    const int is_complex = dtype == GOP_COMPLEX64 || dtype == GOP_COMPLEX128;
    GOP_TRY(gop_cl_add_can(ctx, task));
    int is_plain = e->rank == 1;
    for (int o = 0; o < e->operands; o++) is_plain &= e->stride[o][0] == 1;
    if (!is_plain)
        return gop_fail(GOP_REFUSED,
                        "%s: kernel 'vectorized' takes arrays that lie in memory alike without "
                        "gaps, expected no broadcast and no strides",
                        gop_cl_add_name(task));
    const int64_t item = gop_cl_item(dtype), most = is_complex ? 8 : 16; /* of 16 lanes */
    int64_t items = task->tune[0] / item;
    if (items < 1) items = 1;
    if (items > most) items = most;
    own->items = (int)items;
    const int64_t bytes = items * item;
    gop_cl_add_options(task, own->items, are_aligned(task, bytes) ? " -DALIGNED" : "",
                       own->options);
    own->group = gop_cl_group(ctx, (int)task->tune[1]);
    plan->launch = add_vectorized;
    return GOP_OK;
}

ADD_ROWS(vectorized,
         .note = "a vector of 16 bytes a work-item, as float4: one access of memory where "
                 "scalars make several; of 64 bytes, as float16, on a CPU",
         .lecture = "opencl", .tunables = {{"bytes", 4, {16, 64, 32, 8}}, GOP_CL_GROUP},
         .plan = add_vectorized_plan);
