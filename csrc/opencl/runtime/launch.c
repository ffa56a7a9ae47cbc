/*
 * launch.c - one launch: operands become buffers, values arguments, and the NDRange whole
 * work-groups.
 */
#include "opencl/runtime/runtime.h"

static gop_status set_operands(const gop_cl_launch *launch, const gop_cl_buffers *buffers,
                               cl_kernel kernel)
{
    for (int i = 0; i < launch->operands; i++) {
        const gop_array *const array = launch->operand[i].array;
        size_t bytes;
        cl_mem buffer = gop_cl_buffer_at(buffers, array->data, &bytes);
        const int64_t place = (int64_t)bytes / gop_cl_item(array->dtype) + launch->shift[i];
        GOP_TRY(GOP_CL_CALL(clSetKernelArg, kernel, 2 * (cl_uint)i, sizeof buffer, &buffer));
        GOP_TRY(GOP_CL_CALL(clSetKernelArg, kernel, 2 * (cl_uint)i + 1, sizeof place, &place));
    }
    return GOP_OK;
}

static gop_status enqueue(gop_cl_ctx *c, const gop_cl_launch *launch, cl_kernel kernel)
{
    size_t global[3] = {1, 1, 1};
    for (int d = 0; d < launch->dimensions; d++)
        global[d] =
            (launch->global[d] + launch->local[d] - 1) / launch->local[d] * launch->local[d];
    return GOP_CL_CALL(clEnqueueNDRangeKernel, c->queue, kernel, (cl_uint)launch->dimensions,
                       NULL, global, launch->local, 0, NULL, NULL);
}

gop_status gop_cl_run(gop_ctx *ctx, const gop_cl_launch *launch)
{
    gop_cl_ctx *const c = gop_cl_of(ctx);
    gop_cl_buffers buffers;
    cl_kernel kernel;
    GOP_TRY(gop_cl_kernel_get(c, launch->source, launch->options, launch->kernel, &kernel));
    GOP_TRY(gop_cl_buffers_take(c, launch->operand, launch->operands, &buffers));
    gop_status status = set_operands(launch, &buffers, kernel);
    for (int v = 0; v < launch->values && status == GOP_OK; v++)
        status = GOP_CL_CALL(clSetKernelArg, kernel, (cl_uint)(2 * launch->operands + v),
                             launch->value[v].bytes, launch->value[v].at);
    if (status == GOP_OK) status = enqueue(c, launch, kernel);
    return gop_cl_buffers_give(c, &buffers, status);
}
