/*
 * order.c - happens-before: which accesses of other lanes are over for the running lane.
 *
 * Within a block, barriers order accesses. Between blocks only fences and atomics do: a lane's
 * next atomic on a location releases what the lane did before its last fence. A lane acquires
 * it by a later atomic on the same location, followed by a fence or a barrier. Each location
 * has a log of what was released; to acquire is to have read the log up to some entry. So a
 * ticket that thousands of blocks draw costs each of them one entry.
 */
#include "sim/shadow.h"

#include <stdlib.h>
#include <string.h>

/* Whose accesses an entry is about: a lane's (its number), a warp's (WARP | number), or the
 * whole block's. BLOCK_FENCE marks a fence of block scope. DEPTH bounds the chain of logs. */
enum { WARP = 0x4000, BLOCK = 0x7fff, BLOCK_FENCE = 0x8000, DEPTH = 4 };

/* The accesses of the block's `who` before time `upto` are over for all that have read this
 * entry. */
typedef struct entry {
    uint32_t block, upto;
    unsigned who;
    int older; /* the entry before it with the same block and who; -1: none */
} entry;

/* Reading this log up to entry `at` implies having read `count` entries of another log. */
typedef struct link {
    gop_sim_log *log;
    int count, at;
} link;

struct gop_sim_log {
    uintptr_t address;
    gop_sim_log *next;
    entry *entries;
    link *links;
    int *newest; /* hash table by block and who; its size is a power of two */
    int count, room, nlinks, slots;
};

/* ---- a block's own time ---- */

void gop_sim_order_block(gop_sim_order *o)
{
    o->now = o->barrier = 1;
    for (int v = 0; v < GOP_SIM_WARPS; v++) o->warp_sync[v] = 1;
    o->nread = o->drew = 0;
    if (!o->fenced) return;
    memset(o->fences, 0, sizeof o->fences);
    memset(o->published, 0, sizeof o->published);
    o->fenced = 0;
}

static int lane_of(const gop_sim_worker *w)
{
    return (int)(w->lane - w->all);
}

/* Makes what lanes [first, end) have read known to all of `who`. */
static void tell(gop_sim_order *o, unsigned first, unsigned end, unsigned who)
{
    int kept = 0;
    for (int i = 0; i < o->nread; i++) {
        gop_sim_reading r = o->read[i];
        const int warps = r.who & WARP && who == BLOCK;
        if ((r.who >= first && r.who < end) || warps || r.who == who) {
            r.who = who;
            r.ready = 1;
        }
        int same = 0;
        while (same < kept && (o->read[same].log != r.log || o->read[same].who != r.who ||
                               o->read[same].ready != r.ready))
            same++;
        if (same == kept) o->read[kept++] = r;
        else if (o->read[same].count < r.count) o->read[same].count = r.count;
    }
    o->nread = kept;
}

/* Publishes what the lanes have fenced: any lane's atomic after this releases it. */
static void publish(gop_sim_order *o, int first, int end)
{
    if (!o->fenced) return;
    for (int l = first; l < end; l++) o->published[l] = o->fences[1].at[l];
}

void gop_sim_checks_barrier(gop_sim_worker *w)
{
    gop_sim_order *o = &w->checks->order;
    o->barrier = ++o->now;
    publish(o, 0, w->lanes);
    if (o->nread) tell(o, 0, GOP_SIM_LANES, BLOCK);
}

/* Shuffles and votes do not order memory, but they pass on what a lane knows of other blocks.
 */
void gop_sim_checks_meeting(gop_sim_worker *w, int warp, int orders)
{
    gop_sim_order *o = &w->checks->order;
    const int first = warp * GOP_SIM_WARP, end = first + GOP_SIM_WARP;
    if (orders) {
        o->warp_sync[warp] = ++o->now;
        publish(o, first, end);
    }
    if (o->nread) tell(o, (unsigned)first, (unsigned)end, WARP | (unsigned)warp);
}

void gop_sim_checks_fence(gop_sim_worker *w, int of_device)
{
    gop_sim_order *o = &w->checks->order;
    const int me = lane_of(w);
    o->now++;
    o->fenced = 1;
    for (int scope = 0; scope <= of_device; scope++) {
        gop_sim_fences *f = &o->fences[scope];
        f->at[me] = o->now;
        f->barrier[me] = o->barrier;
        f->warp_sync[me] = o->warp_sync[me / GOP_SIM_WARP];
    }
    for (int i = 0; i < o->nread; i++)
        if (o->read[i].who == (unsigned)me) o->read[i].ready = 1;
}

