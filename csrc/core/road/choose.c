/*
 * choose.c - the plan ends: finds the row of a ladder that runs a task, and its tunables.
 */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "core/choice.h"

/* ---- rows and their tunables ---- */

static const gop_row *find_row(const gop_ladder *ladder, const char *kernel)
{
    for (int r = 0; r < ladder->count; r++)
        if (strcmp(ladder->rows[r]->name, kernel) == 0) return ladder->rows[r];
    return NULL;
}

static int tunables_of_row(const gop_row *row)
{
    int count = 0;
    while (count < GOP_MAX_TUNABLES && row->tunables[count].name) count++;
    return count;
}

/* The number of a row's tunable, or -1. */
static int find_tunable(const gop_row *row, const char *name)
{
    for (int t = 0; t < tunables_of_row(row); t++)
        if (strcmp(row->tunables[t].name, name) == 0) return t;
    return -1;
}

static int allows(const gop_tunable *tunable, int64_t value)
{
    for (int i = 0; i < tunable->count; i++)
        if (tunable->values[i] == value) return 1;
    return 0;
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

/* ---- the plan of one row ---- */

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

/* A plan's refusal names the operation that it belongs to: "reduce: this kernel ...". The
 * caller is told of the function and the kernel instead: "sum: kernel 'rows' ...". */
static gop_status refused_by(const gop_task *task, const gop_row *row, gop_status status)
{
    static const char self[] = "this kernel ";
    char said[sizeof gop_error_get()->message];
    if (status != GOP_REFUSED) return status;
    snprintf(said, sizeof said, "%s", gop_error_get()->message);
    const char *const colon = strstr(said, ": "), *const why = colon ? colon + 2 : said;
    const char *const op = gop_call_name(task->call);
    if (strncmp(why, self, sizeof self - 1) != 0) return gop_fail(status, "%s: %s", op, why);
    return gop_fail(status, "%s: kernel '%s' %s", op, row->name, why + sizeof self - 1);
}

/* ---- values of tunables that a user found best, by `python -m gpuops.tune` ---- */

/* They replace a row's first values, which are shipped. Python reads them from the user's file
 * when it opens a backend, so before any of its devices is used. */
enum { MOST_TUNED = 64 };

typedef struct tuned {
    const gop_row *row;
    char device[320]; /* its name, a line's end, its detail with the driver's version */
    int64_t values[GOP_MAX_TUNABLES];
} tuned;

static pthread_mutex_t tuned_lock = PTHREAD_MUTEX_INITIALIZER;
static tuned all_tuned[MOST_TUNED];
static _Atomic int ntuned; /* of those that are complete */

int gop_set_tuned(const gop_backend *backend, const char *device, const char *kernel,
                  const gop_call *call)
{
    tuned made = {.row = find_row(backend->ladder(call->op), kernel)};
    if (!made.row || strlen(device) >= sizeof made.device) return 0;
    for (int t = 0; t < tunables_of_row(made.row); t++)
        made.values[t] = made.row->tunables[t].values[0];
    for (int k = 0; k < call->ntunables; k++) {
        const gop_tunable_value *want = &call->tunables[k];
        const int t = find_tunable(made.row, want->name);
        if (t < 0 || !allows(&made.row->tunables[t], want->value)) return 0;
        made.values[t] = want->value;
    }
    snprintf(made.device, sizeof made.device, "%s", device);
    pthread_mutex_lock(&tuned_lock);
    const int has_room = ntuned < MOST_TUNED;
    if (has_room) {
        all_tuned[ntuned] = made;
        ntuned++;
    }
    pthread_mutex_unlock(&tuned_lock);
    return has_room;
}

/* The user's values of a row's tunables on this device; NULL: there are none. */
static const int64_t *tuned_values(const gop_ctx *ctx, const gop_row *row)
{
    for (int i = ntuned - 1; i >= 0; i--) { /* the last one counts */
        const size_t name = strlen(ctx->info.name);
        if (all_tuned[i].row == row &&
            strncmp(all_tuned[i].device, ctx->info.name, name) == 0 &&
            all_tuned[i].device[name] == '\n' &&
            strcmp(all_tuned[i].device + name + 1, ctx->info.detail) == 0)
            return all_tuned[i].values;
    }
    return NULL;
}

/* ---- the tunables of a call ---- */

/* Sets the row's own values, or the user's for this device, before its predicate reads them. */
static void default_tunables(const gop_ctx *ctx, gop_task *task, const gop_row *row)
{
    const int64_t *const users = tuned_values(ctx, row);
    for (int t = 0; t < tunables_of_row(row); t++)
        task->tune[t] = users ? users[t] : row->tunables[t].values[0];
}

static gop_status resolve_tunables(const gop_ctx *ctx, gop_task *task, const gop_row *row)
{
    const gop_call *call = task->call;
    const char *op = gop_call_name(call);
    default_tunables(ctx, task, row);
    for (int asked = 0; asked < call->ntunables; asked++) {
        const gop_tunable_value *want = &call->tunables[asked];
        const int t = find_tunable(row, want->name), has_any = tunables_of_row(row) > 0;
        if (t < 0)
            return gop_fail(GOP_BAD_ARGUMENT,
                            "%s: kernel '%s' has no tunable '%s', expected %s%s", op, row->name,
                            want->name, has_any ? "one like " : "none",
                            has_any ? row->tunables[0].name : "");
        const gop_tunable *tunable = &row->tunables[t];
        if (!allows(tunable, want->value)) {
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
    const gop_row *named = find_row(ladder, kernel);
    if (named && named->role == GOP_YARDSTICK && !timing)
        return gop_fail(GOP_REFUSED,
                        "%s: kernel '%s' is a yardstick: it is timed by ladder() and "
                        "benchmark() and gives no answer",
                        op, kernel);
    if (named) {
        *row = named;
        GOP_TRY(
            resolve_tunables(ctx, task, named)); /* a wrong argument comes before a refusal */
        return refused_by(task, named, plan_row(ctx, task, named, plan));
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
    return gop_fail(GOP_REFUSED, "%s: kernel '%s' is chosen for %s", gop_call_name(task->call),
                    candidate->row->name, candidate->when);
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
        const gop_candidate *const candidate = &choice->candidates[c];
        const gop_status status =
            refused_by(task, candidate->row, try_candidate(ctx, task, candidate, plan));
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
                        gop_call_name(task->call), ctx->backend->name);
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
    return refused_by(task, *row, plan_row(ctx, task, *row, plan));
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
        const gop_status status = try_candidate(ctx, task, candidate, &plan);
        if (refused_by(task, candidate->row, status) != GOP_OK)
            snprintf(it->refusal, sizeof it->refusal, "%.511s", gop_error_get()->message);
    }
    task->plan = chosen;
    return count;
}
