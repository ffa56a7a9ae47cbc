/*
 * plan.c - which blocks of a launch run while it is counted, and how long that will take.
 *
 * A sample takes one unit from each of equal parts of the grid, at a pseudorandom place that is
 * always the same. Evenly spaced units might all be in one column.
 */
#include "sim/counters.h"

#include <time.h>

static double sim_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void gop_sim_plan_begin(gop_sim_plan *plan, const gop_sim_launch *launch)
{
    const gop_sim_index g = launch->grid;
    *plan = (gop_sim_plan){.blocks = (int64_t)g.x * g.y * g.z, .unit = 1};
    plan->run = plan->blocks;
    if (!gop_sim_profile_begins(launch, plan)) return;
    plan->counted = 1;
    plan->since = sim_seconds();
    if (plan->rules->partitions) plan->unit = 0;
    if (plan->wanted && plan->wanted < plan->run) plan->run = plan->wanted;
}

int64_t gop_sim_plan_next(const gop_sim_plan *plan, int64_t grain)
{
    int64_t end = plan->run;
    if (!plan->counted || plan->seconds >= GOP_SIM_MEASURED) return end;
    if (!plan->unit) end = 1;
    else if (plan->done + grain < end) end = plan->done + grain;
    if (end < 2 * plan->done) end = 2 * plan->done;
    return end < plan->run ? end : plan->run;
}

/* Computes the blocks of a unit, once a block has run and its shared memory is known. */
static void find_unit(gop_sim_plan *plan, const gop_sim_launch *launch)
{
    const gop_sim_index b = launch->block;
    plan->unit = gop_sim_resident(plan->rules, (int)(b.x * b.y * b.z),
                                  launch->shared + gop_sim_profile_shared(launch));
    if (plan->run == plan->blocks) return;
    const int64_t units = (plan->wanted + plan->unit - 1) / plan->unit;
    plan->run = units < plan->blocks / plan->unit ? units * plan->unit : plan->blocks;
}

gop_status gop_sim_plan_after(gop_sim_plan *plan, const gop_sim_launch *launch, int64_t end)
{
    plan->done = end;
    if (!plan->counted) return GOP_OK;
    if (!plan->unit) find_unit(plan, launch);
    const double t = sim_seconds();
    const int was_short = plan->seconds < GOP_SIM_MEASURED;
    plan->seconds += t - plan->since;
    plan->since = t;
    if (!was_short || plan->seconds < GOP_SIM_MEASURED) return GOP_OK;
    return gop_sim_profile_warns(
        launch, plan->seconds * (double)(plan->run - end) / (double)end, plan->run);
}

int64_t gop_sim_plan_block(const gop_sim_plan *plan, int64_t item)
{
    if (plan->run == plan->blocks || !plan->unit) return item;
    const int64_t all = plan->blocks / plan->unit, units = plan->run / plan->unit;
    const int64_t u = item / plan->unit, first = u * all / units;
    const int64_t room = (u + 1) * all / units - first;
    const uint64_t random = (uint64_t)u * UINT64_C(0x9e3779b97f4a7c15) >> 32;
    return (first + (int64_t)(random % (uint64_t)room)) * plan->unit + item % plan->unit;
}
