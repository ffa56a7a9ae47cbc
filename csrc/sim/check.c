/*
 * check.c - checks every access of a kernel for what CUDA leaves undefined.
 */
#define _GNU_SOURCE /* dladdr, sysconf */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/shadow.h"

static __thread int own = -1; /* this thread's setting; -1: the environment's */

int gop_sim_set_checks(int wanted)
{
    const int before = own;
    own = wanted;
    return before;
}

int gop_sim_checks_wanted(void)
{
    static int wanted = -1;
    if (own >= 0) return own;
    if (wanted < 0) {
        const char *set = getenv("GPUOPS_SIM_CHECKS");
        wanted = !set || strcmp(set, "0") != 0;
    }
    return wanted;
}

gop_sim_hunt *gop_sim_hunt_begin(void)
{
    gop_sim_hunt *hunt = gop_sim_checks_wanted() ? calloc(1, sizeof *hunt) : NULL;
    if (!hunt) return NULL;
    hunt->arrays = gop_sim_arrays_now();
    if (!hunt->arrays) {
        free(hunt);
        return NULL;
    }
    hunt->left = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) / 4;
    pthread_mutex_init(&hunt->lock, NULL);
    return hunt;
}

static void *forget_worker(void *argument)
{
    gop_sim_hunt *hunt = argument;
    gop_sim_pages_end(hunt);
    gop_sim_order_end(hunt);
    gop_sim_suspects_end(hunt);
    pthread_mutex_destroy(&hunt->lock);
    free(hunt->arrays);
    free(hunt);
    return NULL;
}

/* Frees the shadow memory. For a gigabyte that is too slow after Ctrl-C, so if it is urgent
 * another thread frees it. */
void gop_sim_hunt_end(gop_sim_hunt *hunt, int in_a_hurry)
{
    enum { MANY = 1 << 16 }; /* pages */
    pthread_t thread;
    sigset_t all, before;
    if (!hunt) return;
    if (in_a_hurry && hunt->npages > MANY) {
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        const int begun = pthread_create(&thread, NULL, forget_worker, hunt) == 0;
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        if (begun) {
            pthread_detach(thread);
            return;
        }
    }
    forget_worker(hunt);
}

void gop_sim_checks_begin(gop_sim_worker *w, gop_sim_hunt *hunt)
{
    if (!hunt) return;
    w->arrays = hunt->arrays;
    w->last = NULL;
    if (w->counters) return; /* under a profile only bounds are checked */
    if (!w->kept_checks) w->kept_checks = calloc(1, sizeof *w->kept_checks);
    w->checks = w->kept_checks;
    if (!w->checks) return; /* no memory for the checks: the kernel still runs */
    w->checks->hunt = hunt;
    memset(w->checks->near, 0, sizeof w->checks->near);
}

void gop_sim_checks_end(gop_sim_worker *w)
{
    w->checks = NULL;
    w->arrays = NULL;
}

void gop_sim_checks_block(gop_sim_worker *w)
{
    gop_sim_checks *c = w->checks;
    const gop_sim_index b = w->block, g = w->launch->grid;
    c->life++;
    c->number = b.x + g.x * (b.y + g.y * b.z);
    c->again_other.stamp = 0;
    c->early.access.bytes = 0;
    gop_sim_order_block(&c->order);
}

/* ---- sentences ---- */

static const char *const does[] = {"loads", "stores", "updates"};

/* Guesses the array that an access outside all arrays was meant for. Usually an index is too
 * large; a negative one is close to the start of its array. */
static const gop_sim_array *meant(const gop_sim_arrays *arrays, uintptr_t address,
                                  uintptr_t *distance)
{
    enum { CLOSE = 256, FAR = 1 << 24 }; /* bytes; an array farther away is not named */
    const gop_sim_array *before = NULL, *behind = NULL;
    for (int i = 0; i < arrays->count; i++) {
        const gop_sim_array *array = &arrays->at[i];
        if (array->begin > address) {
            if (!behind || array->begin < behind->begin) behind = array;
        } else if (!before || array->begin > before->begin) before = array;
    }
    const uintptr_t below = behind ? behind->begin - address : FAR;
    uintptr_t beyond = before ? 0 : FAR;
    if (before && address >= before->end) beyond = address - before->end;
    if (beyond < FAR && (beyond <= below || below > CLOSE)) {
        *distance = beyond;
        return before;
    }
    *distance = below;
    return below < FAR ? behind : NULL;
}

