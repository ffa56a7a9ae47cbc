/*
 * errors.c - OpenCL's codes as sentences with what to do.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "opencl/runtime/runtime.h"

#define CODES(X)                                                                               \
    X(DEVICE_NOT_FOUND, -1)                                                                    \
    X(DEVICE_NOT_AVAILABLE, -2)                                                                \
    X(COMPILER_NOT_AVAILABLE, -3)                                                              \
    X(MEM_OBJECT_ALLOCATION_FAILURE, -4)                                                       \
    X(OUT_OF_RESOURCES, -5)                                                                    \
    X(OUT_OF_HOST_MEMORY, -6)                                                                  \
    X(PROFILING_INFO_NOT_AVAILABLE, -7)                                                        \
    X(BUILD_PROGRAM_FAILURE, -11)                                                              \
    X(MAP_FAILURE, -12)                                                                        \
    X(MISALIGNED_SUB_BUFFER_OFFSET, -13)                                                       \
    X(INVALID_VALUE, -30)                                                                      \
    X(INVALID_DEVICE, -33)                                                                     \
    X(INVALID_CONTEXT, -34)                                                                    \
    X(INVALID_COMMAND_QUEUE, -36)                                                              \
    X(INVALID_HOST_PTR, -37)                                                                   \
    X(INVALID_MEM_OBJECT, -38)                                                                 \
    X(INVALID_BINARY, -42)                                                                     \
    X(INVALID_BUILD_OPTIONS, -43)                                                              \
    X(INVALID_PROGRAM, -44)                                                                    \
    X(INVALID_PROGRAM_EXECUTABLE, -45)                                                         \
    X(INVALID_KERNEL_NAME, -46)                                                                \
    X(INVALID_KERNEL, -48)                                                                     \
    X(INVALID_ARG_INDEX, -49)                                                                  \
    X(INVALID_ARG_VALUE, -50)                                                                  \
    X(INVALID_ARG_SIZE, -51)                                                                   \
    X(INVALID_KERNEL_ARGS, -52)                                                                \
    X(INVALID_WORK_GROUP_SIZE, -54)                                                            \
    X(INVALID_WORK_ITEM_SIZE, -55)                                                             \
    X(INVALID_OPERATION, -59)                                                                  \
    X(INVALID_BUFFER_SIZE, -61)                                                                \
    X(INVALID_GLOBAL_WORK_SIZE, -63)                                                           \
    X(PLATFORM_NOT_FOUND_KHR, -1001)

const char *gop_cl_error_name(cl_int code)
{
    switch (code) {
#define X(name, number)                                                                        \
    case number:                                                                               \
        return "CL_" #name;
        CODES(X)
#undef X
    default:
        return "unknown code";
    }
}

/* ---- the trace: which functions are called, for whoever wants to see OpenCL's steps ---- */

enum { TRACE = 1 << 14 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int is_traced;
static char trace[TRACE], given[TRACE];

const char *gop_cl_trace(int start)
{
    pthread_mutex_lock(&lock);
    memcpy(given, trace, sizeof trace);
    trace[0] = '\0';
    is_traced = start;
    pthread_mutex_unlock(&lock);
    return given;
}

static void note(const char *name)
{
    pthread_mutex_lock(&lock);
    const size_t used = strlen(trace);
    snprintf(trace + used, sizeof trace - used, "%s ", name);
    pthread_mutex_unlock(&lock);
}

int gop_cl_fault(const char *site, cl_int *error)
{
    if (is_traced) note(strchr(site, '.') + 1);
    const int fails = gop_services->fault(site);
    if (fails && error) *error = CL_OUT_OF_RESOURCES;
    return fails;
}

static void add_code(cl_int code)
{
    gop_error *const error = gop_services->error();
    error->native_code = code;
    snprintf(error->native_name, sizeof error->native_name, "%s", gop_cl_error_name(code));
}

gop_status gop_cl_fail(gop_status status, cl_int code, const char *format, ...)
{
    char said[900];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(said, sizeof said, format, arguments);
    va_end(arguments);
    gop_fail(status, "%s", said);
    add_code(code);
    return status;
}

gop_status gop_cl_check(cl_int code, const char *function)
{
    if (code == CL_SUCCESS) return GOP_OK;
    return gop_cl_fail(GOP_DEVICE_FAILED, code,
                       "opencl: %s failed: %s (%d); host arrays are intact: go on with "
                       "device='cpu', or start a new process",
                       function, gop_cl_error_name(code), code);
}

int gop_cl_has_no_memory(cl_int code)
{
    return code == CL_MEM_OBJECT_ALLOCATION_FAILURE || code == CL_OUT_OF_RESOURCES ||
           code == CL_OUT_OF_HOST_MEMORY || code == CL_INVALID_BUFFER_SIZE;
}

gop_status gop_cl_no_memory(gop_ctx *ctx, cl_int code, size_t bytes)
{
    gop_cl_fail(GOP_NO_DEVICE_MEMORY, code,
                "opencl: no memory for %.1f MiB on %s, which has %.1f MiB in all (%s, %d)",
                (double)bytes / 1048576, gop_cl_device_name(ctx),
                (double)ctx->info.memory / 1048576, gop_cl_error_name(code), code);
    gop_error *const error = gop_services->error();
    error->requested = (int64_t)bytes;
    error->total = ctx->info.memory;
    return GOP_NO_DEVICE_MEMORY;
}
