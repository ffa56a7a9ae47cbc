/*
 * block.c - one block: lanes on fibers, warps in lockstep where they are counted, barriers.
 *
 * A lane runs until it must wait. One that never waits ends on the stack it began on, and the
 * next begins there: a kernel without barriers is a plain loop over its lanes.
 */
#include "sim/check.h"

#include <string.h>

__thread gop_sim_worker *gop_sim_here;

static int warp_of(const gop_sim_worker *w, const gop_sim_lane *lane)
{
    return (int)(lane - w->all) / GOP_SIM_WARP;
}

static unsigned bit_of(const gop_sim_worker *w, const gop_sim_lane *lane)
{
    return 1u << (lane - w->all) % GOP_SIM_WARP;
}

/* ---- fibers ---- */

void gop_sim_stop(gop_sim_worker *w)
{
    gop_fiber_switch(w->lane->fiber, &w->scheduler);
}

void gop_sim_pause(gop_sim_worker *w)
{
    w->warp[warp_of(w, w->lane)].paused |= bit_of(w, w->lane);
    gop_sim_stop(w);
}

void gop_sim_stop_for_good(gop_sim_worker *w)
{
    w->failed = 1;
    gop_sim_stop(w);
}

/* Before a lane waits for others: they may overwrite what it stored. */
static void settle(gop_sim_worker *w)
{
    if (w->checks && !gop_sim_check_store(w)) gop_sim_stop_for_good(w);
}

/* What a fiber does: lanes that have not started, one after another. */
static void fiber_main(void)
{
    for (;;) {
        gop_sim_worker *w = gop_sim_here;
        gop_fiber *mine = w->fiber;
        while (w->next < w->end) {
            gop_sim_lane *lane = &w->all[w->next++];
            lane->fiber = mine;
            w->lane = lane;
            w->launch->run(w->launch->closure);
            settle(w);
            w->warp[warp_of(w, lane)].live &= ~bit_of(w, lane);
        }
        mine->next = w->idle;
        w->idle = mine;
        gop_fiber_switch(mine, &w->scheduler);
    }
}

/* Starts lanes [first, end): each ends or waits. */
static gop_status start(gop_sim_worker *w, int first, int end)
{
    w->next = first;
    w->end = end;
    while (w->next < w->end && !w->failed) {
        if (!w->idle && !gop_fibers_make(&w->idle, fiber_main))
            return gop_fail(GOP_NO_MEMORY, "sim: no memory for the stacks of a block");
        w->fiber = w->idle;
        w->idle = w->fiber->next;
        gop_fiber_switch(&w->scheduler, w->fiber);
    }
    return GOP_OK;
}

/* Goes on with the lanes of a warp, lowest first, each until it ends or waits again. */
static void resume(gop_sim_worker *w, int warp, unsigned lanes)
{
    for (; lanes && !w->failed; lanes &= lanes - 1) {
        gop_sim_lane *lane = &w->all[warp * GOP_SIM_WARP + __builtin_ctz(lanes)];
        w->lane = lane;
        w->fiber = lane->fiber;
        gop_fiber_switch(&w->scheduler, lane->fiber);
    }
}

/* ---- warps ---- */

/* The lanes of one meeting that all its members have come to, or 0. */
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

/* Gives every member its result before any of them goes on. */
static void exchange(gop_sim_lane *lanes, unsigned members)
{
    unsigned ballot = 0;
    for (unsigned m = members; m; m &= m - 1)
        if (lanes[__builtin_ctz(m)].value) ballot |= m & -m;
    for (unsigned m = members; m; m &= m - 1) {
        gop_sim_lane *lane = &lanes[__builtin_ctz(m)];
        const int has_source = members >> lane->source & 1;
        if (lane->kind == GOP_SIM_BALLOT) lane->result = ballot;
        else lane->result = has_source ? lanes[lane->source].value : lane->value;
    }
}

/* Of the lanes that wait at an access, those at the lowest instruction: the ones behind catch
 * up with the ones ahead, so that a loop's lanes meet again after it. */
