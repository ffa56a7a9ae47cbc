/*
 * race.c - races: two lanes access one byte, at least one of them stores, and nothing orders
 * them.
 *
 * A granule keeps, for each kind of access, those that do not happen before a later one of the
 * kind. Two are enough, of different blocks if possible: any later lane then finds one that is
 * not its own. The result does not depend on the order in which the blocks happened to run.
 */
#include "sim/shadow.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* ---- pages ---- */

/* Grows a page to granules of 1 << shift bytes with `records` records each. Keeps what it
 * holds. */
static int reshape(gop_sim_page *p, int shift, int records, int64_t *left)
{
    const size_t granules = GOP_SIM_PAGE >> shift, count = granules * (size_t)records;
    const int64_t bytes = (int64_t)(count * sizeof *p->at);
    if (left && __atomic_sub_fetch(left, bytes, __ATOMIC_RELAXED) < 0) return 0;
    gop_sim_record *at = calloc(count, sizeof *at);
    if (!at) return 0;
    for (size_t g = 0; p->at && g < granules; g++)
        memcpy(&at[g * (size_t)records], &p->at[(g << shift >> p->shift) * p->records],
               p->records * sizeof *at);
    free(p->at);
    p->at = at;
    p->shift = (uint8_t)shift;
    p->records = (uint8_t)records;
    return 1;
}

/* Finds or makes a page of the launch. The caller holds the launch's lock. */
static gop_sim_page *find_page(gop_sim_hunt *h, uintptr_t number)
{
    if (2 * (h->npages + 1) > h->room) {
        const size_t room = h->room ? 2 * h->room : 256;
        gop_sim_page **pages = calloc(room, sizeof *pages);
        if (!pages) return NULL;
        for (size_t i = 0; i < h->room; i++) {
            if (!h->pages[i]) continue;
            size_t to = h->pages[i]->number * UINT64_C(0x9e3779b97f4a7c15) >> 20;
            while (pages[to & (room - 1)]) to++;
            pages[to & (room - 1)] = h->pages[i];
        }
        free(h->pages);
        h->pages = pages;
        h->room = room;
    }
    size_t at = number * UINT64_C(0x9e3779b97f4a7c15) >> 20;
    for (;; at++) {
        gop_sim_page **p = &h->pages[at & (h->room - 1)];
        if (*p && (*p)->number == number) return *p;
        if (*p) continue;
        *p = calloc(1, sizeof **p);
        if (!*p) return NULL;
        (*p)->number = number;
        h->npages++;
        return *p;
    }
}

static gop_sim_page *page_of(gop_sim_checks *c, uintptr_t address)
{
    const uintptr_t number = address / GOP_SIM_PAGE;
    gop_sim_page **near = &c->near[number * UINT64_C(0x9e3779b97f4a7c15) >> 55];
    if (*near && (*near)->number == number) return *near;
    pthread_mutex_lock(&c->hunt->lock);
    gop_sim_page *page = find_page(c->hunt, number);
    pthread_mutex_unlock(&c->hunt->lock);
    if (page) *near = page;
    return page;
}

void gop_sim_pages_end(gop_sim_hunt *h)
{
    for (size_t i = 0; i < h->room; i++) {
        if (!h->pages[i]) continue;
        free(h->pages[i]->at);
        free(h->pages[i]);
    }
    free(h->pages);
}

static void lock(gop_sim_checks *c, gop_sim_page *p)
{
    while (__atomic_exchange_n(&p->lock, 1, __ATOMIC_ACQUIRE)) sched_yield();
    c->held = p;
}

void gop_sim_unlock(gop_sim_checks *c)
{
    if (c->held) __atomic_store_n(&c->held->lock, 0, __ATOMIC_RELEASE);
    c->held = NULL;
}

/* ---- records ---- */

typedef struct asking {
    gop_sim_worker *w;
    const gop_sim_access *access;
    gop_sim_record mine;
    int is_shared;
} asking;

static inline int over(const asking *q, const gop_sim_record *r)
{
    if (r->block == q->mine.block && r->lane == q->mine.lane) return 1;
    return q->is_shared ? gop_sim_over_here(q->w, r) : gop_sim_over(q->w, r);
}

static int conflict(int one, int other)
{
    if (one == GOP_SIM_STORE || other == GOP_SIM_STORE) return 1;
    return one != other; /* a load and an atomic */
}

/* Whether a record is empty, or of an earlier block that used the same shared memory. */
static inline int is_old(const asking *q, const gop_sim_record *r)
{
    return r->stamp == 0 || (q->is_shared && r->block != q->mine.block);
}

/* Whether any later access that races with the recorded one races with mine, too. Atomics on
 * one place come one after another: what is ordered after mine is ordered after those before
 * it. */
static int covers(const asking *q, const gop_sim_record *r)
{
    const int kind = q->mine.kind, like = r->kind == kind;
    if (like && kind == GOP_SIM_ATOMIC) return 1;
    return (like || kind == GOP_SIM_STORE) && over(q, r);
}

