/*
 * check.c - every access of a kernel, held against what CUDA leaves undefined.
 *
 * Each byte of shared memory remembers who stored and who loaded it last, and when: time is
 * counted in barriers, of the block and of the warp. Two lanes that meet at one byte without a
 * barrier between them, one of them storing, race - in whatever order they happened to run.
 */
#define _GNU_SOURCE /* dladdr */
#include "sim/check.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NOBODY = -1, SEVERAL = -2 };

/* What is known of a byte of shared memory; `_turn` counts the barriers of the warp. */
typedef struct byte_state {
    uint32_t stored, loaded; /* the block's time, never 0 */
    uint32_t stored_turn, loaded_turn;
    int16_t storer, loader;             /* lanes of the block */
    int16_t loader_before, loader_warp; /* another lane or NOBODY; a warp or SEVERAL */
    int16_t atomic;                     /* the last store was an atomic's */
} byte_state;

struct gop_sim_checks {
    const gop_sim_arrays *arrays;
    const gop_sim_array *last; /* that was hit */
    uint32_t time, block_began;
    uint32_t turn[GOP_SIM_WARPS];
    /* A store to what another lane stored too: right if it stores the same. */
    gop_sim_access again;
    char before[16];
    int again_other; /* the other lane, or NOBODY */
    byte_state bytes[GOP_SIM_STATIC + GOP_SIM_DYNAMIC];
};

int gop_sim_checks_wanted(void)
{
    static int wanted = -1;
    if (wanted < 0) {
        const char *set = getenv("GPUOPS_SIM_CHECKS");
        wanted = !set || strcmp(set, "0") != 0;
    }
    return wanted;
}

void gop_sim_checks_begin(gop_sim_worker *w, const gop_sim_arrays *arrays)
{
    if (!arrays) return;
    if (!w->kept_checks) w->kept_checks = calloc(1, sizeof *w->kept_checks);
    w->checks = w->kept_checks;
    if (!w->checks) return; /* no memory for finding mistakes: the kernel still runs */
    w->checks->arrays = arrays;
    w->checks->last = NULL;
}

void gop_sim_checks_end(gop_sim_worker *w)
{
    w->checks = NULL;
}

void gop_sim_checks_block(gop_sim_worker *w)
{
    gop_sim_checks *c = w->checks;
    if (c->time > UINT32_MAX / 2) { /* states of long ago would count as new */
        memset(c->bytes, 0, sizeof c->bytes);
        c->time = 0;
    }
    c->block_began = ++c->time;
    c->again_other = NOBODY;
}

void gop_sim_checks_barrier(gop_sim_worker *w)
{
    w->checks->time++;
}

void gop_sim_checks_meeting(gop_sim_worker *w, int warp)
{
    w->checks->turn[warp]++;
}

/* ---- sentences ---- */

/* "sim: k: block (0, 0, 0), thread (5, 0, 0) [library+0x12]"; gpuops/_where.py turns what is
 * in brackets into a line of the source. */
static const char *who(const gop_sim_worker *w, const void *pc, char text[512])
{
    const gop_sim_index b = w->block, t = w->lane->index;
    Dl_info library;
    const int known = dladdr(pc, &library) != 0;
    snprintf(text, 512, "sim: %.100s: block (%u, %u, %u), thread (%u, %u, %u) [%.200s+0x%llx]",
             w->launch->kernel, b.x, b.y, b.z, t.x, t.y, t.z, known ? library.dli_fname : "",
             (unsigned long long)((uintptr_t)pc -
                                  (known ? (uintptr_t)library.dli_fbase : (uintptr_t)0)));
    return text;
}

static const char *const does[] = {"loads", "stores", "updates"};

static int outside(const gop_sim_worker *w, const gop_sim_access *a)
{
    const gop_sim_arrays *arrays = w->checks->arrays;
    const gop_sim_array *near = NULL;
    char text[512];
    uintptr_t distance = 1 << 24; /* farther away than that says nothing */
    for (int i = 0; i < arrays->count; i++) {
        const gop_sim_array *array = &arrays->at[i];
        const uintptr_t d =
            a->address < array->begin ? array->begin - a->address : a->address - array->end;
        if (d < distance) {
            distance = d;
            near = array;
        }
    }
    who(w, a->pc, text);
    if (!near)
        gop_fail(GOP_DEVICE_FAILED,
                 "%s %s %d bytes at an address of no array; is a pointer of the host used, or "
                 "an index wrong?",
                 text, does[a->kind], a->bytes);
    else
        gop_fail(GOP_DEVICE_FAILED,
                 "%s %s %d bytes, %llu bytes %s an array of %llu bytes; compare the index with "
                 "the size before using it",
                 text, does[a->kind], a->bytes, (unsigned long long)distance,
                 a->address < near->begin ? "before" : "past the end of",
                 (unsigned long long)(near->end - near->begin));
    return 0;
}

static int race(const gop_sim_worker *w, const gop_sim_access *a, int other, const char *did)
{
    char text[512];
    const gop_sim_index t = w->all[other].index;
    const int same_warp = other / GOP_SIM_WARP == (int)(w->lane - w->all) / GOP_SIM_WARP;
    gop_fail(GOP_DEVICE_FAILED,
             "%s %s shared memory that thread (%u, %u, %u) %s, with no barrier between: a "
             "race; put __syncthreads()%s between them",
             who(w, a->pc, text), does[a->kind], t.x, t.y, t.z, did,
             same_warp ? ", or __syncwarp() as they are of one warp," : "");
    return 0;
}

