/*
 * launch.c - one launch: operands become buffers, values arguments, and the NDRange whole
 * work-groups.
 */
#include <string.h>

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

/* ---- more axes than a kernel is told of ---- */

void gop_cl_set_axes(const gop_cl_walk *w, gop_cl_axes *axes)
{
    const int skipped = w->rank > GOP_CL_AXES ? w->rank - GOP_CL_AXES : 0;
    axes->rank = w->rank - skipped;
    axes->size = 1;
    for (int axis = 0; axis < axes->rank; axis++) {
        axes->extent[axis] = w->extent[skipped + axis];
        axes->size *= axes->extent[axis];
        for (int o = 0; o < w->operands; o++)
            axes->stride[o][axis] = w->stride[o][skipped + axis];
    }
}

gop_status gop_cl_run_axes(gop_ctx *ctx, const gop_cl_walk *w, gop_cl_launch *launch)
{
    int64_t times = 1;
    for (int axis = 0; axis < w->rank - GOP_CL_AXES; axis++) times *= w->extent[axis];
    for (int64_t t = 0; t < times; t++) {
        int64_t rest = t;
        memset(launch->shift, 0, sizeof launch->shift);
        for (int axis = w->rank - GOP_CL_AXES - 1; axis >= 0; axis--) {
            for (int o = 0; o < w->operands; o++)
                launch->shift[o] += rest % w->extent[axis] * w->stride[o][axis];
            rest /= w->extent[axis];
        }
        GOP_TRY(gop_cl_run(ctx, launch));
    }
    return GOP_OK;
}
