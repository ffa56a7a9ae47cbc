/*
 * record.h - requests of warps that are kept to be drawn.
 */
#ifndef GOP_SIM_RECORD_H
#define GOP_SIM_RECORD_H

#include "sim/check.h"
#include "sim/counters.h"

/* A request: by which warp of which block, at which place of the kernel's library, and what
 * each of its lanes touched. gpuops/course/watch.py has the same structure. */
typedef struct gop_sim_seen {
    int64_t offset, block;
    int warp, kind, count;
    int lane[GOP_SIM_WARP];
    gop_sim_element element[GOP_SIM_WARP];
} gop_sim_seen;

/* Python calls these two by name: keep as many requests from now on, 0: none; those kept. */
__attribute__((visibility("default"))) void gop_sim_record(int most);
__attribute__((visibility("default"))) const gop_sim_seen *gop_sim_recorded(int *number);

void gop_sim_note_request(const gop_sim_worker *worker, int warp, const gop_sim_access *access,
                          const gop_sim_request *request);

#endif