/* ---- logs, with the launch's lock held ---- */

static unsigned slot_of(const gop_sim_log *log, uint32_t block, unsigned who)
{
    return (block * 0x9e3779b1u ^ who * 0x85ebca6bu) >> 7 & (unsigned)(log->slots - 1);
}

/* The slot of the newest entry of this block and `who`, or the free slot for one. */
static int *newest(const gop_sim_log *log, uint32_t block, unsigned who)
{
    unsigned at = slot_of(log, block, who);
    for (;; at = (at + 1) & (unsigned)(log->slots - 1)) {
        int *e = &log->newest[at];
        if (*e < 0 || (log->entries[*e].block == block && log->entries[*e].who == who))
            return e;
    }
}

static int grow_log(gop_sim_log *log)
{
    const int room = log->room ? 2 * log->room : 16;
    entry *entries = realloc(log->entries, (size_t)room * sizeof *entries);
    if (!entries) return 0;
    log->entries = entries;
    int *slots = malloc((size_t)room * 2 * sizeof *slots);
    if (!slots) return 0;
    free(log->newest);
    log->newest = slots;
    log->room = room;
    log->slots = 2 * room;
    memset(slots, 0xff, (size_t)log->slots * sizeof *slots);
    for (int i = 0; i < log->count; i++)
        *newest(log, log->entries[i].block, log->entries[i].who) = i;
    return 1;
}

static void hand_on(gop_sim_log *log, uint32_t block, unsigned who, uint32_t upto)
{
    if (upto <= 1 || (log->count == log->room && !grow_log(log))) return;
    int *at = newest(log, block, who);
    if (*at >= 0 && log->entries[*at].upto >= upto) return;
    log->entries[log->count] = (entry){block, upto, who, *at};
    *at = log->count++;
}

static int told(const gop_sim_log *log, int count, uint32_t block, unsigned who, uint32_t stamp)
{
    int at = log->slots ? *newest(log, block, who) : -1;
    while (at >= count) at = log->entries[at].older;
    return at >= 0 && stamp < log->entries[at].upto;
}

/* Whether the log's first `count` entries say that the access is over. */
static int covers(const gop_sim_log *log, int count, const gop_sim_record *r, int same_block,
                  int depth)
{
    const unsigned whose[] = {r->lane, WARP | r->lane / GOP_SIM_WARP, BLOCK};
    for (int i = 0; i < 3; i++)
        if (told(log, count, r->block, whose[i], r->stamp) ||
            (same_block && told(log, count, r->block, whose[i] | BLOCK_FENCE, r->stamp)))
            return 1;
    for (int i = 0; i < log->nlinks; i++) {
        const link *l = &log->links[i];
        if (l->at > count) continue;
        /* A longer chain is taken as ordered: a missed race is better than a false alarm. */
        if (depth == DEPTH || covers(l->log, l->count, r, same_block, depth + 1)) return 1;
    }
    return 0;
}

static gop_sim_log *log_of(gop_sim_hunt *hunt, uintptr_t address, int make)
{
    gop_sim_log *log = hunt->logs;
    while (log && log->address != address) log = log->next;
    if (log || !make) return log;
    log = calloc(1, sizeof *log);
    if (!log) return NULL;
    log->address = address;
    log->next = hunt->logs;
    __atomic_store_n(&hunt->logs, log, __ATOMIC_RELEASE);
    return log;
}

static void join_log(gop_sim_log *log, const gop_sim_reading *read)
{
    link *same = NULL;
    for (int i = 0; i < log->nlinks; i++)
        if (log->links[i].log == read->log) same = &log->links[i];
    if (same && same->count >= read->count) return;
    link *more = realloc(log->links, (size_t)(log->nlinks + 1) * sizeof *more);
    if (!more) return;
    log->links = more;
    more[log->nlinks++] = (link){read->log, read->count, log->count};
}

/* ---- atomics ---- */

static int is_for(const gop_sim_reading *r, unsigned lane)
{
    return r->ready &&
           (r->who == lane || r->who == BLOCK || r->who == (WARP | lane / GOP_SIM_WARP));
}

