/*
 * launch.c - one launch: operands become buffers, values arguments, and the NDRange whole
 * work-groups; and what plans have in common before it.
 */
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

static gop_status set_arguments(gop_cl_ctx *c, const gop_cl_launch *launch,
                                const gop_cl_buffers *buffers, cl_kernel kernel)
{
    cl_uint next = 0;
    for (int i = 0; i < GOP_CL_OPERANDS && launch->operand[i].array; i++) {
        const gop_array *const array = launch->operand[i].array;
        size_t bytes;
        cl_mem buffer = gop_cl_buffer_at(c, buffers, array->data, &bytes);
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
    gop_cl_buffers buffers;
    cl_kernel kernel;
    GOP_TRY(gop_cl_kernel_get(c, names->source, launch->build->options,
                              launch->kernel ? launch->kernel : names->kernel, &kernel));
    GOP_TRY(gop_cl_buffers_take(c, launch->operand, &buffers));
    gop_status status = set_arguments(c, launch, &buffers, kernel);
    if (status == GOP_OK) status = gop_cl_enqueue(c, kernel, rows > 1 ? 2 : 1, items, group);
    return gop_cl_buffers_give(c, &buffers, status);
}

/* ---- what plans have in common ---- */

gop_status gop_cl_need_cpu(const gop_ctx *ctx, const gop_cl_build *build)
{
    if (gop_cl_is_cpu(ctx)) return GOP_OK;
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
