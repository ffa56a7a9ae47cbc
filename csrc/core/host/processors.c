/*
 * processors.c - how many threads a call may use.
 */
#define _GNU_SOURCE /* sched_getaffinity */
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/host/threads.h"

static atomic_int threads_set; /* 0: the default */

static int default_threads(void)
{
    const char *text = getenv("GPUOPS_NUM_THREADS");
    if (text && *text) {
        char *end;
        const long asked = strtol(text, &end, 10);
        if (*end == 0 && asked >= 1)
            return asked < GOP_MAX_THREADS ? (int)asked : GOP_MAX_THREADS;
    }
#if defined(__linux__)
    cpu_set_t mask;
    if (sched_getaffinity(0, sizeof mask, &mask) == 0) {
        const int count = CPU_COUNT(&mask);
        return count < GOP_MAX_THREADS ? count : GOP_MAX_THREADS;
    }
#endif
    const long online = sysconf(_SC_NPROCESSORS_ONLN); /* also of more than a mask holds */
    return online < 1 ? 1 : online < GOP_MAX_THREADS ? (int)online : GOP_MAX_THREADS;
}

int gop_threads(void)
{
    const int set = atomic_load(&threads_set);
    if (set > 0) return set;
    static atomic_int cached;
    int count = atomic_load(&cached);
    if (count == 0) atomic_store(&cached, count = default_threads());
    return count;
}

void gop_threads_set(int threads)
{
    const int most = GOP_MAX_THREADS;
    atomic_store(&threads_set, threads < 0 ? 0 : threads < most ? threads : most);
}
