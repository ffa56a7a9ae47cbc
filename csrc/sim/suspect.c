/*
 * suspect.c - plain loads that race with atomics: correct if the value is only compared.
 *
 *     int old = *address, assumed;
 *     do {
 *         assumed = old;
 *         old = atomicCAS(address, assumed, f(assumed));
 *     } while (old != assumed);
 *
 * If the first load is stale, atomicCAS fails and returns the new value. So a load that races
 * with another lane's atomic is kept as a suspect until its lane compares at that location. The
 * suspects that remain when the launch ends are reported.
 */
#include "sim/shadow.h"

#include <stdlib.h>

static uintptr_t place_of(const gop_sim_suspect *s)
{
    return s->clash.access.address; /* the two overlap, so they have one address */
}

static int is_known(const gop_sim_hunt *h, const gop_sim_suspect *new)
{
    for (int i = 0; i < h->nsuspects; i++)
        if (h->suspects[i].block == new->block &&
            h->suspects[i].lane == new->lane &&place_of(&h->suspects[i]) == place_of(new))
            return 1;
    return 0;
}

int gop_sim_suspect_load(gop_sim_hunt *h, const gop_sim_clash *c)
{
    const int loads = c->access.kind == GOP_SIM_LOAD;
    const gop_sim_suspect new = {loads ? c->block : c->other.block,
                                 loads ? c->lane : c->other.lane, *c};
    int kept = 1;
    pthread_mutex_lock(&h->lock);
    if (!is_known(h, &new)) {
        if (h->nsuspects == h->suspects_room) {
            const int room = h->suspects_room ? 2 * h->suspects_room : 64;
            gop_sim_suspect *more = realloc(h->suspects, (size_t)room * sizeof *more);
            if (more) {
                h->suspects = more;
                h->suspects_room = room;
            } else kept = 0;
        }
        if (kept) h->suspects[h->nsuspects++] = new;
    }
    pthread_mutex_unlock(&h->lock);
    return kept;
}

void gop_sim_suspects_compare(gop_sim_hunt *h, uint32_t block, uint32_t lane,
                              const gop_sim_access *a)
{
    int kept = 0;
    if (!__atomic_load_n(&h->nsuspects, __ATOMIC_RELAXED)) return;
    pthread_mutex_lock(&h->lock);
    for (int i = 0; i < h->nsuspects; i++) {
        const gop_sim_suspect *s = &h->suspects[i];
        if (s->block == block && s->lane == lane &&
            place_of(s) - a->address < (uintptr_t)a->bytes)
            continue;
        h->suspects[kept++] = *s;
    }
    h->nsuspects = kept;
    pthread_mutex_unlock(&h->lock);
}

gop_status gop_sim_suspects_said(const gop_sim_launch *launch, const gop_sim_hunt *h)
{
    if (!h || !h->nsuspects) return GOP_OK;
    gop_sim_race(launch, &h->suspects[0].clash);
    return GOP_DEVICE_FAILED;
}

void gop_sim_suspects_end(gop_sim_hunt *h)
{
    free(h->suspects);
}
