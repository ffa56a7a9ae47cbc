/*
 * jacobi.c - what the solver accepts: a system of jacobi_step, tolerances, how often to check.
 *
 * Steps of jacobi_step are made until norm(f - A x) is small, column by column. jacobi_step
 * checks the system; its messages are changed to name the solver and its arguments.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/core.h"

extern const gop_descriptor gop_describe_jacobi_step;

/* The sentence of a failure of jacobi_step, said of jacobi, whose x is called x0. */
static gop_status renamed(gop_status status)
{
    static const char step[] = "jacobi_step:";
    gop_error *error = gop_error_slot();
    char said[sizeof error->message];
    if (status == GOP_OK || strncmp(error->message, step, sizeof step - 1) != 0) return status;
    snprintf(said, sizeof said, "%s", error->message + sizeof step - 1);
    const char *x = strstr(said, " x of ");
    const int before = x ? (int)(x - said) : (int)strlen(said);
    snprintf(error->message, sizeof error->message, "jacobi:%.*s%s%s", before, said,
             x ? " x0 of " : "", x ? x + 6 : "");
    return status;
}

/* The system alone, as a call of jacobi_step. */
static void system_of(const gop_call *call, gop_call *step)
{
    *step = *call;
    step->op = GOP_OP_jacobi_step;
    step->nin -= call->params.jacobi.first > 0;
    step->nout = 1;
}

static gop_status infer_parameters(const gop_jacobi_params *p)
{
    if (!(p->rtol >= 0.0) || !(p->atol >= 0.0))
        return gop_fail(
            GOP_BAD_ARGUMENT,
            "jacobi: rtol is %g and atol %g, expected numbers that are not negative", p->rtol,
            p->atol);
    if (!(p->dtol >= 1.0))
        return gop_fail(GOP_BAD_ARGUMENT, "jacobi: dtol is %g, expected 1 or more", p->dtol);
    if (p->steps < 0)
        return gop_fail(GOP_BAD_ARGUMENT, "jacobi: maxiter is %" PRId64 ", expected 0 or more",
                        p->steps);
    if (p->check_every < 1)
        return gop_fail(GOP_BAD_ARGUMENT,
                        "jacobi: check_every is %" PRId64 ", expected 1 or more",
                        p->check_every);
    return GOP_OK;
}

static gop_status jacobi_infer(const gop_call *call, gop_array *out)
{
    const gop_jacobi_params *p = &call->params.jacobi;
    gop_call step;
    GOP_TRY(infer_parameters(p));
    system_of(call, &step);
    GOP_TRY(renamed(gop_describe_jacobi_step.infer(&step, out)));
    const int64_t k = out[0].ndim == 2 ? out[0].shape[1] : 1;
    if (p->first) {
        const gop_array *first = &call->in[p->first];
        if (first->dtype != GOP_FLOAT64 || first->ndim != 1 || first->shape[0] != k)
            return gop_fail(
                GOP_BAD_ARGUMENT,
                "jacobi: expected the first norms as float64 of shape (%" PRId64 ",)", k);
    }
    if (call->nout > 1) {
        const int64_t checks = p->steps / p->check_every + (p->steps % p->check_every != 0) + 1;
        out[1].dtype = GOP_FLOAT64;
        out[1].ndim = 2;
        out[1].shape[0] = checks + 2;
        out[1].shape[1] = k;
    }
    return GOP_OK;
}

static gop_status jacobi_check(const gop_call *call, gop_arena *arena)
{
    gop_call step;
    system_of(call, &step);
    return renamed(gop_describe_jacobi_step.check(&step, arena));
}

static gop_status jacobi_plan(gop_task *task)
{
    return gop_describe_jacobi_step.plan(task);
}

static double jacobi_work(const gop_call *call)
{
    return gop_describe_jacobi_step.work(call);
}

static double jacobi_flops(const gop_task *task)
{
    return gop_describe_jacobi_step.flops(task);
}

const gop_descriptor gop_describe_jacobi = {
    .name = "jacobi",
    .stem = "jacobi",
    .infer = jacobi_infer,
    .check = jacobi_check,
    .plan = jacobi_plan,
    .flops = jacobi_flops,
    .work = jacobi_work,
    .outputs = 2,
};
