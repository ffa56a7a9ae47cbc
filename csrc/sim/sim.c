/*
 * sim.c - the SIMT backend: CUDA kernels on the CPU. Device memory is host memory.
 */
#define _GNU_SOURCE /* sysconf: memory sizes; dlinfo, dl_iterate_phdr */
#include "sim/check.h"
#include "sim/counters.h"
#include "sim/locks.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const gop_backend sim_backend;
#define GOP_LADDER_OF(name) gop_cuda_##name
#define GOP_OPENED sim_backend
#include "core/opening.inc"

/* ---- the backend ---- */

static gop_status sim_count(int *devices)
{
    *devices = GOP_SIM_DEVICES;
    return GOP_OK;
}

/* The limits are the same for all devices, so that every kernel runs on each, with the same
 * bits. */
static gop_status sim_info(int ordinal, gop_device_info *info)
{
    if (ordinal < 0 || ordinal >= GOP_SIM_DEVICES)
        return gop_fail(GOP_BAD_ARGUMENT, "sim has %d devices, expected one of them, got %d",
                        GOP_SIM_DEVICES, ordinal);
    const gop_sim_rules *rules = &gop_sim_rules_of[ordinal];
    memset(info, 0, sizeof *info);
    snprintf(info->name, sizeof info->name, "CUDA kernels on the CPU");
    info->major = rules->major;
    info->minor = rules->minor;
    info->processors = GOP_SIM_PROCESSORS;
    info->max_threads_per_block = GOP_SIM_LANES;
    info->warp = GOP_SIM_WARP;
    info->shared_per_block = GOP_SIM_DYNAMIC;
    info->memory = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    info->memory_free = (int64_t)sysconf(_SC_AVPHYS_PAGES) * sysconf(_SC_PAGESIZE);
    if (ordinal == 0)
        snprintf(info->detail, sizeof info->detail,
                 "counts what warps do; its time says nothing about a GPU's");
    else
        snprintf(info->detail, sizeof info->detail,
                 "counts by the rules of compute capability %d.%d", rules->major, rules->minor);
    return GOP_OK;
}

static gop_status make_context(int ordinal, gop_ctx **made)
{
    gop_device_info info;
    GOP_TRY(sim_info(ordinal, &info));
    *made = malloc(sizeof **made);
    if (!*made) return gop_fail(GOP_NO_MEMORY, "sim: no memory for a thread's devices");
    **made = (gop_ctx){.backend = &sim_backend, .device = {GOP_SIM, ordinal}, .info = info};
    return GOP_OK;
}

static gop_status sim_context(int ordinal, gop_ctx **ctx)
{
    return gop_services->context(GOP_SIM, ordinal, make_context, ctx);
}

/* GPUOPS_SIM_MEMORY limits the bytes of all devices together, to show what a full one does. */
static gop_status check_room(const gop_ctx *ctx, size_t bytes)
{
    const char *set = getenv("GPUOPS_SIM_MEMORY");
    if (!set || !*set) return GOP_OK;
    char *end;
    errno = 0;
    const size_t total = (size_t)strtoull(set, &end, 10);
    if (*set < '0' || *set > '9' || *end || errno)
        return gop_fail(GOP_BAD_ARGUMENT,
                        "GPUOPS_SIM_MEMORY is '%.40s', expected a whole number of bytes", set);
    const size_t used = gop_sim_memory_used(), left = used < total ? total - used : 0;
    if (bytes <= left) return GOP_OK;
    const char *const rules = gop_sim_rules_of[ctx->device.ordinal].name;
    gop_fail(GOP_NO_DEVICE_MEMORY,
             "sim%s%s is out of memory: %zu bytes were asked for, %zu of %zu are free",
             *rules ? ":" : "", rules, bytes, left, total);
    gop_error *error = gop_services->error();
    error->requested = (int64_t)bytes;
    error->free = (int64_t)left;
    error->total = (int64_t)total;
    return GOP_NO_DEVICE_MEMORY;
}

static gop_status sim_alloc(gop_ctx *ctx, size_t bytes, void **memory)
{
    *memory = NULL;
    GOP_TRY(check_room(ctx, bytes));
    *memory = gop_sim_memory_take(bytes);
    if (*memory) return GOP_OK;
    gop_fail(GOP_NO_MEMORY, "no host memory for %zu bytes of working space", bytes);
    gop_services->error()->requested = (int64_t)bytes;
    return GOP_NO_MEMORY;
}

