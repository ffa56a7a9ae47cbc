/*
 * launch.c - one launch: operands become buffers, values arguments, and the NDRange whole
 * work-groups; and what plans have in common before it.
 */
#include "core/arrays/bounds.h"
#include "opencl/runtime/runtime.h"

const gop_cl_kind gop_cl_kinds[GOP_NDTYPES] = {
    [GOP_BOOL] = {"bool", "uchar", "uchar", "uint", "BOOLEAN", 1, 1},
    [GOP_INT8] = {"int8", "char", "uchar", "uint", "SIGNED", 1, 1},
    [GOP_INT16] = {"int16", "short", "ushort", "uint", "SIGNED", 1, 2},
    [GOP_INT32] = {"int32", "int", "uint", "uint", "SIGNED", 1, 4},
    [GOP_INT64] = {"int64", "long", "ulong", "ulong", "SIGNED", 1, 8},
    [GOP_UINT8] = {"uint8", "uchar", "uchar", "uint", "UNSIGNED", 1, 1},
    [GOP_UINT16] = {"uint16", "ushort", "ushort", "uint", "UNSIGNED", 1, 2},
    [GOP_UINT32] = {"uint32", "uint", "uint", "uint", "UNSIGNED", 1, 4},
    [GOP_UINT64] = {"uint64", "ulong", "ulong", "ulong", "UNSIGNED", 1, 8},
    [GOP_FLOAT16] = {"float16", "ushort", "ushort", "float", "HALF", 1, 2},
    [GOP_BFLOAT16] = {"bfloat16", "ushort", "ushort", "float", "BFLOAT", 1, 2},
    [GOP_FLOAT32] = {"float32", "float", "float", "float", "FLOAT", 1, 4},
    [GOP_FLOAT64] = {"float64", "double", "double", "double", "FLOAT", 1, 8},
    [GOP_COMPLEX64] = {"complex64", "float", "float", "float", "COMPLEX", 2, 4},
    [GOP_COMPLEX128] = {"complex128", "double", "double", "double", "COMPLEX", 2, 8},
};

/* ---- the buffers of a launch: operands that overlap are in one ---- */

enum { BASE = 128 }; /* bytes: where buffers of the host's memory begin */

typedef struct piece {
    uintptr_t begin, end;
    cl_mem buffer;
} piece;

typedef struct pieces {
    int count;
    piece of[GOP_MAX_INPUTS + GOP_MAX_OUTPUTS];
} pieces;

/* Adds a piece of memory; what overlaps becomes one, since buffers may not. */
static void add_piece(pieces *b, uintptr_t begin, uintptr_t end)
{
    for (int i = 0; i < b->count; i++) {
        if (b->of[i].begin >= end || begin >= b->of[i].end) continue;
        if (b->of[i].begin < begin) begin = b->of[i].begin;
        if (b->of[i].end > end) end = b->of[i].end;
        b->of[i] = b->of[--b->count];
        i = -1; /* the larger one may meet others */
    }
    b->of[b->count++] = (piece){begin, end, NULL};
}

/* Makes those of operands in the host's memory, none empty; core cuts calls beyond a buffer. */
static gop_status take_buffers(gop_cl_ctx *c, const gop_cl_operand *operands, pieces *b)
{
    b->count = 0;
    if (!c->device->shares_memory) return GOP_OK;
    for (int i = 0; i < GOP_CL_OPERANDS && operands[i].array; i++) {
        uintptr_t begin, end;
        gop_array_bounds(operands[i].array, gop_cl_item(operands[i].array->dtype), &begin,
                         &end);
        add_piece(b, begin / BASE * BASE, (end + (begin == end) + BASE - 1) / BASE * BASE);
    }
    for (int i = 0; i < b->count; i++) {
        piece *const r = &b->of[i];
        GOP_TRY(gop_cl_make_buffer(c, (void *)r->begin, r->end - r->begin, &r->buffer));
    }
    return GOP_OK;
}

/* Waits for what is under way, and releases what was made. */
static gop_status give_buffers(gop_cl_ctx *c, pieces *b, gop_status status)
{
    if (!c->device->shares_memory) return status;
    const gop_status done = gop_cl_finish(c);
    for (int i = 0; i < b->count; i++)
        if (b->of[i].buffer) gop_cl.clReleaseMemObject(b->of[i].buffer);
    return status == GOP_OK ? done : status;
}

/* ---- a launch ---- */

static gop_status set_arguments(gop_cl_ctx *c, const gop_cl_launch *launch, const pieces *b,
                                cl_kernel kernel)
{
    cl_uint next = 0;
    for (int i = 0; i < GOP_CL_OPERANDS && launch->operand[i].array; i++) {
        const gop_array *const array = launch->operand[i].array;
        const uintptr_t at = (uintptr_t)array->data;
        size_t bytes;
        cl_mem buffer;
        if (c->device->shares_memory) {
            const piece *r = b->of;
            while (r < b->of + b->count - 1 && (at < r->begin || at >= r->end)) r++;
            buffer = r->buffer;
            bytes = at - r->begin;
        } else buffer = gop_cl_buffer_of(array->data, &bytes);
        const int64_t place =
            (int64_t)bytes / gop_cl_item(array->dtype) + launch->operand[i].shift;
        GOP_TRY(GOP_CL_CALL(clSetKernelArg, kernel, next++, sizeof buffer, &buffer));
        GOP_TRY(GOP_CL_CALL(clSetKernelArg, kernel, next++, sizeof place, &place));
    }
    for (int v = 0; v < GOP_CL_VALUES; v++)
        if (launch->value[v].bytes)
            GOP_TRY(GOP_CL_CALL(clSetKernelArg, kernel, next++, launch->value[v].bytes,
                                launch->value[v].at));
    return GOP_OK;
}