static int is_out_of_bounds(const gop_sim_worker *w, const gop_sim_access *a)
{
    enum { WRAPPED = 1 << 16 }; /* bytes below an array, as of a row above the first */
    char text[512], element[64];
    uintptr_t distance;
    const gop_sim_array *near = meant(w->arrays, a->address, &distance);
    const char *ending = "compare the index with the size before using it";
    gop_sim_who(w, w->lane, a->pc, text);
    if (!near) {
        /* An unsigned index of 32 bits below 0 is 2^32 elements too far. */
        const uintptr_t wanted = a->address - ((uintptr_t)a->bytes << 32);
        const gop_sim_array *below = meant(w->arrays, wanted, &distance);
        if (below && wanted < below->begin && distance <= WRAPPED) {
            near = below;
            ending = "an unsigned index below 0 counts down from 2^32, as threadIdx.x - 1 does "
                     "in thread 0: compare before subtracting";
        }
    }
    if (near)
        gop_sim_element_text(
            &(gop_sim_element){near->begin, (int64_t)(a->address - near->begin), a->bytes, 0},
            element);
    if (!near)
        gop_fail(GOP_DEVICE_FAILED,
                 "%s %s %d bytes at an address of no array; is a pointer of the host used, or "
                 "an index wrong?",
                 text, does[a->kind], a->bytes);
    else if (a->address >= near->begin && a->address < near->end)
        gop_fail(
            GOP_DEVICE_FAILED,
            "%s %s %d bytes, reaching %llu bytes past the end of an array of %llu bytes %s; %s",
            text, does[a->kind], a->bytes,
            (unsigned long long)(a->address + (uintptr_t)a->bytes - near->end),
            (unsigned long long)(near->end - near->begin), element, ending);
    else {
        char far[64] = " right";
        if (distance) snprintf(far, sizeof far, ", %llu bytes", (unsigned long long)distance);
        gop_fail(GOP_DEVICE_FAILED, "%s %s %d bytes%s %s an array of %llu bytes %s; %s", text,
                 does[a->kind], a->bytes, far,
                 a->address < near->begin ? "before" : "past the end of",
                 (unsigned long long)(near->end - near->begin), element, ending);
    }
    return 0;
}

/* Writes "sim: k: block ..., thread ... loads s[255], shared memory that no thread of the
 * block". */
static const char *early_text(const gop_sim_worker *w, char text[640])
{
    const gop_sim_early *e = &w->checks->early;
    const gop_sim_element element = gop_sim_element_of(w, &e->access);
    char who[512], name[64];
    gop_sim_who_of(w->launch, w->block, e->thread, e->access.pc, who);
    snprintf(text, 640, "%s loads shared memory %s that no thread of the block", who,
             gop_sim_element_text(&element, name));
    return text;
}

static void keep_early(gop_sim_worker *w, const gop_sim_access *a)
{
    gop_sim_early *e = &w->checks->early;
    const gop_sim_lane *other = NULL;
    char place[256];
    *e = (gop_sim_early){*a, w->lane->index, w->checks->order.barrier, 0, ""};
    for (int l = 0; l < w->lanes && !other; l++)
        if (w->warp[l / GOP_SIM_WARP].at_barrier >> l % GOP_SIM_WARP & 1) other = &w->all[l];
    if (!other) return;
    gop_sim_place_of(other->site, place, sizeof place);
    snprintf(e->waits, sizeof e->waits,
             ", where all threads come to it; thread (%u, %u, %u) %s waits at one that this "
             "thread has not come to",
             other->index.x, other->index.y, other->index.z, place);
}

int gop_sim_uninitialised(gop_sim_worker *w, const gop_sim_access *a)
{
    char text[512], name[64];
    if (a->kind == GOP_SIM_ATOMIC) {
        const gop_sim_element element = gop_sim_element_of(w, a);
        gop_fail(
            GOP_DEVICE_FAILED,
            "%s %s shared memory %s that no thread of the block has stored to so far: store "
            "its first value, as 0, before that, and put __syncthreads() between",
            gop_sim_who(w, w->lane, a->pc, text), does[a->kind],
            gop_sim_element_text(&element, name));
        return 0;
    }
    if (!w->checks->early.access.bytes) keep_early(w, a);
    memset((void *)a->address, 0, (size_t)a->bytes);
    return 1;
}

