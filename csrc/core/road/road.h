/*
 * road.h - a call on its way to a device. run.c has its phases, one after another, and choose.c
 * finds the kernel. parts.c has gop_run, which runs a call whole or in parts, and timed.c
 * gop_explain and gop_time, which stop after planning or put events around the phases.
 */
#ifndef GOP_ROAD_H
#define GOP_ROAD_H

#include "core/host/memory.h"

/* One operand. If kernels use it in place, `source` is NULL. If it is staged, `source` is the
 * caller's array, and the task's array is a dense copy of it in `memory`, which is on the
 * device, or zero-copy: both host and device use that in place. */
typedef struct gop_staged {
    const gop_array *source;
    void *memory;
    size_t bytes;
    int zero_copy;
} gop_staged;

typedef struct gop_road {
    const gop_call *call;
    const gop_descriptor *op;
    gop_ctx *ctx, imagined;
    const gop_device_info *like; /* explain's; then `ctx` is `imagined`, and nothing can run */
    gop_arena arena;
    gop_task task;
    const gop_row *row;
    gop_plan plan;
    int staged; /* 0: every array is used in place, and `in` and `out` are not filled */
    gop_staged in[GOP_MAX_INPUTS], out[GOP_MAX_OUTPUTS];
    void *findings;          /* what kernels find that check the data themselves, or NULL */
    const gop_array *source; /* the inputs that are staged: as `prepare` left them, or given */
    unsigned float_environment; /* of the caller, to be put back */
    void *stream_before;
    int in_order; /* its work comes in the order of the calls on device arrays */
} __attribute__((aligned(64))) gop_road; /* its time does not depend on where a frame begins */

static inline int gop_lacks_memory(gop_status status)
{
    return status == GOP_NO_MEMORY || status == GOP_NO_DEVICE_MEMORY;
}

/* ---- run.c: the phases ---- */

/* `assumed`: what the kernels assume and check themselves; 0: nothing. */
void gop_road_begin(gop_road *r, const gop_call *call, int64_t assumed);
void gop_road_end(gop_road *r);
gop_status gop_validate(gop_road *r, const gop_run_options *options) GOP_MUST_CHECK;
gop_status gop_plan_call(gop_road *r, const gop_run_options *options,
                         int timing) GOP_MUST_CHECK;
/* `named`: the caller asked for this kernel. `timing`: it is timed on the device's own memory.
 */
gop_status gop_acquire(gop_road *r, int named, int timing) GOP_MUST_CHECK;
gop_status gop_upload(gop_road *r) GOP_MUST_CHECK;
/* Launches a task whose arrays are on the device and whose kernel is chosen. */
gop_status gop_launch_steps(gop_ctx *ctx, const gop_task *task) GOP_MUST_CHECK;
/* Waits for results that go to the host, and enqueues others. */
gop_status gop_download(gop_road *r) GOP_MUST_CHECK;
/* Acquires, runs and downloads. `named`: the caller asked for its kernel. `*assumed` becomes
 * what to assume after a refusal. */
gop_status gop_run_planned(gop_road *r, int named, int64_t *assumed) GOP_MUST_CHECK;

/* ---- run.c: for parts of a call, and for copies ---- */

/* Refuses outputs that differ from what is inferred. */
gop_status gop_check_outputs(const gop_call *call) GOP_MUST_CHECK;
/* Gets memory for an operand that is staged. `small`: few bytes may go to memory that both host
 * and device reach. */
gop_status gop_acquire_operand(gop_ctx *ctx, int small, gop_array *array,
                               gop_staged *staged) GOP_MUST_CHECK;
gop_status gop_upload_operand(gop_ctx *ctx, const gop_array *array,
                              const gop_staged *staged) GOP_MUST_CHECK;
/* Makes the call that copies between two arrays of one shape: a transposition that leaves the
 * axes where they are. */
void gop_copy_call(const gop_array *from, const gop_array *to, gop_call *call);
/* Copies an array of any device to the host, and waits for it. */
gop_status gop_fetch_from_anywhere(const gop_array *device,
                                   const gop_array *host) GOP_MUST_CHECK;
#endif