gop_status gop_cl_enqueue(gop_cl_ctx *c, cl_kernel kernel, int dimensions, const size_t *items,
                          const size_t *group)
{
    size_t global[3];
    for (int d = 0; d < dimensions; d++)
        global[d] = (items[d] + group[d] - 1) / group[d] * group[d];
    c->is_busy = 1;
    return GOP_CL_CALL(clEnqueueNDRangeKernel, c->queue, kernel, (cl_uint)dimensions, NULL,
                       global, group, 0, NULL, NULL);
}

gop_status gop_cl_run(gop_ctx *ctx, const gop_cl_launch *launch)
{
    gop_cl_ctx *const c = gop_cl_of(ctx);
    const gop_cl_names *const names = launch->build->names;
    const int rows = launch->rows > 0 ? launch->rows : 1;
    const size_t items[] = {(size_t)launch->items, (size_t)rows};
    const size_t group[] = {(size_t)launch->group, (size_t)rows};
    pieces b;
    cl_kernel kernel;
    GOP_TRY(gop_cl_kernel_get(c, names->source, launch->build->options,
                              launch->kernel ? launch->kernel : names->kernel, &kernel));
    gop_status status = take_buffers(c, launch->operand, &b);
    if (status == GOP_OK) status = set_arguments(c, launch, &b, kernel);
    if (status == GOP_OK) status = gop_cl_enqueue(c, kernel, rows > 1 ? 2 : 1, items, group);
    return give_buffers(c, &b, status);
}

/* ---- what plans have in common ---- */

int gop_cl_has(const gop_ctx *ctx, int fact)
{
    return (gop_cl_of(ctx)->device->facts & fact) != 0;
}

int gop_cl_suits_cpu(const gop_ctx *ctx, const gop_task *task)
{
    (void)task;
    return gop_cl_has(ctx, GOP_CL_CPU);
}

gop_status gop_cl_begin(const gop_ctx *ctx, const char *op, gop_dtype dtype, int needs,
                        gop_cl_build *build)
{
    const gop_cl_kind *const kind = &gop_cl_kinds[dtype];
    const int has_double = gop_cl_has(ctx, GOP_CL_DOUBLE);
    const int divides = gop_cl_has(ctx, GOP_CL_QUOTIENTS);
    needs |= gop_cl_doubles(dtype);
    if (needs & GOP_CL_DOUBLE && !has_double)
        return gop_fail(GOP_BAD_TYPE,
                        "%s: %s has no float64, which %s takes; expected another dtype, or "
                        "another device such as 'cpu'",
                        op, ctx->info.name, kind->name);
    if (needs & GOP_CL_QUOTIENTS && !has_double && !divides)
        return gop_fail(GOP_BAD_TYPE,
                        "%s: %s does not round quotients of float32 correctly and has no "
                        "float64 to do so; expected another device such as 'cpu'",
                        op, ctx->info.name);
    gop_cl_define(build, "-DBASE=%s -D%s%s%s",
                  needs & GOP_CL_WRAP ? kind->wrapping : kind->base, kind->word,
                  needs & GOP_CL_DOUBLE ? " -DDOUBLE" : "",
                  !(needs & GOP_CL_QUOTIENTS) ? ""
                  : divides                   ? " -cl-fp32-correctly-rounded-divide-sqrt"
                                              : " -DBY_DOUBLE");
    return GOP_OK;
}

gop_status gop_cl_need_cpu(const gop_ctx *ctx, const gop_cl_build *build)
{
    if (gop_cl_has(ctx, GOP_CL_CPU)) return GOP_OK;
    return gop_cl_refuse(build,
                         "is for CPU devices: its work-items have long arrays of their own, "
                         "and all that %s runs at once would take more memory than it has",
                         ctx->info.name);
}

gop_status gop_cl_set_axes(const gop_cl_build *build, const char *kind, int rank,
                           const int64_t *extent, int operands, const int64_t *const stride[],
                           struct axes *axes)
{
    if (rank > MOST_AXES)
        return gop_cl_refuse(build,
                             "takes %d %saxes that cannot be merged, this call has %d; another "
                             "device such as 'cpu' takes them",
                             MOST_AXES, kind, rank);
    axes->rank = rank;
    axes->size = 1;
    for (int axis = 0; axis < rank; axis++) {
        axes->extent[axis] = extent[axis];
        axes->size *= extent[axis];
        for (int o = 0; o < operands; o++) axes->stride[o][axis] = stride[o][axis];
    }
    return GOP_OK;
}

gop_status gop_cl_need_group(const gop_ctx *ctx, const gop_cl_build *build, int64_t items,
                             int64_t local)
{
    const gop_device_info *const info = &ctx->info;
    if (items <= info->max_threads_per_block && local <= info->shared_per_block) return GOP_OK;
    return gop_cl_refuse(build,
                         "takes work-groups of %lld work-items and %lld bytes of local memory "
                         "here, but %s has at most %d and %lld",
                         (long long)items, (long long)local, info->name,
                         info->max_threads_per_block, (long long)info->shared_per_block);
}