static unsigned lowest(const gop_sim_worker *w, int warp)
{
    const gop_sim_lane *lanes = &w->all[warp * GOP_SIM_WARP];
    const void *pc = NULL;
    unsigned group = 0;
    for (unsigned rest = w->warp[warp].at_access; rest; rest &= rest - 1) {
        const gop_sim_access *access = &lanes[__builtin_ctz(rest)].access;
        if (group && access->pc > pc) continue;
        if (group && access->pc < pc) group = 0;
        pc = access->pc;
        group |= rest & -rest;
    }
    return group;
}

/* Runs a warp until none of its lanes can go on alone. */
static void advance(gop_sim_worker *w, int warp)
{
    gop_sim_warp *v = &w->warp[warp];
    while (!w->failed) {
        unsigned group = v->paused;
        if (group) {
            gop_sim_paths_read(w, warp, 1);
            v->paused = 0;
        } else if ((group = lowest(w, warp))) {
            gop_sim_count(w, v, group);
            if (group == v->live) gop_sim_paths_read(w, warp, 0);
            v->at_access &= ~group;
        } else {
            group = complete_meeting(w, warp);
            if (!group) return;
            exchange(&w->all[warp * GOP_SIM_WARP], group);
            v->at_meeting &= ~group;
            const int kind = w->all[warp * GOP_SIM_WARP + __builtin_ctz(group)].kind;
            if (w->checks) gop_sim_checks_meeting(w, warp, kind == GOP_SIM_SYNC);
        }
        resume(w, warp, group);
    }
}

/* ---- the block ---- */

static void begin(gop_sim_worker *w)
{
    const gop_sim_index size = w->launch->block;
    gop_sim_index at = {0, 0, 0};
    w->lanes = (int)(size.x * size.y * size.z);
    w->shared_used = w->sites = w->failed = 0;
    if (w->checks) gop_sim_checks_block(w);
    for (int l = 0; l < w->lanes; l++) {
        w->all[l].index = at;
        if (++at.x == size.x) at.x = 0, at.y++;
        if (at.y == size.y) at.y = 0, at.z++;
    }
    for (int v = 0; v * GOP_SIM_WARP < w->lanes; v++) {
        const int left = w->lanes - v * GOP_SIM_WARP;
        const unsigned live = left >= GOP_SIM_WARP ? 0xffffffffu : (1u << left) - 1;
        w->warp[v] = (gop_sim_warp){.live = live};
    }
    /* Shared memory holds what it holds: here, NaN and -1. */
    memset(w->memory + GOP_SIM_STATIC, 0xff, w->launch->shared);
}

static int warps_of(const gop_sim_worker *w)
{
    return (w->lanes + GOP_SIM_WARP - 1) / GOP_SIM_WARP;
}

static int count_bits(const gop_sim_worker *w, int meeting)
{
    int bits = 0;
    for (int v = 0; v < warps_of(w); v++)
        bits += __builtin_popcount(meeting ? w->warp[v].at_meeting : w->warp[v].at_barrier);
    return bits;
}

/* Lets all lanes pass the barrier; a lane that has returned is not waited for. */
static void pass_barrier(gop_sim_worker *w)
{
    uint64_t count = 0;
    if (w->checks) gop_sim_checks_barrier(w);
    for (int l = 0; l < w->lanes; l++)
        if (w->warp[l / GOP_SIM_WARP].at_barrier >> l % GOP_SIM_WARP & 1)
            count += w->all[l].value != 0;
    for (int v = 0; v < warps_of(w); v++) {
        const unsigned waiting = w->warp[v].at_barrier;
        if (w->paths) gop_sim_paths_read(w, v, 0);
        for (unsigned m = waiting; m; m &= m - 1)
            w->all[v * GOP_SIM_WARP + __builtin_ctz(m)].result = count;
        w->warp[v].at_barrier = 0;
        resume(w, v, waiting);
    }
}

static gop_status stuck(const gop_sim_worker *w)
{
    return gop_fail(GOP_DEVICE_FAILED,
                    "sim: %s: block (%u, %u, %u) is stuck: %d of its threads wait at "
                    "__syncthreads and %d for threads of their warp that their mask names; "
                    "every thread that has not returned must reach the same barrier",
                    w->launch->kernel, w->block.x, w->block.y, w->block.z, count_bits(w, 0),
                    count_bits(w, 1));
}

