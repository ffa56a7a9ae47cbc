/*
 * report.h - what a profile holds about a kernel, and its JSON.
 */
#ifndef GOP_SIM_REPORT_H
#define GOP_SIM_REPORT_H

#include "sim/counters.h"

/* The bytes that each instruction moved through each memory partition, in blocks that ran
 * together. */
typedef struct gop_sim_wave {
    const gop_sim_launch *launch;
    int64_t number, done; /* index in the launch; blocks done */
    int64_t load[GOP_SIM_COUNTERS][GOP_SIM_PARTITIONS];
    struct gop_sim_wave *next;
} gop_sim_wave;

typedef struct gop_sim_kernel {
    const void *function;
    char name[96];
    int device, shared; /* bytes of shared memory it declares */
    int64_t launches, blocks, threads;
    int64_t grid, unit; /* blocks launched; blocks of a wave */
    gop_sim_counters counters;
    gop_sim_wave *waves;
    struct gop_sim_kernel *next;
} gop_sim_kernel;

/* Returns the kernels as JSON, which the caller frees; NULL: no memory. */
char *gop_sim_report(const gop_sim_kernel *kernels);

#endif
