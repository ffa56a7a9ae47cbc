/*
 * modules.c - programs of users: built from their source, described, launched.
 *
 * OpenCL C says where a pointer points, and a launch needs to know: a buffer, bytes of local
 * memory or a number. The driver, which has read the source, is asked for it.
 */
#define _GNU_SOURCE /* strsep */
#include <stdio.h>
#include <string.h>

#include "opencl/runtime/runtime.h"

enum { ARGUMENTS = 256 /* as of Python's launch */, WORDS = 256, TEXT = 1 << 16 };

typedef struct module {
    cl_program program;
    char text[TEXT]; /* what describe() gives */
} module;

static cl_uint ask(cl_kernel kernel, cl_uint parameter, cl_uint what)
{
    cl_ulong value = 0; /* of four bytes, or of eight */
    size_t bytes = 0;
    if (gop_cl.clGetKernelArgInfo(kernel, parameter, what, sizeof value, &value, &bytes))
        return 0;
    return (cl_uint)value;
}

/* A line of the kernel, then one for each parameter: where it points, 1 for const, its type. */
static gop_status describe(module *m, const char *name)
{
    cl_uint count = 0;
    cl_kernel kernel;
    GOP_TRY(GOP_CL_MAKE(kernel, clCreateKernel, m->program, name));
    gop_cl.clGetKernelInfo(kernel, CL_KERNEL_NUM_ARGS, GOP_CL_ANSWER(count));
    gop_cl_append(m->text, TEXT, "%s\n", name);
    for (cl_uint i = 0; i < count; i++) {
        const cl_uint space = ask(kernel, i, CL_KERNEL_ARG_ADDRESS_QUALIFIER);
        const cl_uint how = ask(kernel, i, CL_KERNEL_ARG_TYPE_QUALIFIER);
        char type[WORDS] = "";
        gop_cl.clGetKernelArgInfo(kernel, i, CL_KERNEL_ARG_TYPE_NAME, sizeof type - 1, type,
                                  NULL);
        gop_cl_append(m->text, TEXT, " %s %d %s\n",
                      space == CL_KERNEL_ARG_ADDRESS_LOCAL     ? "local"
                      : space == CL_KERNEL_ARG_ADDRESS_PRIVATE ? "private"
                                                               : "global",
                      (how & CL_KERNEL_ARG_TYPE_CONST) != 0, type);
    }
    gop_cl.clReleaseKernel(kernel);
    return GOP_OK;
}

const char *gop_cl_describe_module(void *loaded)
{
    return ((const module *)loaded)->text;
}

/* NVIDIA's driver dies of it where a program has no kernel. */
static gop_status describe_all(module *m)
{
    size_t bytes = 0;
    GOP_TRY(
        GOP_CL_CALL(clGetProgramInfo, m->program, CL_PROGRAM_KERNEL_NAMES, 0, NULL, &bytes));
    char *const names = gop_services->alloc(bytes + 1), *rest = names;
    if (!names) return gop_fail(GOP_NO_MEMORY, "opencl: no host memory for a program");
    names[0] = names[bytes] = '\0';
    gop_status status =
        GOP_CL_CALL(clGetProgramInfo, m->program, CL_PROGRAM_KERNEL_NAMES, bytes, names, NULL);
    for (char *name; status == GOP_OK && (name = strsep(&rest, ";"));)
        if (*name) status = describe(m, name);
    gop_services->release(names);
    if (status != GOP_OK || strlen(m->text) + 1 < TEXT) return status;
    return gop_fail(GOP_NOT_COMPILED, "its kernels have too many parameters in all, expected "
                                      "some 2000; make two sources of it");
}

static gop_status load(const gop_cl_device *d, module *m, const char *text)
{
    char options[128];
    size_t count = 0;
    /* What rounds is as in gpuops's own kernels: nothing is contracted, quotients are rounded
     * correctly where the device can. */
    snprintf(options, sizeof options, "-cl-std=CL1.2 -cl-kernel-arg-info%s",
             d->facts & GOP_CL_QUOTIENTS ? " -cl-fp32-correctly-rounded-divide-sqrt" : "");
    GOP_TRY(gop_cl_build_source(d, text, options, &m->program));
    gop_status status =
        GOP_CL_CALL(clGetProgramInfo, m->program, CL_PROGRAM_NUM_KERNELS, GOP_CL_ANSWER(count));
    if (status == GOP_OK && count > 0) status = describe_all(m);
    if (status != GOP_OK) gop_cl.clReleaseProgram(m->program);
    return status;
}

gop_status gop_cl_load_module(gop_ctx *ctx, const void *source, void **loaded)
{
    module *const m = gop_services->alloc(sizeof *m);
    if (!m) return gop_fail(GOP_NO_MEMORY, "opencl: no host memory for a program");
    m->text[0] = '\0';
    const gop_status status = load(gop_cl_of(ctx)->device, m, source);
    if (status != GOP_OK) gop_services->release(m);
    else *loaded = m;
    return status;
}

void gop_cl_unload_module(void *loaded)
{
    module *const m = loaded;
    if (gop_cl_usable() == GOP_OK) gop_cl.clReleaseProgram(m->program);
    gop_services->release(m);
}

