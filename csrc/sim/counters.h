/*
 * counters.h - what is counted: per instruction of a kernel, summed over warps and blocks.
 */
#ifndef GOP_SIM_COUNTERS_H
#define GOP_SIM_COUNTERS_H

#include "sim/rules.h"

typedef enum gop_sim_space { GOP_SIM_GLOBAL, GOP_SIM_SHARED, GOP_SIM_NSPACES } gop_sim_space;

enum {
    GOP_SIM_COUNTERS = 1024, /* a power of two */
    GOP_SIM_MOST = 64,       /* parts of a request that are told apart */
    GOP_SIM_TAPE = 4096,     /* steps of a block's warps that are kept */
};

/* A request to be drawn: of those of most lanes the one of most parts, and the first of these.
 */
typedef struct gop_sim_sample {
    int count, parts, bytes, lane[GOP_SIM_WARP]; /* active lanes; of each; which they are */
    int64_t block;
    uintptr_t at[GOP_SIM_WARP]; /* of shared memory offsets, of global memory addresses */
} gop_sim_sample;

/* One instruction that touches memory. */
typedef struct gop_sim_counter {
    const void *pc;
    int kind, space;                /* a gop_sim_kind and a gop_sim_space */
    int64_t requests;               /* warp instructions */
    int64_t lanes;                  /* active in them, added up */
    int64_t bytes;                  /* that they asked for */
    int64_t parts;                  /* global: transactions; shared: wavefronts */
    int64_t ideal;                  /* parts that as many bytes would take at best */
    int64_t excess;                 /* parts beyond those that the same data would take */
    int64_t moved;                  /* bytes that the parts carry */
    int64_t each[GOP_SIM_MOST + 1]; /* requests by the parts they took */
    /* Global: sectors moved by how many of their bytes were asked for. Shared: words by the
     * bank that delivered them. */
    int64_t map[GOP_SIM_SECTOR + 1];
    /* Memory partitions: bytes of the wave of blocks that runs; of the waves that ended, all
     * bytes and those of each one's busiest partition. */
    int64_t load[GOP_SIM_PARTITIONS], carried, busiest;
    gop_sim_sample sample;
} gop_sim_counter;

/* One place where lanes of a warp may part. */
typedef struct gop_sim_branch {
    const void *pc;
    int64_t passed, lanes, divergent; /* by warps, by their lanes, by warps that parted */
} gop_sim_branch;

/* A basic block that lanes of a warp went through together. */
typedef struct gop_sim_step {
    const void *pc;
    unsigned lanes;
    int warp;
} gop_sim_step;

/* Open addressing by pc; what does not fit is counted in the last one. */
struct gop_sim_counters {
    int used, branches_used;
    int16_t at_used[GOP_SIM_COUNTERS], branch_used[GOP_SIM_COUNTERS];
    gop_sim_counter at[GOP_SIM_COUNTERS];
    gop_sim_branch branch[GOP_SIM_COUNTERS];
    int steps; /* of the grid's first block, as many as there is room for */
    gop_sim_step tape[GOP_SIM_TAPE];
};

gop_sim_counter *gop_sim_counter_of(gop_sim_counters *counters, const void *pc, int kind,
                                    int space);
gop_sim_branch *gop_sim_branch_of(gop_sim_counters *counters, const void *pc);
/* Whether a is to be drawn rather than b. */
int gop_sim_is_better(const gop_sim_sample *a, const gop_sim_sample *b);

/* ---- paths.c: where the lanes of a warp part ---- */

enum { GOP_SIM_STEPS = 251 }; /* paths are no power of two apart: caches */

/* What a lane passed since its warp was together last. */
struct gop_sim_path {
    uint64_t mixed; /* of the steps so far: paths that differ in it differ */
    int steps;
    uintptr_t step[GOP_SIM_STEPS]; /* twice the pc; + 1: a comparison */
};

/* ---- a launch, whole or in part ---- */

/* Items of a launch are blocks in launch order: all, or those of a sample, which is made of
 * units (a block; the blocks that run at a time, where partitions are looked at). */
typedef struct gop_sim_plan {
    int counted;           /* 0: nothing else is looked at */
    int64_t blocks, run;   /* of the grid; of them, that run */
    int64_t wanted, unit;  /* 0: all; 0: not known yet */
    int64_t done;          /* items */
    double seconds, since; /* that they took; when the next ones began */
    const gop_sim_rules *rules;
} gop_sim_plan;

#define GOP_SIM_MEASURED 0.2 /* seconds after which the rest can be estimated */

void gop_sim_plan_begin(gop_sim_plan *plan, const gop_sim_launch *launch);
/* The item where the next stage ends. */
int64_t gop_sim_plan_next(const gop_sim_plan *plan, int64_t grain);
/* After that stage: measures, and warns if the rest will take long. */
gop_status gop_sim_plan_after(gop_sim_plan *plan, const gop_sim_launch *launch, int64_t end);
int64_t gop_sim_plan_block(const gop_sim_plan *plan, int64_t item);

/* Around a thread's items: sets worker->counters where a profile is kept. */
void gop_sim_counting_begin(gop_sim_worker *worker, const gop_sim_plan *plan);
/* What was counted of items [first, end), all of one wave, joins the profile. */
void gop_sim_counting_keep(gop_sim_worker *worker, const gop_sim_plan *plan, int64_t first,
                           int64_t end);
void gop_sim_counting_end(gop_sim_worker *worker);

/* ---- profile.c ---- */

/* What a profile is to do: count by the rules of a device, run `blocks` of each launch (0: all)
 * and, if one will take more than `seconds`, call `warn`, which says 1 to stop. */
typedef struct gop_sim_wish {
    int device;
    int64_t blocks;
    double seconds;
    int (*warn)(const char *kernel, double seconds, int64_t blocks);
} gop_sim_wish;

__attribute__((visibility("default"))) void gop_sim_profile_wish(const gop_sim_wish *wish);

/* A launch is about to run: 0 if no profile is kept, else fills the plan's wishes and rules. */
int gop_sim_profile_begins(const gop_sim_launch *launch, gop_sim_plan *plan);
void gop_sim_profile_ends(const gop_sim_launch *launch);
/* Bytes that the kernel's blocks declared, of those that ran. */
size_t gop_sim_profile_shared(const gop_sim_launch *launch);
gop_status gop_sim_profile_warns(const gop_sim_launch *launch, double seconds, int64_t blocks);

/* The backend's `profile`: starts counting, or stops and gives what was counted as JSON. */
const char *gop_sim_profile(int start);

#endif
