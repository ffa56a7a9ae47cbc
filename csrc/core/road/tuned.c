/*
 * tuned.c - values of tunables that a user found best on a device, by `python -m gpuops.tune`.
 *
 * They replace a row's first values, which are shipped. Python reads them from the user's file
 * when it opens a backend, so before any of its devices is used.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "core/choice.h"

enum { MOST = 64 };

typedef struct tuned {
    const gop_row *row;
    char device[320]; /* its name, a line's end, its detail with the driver's version */
    int64_t values[GOP_MAX_TUNABLES];
} tuned;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static tuned all[MOST];
static _Atomic int count; /* of those that are complete */

static const gop_row *find_row(const gop_backend *backend, gop_op op, const char *kernel)
{
    const gop_ladder *const ladder = backend->ladder(op);
    for (int r = 0; r < ladder->count; r++)
        if (strcmp(ladder->rows[r]->name, kernel) == 0) return ladder->rows[r];
    return NULL;
}

/* Changes one of the row's own values; returns 0 if it has no such tunable or value. */
static int take(const gop_row *row, const gop_tunable_value *want, int64_t *values)
{
    for (int t = 0; t < GOP_MAX_TUNABLES && row->tunables[t].name; t++) {
        if (strcmp(row->tunables[t].name, want->name) != 0) continue;
        for (int i = 0; i < row->tunables[t].count; i++)
            if (row->tunables[t].values[i] == want->value) {
                values[t] = want->value;
                return 1;
            }
    }
    return 0;
}

int gop_set_tuned(const gop_backend *backend, const char *device, const char *kernel,
                  const gop_call *call)
{
    tuned made = {.row = find_row(backend, call->op, kernel)};
    if (!made.row || strlen(device) >= sizeof made.device) return 0;
    for (int t = 0; t < GOP_MAX_TUNABLES && made.row->tunables[t].name; t++)
        made.values[t] = made.row->tunables[t].values[0];
    for (int k = 0; k < call->ntunables; k++)
        if (!take(made.row, &call->tunables[k], made.values)) return 0;
    snprintf(made.device, sizeof made.device, "%s", device);
    pthread_mutex_lock(&lock);
    const int has_room = count < MOST;
    if (has_room) {
        all[count] = made;
        count++;
    }
    pthread_mutex_unlock(&lock);
    return has_room;
}

const int64_t *gop_tuned(const gop_ctx *ctx, const gop_row *row)
{
    for (int i = count - 1; i >= 0; i--) { /* the last one counts */
        const size_t name = strlen(ctx->info.name);
        if (all[i].row == row && strncmp(all[i].device, ctx->info.name, name) == 0 &&
            all[i].device[name] == '\n' &&
            strcmp(all[i].device + name + 1, ctx->info.detail) == 0)
            return all[i].values;
    }
    return NULL;
}