static void release_log(gop_sim_worker *w, gop_sim_log *log)
{
    const gop_sim_order *o = &w->checks->order;
    const uint32_t block = w->checks->number;
    const int me = lane_of(w);
    for (int scope = 0; scope < 2; scope++) {
        const gop_sim_fences *f = &o->fences[scope];
        const unsigned mark = scope ? 0 : BLOCK_FENCE;
        hand_on(log, block, mark | (unsigned)me, f->at[me]);
        hand_on(log, block, mark | WARP | (unsigned)me / GOP_SIM_WARP, f->warp_sync[me]);
        hand_on(log, block, mark | BLOCK, f->barrier[me]);
    }
    for (int l = 0; l < w->lanes; l++)
        if (o->published[l] > o->fences[1].barrier[me])
            hand_on(log, block, (unsigned)l, o->published[l]);
    for (int i = 0; i < o->nread; i++)
        if (o->read[i].log != log && is_for(&o->read[i], (unsigned)me))
            join_log(log, &o->read[i]);
}

static void acquire_log(gop_sim_worker *w, gop_sim_log *log)
{
    gop_sim_order *o = &w->checks->order;
    const unsigned me = (unsigned)lane_of(w);
    gop_sim_reading *mine = NULL;
    for (int i = 0; i < o->nread && !mine; i++)
        if (o->read[i].log == log && o->read[i].who == me && !o->read[i].ready)
            mine = &o->read[i];
    if (!mine) {
        if (o->nread == o->room) {
            const int room = o->room ? 2 * o->room : 16;
            gop_sim_reading *more = realloc(o->read, (size_t)room * sizeof *more);
            if (!more) return;
            o->read = more;
            o->room = room;
        }
        mine = &o->read[o->nread++];
        *mine = (gop_sim_reading){log, 0, 0, me};
    }
    mine->count = log->count;
}

void gop_sim_order_atomic(gop_sim_worker *w, uintptr_t address)
{
    gop_sim_hunt *hunt = w->checks->hunt;
    const int fenced = w->checks->order.fenced;
    w->checks->order.drew = 1;
    /* Without a fence, as in a histogram, atomics order nothing. */
    if (!fenced && !__atomic_load_n(&hunt->logs, __ATOMIC_ACQUIRE)) return;
    pthread_mutex_lock(&hunt->lock);
    gop_sim_log *log = log_of(hunt, address, fenced);
    if (log && fenced) release_log(w, log);
    if (log && (log->count || log->nlinks)) acquire_log(w, log);
    pthread_mutex_unlock(&hunt->lock);
}

/* ---- asking ---- */

int gop_sim_over_here(const gop_sim_worker *w, const gop_sim_record *r)
{
    const gop_sim_order *o = &w->checks->order;
    const int me = lane_of(w), warp = me / GOP_SIM_WARP;
    return r->lane == me || r->stamp < o->barrier ||
           (r->lane / GOP_SIM_WARP == warp && r->stamp < o->warp_sync[warp]);
}

int gop_sim_over(const gop_sim_worker *w, const gop_sim_record *r)
{
    const gop_sim_order *o = &w->checks->order;
    const int same_block = r->block == w->checks->number;
    if (same_block && gop_sim_over_here(w, r)) return 1;
    if (!o->nread) return 0;
    gop_sim_hunt *hunt = w->checks->hunt;
    int over = 0;
    pthread_mutex_lock(&hunt->lock);
    for (int i = 0; i < o->nread && !over; i++)
        if (is_for(&o->read[i], (unsigned)lane_of(w)))
            over = covers(o->read[i].log, o->read[i].count, r, same_block, 0);
    pthread_mutex_unlock(&hunt->lock);
    return over;
}

gop_sim_half gop_sim_missing_half(const gop_sim_worker *w, const gop_sim_record *r)
{
    const gop_sim_order *o = &w->checks->order;
    gop_sim_hunt *hunt = w->checks->hunt;
    gop_sim_half half = GOP_SIM_NEITHER;
    pthread_mutex_lock(&hunt->lock);
    for (int i = 0; i < o->nread; i++) {
        const gop_sim_reading *read = &o->read[i];
        if (read->who == (unsigned)lane_of(w) && !read->ready &&
            covers(read->log, read->count, r, 0, 0))
            half = GOP_SIM_READER;
    }
    if (half == GOP_SIM_NEITHER && o->drew && o->fences[1].at[lane_of(w)])
        half = GOP_SIM_WRITER;
    pthread_mutex_unlock(&hunt->lock);
    return half;
}

void gop_sim_order_end(gop_sim_hunt *hunt)
{
    while (hunt->logs) {
        gop_sim_log *log = hunt->logs;
        hunt->logs = log->next;
        free(log->entries);
        free(log->links);
        free(log->newest);
        free(log);
    }
}
