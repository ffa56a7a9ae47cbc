/*
 * schedule.h - the order in which threads, warps and blocks run.
 *
 * A GPU guarantees no order. A kernel whose result depends on the order is wrong.
 */
#ifndef GOP_SIM_SCHEDULE_H
#define GOP_SIM_SCHEDULE_H

#include <stdint.h>

typedef enum gop_sim_turns {
    GOP_SIM_FORWARD,  /* each thread until it must wait, first to last */
    GOP_SIM_LOCKSTEP, /* the threads of a warp together, access by access */
    GOP_SIM_REVERSED, /* as forward, last to first, blocks too */
    GOP_SIM_RANDOM,   /* one thread until some access, then any other */
} gop_sim_turns;

typedef struct gop_sim_schedule {
    gop_sim_turns turns;
    uint64_t seed;
} gop_sim_schedule;

/* Sets the calling thread's schedule, as "random:3", and returns the one before; NULL if the
 * name is unknown. "" selects GPUOPS_SIM_SCHEDULE, the default of every thread. Python calls it
 * by name: gpuops/scheduling.py. */
__attribute__((visibility("default"))) const char *gop_sim_set_schedule(const char *text);
int gop_sim_schedule_now(gop_sim_schedule *schedule); /* 0: the environment's is unknown */

/* The block to run as number `item` of `count`. */
int64_t gop_sim_scheduled_block(const gop_sim_schedule *schedule, int64_t item, int64_t count);

/* Random numbers: the next one of a sequence, and a hash of two numbers. */
uint64_t gop_sim_chance(uint64_t *state);
uint64_t gop_sim_mix(uint64_t a, uint64_t b);

#endif