/* Takes the stacks back from lanes that began and will never end. */
static void abandon(gop_sim_worker *w)
{
    for (int l = 0; l < w->next; l++) {
        gop_fiber *fiber = w->all[l].fiber;
        if (!(w->warp[l / GOP_SIM_WARP].live >> l % GOP_SIM_WARP & 1)) continue;
        gop_fiber_reset(fiber, fiber_main);
        fiber->next = w->idle;
        w->idle = fiber;
    }
}

gop_status gop_sim_run_block(gop_sim_worker *w)
{
    begin(w);
    if (!w->counters) GOP_TRY(start(w, 0, w->lanes));
    for (int v = 0; w->counters && v < warps_of(w); v++) {
        const int end = (v + 1) * GOP_SIM_WARP;
        GOP_TRY(start(w, v * GOP_SIM_WARP, end < w->lanes ? end : w->lanes));
        advance(w, v);
    }
    for (;;) {
        unsigned live = 0, elsewhere = 0;
        for (int v = 0; v < warps_of(w); v++) {
            if (w->warp[v].live) advance(w, v);
            live |= w->warp[v].live;
            elsewhere |= w->warp[v].live & ~w->warp[v].at_barrier;
        }
        if (w->failed) {
            abandon(w);
            return GOP_DEVICE_FAILED;
        }
        if (!live) {
            for (int v = 0; w->paths && v < warps_of(w); v++) gop_sim_paths_read(w, v, 0);
            return GOP_OK;
        }
        if (elsewhere) {
            abandon(w);
            return stuck(w);
        }
        pass_barrier(w);
    }
}

/* ---- what a lane asks ---- */

gop_sim_index gop_sim_thread(void)
{
    return gop_sim_here->lane->index;
}

gop_sim_index gop_sim_block(void)
{
    return gop_sim_here->block;
}

gop_sim_index gop_sim_block_size(void)
{
    return gop_sim_here->launch->block;
}

gop_sim_index gop_sim_grid_size(void)
{
    return gop_sim_here->launch->grid;
}

unsigned gop_sim_lane_of_warp(void)
{
    return (unsigned)(gop_sim_here->lane - gop_sim_here->all) % GOP_SIM_WARP;
}

unsigned gop_sim_members(unsigned mask)
{
    const gop_sim_worker *w = gop_sim_here;
    return mask & w->warp[warp_of(w, w->lane)].live;
}

/* Allocations of a kernel that does not fit were refused when it was launched with none. */
void *gop_sim_shared(unsigned site, size_t bytes)
{
    gop_sim_worker *w = gop_sim_here;
    for (int s = 0; s < w->sites; s++)
        if (w->site[s].site == site) return w->site[s].memory;
    const int used = (w->shared_used + 15) / 16 * 16;
    if (w->sites == GOP_SIM_SITES || (size_t)used + bytes > GOP_SIM_STATIC)
        __builtin_trap(); /* nvcc would have refused the kernel */
    void *memory = w->memory + used;
    memset(memory, 0xff, bytes);
    w->shared_used = used + (int)bytes;
    w->site[w->sites].site = site;
    w->site[w->sites++].memory = memory;
    return memory;
}

void *gop_sim_dynamic(void)
{
    return gop_sim_here->memory + GOP_SIM_STATIC;
}

int gop_sim_barrier(int value)
{
    gop_sim_worker *w = gop_sim_here;
    gop_sim_lane *lane = w->lane;
    settle(w);
    lane->value = (uint64_t)(value != 0);
    w->warp[warp_of(w, lane)].at_barrier |= bit_of(w, lane);
    gop_sim_stop(w);
    return (int)lane->result;
}

uint64_t gop_sim_meet(gop_sim_meeting kind, unsigned mask, uint64_t value, unsigned source)
{
    gop_sim_worker *w = gop_sim_here;
    gop_sim_lane *lane = w->lane;
    settle(w);
    lane->kind = kind;
    lane->mask = mask;
    lane->value = value;
    lane->source = source % GOP_SIM_WARP;
    w->warp[warp_of(w, lane)].at_meeting |= bit_of(w, lane);
    gop_sim_stop(w);
    return lane->result;
}
