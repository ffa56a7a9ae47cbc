/*
 * memory.c - aligned host memory; and arenas, which live as long as a call, with arrays as
 * checks read them there.
 */
#define _GNU_SOURCE /* sysconf: free memory */
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/host/memory.h"

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

/* ---- arenas: blocks that are freed together ---- */

struct gop_arena_block {
    struct gop_arena_block *next;
    char padding[64 - sizeof(void *)]; /* keeps what follows 64-byte aligned */
};

void *gop_arena_alloc(gop_arena *arena, size_t bytes)
{
    struct gop_arena_block *block = bytes <= SIZE_MAX - 64 ? gop_alloc(bytes + 64) : NULL;
    if (!block) {
        gop_no_memory(arena->op, bytes);
        return NULL;
    }
    block->next = arena->first;
    arena->first = block;
    return block + 1;
}

void gop_arena_free(gop_arena *arena)
{
    while (arena->first) {
        struct gop_arena_block *next = arena->first->next;
        gop_release(arena->first);
        arena->first = next;
    }
}

enum { PIECE = 1 << 20 }; /* elements between two looks for Ctrl-C */

/* All elements in C order. */
static gop_status pack_all(const gop_array *array, char *to)
{
    const int64_t count = gop_array_size(array), item = gop_dtype_size(array->dtype);
    for (int64_t i = 0; i < count; i += PIECE) {
        GOP_TRY(gop_interrupted());
        gop_pack_c_order(array, i, count - i < PIECE ? count - i : PIECE, to + i * item);
    }
    return GOP_OK;
}

/* Declared in core.h: what the checks that need data read through. */
gop_status gop_arena_host(gop_arena *arena, const gop_array *array, gop_array *host)
{
    gop_array c_order = *array;
    c_order.stored = 0;
    gop_array_c_order(&c_order);
    *host = c_order;
    if (gop_array_on_host(array) && gop_array_is_item_aligned(array) &&
        gop_array_same_layout(array, &c_order))
        return GOP_OK;
    host->where = (gop_device){GOP_CPU, 0};
    host->data = gop_arena_alloc(arena, (size_t)gop_array_bytes(array));
    if (!host->data) return GOP_NO_MEMORY;
    if (gop_array_on_host(array)) return pack_all(array, host->data);
    return arena->fetch(array, host);
}
