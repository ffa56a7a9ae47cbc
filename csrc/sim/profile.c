/*
 * profile.c - keeps the counters of all threads and launches between start and stop.
 */
#define _GNU_SOURCE /* dladdr */
#include "sim/counters.h"
#include "sim/locks.h"
#include "sim/report.h"

#include <stdlib.h>
#include <string.h>

static pthread_mutex_t *const lock = &gop_sim_locks[GOP_SIM_PROFILE];
static int on, warned;
static gop_sim_wish wish;
static gop_sim_kernel *kernels;
static char *text; /* of the profile that ended last */

void gop_sim_profile_wish(const gop_sim_wish *wanted)
{
    pthread_mutex_lock(lock);
    wish = *wanted;
    pthread_mutex_unlock(lock);
}

/* Turns "(add_naive_kernel<Op, T, uint32_t>)" into add_naive_kernel. */
static void plain_name(const char *from, char *to, size_t room)
{
    size_t n = 0;
    for (from += *from == '('; *from && !strchr("<) ", *from) && n + 1 < room; from++)
        to[n++] = *from;
    to[n] = 0;
}

/* Finds or makes the entry of a launch's kernel. A launch with a device is counted by that
 * device's rules, others by the profile's. The caller holds the lock. */
static gop_sim_kernel *kernel_of(const gop_sim_launch *launch)
{
    const int device = launch->device ? launch->device : wish.device;
    gop_sim_kernel **end = &kernels;
    for (; *end; end = &(*end)->next)
        if ((*end)->function == launch->function && (*end)->device == device) return *end;
    *end = calloc(1, sizeof **end);
    if (!*end) return NULL;
    (*end)->function = launch->function;
    (*end)->device = device;
    plain_name(launch->kernel, (*end)->name, sizeof(*end)->name);
    return *end;
}

/* ---- a launch ---- */

int gop_sim_profile_begins(const gop_sim_launch *launch, gop_sim_plan *plan)
{
    if (!__atomic_load_n(&on, __ATOMIC_ACQUIRE)) return 0;
    pthread_mutex_lock(lock);
    gop_sim_kernel *k = on ? kernel_of(launch) : NULL;
    if (k) {
        k->launches++;
        k->grid += plan->blocks;
        plan->rules = &gop_sim_rules_of[k->device];
        plan->wanted = wish.blocks;
    }
    pthread_mutex_unlock(lock);
    return k != NULL;
}

size_t gop_sim_profile_shared(const gop_sim_launch *launch)
{
    pthread_mutex_lock(lock);
    const gop_sim_kernel *k = on ? kernel_of(launch) : NULL;
    const size_t shared = k ? (size_t)k->shared : 0;
    pthread_mutex_unlock(lock);
    return shared;
}

gop_status gop_sim_profile_warns(const gop_sim_launch *launch, double seconds, int64_t blocks)
{
    char name[96];
    pthread_mutex_lock(lock);
    const int warns = on && wish.warn && !warned && seconds > wish.seconds;
    warned |= warns;
    int (*const warn)(const char *, double, int64_t) = wish.warn;
    pthread_mutex_unlock(lock);
    if (!warns) return GOP_OK;
    plain_name(launch->kernel, name, sizeof name);
    if (!warn(name, seconds, blocks)) return GOP_OK;
    return gop_fail(GOP_DEVICE_FAILED, "sim: %s: stopped by the warning that it takes long",
                    name);
}

/* ---- waves: the blocks that a GPU with memory partitions has at work together ---- */

static void end_wave(gop_sim_kernel *k, gop_sim_wave **wave)
{
    gop_sim_wave *const gone = *wave;
    for (int u = 0; u < k->counters.used; u++) {
        const int at = k->counters.at_used[u];
        int64_t most = 0;
        for (int p = 0; p < GOP_SIM_PARTITIONS; p++) {
            k->counters.at[at].carried += gone->load[at][p];
            if (gone->load[at][p] > most) most = gone->load[at][p];
        }
        k->counters.at[at].busiest += most;
    }
    *wave = gone->next;
    free(gone);
}

/* Finds or makes a wave. Threads of a launch work on neighbouring waves, so few are open at a
 * time. */
static gop_sim_wave **wave_of(gop_sim_kernel *k, const gop_sim_launch *launch, int64_t number)
{
    gop_sim_wave **wave = &k->waves;
    for (; *wave; wave = &(*wave)->next)
        if ((*wave)->launch == launch && (*wave)->number == number) return wave;
    *wave = calloc(1, sizeof **wave);
    if (*wave) (*wave)->launch = launch;
    if (*wave) (*wave)->number = number;
    return wave;
}

