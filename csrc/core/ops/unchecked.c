/*
 * unchecked.c - when jacobi_step leaves the check of a CSR matrix to its kernels.
 *
 * The matrix lies in the device's memory. The results go to memory of their own until the
 * kernels have said what they find, so that a caller's output is whole or as it was.
 */
#include "core/ops/unchecked.h"

#include <string.h>

static const double MOST_TERMS = 4294967296.0; /* of a call that is one launch */
/* A check of fewer terms costs less than memory for results that wait. */
static const double FEWEST_TERMS = 2097152.0;

/* Whether the matrix is in the memory of the device that the call runs on, and large enough. A
 * device without a bus shares the host's memory. */
static int is_there(const gop_call *call, const gop_run_options *options)
{
    const gop_backend *backend;
    if (gop_backend_get(options->device.backend, &backend) != GOP_OK) return 0;
    if (!(backend->facts & GOP_BUS)) return !(backend->facts & GOP_HOST_MEMORY);
    if ((double)call->in[0].shape[0] < FEWEST_TERMS) return 0;
    for (int i = 0; i < 3; i++) {
        const gop_device where = call->in[i].where;
        if (where.backend != options->device.backend) return 0;
        if (where.ordinal != options->device.ordinal) return 0;
        if (!gop_array_is_item_aligned(&call->in[i])) return 0;
    }
    return 1;
}

int64_t gop_csr_defer(const gop_call *call, const gop_run_options *options)
{
    const gop_jacobi_step_params *p = &call->params.jacobi_step;
    if (!p->csr || p->checked || options->kernel) return 0;
    const int64_t n = p->n, items = gop_array_size(&call->out[0]);
    if (n <= 0 || items == 0 || !is_there(call, options)) return 0;
    const double terms = (double)call->in[0].shape[0];
    return terms * (double)(items / n) < MOST_TERMS ? GOP_UNCHECKED_SHORT : 0;
}

gop_status gop_csr_begin(gop_ctx *ctx, gop_task *task, void **findings)
{
    const gop_backend *backend = ctx->backend;
    const size_t bytes = sizeof(gop_findings);
    void *memory = NULL;
    if (backend->zero_copy) memory = backend->zero_copy(ctx, bytes);
    else if (!(backend->facts & GOP_BUS)) GOP_TRY(backend->alloc(ctx, bytes, &memory));
    if (!memory) return GOP_REFUSED;
    memset(memory, 0, bytes);
    *findings = task->in[task->nin].data = memory;
    return GOP_OK;
}

gop_status gop_csr_end(gop_ctx *ctx, const void *findings, int64_t *assumed)
{
    const volatile gop_findings *const found = findings;
    GOP_TRY(ctx->backend->sync(ctx));
    *assumed = found->is_longer ? GOP_UNCHECKED : 0;
    return found->is_bad || found->is_longer ? GOP_REFUSED : GOP_OK;
}
