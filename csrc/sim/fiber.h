/*
 * fiber.h - stacks that a thread switches between by hand: one for each lane that waits.
 */
#ifndef GOP_SIM_FIBER_H
#define GOP_SIM_FIBER_H

#include <stddef.h>

#if defined(__x86_64__) && !defined(GOP_SIM_UCONTEXT)
#define GOP_FIBER_ASSEMBLY 1
#else
#include <ucontext.h>
#endif

enum { GOP_FIBER_STACK = 64 * 1024, GOP_FIBERS_MADE = 32 /* at a time */ };

typedef struct gop_fiber {
#ifdef GOP_FIBER_ASSEMBLY
    void *top; /* of its stack, while it does not run */
#else
    ucontext_t context;
#endif
    char *stack; /* its lowest byte */
    struct gop_fiber *next;
} gop_fiber;

/* Makes GOP_FIBERS_MADE fibers that begin in `entry`, in front of *list; 0: no memory. */
int gop_fibers_make(gop_fiber **list, void (*entry)(void));
/* Back to the start of `entry`, whatever it was doing. */
void gop_fiber_reset(gop_fiber *fiber, void (*entry)(void));
/* Goes on with `to` where it stopped; returns when somebody goes on with `from`. */
void gop_fiber_switch(gop_fiber *from, gop_fiber *to);

#endif