/* Adds this access to a granule's records. Returns 0 if they are full. */
static int keep_record(const asking *q, gop_sim_record *at, int records)
{
    const gop_sim_record *mine = &q->mine;
    gop_sim_record *room = NULL, *same = NULL, *same_too = NULL;
    for (gop_sim_record *r = at; r < at + records; r++) {
        if (!is_old(q, r)) {
            if (!covers(q, r)) {
                if (r->kind == mine->kind && same) same_too = r;
                else if (r->kind == mine->kind) same = r;
                continue;
            }
            r->stamp = 0;
        }
        if (!room) room = r;
    }
    if (same_too) room = same->block != mine->block ? same_too : same;
    if (!room) return 0;
    *room = *mine;
    return 1;
}

static const char *const did[] = {"loads", "stores to", "updates"};

static int32_t from_start(const gop_sim_worker *w, const void *pc)
{
    return (int32_t)((intptr_t)pc - (intptr_t)w->launch->function);
}

/* Whether both lanes do a read-modify-write at the same instructions, so that a barrier would
 * not help. Of one lane only the load or the store may be known. */
static int is_update(const gop_sim_worker *w, const gop_sim_access *load,
                     const gop_sim_access *store, const gop_sim_record *other)
{
    const gop_sim_access *same = other->kind == GOP_SIM_STORE ? store : load;
    return load->kind == GOP_SIM_LOAD && store->kind == GOP_SIM_STORE && load->bytes &&
           load->address == store->address && from_start(w, same->pc) == other->pc;
}

/* Describes a race of access `a` with the recorded one. */
static gop_sim_clash clash_of(const gop_sim_worker *w, const gop_sim_access *a,
                              const gop_sim_record *other, int is_shared, const char *what,
                              int updates)
{
    gop_sim_clash c = {*a,
                       w->checks->number,
                       (uint32_t)(w->lane - w->all),
                       *other,
                       what,
                       is_shared,
                       updates,
                       from_start(w, a->pc) == other->pc,
                       GOP_SIM_NEITHER,
                       gop_sim_element_of(w, a)};
    if (is_shared) c.other.block = w->checks->number;
    else if (other->block != w->checks->number) c.half = gop_sim_missing_half(w, other);
    return c;
}

/* Whether the race may be correct: a load whose stale value is only compared by an atomic. */
static int is_suspect(const asking *q, const gop_sim_clash *c)
{
    const int kind = c->access.kind, other = c->other.kind;
    return kind + other == GOP_SIM_LOAD + GOP_SIM_ATOMIC && kind != other &&
           gop_sim_suspect_load(q->w->checks->hunt, c);
}

static int check_granule(const asking *q, gop_sim_record *at, int records)
{
    gop_sim_checks *c = q->w->checks;
    const int kind = q->mine.kind;
    int stored = 0;
    for (gop_sim_record *r = at; r < at + records; r++) {
        if (is_old(q, r)) continue;
        stored |= r->kind != GOP_SIM_LOAD;
        if (!conflict(r->kind, kind) || over(q, r)) continue;
        if (r->kind != GOP_SIM_STORE || kind == GOP_SIM_ATOMIC) {
            const gop_sim_clash clash =
                clash_of(q->w, q->access, r, q->is_shared, did[r->kind],
                         is_update(q->w, &q->w->lane->loaded, q->access, r));
            if (is_suspect(q, &clash)) continue;
            c->early.access.bytes = 0; /* a race is the better message */
            return gop_sim_race(q->w->launch, &clash);
        }
        c->again = *q->access;
        c->again_other = *r;
    }
    if (q->is_shared && kind != GOP_SIM_STORE && !stored)
        return gop_sim_uninitialised(q->w, q->access);
    return 1;
}

/* Whether a load need not be recorded: any access that would race with it races with one of two
 * recorded loads. So an input that all threads read is only looked up. */
static inline int is_one_more(const asking *q, const gop_sim_record *at, int records)
{
    if (q->mine.kind != GOP_SIM_LOAD || records < 2) return 0;
    for (int i = 0; i < records; i++)
        if (is_old(q, &at[i]) ? i < 2 : at[i].kind != GOP_SIM_LOAD) return 0;
    const gop_sim_record *one = &at[0], *two = &at[1];
    if (one->block != two->block) return 1;
    const int warp = one->lane / GOP_SIM_WARP;
    return one->block == q->mine.block && one->stamp == q->mine.stamp &&
           two->stamp == q->mine.stamp &&
           (two->lane / GOP_SIM_WARP != warp || q->mine.lane / GOP_SIM_WARP == warp);
}