int gop_sim_stored_late(const gop_sim_worker *w, const gop_sim_access *a)
{
    gop_sim_early *e = &w->checks->early;
    const gop_sim_index t = w->lane->index;
    const int passed = e->barrier > 1 && e->barrier == w->checks->order.barrier;
    char text[640], place[256];
    if (memcmp(&t, &e->thread, sizeof t) == 0) return e->own = 1;
    early_text(w, text);
    gop_sim_place_of(a->pc, place, sizeof place);
    gop_fail(GOP_DEVICE_FAILED,
             "%s has stored to so far: store to it first, and put __syncthreads() between%s; "
             "thread (%u, %u, %u) %s stores there only later",
             text,
             passed ? " the store and the load (the __syncthreads() that is there comes before "
                      "both)"
                    : e->waits,
             t.x, t.y, t.z, place);
    e->access.bytes = 0;
    return 0;
}

/* Reports the early load if no other thread is known to have stored there later. */
static gop_status early_said(const gop_sim_worker *w, const char *stores)
{
    const gop_sim_early *e = &w->checks->early;
    char text[640];
    early_text(w, text);
    if (e->barrier == 1 && e->own) /* what a sum or a counter lacks is its start */
        return gop_fail(GOP_DEVICE_FAILED,
                        "%s %s: store its first value, as 0, before that; if another thread "
                        "does so, put __syncthreads() between%s",
                        text, stores, e->waits);
    if (e->barrier == 1)
        return gop_fail(GOP_DEVICE_FAILED,
                        "%s %s: store to it first, and put __syncthreads() between%s", text,
                        stores, e->waits);
    return gop_fail(/* another barrier would not help */
                    GOP_DEVICE_FAILED,
                    "%s %s, though all have passed a barrier: compare the places that are "
                    "stored to with those that are loaded (in the last block some threads may "
                    "store nothing)",
                    text, stores);
}

void gop_sim_checks_abandon(gop_sim_worker *w)
{
    /* A later failure may be a consequence of the uninitialised value, so that one is reported.
     */
    if (w->checks->early.access.bytes) early_said(w, "has stored to so far");
    gop_sim_unlock(w->checks); /* a lane that was stopped during a store holds it */
}

gop_status gop_sim_checks_over(gop_sim_worker *w)
{
    const gop_sim_early *e = &w->checks->early;
    if (!e->access.bytes) return GOP_OK;
    return early_said(w, e->own ? "has stored to before" : "stores to");
}

static gop_sim_index index_of(gop_sim_index size, uint32_t number)
{
    return (gop_sim_index){number % size.x, number / size.x % size.y, number / size.x / size.y};
}

/* Advice on how to fix the race. */
static const char *advice_of(const gop_sim_clash *c)
{
    if (c->updates)
        return ", and nothing orders the two: a race; both load it, change it and store "
               "it, so that updates get lost: use an atomic, as atomicAdd(&c[i], 1) for "
               "c[i]++";
    if (c->half == GOP_SIM_READER)
        return ", and nothing orders the two blocks: a race; the other block fences before "
               "its atomic, so the half that is missing is this block's: put __threadfence() "
               "between its atomic and this access";
    if (c->half == GOP_SIM_WRITER)
        return ", and nothing orders the two blocks: a race; the half that is missing is "
               "the other block's: put __threadfence() between its access and its atomic, "
               "which comes last, and let the block that comes last to the atomic load";
    if (c->access.kind == GOP_SIM_STORE && c->other.kind == GOP_SIM_STORE && c->is_one_place)
        return ", and nothing orders the two: a race; both store there, so that one value "
               "is lost: give each thread an element of its own, or let one alone store";
    /* A fence cannot help a load that came too early: the wrong block loads. */
    if (c->block != c->other.block && c->access.kind == GOP_SIM_STORE &&
        c->other.kind == GOP_SIM_LOAD)
        return ", and nothing orders the two blocks: a race; the load came before the store; "
               "if others still load this array, store the results to a second array; if the "
               "blocks draw tickets by an atomic, let the block with the last ticket load; "
               "else start another kernel for what comes after";
    if (c->block != c->other.block)
        return ", and nothing orders the two blocks: a race; if others still load this "
               "array, store the results to a second array; else start another kernel for what "
               "comes after; or, if the blocks meet at an atomic, put __threadfence() between "
               "the accesses and an atomic of both blocks: in the block that stores after its "
               "store, in the one that loads after its atomic, and let the block that comes "
               "last to the atomic load";
    /* A block's counter is set, incremented and read: three phases, with barriers between. */
    if (c->access.kind == GOP_SIM_ATOMIC || c->other.kind == GOP_SIM_ATOMIC)
        return c->is_shared
                   ? " with no barrier between: a race; put __syncthreads() between them; only "
                     "if their order does not matter read it by an atomic, as "
                     "atomicAdd(&c[i], 0), and store it by one, as atomicExch(&c[i], x)"
                   : " with no barrier between: a race; read it by an atomic, as "
                     "atomicAdd(&c[i], 0), and store it by one, as atomicExch(&c[i], x), "
                     "or put __syncthreads() between them";
    const int is_warp = c->other.lane / GOP_SIM_WARP == c->lane / GOP_SIM_WARP;
    if (c->is_shared)
        return is_warp
                   ? " with no barrier between: a race; put __syncthreads(), or __syncwarp() "
                     "as they are of one warp, between them"
                   : " with no barrier between: a race; put __syncthreads() between them";
    return is_warp
               ? " with no barrier between: a race; put __syncthreads(), or __syncwarp() as "
                 "they are of one warp, between them; or, if threads overwrite what their "
                 "neighbours load, store the results to a second array"
               : " with no barrier between: a race; put __syncthreads() between them; or, if "
                 "threads overwrite what their neighbours load, store the results to a "
                 "second array";
}

