/*
 * dummy_backend.c - the smallest backend: one device with memory of its own, a kernel of add,
 * and two of matmul that say that they differ in precision.
 *
 * test_backends.py builds it beside a copy of the package, which then knows it. INTERFACE is
 * the version of core's tables that it was built for.
 */
#include <stdio.h>
#include <string.h>

#include "core/choice.h"

#ifndef ROLE
#define ROLE GOP_CONFORMING
#endif
#ifndef INTERFACE
#define INTERFACE GOP_ABI
#endif

static const gop_host *host;
extern const gop_backend dummy;

static gop_status count(int *devices)
{
    *devices = 1;
    return GOP_OK;
}

static gop_status info(int ordinal, gop_device_info *facts)
{
    (void)ordinal;
    memset(facts, 0, sizeof *facts);
    snprintf(facts->name, sizeof facts->name, "Dummy");
    facts->processors = 1;
    return GOP_OK;
}

static gop_status context(int ordinal, gop_ctx **ctx)
{
    static _Thread_local gop_ctx mine;
    mine.backend = &dummy;
    mine.device = (gop_device){host->id, ordinal};
    *ctx = &mine;
    return info(ordinal, &mine.info);
}

static gop_status alloc(gop_ctx *ctx, size_t bytes, void **memory)
{
    (void)ctx;
    *memory = host->alloc(bytes);
    return *memory ? GOP_OK : host->fail(GOP_NO_DEVICE_MEMORY, "the dummy is full");
}

static void release(gop_ctx *ctx, void *memory)
{
    (void)ctx;
    host->release(memory);
}

static int64_t elements(const gop_array *dense)
{
    int64_t count = 1;
    for (int d = 0; d < dense->ndim; d++) count *= dense->strides[d] ? dense->shape[d] : 1;
    return count;
}

static gop_status upload(gop_ctx *ctx, const gop_array *device, const gop_array *from)
{
    (void)ctx;
    host->pack(from, 0, elements(device), device->data);
    return GOP_OK;
}

static gop_status download(gop_ctx *ctx, const gop_array *to, const gop_array *device)
{
    (void)ctx;
    host->unpack(to, 0, elements(device), device->data);
    return GOP_OK;
}

static gop_status mark(gop_ctx *ctx, int event)
{
    (void)ctx, (void)event;
    return GOP_OK;
}

static gop_status elapsed(gop_ctx *ctx, int from, int to, double *seconds)
{
    (void)ctx, (void)from, (void)to;
    *seconds = 1e-6;
    return GOP_OK;
}

static gop_status done(gop_ctx *ctx)
{
    (void)ctx;
    return GOP_OK;
}

static gop_status plan(const gop_ctx *ctx, const gop_task *task, gop_plan *p)
{
    (void)ctx, (void)p;
    if (task->geometry.elementwise.rank <= 1) return GOP_OK;
    return host->fail(GOP_REFUSED, "add: the dummy takes lines alone");
}

static gop_status add(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const gop_elementwise *e = &task->geometry.elementwise;
    const float *a = task->in[0].data, *b = task->in[1].data;
    float *out = task->out[0].data;
    (void)ctx, (void)step;
    for (int64_t i = 0; i < e->size; i++)
        out[i * e->stride[0][0]] = a[i * e->stride[1][0]] + b[i * e->stride[2][0]];
    return GOP_OK;
}

static gop_status multiply(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const gop_gemm *g = &task->geometry.gemm;
    const float *a = task->in[0].data, *b = task->in[1].data;
    (void)ctx, (void)step;
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->n; j++) {
            float *const to = (float *)task->out[0].data + i * g->out_row + j * g->out_col;
            *to = 0;
            for (int64_t l = 0; l < g->k; l++)
                *to += a[i * g->a_row + l * g->a_col] * b[l * g->b_row + j * g->b_col];
        }
    return GOP_OK;
}

static gop_status plan_coarse(const gop_ctx *ctx, const gop_task *task, gop_plan *p)
{
    (void)ctx, (void)task;
    p->precision = GOP_TF32;
    return GOP_OK;
}

static const gop_ladder *ladder(gop_op op)
{
    static const gop_row fine = {
        .name = "fine", .note = "all bits", .launch = {[GOP_FLOAT32] = multiply}};
    static const gop_row coarse = {.name = "coarse",
                                   .role = ROLE,
                                   .note = "few bits",
                                   .caveat = "few bits",
                                   .launch = {[GOP_FLOAT32] = multiply},
                                   .plan = plan_coarse};
    enum { CHOSEN = ROLE == GOP_CONFORMING };
    static const gop_row *const products[] = {&fine, &coarse};
    static const gop_candidate of_products[] = {{.row = &coarse}, {.row = &fine}};
    static const gop_choice product = {1 + CHOSEN, &of_products[1 - CHOSEN], NULL};
    static const gop_ladder of_matmul = {2, products, &product};
    static const gop_row row = {
        .name = "dumb",
        .role = ROLE,
        .note = "one after the other",
        .launch = {[GOP_FLOAT32] = add},
        .plan = plan,
    };
    static const gop_row *const rows[] = {&row};
    static const gop_candidate of_rows[] = {{.row = &row}};
    static const gop_choice sum = {CHOSEN, of_rows, NULL}, nothing = {0, of_rows, NULL};
    static const gop_ladder of_add = {1, rows, &sum}, none = {0, rows, &nothing};
    return op == GOP_OP_add ? &of_add : op == GOP_OP_matmul ? &of_matmul : &none;
}

const gop_backend dummy = {
    .abi = INTERFACE,
    .facts = GOP_BUS,
    .name = "dummy",
    .count = count,
    .info = info,
    .context = context,
    .alloc = alloc,
    .release = release,
    .upload = upload,
    .download = download,
    .mark = mark,
    .elapsed = elapsed,
    .sync = done,
    .flush = done,
    .ladder = ladder,
};

const gop_backend *gop_backend_open(uint32_t abi, const gop_host *lent)
{
    host = lent;
    return abi == INTERFACE || INTERFACE != GOP_ABI ? &dummy : NULL;
}
