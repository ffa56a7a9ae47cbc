/*
 * naive.c - reduce one output at a time, one element at a time, by the definition of the tree.
 *
 * Each addition waits for the one before it in its lane.
 */
#include "cpu/reduce/plan.h"

static gop_status reduce_naive(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    (void)ctx, (void)step;
    const reduce_job job = job_of(task);
    const reduce_fold *const fold = job.plan->fold;
    for (int64_t o = 0; o < job.g->outputs; o++) {
        const reduce_run run = run_at(&job, o, 1);
        _Alignas(16) char lane[LANES][16], value[16], x[16];
        _Alignas(16) char node[56][16];
        int64_t number = 0;
        reduce_counter counter = {0, 16, node[0]};
        fold->fill(value, 1);
        for (int64_t k = 0; k < job.g->count; k++) {
            row_of(&job, &run, k, x);
            if (job.plan->position) {
                if (k == 0) memcpy(value, x, fold->bytes);
                fold->better(value, &number, x, NULL, k, 1);
                continue;
            }
            if (k % LEAF == 0)
                for (int l = 0; l < LANES; l++) fold->fill(lane[l], 1);
            fold->merge(lane[k % LANES], x, 1);
            if ((k + 1) % LEAF != 0 && k + 1 != job.g->count) continue;
            for (int d = LANES / 2; d > 0; d /= 2)
                for (int l = 0; l < d; l++) fold->merge(lane[l], lane[l + d], 1);
            push(fold, &counter, lane[0], 1);
            GOP_TRY(gop_interrupted());
        }
        if (!job.plan->position) root(fold, &counter, value, 1);
        complete(&job, &run, value, &number);
    }
    return gop_interrupted();
}

static gop_status reduce_naive_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    reduce_plan *const p = GOP_OWN(reduce_plan, plan);
    (void)ctx;
    assemble(p, task);
    p->in_place = 0;
    p->direct = NULL;
    return GOP_OK;
}

static const gop_row reduce_naive_row = {
    .name = "naive",
    .note = "one element at a time: each addition waits for the one before it in its lane",
    .role = GOP_CONFORMING,
    .launch = GOP_FN_EVERY(reduce_naive),
    .plan = reduce_naive_plan,
};
