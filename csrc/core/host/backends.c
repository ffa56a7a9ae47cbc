/*
 * backends.c - backends by number and by name, and the services that core lends a backend.
 */
#include <dlfcn.h>
#include <string.h>

#include "core/core.h"

/* Names and backends by number. The libraries of this package are opened under a lock of
 * Python's (gpuops/devices.py). */
static const char *names[GOP_MAX_BACKENDS] = {
#define X(enumerator, name) [enumerator] = #name,
    GOP_BACKENDS(X)
#undef X
};
static const gop_backend *loaded[GOP_MAX_BACKENDS] = {[GOP_CPU] = &gop_cpu_backend};

const char *gop_backend_name(gop_backend_id id)
{
    return names[id];
}

int gop_backend_find(const char *name, gop_backend_id *id)
{
    int i = 0;
    while (i < GOP_MAX_BACKENDS && names[i] && strcmp(names[i], name) != 0) i++;
    *id = (gop_backend_id)i;
    return i < GOP_MAX_BACKENDS && names[i];
}

int gop_array_on_host(const gop_array *array)
{
    const gop_backend *const backend = loaded[array->where.backend];
    return backend && !(backend->facts & GOP_OWN_MEMORY);
}

gop_status gop_check_ordinal(const gop_backend *backend, int ordinal)
{
    const char *const name = backend->name;
    int count;
    GOP_TRY(backend->count(&count));
    if (ordinal >= 0 && ordinal < count) return GOP_OK;
    return gop_fail(GOP_DEVICE_UNAVAILABLE,
                    "%s: there is no device %s:%d, expected one of %s:0 to %s:%d", name, name,
                    ordinal, name, name, count - 1);
}

static const gop_host this_host = {
    .abi = GOP_ABI,
    .fail = gop_fail,
    .error = gop_error_slot,
    .alloc = gop_alloc,
    .release = gop_release,
    .parallel = gop_parallel,
    .interrupted = gop_interrupted,
    .pack = gop_pack,
    .unpack = gop_unpack,
    .move = gop_move,
    .elements = gop_array_elements,
    .fault = gop_fault,
    .crew = gop_crew,
    .wanted_elsewhere = gop_wanted_elsewhere,
    .array_bytes = gop_array_bytes,
    .context = gop_thread_context,
    .check_ordinal = gop_check_ordinal,
};

gop_status (*gop_recall_hook)(const char *key, void **made, size_t *bytes);
gop_status (*gop_keep_hook)(const char *key, const void *made, size_t bytes);

/* The library's backend, or NULL where it was built for another interface. */
static const gop_backend *open_library(void *library, const gop_host *host)
{
    gop_backend_open_fn open_backend;
    *(void **)&open_backend = dlsym(library, "gop_backend_open");
    const gop_backend *backend = open_backend ? open_backend(GOP_ABI, host) : NULL;
    return backend && backend->abi == GOP_ABI ? backend : NULL;
}

gop_status gop_backend_load(const char *name, const char *path)
{
    static gop_host given[GOP_MAX_BACKENDS];
    gop_backend_id id;
    if (gop_backend_find(name, &id) && loaded[id]) return GOP_OK;
    if (id == GOP_MAX_BACKENDS)
        return gop_fail(GOP_DEVICE_UNAVAILABLE, "%s: there are %d backends already", name,
                        GOP_MAX_BACKENDS);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return gop_fail(GOP_DEVICE_UNAVAILABLE, "%s: the backend's library did not open: %s",
                        name, dlerror());
    given[id] = this_host;
    given[id].id = id;
    given[id].recall = gop_recall_hook;
    given[id].keep = gop_keep_hook;
    const gop_backend *const backend = open_library(library, &given[id]);
    if (!backend || strcmp(backend->name, name) != 0) {
        dlclose(library);
        return gop_fail(
            GOP_DEVICE_UNAVAILABLE,
            "%s: the backend's library %s is of another version of gpuops, expected "
            "interface %d; build the package again",
            name, path, GOP_ABI);
    }
    loaded[id] = backend;
    names[id] = backend->name;
    return GOP_OK;
}

gop_status gop_backend_get(gop_backend_id id, const gop_backend **backend)
{
    *backend = loaded[id];
    if (*backend) return GOP_OK;
    return gop_fail(GOP_DEVICE_UNAVAILABLE, "%s: the backend is not loaded", names[id]);
}

gop_status gop_context_of(gop_device device, gop_ctx **ctx)
{
    const gop_backend *backend;
    GOP_TRY(gop_backend_get(device.backend, &backend));
    return backend->context(device.ordinal, ctx);
}

void *gop_use_stream(gop_ctx *ctx, void *stream)
{
    return ctx->backend->use ? ctx->backend->use(ctx, stream) : NULL;
}
