/*
 * block.c - one block: lanes on fibers, warps in lockstep if they are counted, barriers.
 *
 * A lane runs until it must wait. A lane that never waits ends on the stack it began on, and
 * the next one starts there. So a kernel without barriers is a plain loop over its lanes.
 */
#include "sim/check.h"
#include "sim/counters.h"

#include <string.h>

__thread gop_sim_worker *gop_sim_here;

/* ---- fibers ---- */

void gop_sim_stop_behind(gop_sim_worker *w)
{
    w->lane->place = 2 * w->lane->passed + 1;
    w->warp[gop_sim_warp_of(w, w->lane)].at_access |= gop_sim_bit_of(w, w->lane);
    gop_sim_stop(w);
}

void gop_sim_pause(gop_sim_worker *w)
{
    w->warp[gop_sim_warp_of(w, w->lane)].paused |= gop_sim_bit_of(w, w->lane);
    gop_sim_stop(w);
}

void gop_sim_stop_for_good(gop_sim_worker *w)
{
    w->failed = 1;
    gop_sim_stop(w);
}

void gop_sim_settle(gop_sim_worker *w)
{
    if (w->checks && !gop_sim_check_store(w)) gop_sim_stop_for_good(w);
}

/* ---- turns ---- */

/* The lane that starts as number n. */
static gop_sim_lane *starting(gop_sim_worker *w, int n)
{
    if (w->schedule.turns == GOP_SIM_REVERSED) n = w->lanes - 1 - n;
    else if (w->schedule.turns == GOP_SIM_RANDOM) n = w->order[n];
    return &w->all[n];
}

/* Chooses one of these lanes of a warp. */
static int one_of(gop_sim_worker *w, unsigned lanes)
{
    if (w->schedule.turns == GOP_SIM_REVERSED) return 31 - __builtin_clz(lanes);
    if (w->schedule.turns == GOP_SIM_RANDOM)
        for (int n = (int)(gop_sim_chance(&w->random) % (unsigned)__builtin_popcount(lanes)); n;
             n--)
            lanes &= lanes - 1;
    return __builtin_ctz(lanes);
}

static int warps_of(const gop_sim_worker *w)
{
    return (w->lanes + GOP_SIM_WARP - 1) / GOP_SIM_WARP;
}

/* The warp that runs as number n of a round. */
static int turn_of(const gop_sim_worker *w, int n, uint64_t random)
{
    const int warps = warps_of(w);
    if (w->schedule.turns == GOP_SIM_REVERSED) return warps - 1 - n;
    if (w->schedule.turns == GOP_SIM_RANDOM) return (n + (int)(random % 64)) % warps;
    return n;
}

/* Fills w->order with a random permutation of the lanes. */
static void shuffle_lanes(gop_sim_worker *w)
{
    for (int l = 0; l < w->lanes; l++) {
        const int other = (int)(gop_sim_chance(&w->random) % (unsigned)(l + 1));
        w->order[l] = w->order[other];
        w->order[other] = (int16_t)l;
    }
}

/* ---- starting and going on ---- */

/* The body of a fiber: runs lanes that have not started, one after another. */
static void fiber_main(void)
{
    for (;;) {
        gop_sim_worker *w = gop_sim_here;
        gop_fiber *mine = w->fiber;
        while (w->next < w->end) {
            gop_sim_lane *lane = starting(w, w->next++);
            lane->fiber = mine;
            w->lane = lane;
            w->launch->run(w->launch->closure);
            gop_sim_settle(w);
            w->warp[gop_sim_warp_of(w, lane)].live &= ~gop_sim_bit_of(w, lane);
        }
        mine->next = w->idle;
        w->idle = mine;
        gop_fiber_switch(mine, &w->scheduler);
    }
}

/* Resumes a fiber until its lane waits or ends. */
static void go_on(gop_sim_worker *w, gop_fiber *fiber)
{
    w->fiber = fiber;
    do {
        w->rests = 0;
        gop_fiber_switch(&w->scheduler, fiber);
    } while (w->rests && gop_sim_goes_on(w));
}

/* Starts lanes [first, end). Each runs until it ends or waits. */
static gop_status start_lanes(gop_sim_worker *w, int first, int end)
{
    w->next = first;
    w->end = end;
    while (w->next < w->end && !w->failed) {
        if (!w->idle && !gop_fibers_make(&w->idle, fiber_main))
            return gop_fail(GOP_NO_MEMORY, "sim: no memory for the stacks of a block");
        gop_fiber *fiber = w->idle;
        w->idle = fiber->next;
        go_on(w, fiber);
    }
    return GOP_OK;
}

