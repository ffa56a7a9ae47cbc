/*
 * gpuops_opencl.c - the tables that core sees of the OpenCL backend, and the one exported
 * symbol.
 *
 * The library opens without OpenCL: nothing here asks for a loader or a driver.
 */
#include "opencl/runtime/runtime.h"

const gop_host *gop_services;

extern const gop_ladder gop_opencl_add, gop_opencl_multiply_add, gop_opencl_fma,
    gop_opencl_transpose, gop_opencl_jacobi_step, gop_opencl_jacobi, gop_opencl_rdf;

/* Operations without kernels have ladders without rows: core says so. */
static const gop_ladder *ladder(gop_op op)
{
    static const gop_ladder none = {0, NULL, NULL};
    switch (op) {
    case GOP_OP_add:
        return &gop_opencl_add;
    case GOP_OP_multiply_add:
        return &gop_opencl_multiply_add;
    case GOP_OP_fma:
        return &gop_opencl_fma;
    case GOP_OP_transpose:
        return &gop_opencl_transpose;
    case GOP_OP_jacobi_step:
        return &gop_opencl_jacobi_step;
    case GOP_OP_jacobi:
        return &gop_opencl_jacobi;
    case GOP_OP_rdf:
        return &gop_opencl_rdf;
    default:
        return &none;
    }
}

#define TABLE(given)                                                                           \
    {                                                                                          \
        .abi = GOP_ABI, .facts = given, .name = "opencl", .count = gop_cl_count,               \
        .info = gop_cl_info, .context = gop_cl_context, .alloc = gop_cl_alloc,                 \
        .release = gop_cl_release, .upload = gop_cl_upload, .download = gop_cl_download,       \
        .mark = gop_cl_mark, .elapsed = gop_cl_elapsed, .sync = gop_cl_sync,                   \
        .flush = gop_cl_flush, .ladder = ladder,                                               \
    }

/* Facts are a device's: a context bears the table of its own. */
const gop_backend gop_cl_separate = TABLE(GOP_OWN_MEMORY | GOP_BUS);
const gop_backend gop_cl_sharing = TABLE(GOP_OWN_MEMORY | GOP_HOST_MEMORY);

__attribute__((visibility("default"))) const gop_backend *
gop_backend_open(uint32_t abi, const gop_host *host);
const gop_backend *gop_backend_open(uint32_t abi, const gop_host *host)
{
    if (abi != GOP_ABI || host->abi != GOP_ABI) return NULL;
    gop_services = host;
    return &gop_cl_separate;
}
