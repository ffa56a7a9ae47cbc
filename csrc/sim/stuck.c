/*
 * stuck.c - blocks that cannot go on.
 *
 * Lanes wait for others that never come, or poll a value that no thread stores. The sentence
 * says which lanes these are, and where.
 */
#define _GNU_SOURCE /* dladdr */
#include "sim/check.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

/* ---- words ---- */

void gop_sim_place_of(const void *pc, char *text, size_t room)
{
    Dl_info library;
    const int known = dladdr(pc, &library) != 0;
    snprintf(text, room, "[%.200s+0x%llx]", known ? library.dli_fname : "",
             (unsigned long long)((uintptr_t)pc -
                                  (known ? (uintptr_t)library.dli_fbase : (uintptr_t)0)));
}

const char *gop_sim_who_of(const gop_sim_launch *l, gop_sim_index b, gop_sim_index t,
                           const void *pc, char *text)
{
    char place[256];
    gop_sim_place_of(pc, place, sizeof place);
    snprintf(text, 512, "sim: %.100s: block (%u, %u, %u), thread (%u, %u, %u) %s", l->kernel,
             b.x, b.y, b.z, t.x, t.y, t.z, place);
    return text;
}

const char *gop_sim_who(const gop_sim_worker *w, const gop_sim_lane *lane, const void *pc,
                        char *text)
{
    return gop_sim_who_of(w->launch, w->block, lane->index, pc, text);
}

/* ---- meetings ---- */

int gop_sim_stuck(const gop_sim_worker *w)
{
    for (int l = 0; l < w->lanes; l++) {
        const gop_sim_warp *v = &w->warp[l / GOP_SIM_WARP];
        const gop_sim_lane *one = &w->all[l], *warp = &w->all[l / GOP_SIM_WARP * GOP_SIM_WARP];
        if (!(v->at_meeting >> l % GOP_SIM_WARP & 1)) continue;
        const gop_sim_lane *other = one;
        for (unsigned m = one->mask & v->live; m; m &= m - 1) {
            const gop_sim_lane *at = &warp[__builtin_ctz(m)];
            const int meets = v->at_meeting >> __builtin_ctz(m) & 1;
            if (!meets || at->mask != one->mask || at->kind != one->kind) other = at;
        }
        const gop_sim_index t = other->index;
        char text[512], place[256];
        gop_sim_place_of(other->site, place, sizeof place);
        gop_fail(GOP_DEVICE_FAILED,
                 "%s waits for thread (%u, %u, %u) of its warp, which waits elsewhere %s: the "
                 "block is stuck; let every thread that a mask names, and that has not "
                 "returned, come to the same __syncwarp, shuffle or vote",
                 gop_sim_who(w, one, one->site, text), t.x, t.y, t.z, place);
        return 1;
    }
    return 1;
}

/* ---- polling ---- */

enum {
    POLL = 1024,          /* repeated reads of the same values before others go first */
    VAIN = 1 << 20,       /* repeated reads after which a lane may be stuck */
    VAIN_ALL = 32 * VAIN, /* the same, summed over the lanes that poll */
};

/* The value at the address of an access. */
static uint64_t value_at(const gop_sim_access *a)
{
    uint64_t value = 0;
    if (a->bytes >= 8) memcpy(&value, (const void *)a->address, 8);
    else if (a->bytes == 4) memcpy(&value, (const void *)a->address, 4);
    else memcpy(&value, (const void *)a->address, a->bytes == 2 ? 2 : 1);
    return value;
}

int gop_sim_polls(gop_sim_worker *w)
{
    gop_sim_lane *lane = w->lane;
    const gop_sim_access *a = &lane->access;
    if (!a->bytes || a->kind == GOP_SIM_STORE) {
        lane->repeats = 0;
        return 0;
    }
    const uint64_t seen = (a->address + (uintptr_t)a->pc) * UINT64_C(0x9e3779b97f4a7c15) ^
                          value_at(a) * UINT64_C(0xbf58476d1ce4e5b9);
    for (int i = 0; i < GOP_SIM_SEEN; i++)
        if (lane->seen[i] == seen) return ++lane->repeats % POLL == 0;
    lane->seen[3] = lane->seen[2];
    lane->seen[2] = lane->seen[1];
    lane->seen[1] = lane->seen[0];
    lane->seen[0] = seen;
    lane->repeats = 0;
    if (w->polling) gop_sim_stop_polling(w);
    return 0;
}

void gop_sim_stop_polling(gop_sim_worker *w)
{
    if (w->polling) __atomic_sub_fetch(&w->crew->polling, 1, __ATOMIC_ACQ_REL);
    w->polling = w->tries = 0;
}

/* Whether no other thread runs a block that may store the awaited value. */
static int in_vain(gop_sim_worker *w)
{
    if (!w->polling) {
        w->polling = 1;
        __atomic_add_fetch(&w->crew->polling, 1, __ATOMIC_ACQ_REL);
    }
    if (__atomic_load_n(&w->crew->polling, __ATOMIC_ACQUIRE) <
        __atomic_load_n(&w->crew->working, __ATOMIC_ACQUIRE)) {
        w->tries = 0;
        sched_yield();
        return 0;
    }
    return ++w->tries > 2; /* another thread may have just stored it */
}

/* What may be wrong, where a lane waits in vain. */
static const char *advice(const gop_sim_worker *w)
{
    const gop_sim_index g = w->launch->grid;
    for (int v = 0; v * GOP_SIM_WARP < w->lanes; v++)
        if (w->warp[v].at_barrier | w->warp[v].at_meeting)
            return "others of its block wait for this thread at a barrier, a shuffle or a "
                   "vote, so the one that stores the value, or holds a lock, has to do so, or "
                   "give it back, before";
    if (g.x == 1 && g.y == 1 && g.z == 1)
        return "every thread of the block waits, so store it before; or, if the loop waits for "
               "nothing, look at its condition, which does not change";
    return "a block must not wait for one that may start after it has ended, as blocks run in "
           "any order; number them by a ticket (atomicAdd), or start another kernel; or, if "
           "the loop waits for nothing, look at its condition, which does not change";
}

int gop_sim_poll_again(gop_sim_worker *w)
{
    const gop_sim_lane *first = NULL;
    uint64_t least = UINT64_MAX, count = 0;
    for (int l = 0; l < w->lanes; l++) {
        if (!(w->warp[l / GOP_SIM_WARP].polls >> l % GOP_SIM_WARP & 1)) continue;
        if (!first) first = &w->all[l];
        if (w->all[l].repeats < least) least = w->all[l].repeats;
        count++;
    }
    if ((least >= VAIN || least * count >= VAIN_ALL) && in_vain(w)) {
        char text[512];
        gop_fail(GOP_DEVICE_FAILED,
                 "%s waits in a loop for a value that no thread will store: %s",
                 gop_sim_who(w, first, first->access.pc, text), advice(w));
        return 0;
    }
    for (int v = 0; v * GOP_SIM_WARP < w->lanes; v++) w->warp[v].polls = 0;
    return 1;
}
