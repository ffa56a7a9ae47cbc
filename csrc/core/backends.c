/*
 * backends.c - the tables: descriptors by op, backends by id, and what core lends to a backend.
 */
#include <dlfcn.h>
#include <string.h>

#include "core/core.h"

#define GOP_OP(name, stem) extern const gop_descriptor gop_describe_##name;
#include "ops.def"
#undef GOP_OP

const gop_descriptor *gop_descriptor_of(gop_op op)
{
    static const gop_descriptor *const table[] = {
#define GOP_OP(name, stem) &gop_describe_##name,
#include "ops.def"
#undef GOP_OP
    };
    return table[op];
}

const char *const gop_backend_names[GOP_NBACKENDS] = {"cpu", "cuda", "sim"};

static const gop_backend *loaded[GOP_NBACKENDS] = {[GOP_CPU] = &gop_cpu_backend};

const gop_host gop_this_host = {
    .abi = GOP_ABI,
    .fail = gop_fail,
    .error = gop_error_slot,
    .alloc = gop_alloc,
    .release = gop_release,
    .parallel = gop_parallel,
    .interrupted = gop_interrupted,
    .pack = gop_pack,
    .unpack = gop_unpack,
    .fault = gop_fault,
};

gop_status gop_backend_load(gop_backend_id id, const char *path)
{
    const char *name = gop_backend_names[id];
    if (loaded[id]) return GOP_OK;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return gop_fail(GOP_DEVICE_UNAVAILABLE, "%s: the backend's library did not open: %s",
                        name, dlerror());
    gop_backend_open_fn open_backend;
    *(void **)&open_backend = dlsym(library, "gop_backend_open");
    const gop_backend *backend = open_backend ? open_backend(GOP_ABI, &gop_this_host) : NULL;
    if (!backend || backend->abi != GOP_ABI) {
        dlclose(library);
        return gop_fail(
            GOP_DEVICE_UNAVAILABLE,
            "%s: the backend's library %s is of another version of gpuops, expected "
            "interface %d; build the package again",
            name, path, GOP_ABI);
    }
    loaded[id] = backend;
    return GOP_OK;
}

gop_status gop_backend_get(gop_backend_id id, const gop_backend **backend)
{
    *backend = loaded[id];
    if (*backend) return GOP_OK;
    return gop_fail(GOP_DEVICE_UNAVAILABLE, "%s: the backend is not loaded",
                    gop_backend_names[id]);
}
