/*
 * record.h - memory requests of warps that are kept for a drawing.
 */
#ifndef GOP_SIM_RECORD_H
#define GOP_SIM_RECORD_H

#include "sim/check.h"
#include "sim/counters.h"

/* A request: the block and warp that made it, the instruction as an offset into the kernel's
 * library, and what each lane touched. gpuops/course/watch.py has the same structure. */
typedef struct gop_sim_seen {
    int64_t offset, block;
    int warp, kind, count;
    int lane[GOP_SIM_WARP];
    gop_sim_element element[GOP_SIM_WARP];
} gop_sim_seen;

/* Python calls these two by name. The first sets how many requests are kept from now on (0:
 * none), the second returns them. */
__attribute__((visibility("default"))) void gop_sim_record(int most);
__attribute__((visibility("default"))) const gop_sim_seen *gop_sim_recorded(int *number);

void gop_sim_note_request(const gop_sim_worker *worker, int warp, const gop_sim_access *access,
                          const gop_sim_request *request);

#endif
