/*
 * record.c - keeps the memory requests of a launch's warps in order, to draw them.
 *
 * gpuops/course/watch.py asks for them around a small counted launch.
 */
#define _GNU_SOURCE /* dladdr */
#include "sim/locks.h"
#include "sim/record.h"

#include <dlfcn.h>
#include <stdlib.h>

static pthread_mutex_t *const lock = &gop_sim_locks[GOP_SIM_RECORD];
static gop_sim_seen *seen;
static int count, room;

void gop_sim_record(int most)
{
    pthread_mutex_lock(lock);
    free(seen);
    seen = most > 0 ? malloc((size_t)most * sizeof *seen) : NULL;
    room = seen ? most : 0;
    count = 0;
    pthread_mutex_unlock(lock);
}

const gop_sim_seen *gop_sim_recorded(int *number)
{
    *number = count;
    return seen;
}

void gop_sim_note_request(const gop_sim_worker *w, int warp, const gop_sim_access *access,
                          const gop_sim_request *r)
{
    if (!__atomic_load_n(&room, __ATOMIC_RELAXED)) return;
    const gop_sim_index b = w->block, grid = w->launch->grid;
    Dl_info library;
    pthread_mutex_lock(lock);
    if (count < room && dladdr(access->pc, &library)) {
        gop_sim_seen *s = &seen[count++];
        s->offset = (const char *)access->pc - (const char *)library.dli_fbase;
        s->block = ((int64_t)b.z * grid.y + b.y) * grid.x + b.x;
        s->warp = warp;
        s->kind = access->kind;
        s->count = r->count;
        for (int i = 0; i < r->count; i++) {
            const gop_sim_access one = {access->pc, r->at[i], access->bytes, access->kind};
            s->lane[i] = r->lane[i];
            s->element[i] = gop_sim_element_of(w, &one);
        }
    }
    pthread_mutex_unlock(lock);
}
