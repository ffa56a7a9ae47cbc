/*
 * programs.c - programs built from source on first use and kept on disk, and the kernels that
 * threads have of them.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "core/numerics.h"
#include "opencl/runtime/runtime.h"

/* A program with its options on a device, of a list that only grows. */
typedef struct gop_cl_built {
    const gop_cl_device *device;
    const char *source;
    char options[GOP_CL_OPTIONS];
    cl_program program;
    struct gop_cl_built *next;
} gop_cl_built;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static gop_cl_built *all;

/* The line of a build's log that says most: NVIDIA's has a function that is nowhere as a
 * warning, and below it an error without a line. */
static void build_error(const gop_cl_device *d, cl_program program, char *line, size_t room)
{
    size_t bytes = 0;
    char *log = NULL;
    gop_cl.clGetProgramBuildInfo(program, d->id, CL_PROGRAM_BUILD_LOG, 0, NULL, &bytes);
    if (bytes) log = gop_services->alloc(bytes + 1);
    if (!log) return;
    log[bytes] = log[0] = '\0';
    gop_cl.clGetProgramBuildInfo(program, d->id, CL_PROGRAM_BUILD_LOG, bytes, log, NULL);
    static const char *const words[] = {"error:", "implicit declaration", "fatal", "error", ""};
    const char *found = NULL;
    for (int i = 0; !found; i++) found = strstr(log, words[i]);
    while (found > log && found[-1] != '\n') found--;
    while (isspace((unsigned char)*found)) found++;
    snprintf(line, room, "%.*s", (int)strcspn(found, "\n"), found);
    gop_services->release(log);
}

/* ---- programs that other processes built; a host without Python keeps none ---- */

/* All that a program's bytes depend on. To be freed. */
static char *key_of(const gop_cl_device *d, const char *text, const char *options)
{
    const size_t room = strlen(text) + strlen(options) + sizeof d->info;
    char *const key = gop_services->alloc(room);
    if (key) snprintf(key, room, "%s\n%s\n%s\n%s", d->info.name, d->info.detail, options, text);
    return key;
}

/* *found is NULL where there is none. */
static gop_status from_cache(const gop_cl_device *d, const char *key, const char *options,
                             cl_program *found)
{
    size_t bytes = 0;
    cl_int of_binary = CL_SUCCESS, code = CL_SUCCESS;
    void *kept = NULL;
    *found = NULL;
    if (key) GOP_TRY(gop_services->recall(key, &kept, &bytes));
    if (!kept) return GOP_OK;
    const unsigned char *binary = kept;
    *found = gop_cl.clCreateProgramWithBinary(d->context, 1, &d->id, &bytes, &binary,
                                              &of_binary, &code);
    gop_services->release(kept);
    if (*found && (of_binary != CL_SUCCESS ||
                   gop_cl.clBuildProgram(*found, 1, &d->id, options, NULL, NULL))) {
        gop_cl.clReleaseProgram(*found); /* another driver's after all: built again */
        *found = NULL;
    }
    return GOP_OK;
}

static gop_status into_cache(cl_program program, const char *key)
{
    size_t bytes = 0;
    gop_status status = GOP_OK;
    if (gop_cl.clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, GOP_CL_ANSWER(bytes)))
        return GOP_OK;
    void *binary = bytes ? gop_services->alloc(bytes) : NULL;
    if (binary && !gop_cl.clGetProgramInfo(program, CL_PROGRAM_BINARIES, GOP_CL_ANSWER(binary)))
        status = gop_services->keep(key, binary, bytes);
    gop_services->release(binary);
    if (status != GOP_OK) gop_cl.clReleaseProgram(program);
    return status;
}