/* Resumes the lanes of a warp one after another, each until it ends or waits again. */
static void resume(gop_sim_worker *w, int warp, unsigned lanes)
{
    while (lanes && !w->failed) {
        const int l = one_of(w, lanes);
        gop_sim_lane *lane = &w->all[warp * GOP_SIM_WARP + l];
        lanes &= ~(1u << l);
        w->lane = lane;
        go_on(w, lane->fiber);
    }
}

/* ---- warps ---- */

/* The members of a meeting that all its members have reached; 0: there is none. */
static unsigned complete_meeting(const gop_sim_worker *w, int warp)
{
    const gop_sim_warp *v = &w->warp[warp];
    const gop_sim_lane *lanes = &w->all[warp * GOP_SIM_WARP];
    for (unsigned rest = v->at_meeting; rest; rest &= rest - 1) {
        const gop_sim_lane *one = &lanes[__builtin_ctz(rest)];
        const unsigned members = one->mask & v->live;
        if (members & ~v->at_meeting) continue;
        unsigned same = members;
        for (unsigned m = members; m; m &= m - 1) {
            const gop_sim_lane *other = &lanes[__builtin_ctz(m)];
            if (other->mask != one->mask || other->kind != one->kind) same = 0;
        }
        if (same) return same;
    }
    return 0;
}

/* Gives every member its result, before any of them resumes. A shuffle from a lane that is no
 * member is undefined in CUDA. Here it gives NaN, or -1, as uninitialized memory does. */
static void exchange_lanes(gop_sim_lane *lanes, unsigned members)
{
    unsigned ballot = 0;
    for (unsigned m = members; m; m &= m - 1)
        if (lanes[__builtin_ctz(m)].value) ballot |= m & -m;
    for (unsigned m = members; m; m &= m - 1) {
        gop_sim_lane *lane = &lanes[__builtin_ctz(m)];
        const int has_source = members >> lane->source & 1;
        if (lane->kind == GOP_SIM_BALLOT) lane->result = ballot;
        else lane->result = has_source ? lanes[lane->source].value : ~(uint64_t)0;
    }
}

static unsigned can_access(const gop_sim_warp *v)
{
    return v->at_access & ~v->polls;
}

/* Finds the lanes at the lowest instruction among those that wait at an access. So lanes that
 * are behind catch up, and the lanes of a loop reconverge after it. */
static unsigned lowest(const gop_sim_worker *w, int warp)
{
    const gop_sim_lane *lanes = &w->all[warp * GOP_SIM_WARP];
    uintptr_t lowest = 0;
    unsigned group = 0;
    for (unsigned rest = can_access(&w->warp[warp]); rest; rest &= rest - 1) {
        const uintptr_t place = lanes[__builtin_ctz(rest)].place;
        if (group && place > lowest) continue;
        if (group && place < lowest) group = 0;
        lowest = place;
        group |= rest & -rest;
    }
    return group;
}

/* Runs a warp until none of its lanes can go on alone. Under the random schedule it may return
 * earlier. */
static void advance(gop_sim_worker *w, int warp)
{
    gop_sim_warp *v = &w->warp[warp];
    while (!w->failed) {
        unsigned group = v->paused;
        if (group) {
            gop_sim_paths_read(w, warp, 1);
            v->paused = 0;
        } else if ((group = can_access(v))) {
            group =
                w->schedule.turns == GOP_SIM_RANDOM ? 1u << one_of(w, group) : lowest(w, warp);
            if (w->counters) gop_sim_count(w, v, group);
            if (w->paths && group == v->live) gop_sim_paths_read(w, warp, 0);
            v->at_access &= ~group;
        } else {
            group = complete_meeting(w, warp);
            if (!group) return;
            exchange_lanes(&w->all[warp * GOP_SIM_WARP], group);
            v->at_meeting &= ~group;
            const int kind = w->all[warp * GOP_SIM_WARP + __builtin_ctz(group)].kind;
            if (w->checks) gop_sim_checks_meeting(w, warp, kind == GOP_SIM_SYNC);
        }
        resume(w, warp, group);
        if (w->schedule.turns == GOP_SIM_RANDOM && gop_sim_chance(&w->random) % 8 == 0) return;
    }
}

/* ---- the block ---- */

