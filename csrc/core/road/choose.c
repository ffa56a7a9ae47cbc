/*
 * choose.c - the plan ends: finds the row of a ladder that runs a task, and its tunables.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/choice.h"

static int tunables_of_row(const gop_row *row)
{
    int count = 0;
    while (count < GOP_MAX_TUNABLES && row->tunables[count].name) count++;
    return count;
}

int gop_row_takes(const gop_row *row, gop_dtype dtype)
{
    return row->launch[dtype] || (row->dtypes >> dtype & 1);
}

static int takes(const gop_ctx *ctx, const gop_row *row, gop_dtype dtype)
{
    return gop_row_takes(row, dtype) || (ctx->imagined && (row->imagined >> dtype & 1));
}

/* Returns 0 if this build or device lacks the row's kernels. */
static int has_kernels(const gop_ctx *ctx, const gop_row *row)
{
    for (int dtype = 0; dtype < GOP_NDTYPES; dtype++)
        if (takes(ctx, row, (gop_dtype)dtype)) return 1;
    return 0;
}

/* Precision is lowered only if the caller asks. A teaching row may lower it, as its caveat
 * says. */
static gop_status check_precision(const gop_task *task, const gop_row *row,
                                  const gop_plan *plan)
{
    const gop_call *call = task->call;
    const gop_descriptor *op = gop_descriptor_of(call->op);
    const gop_precision least = op->precision ? op->precision(call) : GOP_HIGHEST;
    if (plan->precision <= least || row->role == GOP_TEACHING || row->role == GOP_YARDSTICK)
        return GOP_OK;
    return gop_fail(
        GOP_REFUSED, "%s: kernel '%s' gives precision '%s', but '%s' or better was asked for",
        op->name, row->name, gop_precision_name(plan->precision), gop_precision_name(least));
}

static int is_exact(const gop_task *task)
{
    const gop_descriptor *op = gop_descriptor_of(task->call->op);
    return op->is_exact && op->is_exact(task->call);
}

/* Exact sums have rows of their own. */
static gop_status check_exact(const gop_task *task, const gop_row *row)
{
    if (is_exact(task) == row->exact) return GOP_OK;
    return gop_fail(GOP_REFUSED,
                    row->exact ? "%s: kernel '%s' is for exact=True only"
                               : "%s: kernel '%s' does not take exact=True, which "
                                 "kernel='exact' does",
                    gop_call_name(task->call), row->name);
}

/* The row's plan, or GOP_REFUSED with its sentence. */
static gop_status plan_row(const gop_ctx *ctx, gop_task *task, const gop_row *row,
                           gop_plan *plan)
{
    const char *op = gop_call_name(task->call);
    plan->launch = row->launch[task->in[0].dtype];
    plan->steps = 1;
    plan->scratch = 0;
    plan->precision = GOP_HIGHEST;
    plan->cost = 0;
    task->plan = plan;
    GOP_TRY(check_exact(task, row));
    if (!has_kernels(ctx, row) && row->plan) GOP_TRY(row->plan(ctx, task, plan)); /* says why */
    if (!takes(ctx, row, task->in[0].dtype))
        return gop_fail(GOP_REFUSED, "%s: kernel '%s' does not take %s on %s", op, row->name,
                        gop_dtype_name(task->in[0].dtype), ctx->backend->name);
    if (gop_array_size(&task->out[0]) == 0) return GOP_OK; /* nothing will be launched */
    if (row->plan) GOP_TRY(row->plan(ctx, task, plan));
    return check_precision(task, row, plan);
}

/* Sets the row's own values, or the user's for this device, before its predicate reads them. */
static void default_tunables(const gop_ctx *ctx, gop_task *task, const gop_row *row)
{
    const int64_t *const tuned = gop_tuned(ctx, row);
    for (int t = 0; t < tunables_of_row(row); t++)
        task->tune[t] = tuned ? tuned[t] : row->tunables[t].values[0];
}

static gop_status resolve_tunables(const gop_ctx *ctx, gop_task *task, const gop_row *row)
{
    const gop_call *call = task->call;
    const char *op = gop_call_name(call);
    const int known = tunables_of_row(row);
    default_tunables(ctx, task, row);
    for (int asked = 0; asked < call->ntunables; asked++) {
        const gop_tunable_value *want = &call->tunables[asked];
        int t = 0;
        while (t < known && strcmp(row->tunables[t].name, want->name) != 0) t++;
        if (t == known)
            return gop_fail(GOP_BAD_ARGUMENT,
                            "%s: kernel '%s' has no tunable '%s', expected %s%s", op, row->name,
                            want->name, known ? "one like " : "none",
                            known ? row->tunables[0].name : "");
        const gop_tunable *tunable = &row->tunables[t];
        int allowed = 0;
        for (int i = 0; i < tunable->count; i++) allowed |= tunable->values[i] == want->value;
        if (!allowed) {
            char list[200] = "";
            for (int i = 0, used = 0; i < tunable->count && used < 180; i++)
                used += snprintf(list + used, sizeof list - (size_t)used, i ? ", %lld" : "%lld",
                                 (long long)tunable->values[i]);
            return gop_fail(GOP_BAD_ARGUMENT,
                            "%s: tunable '%s' of kernel '%s' is %lld, expected one of %s", op,
                            want->name, row->name, (long long)want->value, list);
        }
        task->tune[t] = want->value;
    }
    return GOP_OK;
}