gop_status gop_cl_build_source(const gop_cl_device *d, const char *text, const char *options,
                               cl_program *program)
{
    char said[400] = "";
    cl_int code = CL_BUILD_PROGRAM_FAILURE;
    GOP_TRY(GOP_CL_MAKE(*program, clCreateProgramWithSource, d->context, 1, &text, NULL));
    if (!gop_cl_fault("opencl.clBuildProgram"))
        code = gop_cl.clBuildProgram(*program, 1, &d->id, options, NULL, NULL);
    if (code == CL_SUCCESS) return GOP_OK;
    build_error(d, *program, said, sizeof said);
    gop_cl.clReleaseProgram(*program);
    return gop_cl_with_code(gop_fail(GOP_NOT_COMPILED, "%s", said), code);
}

static gop_status build(const gop_cl_device *d, const char *name, const char *options,
                        cl_program *built)
{
    const gop_cl_source *source = gop_cl_sources;
    while (source->name && strcmp(source->name, name) != 0) source++;
    char line[GOP_CL_OPTIONS + 64];
    if (!source->text)
        return gop_fail(GOP_INTERNAL, "opencl: this build has no source %s", name);
    /* Promises of docs/numerics.md: no option that rounds otherwise is given to any build, and
     * the tree of sums is core's. */
    snprintf(line, sizeof line, "-cl-std=CL1.2 -w %s -DLEAF=%d -DTREE_LANES=%d", options, LEAF,
             LANES);
    char *const key =
        d->keeps_programs || !gop_services->keep ? NULL : key_of(d, source->text, line);
    gop_status status = from_cache(d, key, line, built);
    const int is_kept = *built || !key;
    if (status == GOP_OK && !*built) status = gop_cl_build_source(d, source->text, line, built);
    if (status == GOP_NOT_COMPILED) { /* a kernel of ours, which nobody can mend */
        const gop_error said = *gop_services->error();
        status = gop_fail(GOP_DEVICE_UNSUPPORTED,
                          "opencl: %s does not build the kernel %s (%s, %d): %s; options %s; "
                          "driver %s",
                          d->info.name, name, said.native_name, (int)said.native_code,
                          *said.message ? said.message : "it says nothing", line, d->driver);
        gop_cl_with_code(status, (cl_int)said.native_code);
    } else if (status == GOP_OK && !is_kept) status = into_cache(*built, key);
    gop_services->release(key);
    return status;
}

/* With the lock held: of threads that come for the same program one builds it. */
static gop_status find_program(const gop_cl_device *d, const char *source, const char *options,
                               const gop_cl_built **found)
{
    for (gop_cl_built *b = all; b; b = b->next)
        if (b->device == d && b->source == source && strcmp(b->options, options) == 0) {
            *found = b;
            return GOP_OK;
        }
    cl_program program;
    GOP_TRY(build(d, source, options, &program));
    gop_cl_built *const made = gop_services->alloc(sizeof *made);
    if (!made) {
        gop_cl.clReleaseProgram(program);
        return gop_fail(GOP_NO_MEMORY, "opencl: no host memory for a program");
    }
    *made = (gop_cl_built){.device = d, .source = source, .program = program, .next = all};
    gop_cl_append(made->options, sizeof made->options, "%s", options);
    *found = all = made;
    return GOP_OK;
}

gop_status gop_cl_kernel_get(gop_cl_ctx *c, const char *source, const char *options,
                             const char *name, cl_kernel *kernel)
{
    const gop_cl_built *program = NULL;
    for (int i = 0; i < GOP_CL_KERNELS && c->kernel[i].kernel; i++) {
        const gop_cl_kernel *const k = &c->kernel[i];
        *kernel = k->kernel;
        if (k->program->source == source && k->name == name &&
            strcmp(k->program->options, options) == 0)
            return GOP_OK;
    }
    pthread_mutex_lock(&lock);
    const gop_status status = find_program(c->device, source, options, &program);
    pthread_mutex_unlock(&lock);
    GOP_TRY(status);
    GOP_TRY(GOP_CL_MAKE(*kernel, clCreateKernel, program->program, name));
    gop_cl_kernel *const oldest = &c->kernel[c->kernels++ % GOP_CL_KERNELS];
    if (oldest->kernel) gop_cl.clReleaseKernel(oldest->kernel);
    *oldest = (gop_cl_kernel){program, name, *kernel};
    return GOP_OK;
}
