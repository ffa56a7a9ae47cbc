/*
 * counters.h - what is counted for each instruction of a kernel, summed over warps and blocks.
 */
#ifndef GOP_SIM_COUNTERS_H
#define GOP_SIM_COUNTERS_H

#include "sim/rules.h"

typedef enum gop_sim_space { GOP_SIM_GLOBAL, GOP_SIM_SHARED, GOP_SIM_NSPACES } gop_sim_space;

enum {
    GOP_SIM_COUNTERS = 1024, /* a power of two */
    GOP_SIM_MOST = 64,       /* the histogram of parts ends here */
    GOP_SIM_TAPE = 4096,     /* steps that are kept of a block's warps */
};

/* The request that is drawn: one with the most active lanes; among these, the first one with
 * the most parts. */
typedef struct gop_sim_sample {
    int count, parts, bytes, lane[GOP_SIM_WARP]; /* active lanes; parts; bytes of each; lanes */
    int64_t block;
    uintptr_t at[GOP_SIM_WARP]; /* addresses in global memory, offsets in shared memory */
} gop_sim_sample;

/* One instruction that touches memory. */
typedef struct gop_sim_counter {
    const void *pc;
    int kind, space;                /* a gop_sim_kind and a gop_sim_space */
    int64_t requests;               /* warp instructions */
    int64_t lanes;                  /* active lanes, summed over the requests */
    int64_t bytes;                  /* bytes that the lanes asked for */
    int64_t parts;                  /* global: transactions; shared: wavefronts */
    int64_t ideal;                  /* fewest parts for as many bytes */
    int64_t excess;                 /* parts beyond the fewest for the same distinct data */
    int64_t moved;                  /* bytes that the parts carry */
    int64_t each[GOP_SIM_MOST + 1]; /* number of requests by their parts */
    /* Global: number of sectors by how many of their bytes were asked for. Shared: number of
     * words by the bank that delivered them. */
    int64_t map[GOP_SIM_SECTOR + 1];
    /* Memory partitions. `load`: bytes in the running wave of blocks. `carried`, `busiest`:
     * bytes of all partitions and of the busiest one, summed over the waves that have ended. */
    int64_t load[GOP_SIM_PARTITIONS], carried, busiest;
    gop_sim_sample sample;
} gop_sim_counter;

/* One instruction at which lanes of a warp may diverge. */
typedef struct gop_sim_branch {
    const void *pc;
    int64_t passed, lanes, divergent; /* warp executions; their lanes; those that diverged */
} gop_sim_branch;

/* A basic block that some lanes of a warp executed together. */
typedef struct gop_sim_step {
    const void *pc;
    unsigned lanes;
    int warp;
} gop_sim_step;

/* Hash tables with open addressing, by pc. An overflow is counted in the last entry. */
struct gop_sim_counters {
    int used, branches_used;
    int16_t at_used[GOP_SIM_COUNTERS], branch_used[GOP_SIM_COUNTERS];
    gop_sim_counter at[GOP_SIM_COUNTERS];
    gop_sim_branch branch[GOP_SIM_COUNTERS];
    int steps; /* of the grid's first block, until the tape is full */
    gop_sim_step tape[GOP_SIM_TAPE];
};

gop_sim_counter *gop_sim_counter_of(gop_sim_counters *counters, const void *pc, int kind,
                                    int space);
gop_sim_branch *gop_sim_branch_of(gop_sim_counters *counters, const void *pc);
/* Whether to draw a rather than b. */
int gop_sim_is_better(const gop_sim_sample *a, const gop_sim_sample *b);

/* ---- paths.c: where the lanes of a warp part ---- */

enum { GOP_SIM_STEPS = 251 }; /* not a power of two, so that paths do not share cache sets */

/* What a lane executed since all lanes of its warp were last together. */
struct gop_sim_path {
    uint64_t mixed; /* hash of the steps */
    int steps;
    uintptr_t step[GOP_SIM_STEPS]; /* twice the pc; plus 1 if it is a comparison */
};

/* ---- a launch, whole or in part ---- */

/* Which blocks of a launch run. Items are numbered in launch order; they are all blocks, or
 * those of a sample. A sample is made of units: single blocks, or, if partitions are counted,
 * the blocks that run at the same time. */
typedef struct gop_sim_plan {
    int counted;           /* 0: the other fields are not used */
    int64_t blocks, run;   /* blocks of the grid; blocks that run */
    int64_t wanted, unit;  /* blocks asked for, 0: all; blocks of a unit, 0: not known yet */
    int64_t done;          /* items that have run */
    double seconds, since; /* time that they took; start of the next stage */
    const gop_sim_rules *rules;
} gop_sim_plan;

#define GOP_SIM_MEASURED 0.2 /* seconds of running before the rest is estimated */

void gop_sim_plan_begin(gop_sim_plan *plan, const gop_sim_launch *launch);
/* The item at which the next stage ends. */
int64_t gop_sim_plan_next(const gop_sim_plan *plan, int64_t grain);
/* Called after a stage: measures it, and warns if the rest will take long. */
gop_status gop_sim_plan_after(gop_sim_plan *plan, const gop_sim_launch *launch, int64_t end);
int64_t gop_sim_plan_block(const gop_sim_plan *plan, int64_t item);

/* Called around a thread's items: sets worker->counters if a profile is kept. */
void gop_sim_counting_begin(gop_sim_worker *worker, const gop_sim_plan *plan);
/* Adds the counts of items [first, end), all of one wave, to the profile. */
void gop_sim_counting_keep(gop_sim_worker *worker, const gop_sim_plan *plan, int64_t first,
                           int64_t end);
void gop_sim_counting_end(gop_sim_worker *worker);

/* ---- profile.c ---- */

/* Settings of a profile: count by the rules of `device`; run `blocks` of each launch (0: all);
 * if a launch will take more than `seconds`, call `warn`, which returns 1 to stop. */
typedef struct gop_sim_wish {
    int device;
    int64_t blocks;
    double seconds;
    int (*warn)(const char *kernel, double seconds, int64_t blocks);
} gop_sim_wish;

__attribute__((visibility("default"))) void gop_sim_profile_wish(const gop_sim_wish *wish);

/* Called before a launch. Returns 0 if no profile is kept, else fills the plan's `wanted` and
 * `rules`. */
int gop_sim_profile_begins(const gop_sim_launch *launch, gop_sim_plan *plan);
void gop_sim_profile_ends(const gop_sim_launch *launch);
/* Bytes of static shared memory that the kernel has declared so far. */
size_t gop_sim_profile_shared(const gop_sim_launch *launch);
gop_status gop_sim_profile_warns(const gop_sim_launch *launch, double seconds, int64_t blocks);

/* The backend's `profile`: starts counting, or stops and returns the counts as JSON. */
const char *gop_sim_profile(int start);

#endif