int gop_sim_race(const gop_sim_launch *l, const gop_sim_clash *c)
{
    const gop_sim_index t = index_of(l->block, c->other.lane);
    const gop_sim_index b = index_of(l->grid, c->other.block);
    char text[512], place[256], block[64] = "", name[64];
    gop_sim_place_of((const char *)l->function + c->other.pc, place, sizeof place);
    if (c->block != c->other.block)
        snprintf(block, sizeof block, "block (%u, %u, %u), ", b.x, b.y, b.z);
    gop_sim_who_of(l, index_of(l->grid, c->block), index_of(l->block, c->lane), c->access.pc,
                   text);
    gop_fail(GOP_DEVICE_FAILED, "%s %s %s memory %s that %sthread (%u, %u, %u) %s %s%s", text,
             does[c->access.kind], c->is_shared ? "shared" : "global",
             gop_sim_element_text(&c->element, name), block, t.x, t.y, t.z, place, c->did,
             advice_of(c));
    return 0;
}

/* ---- an access ---- */

static int inside_shared(const gop_sim_worker *w, const gop_sim_access *a)
{
    const int at = (int)(a->address - (uintptr_t)w->memory);
    const int inside = at < GOP_SIM_STATIC
                           ? at + a->bytes <= w->shared_used
                           : (size_t)(at - GOP_SIM_STATIC + a->bytes) <= w->launch->shared;
    if (inside) return 1;
    char text[512];
    gop_fail(GOP_DEVICE_FAILED,
             "%s %s %d bytes past the end of the block's shared memory (%d bytes declared, %zu "
             "given at the launch); compare the index with the size",
             gop_sim_who(w, w->lane, a->pc, text), does[a->kind], a->bytes, w->shared_used,
             w->launch->shared);
    return 0;
}

static int inside_global(gop_sim_worker *w, const gop_sim_access *a)
{
    const gop_sim_arrays *arrays = w->arrays;
    const uintptr_t end = a->address + (uintptr_t)a->bytes;
    if (w->last && a->address >= w->last->begin && end <= w->last->end) return 1;
    for (int i = 0; i < arrays->count; i++) {
        const gop_sim_array *array = &arrays->at[i];
        if (a->address >= array->begin && end <= array->end) {
            w->last = array;
            return 1;
        }
    }
    /* Constants and variables of the kernel's own library are allowed. */
    Dl_info code, data;
    if (dladdr(w->launch->function, &code) && dladdr((void *)a->address, &data) &&
        code.dli_fbase == data.dli_fbase)
        return 1;
    return is_out_of_bounds(w, a);
}

int gop_sim_inside(gop_sim_worker *w, const gop_sim_access *a)
{
    const int is_shared = a->address - (uintptr_t)w->memory < sizeof w->memory;
    if ((a->bytes & (a->bytes - 1)) == 0 && a->address % (uintptr_t)a->bytes != 0) {
        char text[512];
        gop_fail(GOP_DEVICE_FAILED,
                 "%s %s %d bytes at an address that is no multiple of %d; a GPU stops there",
                 gop_sim_who(w, w->lane, a->pc, text), does[a->kind], a->bytes, a->bytes);
        return 0;
    }
    return is_shared ? inside_shared(w, a) : inside_global(w, a);
}

int gop_sim_check(gop_sim_worker *w, const gop_sim_access *a)
{
    const int is_shared = a->address - (uintptr_t)w->memory < sizeof w->memory;
    return gop_sim_inside(w, a) && gop_sim_check_races(w, a, is_shared);
}