static gop_status choose_by_name(const gop_ctx *ctx, gop_task *task, const char *kernel,
                                 int timing, const gop_ladder *ladder, const gop_row **row,
                                 gop_plan *plan)
{
    const char *op = gop_call_name(task->call);
    for (int r = 0; r < ladder->count; r++) {
        const gop_row *candidate = ladder->rows[r];
        if (strcmp(candidate->name, kernel) != 0) continue;
        if (candidate->role == GOP_YARDSTICK && !timing)
            return gop_fail(GOP_REFUSED,
                            "%s: kernel '%s' is a yardstick: it is timed by ladder() and "
                            "benchmark() and gives no answer",
                            op, kernel);
        *row = candidate;
        GOP_TRY(resolve_tunables(ctx, task,
                                 candidate)); /* a wrong argument comes before a refusal */
        return plan_row(ctx, task, candidate, plan);
    }
    for (int r = 0; r < ladder->count; r++)
        if (ladder->rows[r]->before && strcmp(ladder->rows[r]->before, kernel) == 0)
            return gop_fail(GOP_BAD_ARGUMENT, "%s: kernel '%s' of %s is now called '%s'", op,
                            kernel, ctx->backend->name, ladder->rows[r]->name);
    char list[400] = "";
    for (int r = 0, used = 0; r < ladder->count && used < 360; r++)
        used += snprintf(list + used, sizeof list - (size_t)used, r ? ", %s" : "%s",
                         ladder->rows[r]->name);
    return gop_fail(GOP_BAD_ARGUMENT, "%s: there is no kernel '%s' on %s, expected one of %s",
                    op, kernel, ctx->backend->name, list);
}

/* ---- without a name ---- */

/* The seconds that each candidate would take, or NULL if the table's order decides. */
static const double *expect(const gop_ctx *ctx, const gop_task *task, const gop_choice *choice,
                            int all, double *seconds)
{
    if (!choice->expect) return NULL;
    choice->expect(ctx, task, all, seconds);
    return seconds;
}

/* The next candidate that was not tried, or -1. */
static int next_candidate(const gop_choice *choice, const double *seconds, uint32_t tried)
{
    int next = -1;
    for (int c = 0; c < choice->count; c++) {
        if (tried >> c & 1) continue;
        if (!seconds) return c;
        if (seconds[c] < (next < 0 ? INFINITY : seconds[next])) next = c;
    }
    return next;
}

static gop_status is_passed_over(const gop_task *task, const gop_candidate *candidate)
{
    return gop_fail(GOP_REFUSED, "%s: kernel '%s' is chosen for %s",
                    gop_descriptor_of(task->call->op)->name, candidate->row->name,
                    candidate->when);
}

/* Whether a candidate runs the task. */
static gop_status try_candidate(const gop_ctx *ctx, gop_task *task,
                                const gop_candidate *candidate, gop_plan *plan)
{
    const gop_row *row = candidate->row;
    if (candidate->suits && !candidate->suits(ctx, task))
        return is_passed_over(task, candidate);
    default_tunables(ctx, task, row);
    GOP_TRY(plan_row(ctx, task, row, plan));
    if (!candidate->pays || gop_array_size(&task->out[0]) == 0) return GOP_OK; /* no plan */
    return candidate->pays(ctx, task, plan) ? GOP_OK : is_passed_over(task, candidate);
}

static int runs(const gop_ctx *ctx, gop_task *task, const gop_candidate *candidate,
                gop_plan *plan)
{
    gop_fail_quietly(1);
    const gop_status status = try_candidate(ctx, task, candidate, plan);
    gop_fail_quietly(0);
    return status == GOP_OK;
}

/* The first candidate that runs the task, of those after `after` if that is given. */
static const gop_row *choose_candidate(const gop_ctx *ctx, gop_task *task,
                                       const gop_choice *choice, const gop_row *after,
                                       gop_plan *plan)
{
    double room[GOP_MAX_CANDIDATES];
    const double *const seconds = expect(ctx, task, choice, 0, room);
    uint32_t tried = 0;
    for (int c; (c = next_candidate(choice, seconds, tried)) >= 0;) {
        const gop_candidate *candidate = &choice->candidates[c];
        tried |= UINT32_C(1) << c;
        if (after) {
            if (candidate->row == after) after = NULL;
            continue;
        }
        if (runs(ctx, task, candidate, plan)) return candidate->row;
    }
    return NULL;
}