static int check_page(const asking *q, gop_sim_page *p)
{
    const gop_sim_access *a = q->access;
    int64_t *left = q->is_shared ? NULL : &q->w->checks->hunt->left;
    const int shift = __builtin_ctz((unsigned)a->bytes);
    if (q->is_shared && p->block != q->mine.block) { /* its records are of an earlier block */
        p->block = q->mine.block;
        if (p->at && shift > p->shift) p->shift = (uint8_t)shift;
    }
    if ((!p->at || shift < p->shift) && !reshape(p, shift,
                                                 p->records     ? p->records
                                                 : q->is_shared ? 2
                                                                : 1,
                                                 left))
        return 1; /* no memory for the checks: the kernel still runs */
    const size_t first = a->address % GOP_SIM_PAGE >> p->shift;
    const size_t count = (size_t)a->bytes >> p->shift;
    for (size_t g = first; g < first + count; g++) {
        gop_sim_record *at = &p->at[g * p->records];
        const int same = at->stamp == q->mine.stamp && at->block == q->mine.block &&
                         at->lane == q->mine.lane && at->kind == q->mine.kind;
        if ((same && q->mine.kind != GOP_SIM_STORE) || is_one_more(q, at, p->records)) continue;
        if (!check_granule(q, at, p->records)) return 0;
        while (!keep_record(q, at, p->records)) {
            if (!reshape(p, p->shift, p->records == 1 ? 2 : GOP_SIM_RECORDS, left)) break;
            at = &p->at[g * p->records];
        }
    }
    if (!q->w->checks->again_other.stamp) return 1;
    memcpy(q->w->checks->before, (const void *)a->address, (size_t)a->bytes);
    return 1;
}

int gop_sim_check_races(gop_sim_worker *w, const gop_sim_access *a, int is_shared)
{
    gop_sim_checks *c = w->checks;
    const int32_t pc = from_start(w, a->pc);
    asking q = {w, a, {0, c->order.now, pc, 0, (uint16_t)a->kind}, is_shared};
    q.mine.block = is_shared ? c->life : c->number;
    q.mine.lane = (uint16_t)(w->lane - w->all);
    if (a->kind == GOP_SIM_LOAD) w->lane->loaded = *a;
    if (a->kind == GOP_SIM_ATOMIC && is_shared) gop_sim_order_atomic(w, a->address);
    const gop_sim_access *early = &c->early.access;
    if (is_shared && early->bytes && a->kind != GOP_SIM_LOAD &&
        a->address < early->address + (uintptr_t)early->bytes &&
        early->address < a->address + (uintptr_t)a->bytes && !gop_sim_stored_late(w, a))
        return 0;
    if (is_shared)
        return check_page(&q, &c->shared[(a->address - (uintptr_t)w->memory) / GOP_SIM_PAGE]);
    gop_sim_page *page = page_of(c, a->address);
    if (!page) return 1;
    lock(c, page);
    if (a->kind == GOP_SIM_ATOMIC) gop_sim_order_atomic(w, a->address);
    const int right = check_page(&q, page);
    /* A store is done under the lock, so that the next lane that stores here sees its value. */
    if (!right || a->kind == GOP_SIM_LOAD) gop_sim_unlock(c);
    return right;
}

void gop_sim_checks_compare(gop_sim_worker *w)
{
    gop_sim_checks *c = w->checks;
    const gop_sim_access *a = &w->lane->access;
    const int is_shared = a->address - (uintptr_t)w->memory < sizeof w->memory;
    gop_sim_page *p =
        is_shared ? &c->shared[(a->address - (uintptr_t)w->memory) / GOP_SIM_PAGE] : c->held;
    const uint32_t block = is_shared ? c->life : c->number;
    const uint16_t lane = (uint16_t)(w->lane - w->all);
    if (!p || !p->at) return;
    gop_sim_record *at = &p->at[(a->address % GOP_SIM_PAGE >> p->shift) * p->records];
    gop_sim_record *end = at + ((size_t)a->bytes >> p->shift) * p->records;
    for (; at < end; at++)
        if (at->kind == GOP_SIM_LOAD && at->block == block && at->lane == lane) at->stamp = 0;
    gop_sim_suspects_compare(c->hunt, c->number, lane, a);
}

/* Decides about `again`, now that the lane's next access is known. */
static int check_again(gop_sim_worker *w)
{
    gop_sim_checks *c = w->checks;
    const gop_sim_access *a = &c->again, *next = &w->lane->access;
    const gop_sim_record other = c->again_other;
    c->again_other.stamp = 0;
    const int is_shared = a->address - (uintptr_t)w->memory < sizeof w->memory;
    const int loads = a->kind == GOP_SIM_LOAD;
    if (!loads && memcmp(c->before, (const void *)a->address, (size_t)a->bytes) == 0) return 1;
    const gop_sim_clash clash = clash_of(
        w, a, &other, is_shared, loads ? "stores to" : "stores something else to",
        loads ? is_update(w, a, next, &other) : is_update(w, &w->lane->loaded, a, &other));
    c->early.access.bytes = 0;
    return gop_sim_race(w->launch, &clash);
}

int gop_sim_check_store(gop_sim_worker *w)
{
    const int right = !w->checks->again_other.stamp || check_again(w);
    gop_sim_unlock(w->checks);
    return right;
}
