/*
 * flow.h - what comes next when arrays travel in pieces, for transfer.cu.
 *
 * A flow has two sides, uploads and downloads. Each walks through the operands of panel after
 * panel and cuts them into pieces. Whoever is free takes the next one.
 */
#ifndef GOP_CUDA_FLOW_H
#define GOP_CUDA_FLOW_H

#include <pthread.h>

#include "cuda/runtime/runtime.h"

struct side {
    gop_direction direction;
    int panel, operand;
    gop_array host; /* the operand it stands at */
    char *device;
    int64_t item, next, total; /* elements, in dense order */
    int64_t first, most;       /* of a piece: the first of an operand may be shorter */
    int is_a_run;              /* the host's array: dense order is the order of addresses */
};

struct piece {
    gop_direction direction;
    int panel;
    gop_array host;
    char *device;
    int64_t item, first, count;
    int is_a_run; /* in the host's array: from its data + first * item */
};

struct flow {
    gop_cuda_thread *t; /* in panels: its own, since handlers of signals may use the caller's */
    const gop_panels *panels;
    cudaStream_t up, down;
    gop_cuda_part part;
    pthread_mutex_t lock; /* guards all that follows */
    side sides[2];
    int under_way[2][GOP_MAX_DEPTH]; /* pieces taken and not yet enqueued, of panels in turn */
    int unfinished;                  /* pieces taken and not yet where they belong */
    int launched;                    /* panels whose kernels are enqueued */
    int stop;
    gop_error error; /* the first, from whatever thread */
    const char *last_kernel;
};

/* ENDING: all are taken, and others are still at some. */
enum turn { TOOK, LATER, ENDING, DONE };

/* Puts both sides at their first operand, and launches what needs no upload. */
void gop_flow_begin(flow *f);
/* The following four with the lock held. The next piece: */
turn gop_flow_take(flow *f, piece *p);
/* A piece's copy is enqueued: panels that waited for it alone are launched. */
void gop_flow_enqueued(flow *f, const piece *p);
/* A downloaded piece is in the host array. */
void gop_flow_unpacked(flow *f);
/* The first failure ends the flow, whichever thread met it. */
void gop_flow_failed(flow *f, gop_status status);
/* Whether pieces are left to take, now or later. */
int gop_flow_has_more(const flow *f);
/* How many pieces the operands that the sides stand at have. */
int64_t gop_flow_pieces(const flow *f);

#endif
