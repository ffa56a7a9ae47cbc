/*
 * panels.h - long calls on host arrays, cut into panels along an axis of the output.
 */
#ifndef GOP_PANELS_H
#define GOP_PANELS_H

#include "core/host/memory.h"

typedef struct gop_cut {
    gop_panels panels;    /* what the backend sees; the output is its last operand */
    const gop_task *task; /* the whole call; its inputs that are not cut are on the device */
    gop_ctx *ctx;
    int axis[GOP_MAX_INPUTS + 1]; /* along which each input and the output are cut; -1: not */
    int64_t width;                /* of a panel along that axis */
    int input[GOP_MAX_INPUTS];    /* of which operand k is a part */
    char *memory[GOP_MAX_INPUTS + 1]; /* operand k's, for `depth` panels */
    size_t bytes[GOP_MAX_INPUTS + 1]; /* of one panel */
    void *scratch;
} gop_cut;

/* 1 if the call is worth cutting: long, all of it on the host, in and out. Fills `cut`. */
int gop_cut_find(gop_cut *cut, const gop_task *task, gop_ctx *ctx);
/* Takes memory for some panels, runs all, and gives it back. */
gop_status gop_cut_run(gop_cut *cut) GOP_MUST_CHECK;

#endif
