/*
 * validate.c - the first phase of the road: are the arrays what the operation takes?
 *
 * Its descriptor says so; no other file of the road knows the list of operations. It asks no
 * device, so that every device raises the same sentence. It infers outputs from the inputs and
 * compares those given with them. Then it checks the data, unless the call's kernels do so as
 * they read.
 */
#include <string.h>

#include "core/road/road.h"

#define GOP_OP(name, stem) extern const gop_descriptor gop_describe_##name;
#include "ops.def"
#undef GOP_OP

const gop_descriptor *gop_descriptor_of(gop_op op)
{
    static const gop_descriptor *const table[] = {
#define GOP_OP(name, stem) &gop_describe_##name,
#include "ops.def"
#undef GOP_OP
    };
    return table[op];
}

const char *gop_call_name(const gop_call *call)
{
    const gop_descriptor *op = gop_descriptor_of(call->op);
    return op->called ? op->called(call) : op->name;
}

gop_status gop_infer_outputs(const gop_call *call, gop_array *out)
{
    const gop_descriptor *op = gop_descriptor_of(call->op);
    int64_t size;
    if (call->nout < 1 || call->nout > op->outputs)
        return gop_fail(GOP_BAD_ARGUMENT, "%s: has %d output%s, got %d", gop_call_name(call),
                        op->outputs, op->outputs > 1 ? "s at most" : "", call->nout);
    for (int i = 0; i < call->nin; i++)
        GOP_TRY(
            gop_shape_size(gop_call_name(call), call->in[i].ndim, call->in[i].shape, &size));
    for (int o = 0; o < call->nout; o++) out[o].stored = 0;
    GOP_TRY(op->infer(call, out));
    for (int o = 0; o < call->nout; o++)
        GOP_TRY(gop_shape_size(gop_call_name(call), out[o].ndim, out[o].shape, &size));
    return GOP_OK;
}

gop_status gop_infer(gop_call *call)
{
    return gop_infer_outputs(call, call->out);
}

gop_status gop_check_outputs(const gop_call *call)
{
    const char *const op = gop_call_name(call);
    gop_array inferred[GOP_MAX_OUTPUTS];
    GOP_TRY(gop_infer_outputs(call, inferred));
    for (int o = 0; o < call->nout; o++) {
        const gop_array *given = &call->out[o], *want = &inferred[o];
        char given_text[256], want_text[256];
        if (given->dtype != want->dtype)
            return gop_fail(GOP_BAD_TYPE, "%s: the output has dtype %s, expected %s", op,
                            gop_dtype_name(given->dtype), gop_dtype_name(want->dtype));
        if (given->ndim != want->ndim ||
            memcmp(given->shape, want->shape, (size_t)want->ndim * sizeof *want->shape) != 0)
            return gop_fail(GOP_BAD_ARGUMENT, "%s: the output has shape %s, expected %s", op,
                            gop_shape_text(given_text, given->ndim, given->shape),
                            gop_shape_text(want_text, want->ndim, want->shape));
    }
    if (call->nout == 2 && gop_array_size(&call->out[1]) > 0 &&
        gop_array_may_overlap(&call->out[0], &call->out[1]))
        return gop_fail(GOP_BAD_ARGUMENT,
                        "%s: the two outputs share memory, expected them apart", op);
    return GOP_OK;
}

gop_status gop_validate(gop_road *r, const gop_run_options *options)
{
    if (!options->fits) GOP_TRY(gop_check_outputs(r->call));
    return r->op->check ? r->op->check(r->call, &r->arena) : GOP_OK;
}
