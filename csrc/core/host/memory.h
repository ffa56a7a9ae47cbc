/*
 * memory.h - arenas and the fault hook, for core alone.
 */
#ifndef GOP_CORE_MEMORY_H
#define GOP_CORE_MEMORY_H

#include "core/core.h"

struct gop_arena {
    const char *op; /* for the sentence when memory ends */
    struct gop_arena_block *first;
    int64_t finding; /* of the check that uses it, as the task's */
    gop_runner run;  /* for a check that reduces data where it lies */
    /* Copies an array of any device into host memory. */
    gop_status (*fetch)(const gop_array *device, const gop_array *host);
};

void gop_arena_free(gop_arena *arena);
/* Fails with a sentence; `op` NULL: gop_named() will put it in. */
gop_status gop_no_memory(const char *op, size_t bytes);
/* Names the operation in the sentence of a backend that had no memory and does not know it. */
gop_status gop_named(const char *op, gop_status status);
void gop_fault_set(const char *spec); /* NULL: off */

#endif
