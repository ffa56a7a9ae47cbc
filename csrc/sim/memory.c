/*
 * memory.c - the device's memory: host memory, kept in a list so that wrong addresses are
 * detected.
 */
#include "sim/check.h"
#include "sim/locks.h"

#include <stdlib.h>
#include <string.h>

static pthread_mutex_t *const lock = &gop_sim_locks[GOP_SIM_ARRAYS];
static gop_sim_array *taken;
static int count, room;

/* Adds an array to the list. The caller holds the lock. */
static int remember(uintptr_t begin, uintptr_t end)
{
    if (count == room) {
        const int more = room ? 2 * room : 64;
        gop_sim_array *grown = realloc(taken, (size_t)more * sizeof *taken);
        if (!grown) return 0;
        taken = grown;
        room = more;
    }
    taken[count++] = (gop_sim_array){begin, end};
    return 1;
}

/* Allocates an array, aligned to 256 bytes as CUDA's are. It is filled with all ones (NaN and
 * -1), so that reads before the first write show. A gap follows it, so that an index outside a
 * small array does not reach another one. Hardly any of the gap is filled: memory that nobody
 * touches costs nothing. */
void *gop_sim_memory_take(size_t bytes)
{
    enum { LINE = 256, GAP = 65536, FILLED = 4096 };
    const size_t rounded = (bytes + GAP + LINE - 1) / LINE * LINE;
    if (rounded < bytes || gop_services->fault("sim.alloc")) return NULL;
    char *memory = aligned_alloc(LINE, rounded);
    if (!memory) return NULL;
    pthread_mutex_lock(lock);
    const int remembered = remember((uintptr_t)memory, (uintptr_t)memory + bytes);
    pthread_mutex_unlock(lock);
    if (!remembered) {
        free(memory);
        return NULL;
    }
    return memset(memory, 0xff, bytes + FILLED);
}

void gop_sim_memory_give(void *memory)
{
    pthread_mutex_lock(lock);
    for (int i = count - 1; i >= 0; i--) {
        if (taken[i].begin != (uintptr_t)memory) continue;
        taken[i] = taken[--count];
        break;
    }
    pthread_mutex_unlock(lock);
    free(memory);
}

size_t gop_sim_memory_used(void)
{
    size_t bytes = 0;
    pthread_mutex_lock(lock);
    for (int i = 0; i < count; i++) bytes += taken[i].end - taken[i].begin;
    pthread_mutex_unlock(lock);
    return bytes;
}

gop_sim_arrays *gop_sim_arrays_now(void)
{
    pthread_mutex_lock(lock);
    gop_sim_arrays *now = malloc(sizeof *now + (size_t)count * sizeof *taken);
    if (now) {
        now->count = count;
        if (count) memcpy(now->at, taken, (size_t)count * sizeof *taken);
    }
    pthread_mutex_unlock(lock);
    return now;
}
