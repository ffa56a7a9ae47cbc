/*
 * memory.c - host memory: aligned, with a fault hook.
 *
 * GPUOPS_FAULT=<site>:<n>[:forever] makes the n-th attempt at a site fail (or all from the
 * n-th), so that tests can walk through every failing allocation.
 */
#define _GNU_SOURCE /* sysconf: free memory */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/host/memory.h"

static char fault_site[64];
static long fault_at; /* 0: off */
static int fault_forever;
static atomic_long fault_count;

void gop_fault_set(const char *spec)
{
    const char *colon = spec ? strchr(spec, ':') : NULL;
    fault_at = 0;
    atomic_store(&fault_count, 0);
    if (!colon || (size_t)(colon - spec) >= sizeof fault_site) return;
    memcpy(fault_site, spec, (size_t)(colon - spec));
    fault_site[colon - spec] = 0;
    fault_at = strtol(colon + 1, NULL, 10);
    fault_forever = strstr(colon + 1, ":forever") != NULL;
}

int gop_fault(const char *site)
{
    if (fault_at == 0 || strcmp(site, fault_site) != 0) return 0;
    const long count = atomic_fetch_add(&fault_count, 1) + 1;
    return fault_forever ? count >= fault_at : count == fault_at;
}

void *gop_alloc(size_t bytes)
{
    const size_t rounded = (bytes + 63) / 64 * 64;
    if (rounded < bytes || gop_fault("host.alloc")) return NULL;
    return aligned_alloc(64, rounded ? rounded : 64);
}

void gop_release(void *memory)
{
    free(memory);
}

gop_status gop_no_memory(const char *op, size_t bytes)
{
    int64_t free_bytes = 0;
#if defined(_SC_AVPHYS_PAGES)
    free_bytes = (int64_t)sysconf(_SC_AVPHYS_PAGES) * sysconf(_SC_PAGESIZE);
#endif
    struct rlimit limit;
    const int has_limit = getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
    if (has_limit && (uint64_t)limit.rlim_cur < (uint64_t)free_bytes) {
        /* How much of it is taken, only the system knows. */
        free_bytes = (int64_t)limit.rlim_cur;
        gop_fail(GOP_NO_MEMORY,
                 "%s%sno host memory for %zu bytes: this process may have %lld in all, by "
                 "`ulimit -v`",
                 op ? op : "", op ? ": " : "", bytes, (long long)free_bytes);
    } else
        gop_fail(GOP_NO_MEMORY, "%s%sno host memory for %zu bytes, %lld bytes are free",
                 op ? op : "", op ? ": " : "", bytes, (long long)free_bytes);
    gop_error_slot()->requested = (int64_t)bytes;
    gop_error_slot()->free = free_bytes;
    return GOP_NO_MEMORY;
}

gop_status gop_named(const char *op, gop_status status)
{
    if (status == GOP_NO_MEMORY || status == GOP_NO_DEVICE_MEMORY) {
        gop_error *error = gop_error_slot();
        char said[900];
        snprintf(said, sizeof said, "%.899s", error->message);
        snprintf(error->message, sizeof error->message, "%s: %s", op, said);
    }
    return status;
}
