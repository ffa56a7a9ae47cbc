/*
 * lane.c - services for a lane: its indices, shared memory, waiting for others.
 */
#include "sim/check.h"
#include "sim/rules.h"

#include <string.h>

static unsigned part(gop_sim_index index, int axis)
{
    return axis == 0 ? index.x : axis == 1 ? index.y : index.z;
}

unsigned gop_sim_thread(int axis)
{
    return part(gop_sim_here->lane->index, axis);
}

unsigned gop_sim_block(int axis)
{
    return part(gop_sim_here->block, axis);
}

unsigned gop_sim_block_size(int axis)
{
    return part(gop_sim_here->launch->block, axis);
}

unsigned gop_sim_grid_size(int axis)
{
    return part(gop_sim_here->launch->grid, axis);
}

unsigned gop_sim_lane_of_warp(void)
{
    return (unsigned)(gop_sim_here->lane - gop_sim_here->all) % GOP_SIM_WARP;
}

/* Bytes of static shared memory that a kernel may declare. */
static size_t declarable_shared(const gop_sim_worker *w)
{
    const size_t all = gop_sim_most_shared(w->launch, 0);
    return all ? all - w->launch->shared : GOP_SIM_STATIC;
}

/* Stops a kernel that declares too much shared memory, which nvcc would refuse. */
static void refuse_shared(gop_sim_worker *w, size_t bytes, const void *pc)
{
    char text[512];
    gop_sim_who(w, w->lane, pc, text);
    const size_t all = (size_t)w->shared_used + bytes, room = declarable_shared(w);
    if (room < GOP_SIM_STATIC && w->sites < GOP_SIM_SITES)
        gop_fail(GOP_DEVICE_FAILED,
                 "%s declares shared memory of %zu bytes, %zu in all, expected at most %zu of "
                 "what the launch leaves of the %zu that a block has on this device",
                 text, bytes, all, room, room + w->launch->shared);
    else if (w->sites == GOP_SIM_SITES)
        gop_fail(GOP_DEVICE_FAILED, "%s declares more than %d shared variables", text,
                 (int)GOP_SIM_SITES);
    else
        gop_fail(
            GOP_DEVICE_FAILED,
            "%s declares shared memory of %zu bytes, %zu in all, expected at most %d: take "
            "dynamic shared memory, extern __shared__, whose bytes are given at the launch",
            text, bytes, all, (int)GOP_SIM_STATIC);
    gop_sim_stop_for_good(w);
}

void *gop_sim_shared(unsigned site, size_t bytes)
{
    gop_sim_worker *w = gop_sim_here;
    for (int s = 0; s < w->sites; s++)
        if (w->site[s].site == site) return w->site[s].memory;
    const int used = (w->shared_used + 15) / 16 * 16;
    if (w->sites == GOP_SIM_SITES || (size_t)used + bytes > declarable_shared(w))
        refuse_shared(w, bytes, __builtin_return_address(0));
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

int gop_sim_barrier(int value, int line)
{
    gop_sim_worker *w = gop_sim_here;
    gop_sim_lane *lane = w->lane;
    gop_sim_settle(w);
    lane->value = (uint64_t)(value != 0);
    lane->line = line;
    lane->site = __builtin_return_address(0);
    w->warp[gop_sim_warp_of(w, lane)].at_barrier |= gop_sim_bit_of(w, lane);
    lane->met = 1;
    gop_sim_stop(w);
    return (int)lane->result;
}

/* Stops a lane whose own mask leaves it out: it would wait for lanes that do not wait for it.
 */
static void refuse_mask(gop_sim_worker *w, unsigned mask, const void *pc)
{
    char text[512];
    gop_fail(
        GOP_DEVICE_FAILED,
        "%s is lane %u of its warp, which the mask 0x%x of its __syncwarp, shuffle or vote "
        "leaves out; name every thread that calls, and no other",
        gop_sim_who(w, w->lane, pc, text), gop_sim_lane_of_warp(), mask);
    gop_sim_stop_for_good(w);
}

uint64_t gop_sim_meet(gop_sim_meeting kind, unsigned mask, uint64_t value, unsigned source)
{
    gop_sim_worker *w = gop_sim_here;
    gop_sim_lane *lane = w->lane;
    gop_sim_settle(w);
    if (!(mask & gop_sim_bit_of(w, lane))) refuse_mask(w, mask, __builtin_return_address(0));
    lane->kind = kind;
    lane->mask = mask;
    lane->value = value;
    lane->source = source % GOP_SIM_WARP;
    lane->site = __builtin_return_address(0);
    w->warp[gop_sim_warp_of(w, lane)].at_meeting |= gop_sim_bit_of(w, lane);
    gop_sim_stop(w);
    return lane->result;
}
