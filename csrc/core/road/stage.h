/*
 * stage.h - where each operand of a call lives while it runs.
 */
#ifndef GOP_STAGE_H
#define GOP_STAGE_H

#include "core/host/memory.h"

/* One operand. In place: `source` is NULL. Staged: `source` is the caller's array and the
 * task's array is a dense copy of it in `memory`, which the road allocated on the device or is
 * zero-copy: used in place by host and device both. */
typedef struct gop_staged {
    const gop_array *source;
    void *memory;
    size_t bytes;
    int zero_copy;
} gop_staged;

/* Whether the device's kernels take an array where it lies. `casts`: on the host they cast what
 * they read. */
int gop_stage_in_place(const gop_ctx *ctx, const gop_array *array, int casts);
/* Lays out operand `array` of the task for the context's device, without allocating yet. */
gop_status gop_stage_input(const gop_ctx *ctx, const char *op, int index, int casts,
                           const gop_array *source, gop_array *array,
                           gop_staged *staged) GOP_MUST_CHECK;
/* The same for an output; `copies` forces a copy (the output shares memory with an input). */
gop_status gop_stage_output(const gop_ctx *ctx, const char *op, int index,
                            const gop_array *source, int copies, gop_array *array,
                            gop_staged *staged) GOP_MUST_CHECK;

/* `small`: few bytes may stay where host and device both reach them. */
gop_status gop_stage_acquire(gop_ctx *ctx, int small, gop_array *array,
                             gop_staged *staged) GOP_MUST_CHECK;
/* Brings an operand to the device, or enqueues that. */
gop_status gop_stage_upload(gop_ctx *ctx, const gop_array *array,
                            const gop_staged *staged) GOP_MUST_CHECK;
/* Brings the results back: waits for those that go to the host, and only enqueues others. */
gop_status gop_stage_download(gop_ctx *ctx, int count, const gop_array *arrays,
                              const gop_staged *staged) GOP_MUST_CHECK;
void gop_stage_release(gop_ctx *ctx, gop_staged *staged);

/* Copies between two arrays of one shape on the context's device, by transpose's own kernels.
 */
gop_status gop_device_copy(const gop_ctx *ctx, const gop_array *from,
                           const gop_array *to) GOP_MUST_CHECK;

/* Where the context's work goes from now on; gives the stream before, to be put back. */
void *gop_use_stream(gop_ctx *ctx, void *stream);

/* Whether any result goes to the host, so that the call has to wait for it. */
int gop_stage_waits(const gop_ctx *ctx, int count, const gop_staged *staged);

/* Copies an array of any strides on the context's device into host memory of any strides. */
gop_status gop_fetch(gop_ctx *ctx, const gop_array *device,
                     const gop_array *host) GOP_MUST_CHECK;

#endif
