/*
 * gpuops_cuda.cu - the table that core sees of the CUDA backend, and the one exported symbol.
 *
 * The library opens without a driver: nothing here or in any static initialiser asks for one.
 */
#include "cuda/runtime/runtime.h"

const gop_host *gop_services;

#define GOP_OP(name, stem) extern "C" const gop_ladder gop_cuda_##name;
#include "ops.def"
#undef GOP_OP

static const gop_ladder *ladder(gop_op op)
{
    static const gop_ladder *const table[] = {
#define GOP_OP(name, stem) &gop_cuda_##name,
#include "ops.def"
#undef GOP_OP
    };
    return table[op];
}

/* Of the system of jacobi_step, which the solver's call has too. */
extern "C" gop_status gop_jacobi_step_look(gop_ctx *ctx, const gop_call *call, int *is_well,
                                           int64_t *longest);

static gop_status check_structure(gop_ctx *ctx, const gop_call *call, int *is_well,
                                  int64_t *longest)
{
    if (call->op != GOP_OP_jacobi_step && call->op != GOP_OP_jacobi) return GOP_OK;
    return gop_jacobi_step_look(ctx, call, is_well, longest);
}

const gop_backend gop_cuda_backend = {
    .abi = GOP_ABI,
    .facts = GOP_OWN_MEMORY | GOP_BUS | GOP_STREAMS,
    .name = "cuda",
    .count = gop_cuda_count,
    .info = gop_cuda_info,
    .context = gop_cuda_context,
    .alloc = gop_cuda_alloc,
    .release = gop_cuda_release,
    .zero_copy = gop_cuda_zero_copy,
    .upload = gop_cuda_upload,
    .download = gop_cuda_download,
    .panels = gop_cuda_panels,
    .mark = gop_cuda_mark,
    .elapsed = gop_cuda_elapsed,
    .sync = gop_cuda_sync,
    .flush = gop_cuda_flush,
    .ladder = ladder,
    .use = gop_cuda_use,
    .order = gop_cuda_order,
    .drain = gop_cuda_drain,
    .whose = gop_cuda_whose,
    .load = gop_cuda_load,
    .launch = gop_cuda_launch,
    .unload = gop_cuda_unload,
    .check = check_structure,
};

extern "C" __attribute__((visibility("default"))) const gop_backend *
gop_backend_open(uint32_t abi, const gop_host *host)
{
    if (abi != GOP_ABI || host->abi != GOP_ABI) return NULL;
    gop_services = host;
    return &gop_cuda_backend;
}
