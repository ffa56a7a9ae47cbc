/*
 * choice.h - which kernels are chosen, and when: the table of a choose file.
 */
#ifndef GOP_CHOICE_H
#define GOP_CHOICE_H

#include "core/core.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A row that may be chosen, in a table with its file's reasons beside it. */
typedef struct gop_candidate {
    const gop_row *row;
    int (*suits)(const gop_ctx *ctx, const gop_task *task); /* NULL: every call it takes */
    const char *when; /* what `suits` and `pays` ask for, in words; NULL with them */
    const char *why;  /* what was measured, on which device, when */
    /* A condition on the row's plan, mostly on its `cost`; NULL: none. */
    int (*pays)(const gop_ctx *ctx, const gop_task *task, const gop_plan *plan);
} gop_candidate;

typedef struct gop_choice {
    int count;                       /* at most GOP_MAX_CANDIDATES */
    const gop_candidate *candidates; /* of those that suit and accept the first runs, or */
    /* the one that takes the fewest seconds, as expected here; NULL: the order decides */
    void (*expect)(const gop_ctx *ctx, const gop_task *task, int all, double *seconds);
    /* `all`: of each; else those that cannot be the fewest may be infinite and are not asked */
} gop_choice;

enum { GOP_MAX_CANDIDATES = 32 };

/* Lists the candidates in the order in which they are tried, with each one's answer to the
 * task. Returns how many there are, at most `most`. */
int gop_weigh(const gop_ctx *ctx, gop_task *task, gop_weighed *list, int most);

/* Sets a kernel's default tunables on the device of this name and detail to the call's values;
 * returns 0 if there is no such kernel, tunable or value. */
int gop_set_tuned(const gop_backend *backend, const char *device, const char *kernel,
                  const gop_call *call);

/* Makes *to the context of an imagined GPU: the given one with other facts. */
gop_ctx *gop_imagine(const gop_ctx *ctx, const gop_device_info *like, gop_ctx *to);

#ifdef __cplusplus
}
#endif

#endif
