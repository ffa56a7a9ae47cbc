/*
 * schedule.c - parses a schedule's name, and makes random orders.
 */
#include "sim/locks.h"
#include "sim/schedule.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"forward", "lockstep", "reversed", "random"};

static pthread_mutex_t *const lock = &gop_sim_locks[GOP_SIM_SCHEDULE];
static gop_sim_schedule first; /* the environment's */
static int was_read, is_wrong;
static __thread gop_sim_schedule now; /* this thread's own, if has_own */
static __thread int has_own;

static int read_text(const char *text, gop_sim_schedule *schedule)
{
    const char *colon = strchr(text, ':');
    const size_t length = colon ? (size_t)(colon - text) : strlen(text);
    for (int i = GOP_SIM_FORWARD; i <= GOP_SIM_RANDOM; i++) {
        if (strlen(names[i]) != length || strncmp(text, names[i], length) != 0) continue;
        char *end = NULL;
        schedule->turns = (gop_sim_turns)i;
        errno = 0;
        schedule->seed = colon ? strtoull(colon + 1, &end, 10) : 0;
        return !colon || (i == GOP_SIM_RANDOM && colon[1] >= '0' && colon[1] <= '9' &&
                          *end == 0 && !errno);
    }
    return 0;
}

/* Reads the environment once. A wrong name means forward; gpuops.config reports it. The caller
 * holds the lock. */
static void read_environment(void)
{
    const char *text = getenv("GPUOPS_SIM_SCHEDULE");
    gop_sim_schedule set;
    if (was_read) return;
    was_read = 1;
    if (!text || !*text) return;
    is_wrong = !read_text(text, &set);
    if (!is_wrong) first = set;
}

const char *gop_sim_set_schedule(const char *text)
{
    static __thread char before[40];
    gop_sim_schedule set;
    if (*text && !read_text(text, &set)) return NULL;
    if (!has_own) before[0] = 0;
    else if (now.turns == GOP_SIM_RANDOM)
        snprintf(before, sizeof before, "random:%llu", (unsigned long long)now.seed);
    else snprintf(before, sizeof before, "%s", names[now.turns]);
    has_own = *text != 0;
    if (has_own) now = set;
    return before;
}

int gop_sim_schedule_now(gop_sim_schedule *schedule)
{
    *schedule = now;
    if (has_own) return 1;
    pthread_mutex_lock(lock);
    read_environment();
    const int is_known = !is_wrong;
    *schedule = first;
    pthread_mutex_unlock(lock);
    return is_known;
}

/* ---- by chance: splitmix64, published without conditions by S. Vigna ---- */

uint64_t gop_sim_chance(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

uint64_t gop_sim_mix(uint64_t a, uint64_t b)
{
    uint64_t state = a;
    state = gop_sim_chance(&state) ^ b;
    return gop_sim_chance(&state);
}

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
    while (b) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

int64_t gop_sim_scheduled_block(const gop_sim_schedule *s, int64_t item, int64_t count)
{
    if (s->turns == GOP_SIM_REVERSED) return count - 1 - item;
    if (s->turns != GOP_SIM_RANDOM || count < 2) return item;
    /* A step that is coprime with the count visits every block once. */
    const uint64_t n = (uint64_t)count;
    uint64_t step = gop_sim_mix(s->seed, n) % (n < 1 << 30 ? n : 1 << 30) | 1;
    while (common_divisor(n, step) != 1) step += 2;
    return (int64_t)((gop_sim_mix(s->seed, ~n) % n + (uint64_t)item * (step % n)) % n);
}
