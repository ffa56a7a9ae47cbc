/*
 * schedule.h - the order in which threads, warps and blocks take turns.
 *
 * A GPU promises none. What gives another result in another order relies on luck.
 */
#ifndef GOP_SIM_SCHEDULE_H
#define GOP_SIM_SCHEDULE_H

#include <stdint.h>

typedef enum gop_sim_turns {
    GOP_SIM_FORWARD,  /* each thread until it must wait, the first one first */
    GOP_SIM_LOCKSTEP, /* a warp's threads from one access to the next, together */
    GOP_SIM_REVERSED, /* as forward, the last one first; the last block too */
    GOP_SIM_RANDOM,   /* one thread at a time until some access, then any other */
} gop_sim_turns;

typedef struct gop_sim_schedule {
    gop_sim_turns turns;
    uint64_t seed;
} gop_sim_schedule;

/* Sets the calling thread's schedule, "random:3", and returns what it was; NULL if there is no
 * such one. "" is that of GPUOPS_SIM_SCHEDULE, which threads begin with. Python calls it by
 * name: gpuops/scheduling.py. */
__attribute__((visibility("default"))) const char *gop_sim_set_schedule(const char *text);
int gop_sim_schedule_now(gop_sim_schedule *schedule); /* 0: that one is not known */

/* The block to run as number `item` of `count`. */
int64_t gop_sim_scheduled_block(const gop_sim_schedule *schedule, int64_t item, int64_t count);

/* Numbers by chance: the next one of a sequence, or of a mixture of two numbers. */
uint64_t gop_sim_chance(uint64_t *state);
uint64_t gop_sim_mix(uint64_t a, uint64_t b);

#endif