/* A launch keeps the device's limits; local memory is the source's and the arguments'. */
static gop_status check_limits(const gop_cl_device *d, cl_kernel kernel, cl_uint count,
                               const gop_kernel_launch *l)
{
    size_t most = 1, axis[3] = {1, 1, 1}, fixed[3] = {0, 0, 0};
    cl_ulong local = 0;
    const unsigned *const b = l->block;
    gop_cl.clGetKernelWorkGroupInfo(kernel, d->id, CL_KERNEL_WORK_GROUP_SIZE,
                                    GOP_CL_ANSWER(most));
    gop_cl.clGetDeviceInfo(d->id, CL_DEVICE_MAX_WORK_ITEM_SIZES, GOP_CL_ANSWER(axis));
    gop_cl.clGetKernelWorkGroupInfo(kernel, d->id, CL_KERNEL_COMPILE_WORK_GROUP_SIZE,
                                    GOP_CL_ANSWER(fixed));
    gop_cl.clGetKernelWorkGroupInfo(kernel, d->id, CL_KERNEL_LOCAL_MEM_SIZE,
                                    GOP_CL_ANSWER(local));
    for (cl_uint i = 0; i < count; i++)
        if (ask(kernel, i, CL_KERNEL_ARG_ADDRESS_QUALIFIER) == CL_KERNEL_ARG_ADDRESS_LOCAL)
            local += *(const cl_ulong *)l->arguments[i];
    if (fixed[0] && (fixed[0] != b[0] || fixed[1] != b[1] || fixed[2] != b[2]))
        return gop_fail(
            GOP_DEVICE_FAILED,
            "opencl: %s: a work-group of (%u, %u, %u) items, expected the (%zu, %zu, "
            "%zu) of its reqd_work_group_size",
            l->name, b[0], b[1], b[2], fixed[0], fixed[1], fixed[2]);
    if ((uint64_t)b[0] * b[1] * b[2] > most || b[0] > axis[0] || b[1] > axis[1] ||
        b[2] > axis[2])
        return gop_fail(
            GOP_DEVICE_FAILED,
            "opencl: %s: a work-group of (%u, %u, %u) items, expected at most (%zu, %zu, "
            "%zu) and %zu together on %s; make groups smaller and more of them",
            l->name, b[0], b[1], b[2], axis[0], axis[1], axis[2], most, d->info.name);
    if (local <= (cl_ulong)d->info.shared_per_block) return GOP_OK;
    return gop_fail(
        GOP_DEVICE_FAILED,
        "opencl: %s: %llu bytes of local memory a work-group, expected at most %lld "
        "on %s; take a smaller tile",
        l->name, (unsigned long long)local, (long long)d->info.shared_per_block, d->info.name);
}

/* Of `buffer` 0 stands for none. */
static gop_status set_argument(gop_cl_ctx *c, cl_kernel kernel, const gop_kernel_launch *l,
                               cl_uint i, cl_mem *buffer)
{
    const cl_uint space = ask(kernel, i, CL_KERNEL_ARG_ADDRESS_QUALIFIER);
    if (space == CL_KERNEL_ARG_ADDRESS_PRIVATE)
        return GOP_CL_CALL(clSetKernelArg, kernel, i, l->bytes[i], l->arguments[i]);
    if (space == CL_KERNEL_ARG_ADDRESS_LOCAL)
        return GOP_CL_CALL(clSetKernelArg, kernel, i, *(const size_t *)l->arguments[i], NULL);
    /* OpenCL has no buffer of no bytes: its pointer is NULL. */
    if (l->bytes[i])
        GOP_TRY(gop_cl_buffer_from(c, *(void **)l->arguments[i], l->bytes[i], buffer));
    return GOP_CL_CALL(clSetKernelArg, kernel, i, sizeof *buffer, buffer);
}

static gop_status start(gop_cl_ctx *c, cl_kernel kernel, const gop_kernel_launch *l,
                        cl_mem buffer[ARGUMENTS])
{
    cl_uint count = 0;
    size_t items[3], group[3];
    int axes = 1;
    for (int d = 0; d < 3; d++) {
        group[d] = l->block[d];
        items[d] = l->grid[d] * group[d];
        if (items[d] > 1) axes = d + 1;
    }
    gop_cl.clGetKernelInfo(kernel, CL_KERNEL_NUM_ARGS, GOP_CL_ANSWER(count));
    GOP_TRY(check_limits(c->device, kernel, count, l));
    for (cl_uint i = 0; i < count; i++) GOP_TRY(set_argument(c, kernel, l, i, &buffer[i]));
    return gop_cl_enqueue(c, kernel, axes, items, group);
}

gop_status gop_cl_launch_module(gop_ctx *ctx, void *loaded, const gop_kernel_launch *l)
{
    gop_cl_ctx *const c = gop_cl_of(ctx);
    const module *const m = loaded;
    cl_mem buffer[ARGUMENTS] = {0};
    cl_kernel kernel;
    GOP_TRY(GOP_CL_MAKE(kernel, clCreateKernel, m->program, l->symbol));
    const gop_status status = start(c, kernel, l, buffer);
    const gop_status done = gop_cl_finish(c); /* buffers may go once the kernel is done */
    for (cl_uint i = 0; i < ARGUMENTS; i++)
        if (buffer[i]) gop_cl.clReleaseMemObject(buffer[i]);
    gop_cl.clReleaseKernel(kernel);
    return status == GOP_OK ? done : status;
}
