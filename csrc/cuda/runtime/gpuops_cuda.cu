/*
 * gpuops_cuda.cu - the table that core sees of the CUDA backend, and the one exported symbol.
 *
 * The library opens without a driver: nothing here or in any static initialiser asks for one.
 */
#include "cuda/runtime/runtime.h"

#define GOP_LADDER_OF(name) gop_cuda_##name
#define GOP_OPENED gop_cuda_backend
#include "core/opening.inc"

/* The check of the system of jacobi_step, which the solver's call has too. */
extern "C" gop_status gop_jacobi_step_look(gop_ctx *ctx, const gop_call *call, int *is_well,
                                           int64_t *finding);

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
    .check = gop_jacobi_step_look,
    .keep = gop_cuda_keep,
};