static void sim_release(gop_ctx *ctx, void *memory)
{
    (void)ctx;
    gop_sim_memory_give(memory);
}

static gop_status sim_upload(gop_ctx *ctx, const gop_array *device, const gop_array *host)
{
    (void)ctx;
    return gop_services->move(host, 0, gop_services->elements(host), device->data, 1);
}

static gop_status sim_download(gop_ctx *ctx, const gop_array *host, const gop_array *device)
{
    (void)ctx;
    return gop_services->move(host, 0, gop_services->elements(host), device->data, 0);
}

static gop_status sim_sync(gop_ctx *ctx)
{
    (void)ctx;
    return gop_services->interrupted();
}

static gop_status sim_flush(gop_ctx *ctx)
{
    (void)ctx; /* there are no caches to flush */
    return GOP_OK;
}

/* ---- kernels that Python compiles: a library each, whose path is the image ---- */

/* A library is never closed, because profiles and sentences refer to its code. So that the next
 * module of the same library begins as this one did, its variables are kept as they were. */
typedef struct sim_module {
    void *library;
    uintptr_t address; /* of the library */
    char *variables, *kept;
    size_t bytes;
} sim_module;

/* Finds what a library may write to: its last writable segment, behind what only the loader
 * writes. */
static int find_variables(struct dl_phdr_info *info, size_t bytes, void *found)
{
    (void)bytes;
    sim_module *m = found;
    if (info->dlpi_addr != m->address) return 0;
    uintptr_t begin = 0, end = 0, loader = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const uintptr_t at = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        const uintptr_t behind = at + info->dlpi_phdr[i].p_memsz;
        if (info->dlpi_phdr[i].p_type == PT_GNU_RELRO) loader = behind;
        if (info->dlpi_phdr[i].p_type != PT_LOAD || !(info->dlpi_phdr[i].p_flags & PF_W))
            continue;
        begin = at;
        end = behind;
    }
    if (begin < loader && loader < end) begin = loader;
    m->variables = (char *)begin;
    m->bytes = end - begin;
    return 1;
}

static gop_status sim_load(gop_ctx *ctx, const void *image, void **module)
{
    (void)ctx;
    struct link_map *map;
    sim_module *m = calloc(1, sizeof *m);
    if (!m) return gop_fail(GOP_NO_MEMORY, "sim: no memory for a library");
    m->library = dlopen(image, RTLD_NOW | RTLD_LOCAL);
    if (!m->library || dlinfo(m->library, RTLD_DI_LINKMAP, &map)) {
        free(m);
        return gop_fail(GOP_DEVICE_FAILED, "sim: %s", dlerror());
    }
    m->address = map->l_addr;
    dl_iterate_phdr(find_variables, m);
    m->kept = malloc(m->bytes);
    if (m->kept) memcpy(m->kept, m->variables, m->bytes);
    *module = m;
    return GOP_OK;
}

static gop_status sim_launch(gop_ctx *ctx, void *module, const gop_kernel_launch *l)
{
    const sim_module *m = module;
    gop_sim_place place = {.shared = l->shared, .device = ctx->device.ordinal};
    memcpy(place.grid, l->grid, sizeof place.grid);
    memcpy(place.block, l->block, sizeof place.block);
    gop_sim_call *call;
    *(void **)&call = dlsym(m->library, l->symbol);
    if (!call) return gop_fail(GOP_DEVICE_FAILED, "sim: the library has no kernel %s", l->name);
    return (gop_status)call(&place, l->arguments);
}

static void sim_unload(void *module)
{
    sim_module *m = module;
    if (m->kept) memcpy(m->variables, m->kept, m->bytes);
    free(m->kept);
    free(m);
}

static const gop_backend sim_backend = {
    .abi = GOP_ABI,
    .facts = 0, /* arrays are copied, because counts depend on their alignment */
    .name = "sim",
    .count = sim_count,
    .info = sim_info,
    .context = sim_context,
    .alloc = sim_alloc,
    .release = sim_release,
    .upload = sim_upload,
    .download = sim_download,
    .sync = sim_sync,
    .flush = sim_flush,
    .ladder = ladder,
    .profile = gop_sim_profile,
    .load = sim_load,
    .launch = sim_launch,
    .unload = sim_unload,
};
