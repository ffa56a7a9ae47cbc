/*
 * errors.c - OpenCL's codes as sentences with what to do.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "opencl/runtime/runtime.h"

const char *gop_cl_error_name(cl_int code)
{
    switch (code) {
#define X(name, number)                                                                        \
    case number:                                                                               \
        return "CL_" #name;
        GOP_CL_CODES(X)
#undef X
    default:
        return "unknown code";
    }
}

void gop_cl_append(char *text, size_t room, const char *format, ...)
{
    const size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, room - used, format, arguments);
    va_end(arguments);
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

_Thread_local cl_int gop_cl_code;

int gop_cl_fault(const char *site)
{
    if (is_traced) {
        pthread_mutex_lock(&lock);
        gop_cl_append(trace, sizeof trace, "%s ", strchr(site, '.') + 1);
        pthread_mutex_unlock(&lock);
    }
    return gop_services->fault(site);
}

gop_status gop_cl_with_code(gop_status status, cl_int code)
{
    gop_error *const error = gop_services->error();
    error->native_code = code;
    snprintf(error->native_name, sizeof error->native_name, "%s", gop_cl_error_name(code));
    return status;
}

gop_status gop_cl_check(cl_int code, const char *function)
{
    if (code == CL_SUCCESS) return GOP_OK;
    const gop_status status =
        gop_fail(GOP_DEVICE_FAILED,
                 "opencl: %s failed: %s (%d); host arrays are intact: go on with "
                 "device='cpu', or start a new process",
                 function, gop_cl_error_name(code), code);
    return gop_cl_with_code(status, code);
}

gop_status gop_cl_no_buffer(const gop_ctx *ctx, cl_int code, size_t bytes)
{
    if (code != CL_MEM_OBJECT_ALLOCATION_FAILURE && code != CL_OUT_OF_RESOURCES &&
        code != CL_OUT_OF_HOST_MEMORY && code != CL_INVALID_BUFFER_SIZE)
        return gop_cl_check(code, "clCreateBuffer");
    gop_fail(GOP_NO_DEVICE_MEMORY,
             "opencl: no memory for %.1f MiB on %s, which has %.1f MiB in all (%s, %d)",
             (double)bytes / 1048576, ctx->info.name, (double)ctx->info.memory / 1048576,
             gop_cl_error_name(code), code);
    gop_services->error()->requested = (int64_t)bytes;
    gop_services->error()->total = ctx->info.memory;
    return gop_cl_with_code(GOP_NO_DEVICE_MEMORY, code);
}