/* How near a candidate that refuses the task came to it: nearest are those that are for such
 * calls, and whose plan has refused. */
static int nearness(const gop_ctx *ctx, const gop_task *task, const gop_candidate *candidate)
{
    if (candidate->suits && !candidate->suits(ctx, task)) return 1;
    return takes(ctx, candidate->row, task->in[0].dtype) ? 3 : 2;
}

/* If no row accepts the task, says why the nearest one does not; among equals that is the last,
 * which takes most. A dtype that the device lacks is reason enough. */
static gop_status say_why(const gop_ctx *ctx, gop_task *task, const gop_choice *choice,
                          gop_plan *plan)
{
    char why[sizeof gop_error_get()->message] = "";
    int nearest = 0;
    for (int c = 0; c < choice->count; c++) {
        const int near = nearness(ctx, task, &choice->candidates[c]);
        const gop_status status = try_candidate(ctx, task, &choice->candidates[c], plan);
        if (status == GOP_BAD_TYPE) return status;
        if (near < nearest) continue;
        const char *const said = gop_error_get()->message, *const colon = strstr(said, ": ");
        snprintf(why, sizeof why, ": %.1000s", colon ? colon + 2 : said);
        nearest = near;
    }
    return gop_fail(nearest ? GOP_DEVICE_UNSUPPORTED : GOP_INTERNAL,
                    "%s: no kernel on %s takes this call of %s%s", gop_call_name(task->call),
                    ctx->backend->name, gop_dtype_name(task->in[0].dtype), why);
}

gop_status gop_choose(const gop_ctx *ctx, gop_task *task, const char *kernel, int timing,
                      const gop_row **row, gop_plan *plan)
{
    const gop_ladder *ladder = ctx->backend->ladder(task->call->op);
    if (ladder->count == 0)
        return gop_fail(GOP_DEVICE_UNSUPPORTED,
                        "%s: %s has no kernels of this operation; take another device, such as "
                        "'cpu'",
                        gop_descriptor_of(task->call->op)->name, ctx->backend->name);
    if (kernel) return choose_by_name(ctx, task, kernel, timing, ladder, row, plan);
    *row = choose_candidate(ctx, task, ladder->choice, NULL, plan);
    if (!*row && is_exact(task))
        return gop_fail(GOP_DEVICE_UNSUPPORTED,
                        "%s: %s has no kernel for exact=True; take another device, such as "
                        "'cpu'",
                        gop_call_name(task->call), ctx->backend->name);
    if (!*row) return say_why(ctx, task, ladder->choice, plan);
    if (task->call->ntunables == 0) return GOP_OK;
    GOP_TRY(resolve_tunables(ctx, task, *row));
    return plan_row(ctx, task, *row, plan);
}

gop_status gop_choose_before(const gop_ctx *ctx, gop_task *task, const gop_row **row,
                             gop_plan *plan)
{
    const gop_ladder *ladder = ctx->backend->ladder(task->call->op);
    int r = 0;
    while (ladder->rows[r] != *row) r++;
    const gop_row *before = choose_candidate(ctx, task, ladder->choice, *row, plan);
    /* A lesson comes last: it is slower, but may need no scratch memory. */
    while (!before && --r >= 0) {
        const gop_candidate lesson = {.row = ladder->rows[r]};
        if (lesson.row->role == GOP_CONFORMING && runs(ctx, task, &lesson, plan))
            before = lesson.row;
    }
    if (!before) return GOP_REFUSED;
    *row = before;
    return GOP_OK;
}

/* ---- for explain() ---- */

gop_ctx *gop_imagine(const gop_ctx *ctx, const gop_device_info *like, gop_ctx *to)
{
    *to = *ctx;
    to->info = *like;
    to->imagined = 1;
    return to;
}

int gop_weigh(const gop_ctx *ctx, gop_task *task, gop_weighed *list, int most)
{
    const gop_choice *choice = ctx->backend->ladder(task->call->op)->choice;
    gop_plan plan;
    const gop_plan *const chosen = task->plan;
    double room[GOP_MAX_CANDIDATES];
    const double *const seconds = expect(ctx, task, choice, 1, room);
    uint32_t tried = 0;
    int count = 0;
    for (int c; count < most && (c = next_candidate(choice, seconds, tried)) >= 0; count++) {
        const gop_candidate *candidate = &choice->candidates[c];
        gop_weighed *it = &list[count];
        tried |= UINT32_C(1) << c;
        memset(it, 0, sizeof *it);
        it->kernel = candidate->row->name;
        it->seconds = seconds ? seconds[c] : 0;
        it->when = candidate->when;
        it->why = candidate->why;
        if (try_candidate(ctx, task, candidate, &plan) != GOP_OK)
            snprintf(it->refusal, sizeof it->refusal, "%.511s", gop_error_get()->message);
    }
    task->plan = chosen;
    return count;
}