/* ---- shared memory ---- */

/* No barrier, of the block or of the warp that both are of, came between. */
static int no_barrier(const gop_sim_worker *w, uint32_t time, uint32_t turn, int warp)
{
    const int mine = (int)(w->lane - w->all) / GOP_SIM_WARP;
    return time == w->checks->time && (warp != mine || turn == w->checks->turn[mine]);
}

static int check_byte(gop_sim_worker *w, const gop_sim_access *a, byte_state *s)
{
    gop_sim_checks *c = w->checks;
    const int me = (int)(w->lane - w->all), warp = me / GOP_SIM_WARP;
    const int loads = a->kind != GOP_SIM_STORE, stores = a->kind != GOP_SIM_LOAD;
    const int stored_here = s->stored >= c->block_began;
    if (loads && !stored_here) {
        char text[512];
        gop_fail(GOP_DEVICE_FAILED,
                 "%s %s shared memory that no thread of the block has stored to so far: "
                 "store to it first, and put __syncthreads() between",
                 who(w, a->pc, text), does[a->kind]);
        return 0;
    }
    if (stored_here && s->storer != me && !(a->kind == GOP_SIM_ATOMIC && s->atomic) &&
        no_barrier(w, s->stored, s->stored_turn, s->storer / GOP_SIM_WARP)) {
        if (loads) return race(w, a, s->storer, s->atomic ? "updates" : "stores to");
        c->again_other = s->storer;
    }
    const int loader = s->loader != me ? s->loader : s->loader_before;
    if (stores && s->loaded >= c->block_began && loader != NOBODY &&
        no_barrier(w, s->loaded, s->loaded_turn, s->loader_warp))
        return race(w, a, loader, "loads");
    if (stores) {
        s->stored = c->time;
        s->stored_turn = c->turn[warp];
        s->storer = (int16_t)me;
        s->atomic = a->kind == GOP_SIM_ATOMIC;
    } else {
        /* An earlier load by this warp, with a barrier of the warp since, no longer counts. */
        const int together =
            s->loaded == c->time && (s->loader_warp != warp || s->loaded_turn == c->turn[warp]);
        if (!together) s->loader_before = NOBODY;
        else if (s->loader != me) s->loader_before = s->loader;
        s->loader = (int16_t)me;
        s->loader_warp = together && s->loader_warp != warp ? SEVERAL : (int16_t)warp;
        s->loaded = c->time;
        s->loaded_turn = c->turn[warp];
    }
    return 1;
}

static int check_shared(gop_sim_worker *w, const gop_sim_access *a)
{
    gop_sim_checks *c = w->checks;
    const int at = (int)(a->address - (uintptr_t)w->memory);
    const int inside = at < GOP_SIM_STATIC
                           ? at + a->bytes <= w->shared_used
                           : (size_t)(at - GOP_SIM_STATIC + a->bytes) <= w->launch->shared;
    if (!inside) {
        char text[512];
        gop_fail(GOP_DEVICE_FAILED,
                 "%s %s %d bytes past the end of the block's shared memory (%d bytes declared, "
                 "%zu given at the launch)",
                 who(w, a->pc, text), does[a->kind], a->bytes, w->shared_used,
                 w->launch->shared);
        return 0;
    }
    for (int b = 0; b < a->bytes; b++)
        if (!check_byte(w, a, &c->bytes[at + b])) return 0;
    if (c->again_other == NOBODY) return 1;
    c->again = *a;
    memcpy(c->before, (const void *)a->address, (size_t)a->bytes);
    return 1;
}

int gop_sim_check_store(gop_sim_worker *w)
{
    gop_sim_checks *c = w->checks;
    const int other = c->again_other;
    c->again_other = NOBODY;
    if (other == NOBODY) return 1;
    if (!memcmp(c->before, (const void *)c->again.address, (size_t)c->again.bytes)) return 1;
    return race(w, &c->again, other, "stores something else to");
}

/* ---- all memory ---- */

static int check_global(gop_sim_worker *w, const gop_sim_access *a)
{
    gop_sim_checks *c = w->checks;
    const uintptr_t end = a->address + (uintptr_t)a->bytes;
    if (c->last && a->address >= c->last->begin && end <= c->last->end) return 1;
    for (int i = 0; i < c->arrays->count; i++) {
        const gop_sim_array *array = &c->arrays->at[i];
        if (a->address >= array->begin && end <= array->end) {
            c->last = array;
            return 1;
        }
    }
    /* Tables and variables of the kernel's own library. */
    Dl_info code, data;
    if (dladdr(w->launch->function, &code) && dladdr((void *)a->address, &data) &&
        code.dli_fbase == data.dli_fbase)
        return 1;
    return outside(w, a);
}

int gop_sim_check(gop_sim_worker *w, const gop_sim_access *a)
{
    if (!gop_sim_check_store(w)) return 0;
    if ((a->bytes & (a->bytes - 1)) == 0 && a->address % (uintptr_t)a->bytes != 0) {
        char text[512];
        gop_fail(GOP_DEVICE_FAILED,
                 "%s %s %d bytes at an address that is no multiple of %d; a GPU stops there",
                 who(w, a->pc, text), does[a->kind], a->bytes, a->bytes);
        return 0;
    }
    if (a->address - (uintptr_t)w->memory < sizeof w->memory) return check_shared(w, a);
    return check_global(w, a);
}
