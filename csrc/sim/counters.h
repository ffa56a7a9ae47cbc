/*
 * counters.h - what is counted: per instruction of a kernel, summed over warps and blocks.
 */
#ifndef GOP_SIM_COUNTERS_H
#define GOP_SIM_COUNTERS_H

#include "sim/worker.h"

typedef enum gop_sim_space { GOP_SIM_GLOBAL, GOP_SIM_SHARED, GOP_SIM_NSPACES } gop_sim_space;

/* One instruction that touches memory. */
typedef struct gop_sim_counter {
    const void *pc;
    int kind, space;  /* a gop_sim_kind and a gop_sim_space */
    int64_t requests; /* warp instructions */
    int64_t lanes;    /* active in them, added up */
    int64_t bytes;    /* that they asked for */
    int64_t parts;    /* global: sectors of 32 bytes; shared: wavefronts */
    int64_t ideal;    /* parts that as many bytes would take at best */
} gop_sim_counter;

enum { GOP_SIM_COUNTERS = 1024 }; /* a power of two */

/* Open addressing by pc; what does not fit is counted in the last one. */
struct gop_sim_counters {
    gop_sim_counter at[GOP_SIM_COUNTERS];
};

gop_sim_counter *gop_sim_counter_of(gop_sim_counters *counters, const void *pc, int kind,
                                    int space);

/* Around a thread's blocks: sets worker->counters where a profile is kept. */
void gop_sim_counting_begin(gop_sim_worker *worker);
void gop_sim_counting_end(gop_sim_worker *worker, int64_t blocks);
void gop_sim_counting_launch(const gop_sim_launch *launch);

/* The backend's `profile`: starts counting, or stops and gives what was counted as JSON. */
const char *gop_sim_profile(int start);

#endif