static void begin_block(gop_sim_worker *w)
{
    const gop_sim_index size = w->launch->block;
    gop_sim_index at = {0, 0, 0};
    w->lanes = (int)(size.x * size.y * size.z);
    w->shared_used = w->sites = w->failed = w->fault.signal = w->done = 0;
    w->since = 0;
    w->looked_at = w->looked_lane = NULL;
    if (w->checks) gop_sim_checks_block(w);
    for (int l = 0; l < w->lanes; l++) {
        w->all[l].index = at;
        w->all[l].fiber = NULL;
        w->all[l].access.bytes = w->all[l].loaded.bytes = w->all[l].steps = 0;
        w->all[l].repeats = 0;
        w->all[l].ndone = 0;
        w->all[l].path = w->paths ? &w->paths[l] : NULL;
        w->all[l].passed = w->all[l].entered = 0;
        w->all[l].met = 0;
        if (w->paths) w->paths[l].steps = 0, w->paths[l].mixed = 0;
        if (++at.x == size.x) at.x = 0, at.y++;
        if (at.y == size.y) at.y = 0, at.z++;
    }
    for (int v = 0; v * GOP_SIM_WARP < w->lanes; v++) {
        const int left = w->lanes - v * GOP_SIM_WARP;
        const unsigned live = left >= GOP_SIM_WARP ? 0xffffffffu : (1u << left) - 1;
        w->warp[v] = (gop_sim_warp){.live = live};
    }
    if (w->schedule.turns == GOP_SIM_RANDOM) {
        const gop_sim_index at_block = w->block;
        w->random = gop_sim_mix(w->schedule.seed, (uint64_t)at_block.x << 32 ^ at_block.y);
        w->random = gop_sim_mix(w->random, at_block.z);
        shuffle_lanes(w);
    }
    /* Shared memory starts undefined: here it is all ones, which is NaN and -1. */
    memset(w->memory + GOP_SIM_STATIC, 0xff, w->launch->shared);
}

/* Lets the waiting lanes pass the barrier. Lanes that have returned do not count. */
static void pass_barrier(gop_sim_worker *w)
{
    uint64_t count = 0;
    if (w->checks) gop_sim_checks_barrier(w);
    gop_sim_forget_done(w);
    for (int l = 0; l < w->lanes; l++)
        if (w->warp[l / GOP_SIM_WARP].at_barrier >> l % GOP_SIM_WARP & 1)
            count += w->all[l].value != 0;
    const uint64_t random = w->random;
    for (int n = 0; n < warps_of(w); n++) {
        const int v = turn_of(w, n, random);
        const unsigned waiting = w->warp[v].at_barrier;
        if (w->paths) gop_sim_paths_read(w, v, 0);
        for (unsigned m = waiting; m; m &= m - 1)
            w->all[v * GOP_SIM_WARP + __builtin_ctz(m)].result = count;
        w->warp[v].at_barrier = 0;
        resume(w, v, waiting);
    }
}

/* Takes back the stacks of lanes that will never end. All idle fibers are reset: a frame larger
 * than a stack may have overwritten the stacks below it. */
static gop_status abandon(gop_sim_worker *w)
{
    if (w->fault.signal) gop_sim_fault_said(w);
    if (w->checks) gop_sim_checks_abandon(w);
    for (int l = 0; l < w->lanes; l++) {
        gop_fiber *fiber = w->all[l].fiber;
        if (!fiber || !(w->warp[l / GOP_SIM_WARP].live >> l % GOP_SIM_WARP & 1)) continue;
        fiber->next = w->idle;
        w->idle = fiber;
    }
    for (gop_fiber *fiber = w->idle; fiber; fiber = fiber->next)
        gop_fiber_reset(fiber, fiber_main);
    return GOP_DEVICE_FAILED;
}

gop_status gop_sim_run_block(gop_sim_worker *w)
{
    begin_block(w);
    const int in_lockstep = w->schedule.turns == GOP_SIM_LOCKSTEP;
    if (!in_lockstep) GOP_TRY(start_lanes(w, 0, w->lanes));
    for (int v = 0; in_lockstep && v < warps_of(w); v++) {
        const int end = (v + 1) * GOP_SIM_WARP;
        GOP_TRY(start_lanes(w, v * GOP_SIM_WARP, end < w->lanes ? end : w->lanes));
        advance(w, v);
    }
    for (;;) {
        unsigned live = 0, going = 0, polling = 0, elsewhere = 0;
        const uint64_t random = w->random;
        for (int n = 0; n < warps_of(w); n++) {
            const gop_sim_warp *v = &w->warp[turn_of(w, n, random)];
            if (v->live) advance(w, (int)(v - w->warp));
            live |= v->live;
            going |= can_access(v) | complete_meeting(w, (int)(v - w->warp));
            polling |= v->polls;
            elsewhere |= v->live & ~v->at_barrier;
        }
        if (w->failed) return abandon(w);
        if (!live) {
            for (int v = 0; w->paths && v < warps_of(w); v++) gop_sim_paths_read(w, v, 0);
            return w->checks ? gop_sim_checks_over(w) : GOP_OK;
        }
        if (going) continue;
        if (polling     ? !gop_sim_poll_again(w)
            : elsewhere ? gop_sim_stuck(w)
                        : !gop_sim_one_barrier(w))
            return abandon(w);
        if (!polling) pass_barrier(w);
    }
}