void gop_sim_profile_ends(const gop_sim_launch *launch)
{
    pthread_mutex_lock(lock);
    gop_sim_kernel *k = on ? kernel_of(launch) : NULL;
    for (gop_sim_wave **wave = k ? &k->waves : NULL; wave && *wave;)
        if ((*wave)->launch == launch) end_wave(k, wave);
        else wave = &(*wave)->next;
    pthread_mutex_unlock(lock);
}

/* ---- what a thread counted ---- */

void gop_sim_counting_begin(gop_sim_worker *w, const gop_sim_plan *plan)
{
    w->counters = NULL;
    w->paths = NULL;
    if (!plan->counted) return;
    if (!w->kept_counters) w->kept_counters = calloc(1, sizeof *w->kept_counters);
    if (!w->kept_paths) w->kept_paths = calloc(GOP_SIM_LANES, sizeof *w->kept_paths);
    if (!w->kept_counters || !w->kept_paths) return;
    w->counters = w->kept_counters;
    w->paths = w->kept_paths;
    w->rules = plan->rules;
}

static int add_counter(gop_sim_counters *to, const gop_sim_counter *from)
{
    gop_sim_counter *c = gop_sim_counter_of(to, from->pc, from->kind, from->space);
    c->requests += from->requests;
    c->lanes += from->lanes;
    c->bytes += from->bytes;
    c->parts += from->parts;
    c->ideal += from->ideal;
    c->excess += from->excess;
    c->moved += from->moved;
    if (gop_sim_is_better(&from->sample, &c->sample)) c->sample = from->sample;
    for (int i = 0; i <= GOP_SIM_MOST; i++) c->each[i] += from->each[i];
    for (int i = 0; i <= GOP_SIM_SECTOR; i++) c->map[i] += from->map[i];
    return (int)(c - to->at);
}

static void add_all(gop_sim_kernel *k, gop_sim_counters *from, gop_sim_wave *wave)
{
    for (int u = 0; u < from->used; u++) {
        gop_sim_counter *c = &from->at[from->at_used[u]];
        const int at = add_counter(&k->counters, c);
        for (int p = 0; wave && p < GOP_SIM_PARTITIONS; p++) wave->load[at][p] += c->load[p];
        memset(c, 0, sizeof *c);
    }
    for (int u = 0; u < from->branches_used; u++) {
        gop_sim_branch *b = &from->branch[from->branch_used[u]];
        gop_sim_branch *sum = gop_sim_branch_of(&k->counters, b->pc);
        sum->passed += b->passed;
        sum->lanes += b->lanes;
        sum->divergent += b->divergent;
        memset(b, 0, sizeof *b);
    }
    if (!k->counters.steps) {
        memcpy(k->counters.tape, from->tape, (size_t)from->steps * sizeof *from->tape);
        k->counters.steps = from->steps;
    }
    from->used = from->branches_used = from->steps = 0;
}

void gop_sim_counting_keep(gop_sim_worker *w, const gop_sim_plan *plan, int64_t first,
                           int64_t end)
{
    if (!w->counters) return;
    const gop_sim_index b = w->launch->block;
    pthread_mutex_lock(lock);
    gop_sim_kernel *k = on ? kernel_of(w->launch) : NULL;
    if (k) {
        gop_sim_wave **wave = NULL;
        const int64_t number = plan->unit ? first / plan->unit : 0;
        if (plan->rules->partitions) wave = wave_of(k, w->launch, number);
        k->blocks += end - first;
        k->threads += (end - first) * (int64_t)b.x * b.y * b.z;
        k->unit = plan->unit;
        if (w->shared_used > k->shared) k->shared = w->shared_used;
        add_all(k, w->counters, wave ? *wave : NULL);
        if (wave && *wave) {
            (*wave)->done += end - first;
            if (plan->unit && (*wave)->done == plan->unit) end_wave(k, wave);
        }
    }
    pthread_mutex_unlock(lock);
}

void gop_sim_counting_end(gop_sim_worker *w)
{
    w->counters = NULL;
    w->paths = NULL;
}

/* ---- start and stop ---- */

const char *gop_sim_profile(int start)
{
    pthread_mutex_lock(lock);
    free(text);
    text = start ? NULL : gop_sim_report(kernels);
    while (kernels) {
        gop_sim_kernel *next = kernels->next;
        while (kernels->waves) end_wave(kernels, &kernels->waves);
        free(kernels);
        kernels = next;
    }
    if (start) warned = 0;
    else wish = (gop_sim_wish){0};
    __atomic_store_n(&on, start, __ATOMIC_RELEASE);
    pthread_mutex_unlock(lock);
    return text;
}
