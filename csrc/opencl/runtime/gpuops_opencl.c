/*
 * gpuops_opencl.c - the tables that core sees of the OpenCL backend, and the one exported
 * symbol.
 *
 * The library opens without OpenCL: nothing here asks for a loader or a driver.
 */
#include "opencl/runtime/runtime.h"

const gop_host *gop_services;

#define GOP_OP(name, stem) extern const gop_ladder gop_opencl_##name;
#include "ops.def"
#undef GOP_OP

static const gop_ladder *ladder(gop_op op)
{
    static const gop_ladder *const ladders[GOP_NOPS] = {
#define GOP_OP(name, stem) &gop_opencl_##name,
#include "ops.def"
#undef GOP_OP
    };
    return ladders[op];
}

#define TABLE(given)                                                                           \
    {                                                                                          \
        .abi = GOP_ABI, .facts = given, .name = "opencl", .count = gop_cl_count,               \
        .info = gop_cl_info, .context = gop_cl_context, .alloc = gop_cl_alloc,                 \
        .release = gop_cl_release, .upload = gop_cl_upload, .download = gop_cl_download,       \
        .mark = gop_cl_mark, .elapsed = gop_cl_elapsed, .sync = gop_cl_sync,                   \
        .flush = gop_cl_flush, .ladder = ladder, .load = gop_cl_load_module,                   \
        .launch = gop_cl_launch_module, .unload = gop_cl_unload_module,                        \
        .describe = gop_cl_describe_module, .profile = gop_cl_trace,                           \
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
