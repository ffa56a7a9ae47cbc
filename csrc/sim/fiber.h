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

enum {
    GOP_FIBER_STACK = 64 * 1024,
    GOP_FIBER_RED = 64 * 1024,     /* more below it, for what is noticed only after the fact */
    GOP_FIBER_RESERVE = 12 * 1024, /* of a stack: what the runtime itself may take */
    GOP_FIBERS_MADE = 32,          /* at a time */
};

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
/* In a signal's handler, with its third argument: the thread goes on with `to` after it. */
void gop_fiber_leave(void *context, gop_fiber *to);
#ifdef GOP_FIBER_ASSEMBLY

/* Goes on with `to` where it stopped; comes back when somebody goes on with `from`. In place: a
 * return would be predicted to the fiber that called, not to the one that comes back. Below the
 * stack's top a function that calls nothing may keep 128 bytes. */
static inline __attribute__((always_inline)) void gop_fiber_switch(gop_fiber *from,
                                                                   gop_fiber *to)
{
    void **from_top = &from->top;
    void *to_top = to->top;
    __asm__ volatile("leaq -128(%%rsp), %%rsp\n\t"
                     "pushq %%rbp\n\t"
                     "pushq %%rbx\n\t"
                     "leaq 1f(%%rip), %%rdx\n\t"
                     "pushq %%rdx\n\t"
                     "movq %%rsp, (%%rdi)\n\t"
                     "movq %%rsi, %%rsp\n\t"
                     "popq %%rdx\n\t"
                     "jmpq *%%rdx\n"
                     "1:\n\t"
                     "popq %%rbx\n\t"
                     "popq %%rbp\n\t"
                     "leaq 128(%%rsp), %%rsp"
                     : "+D"(from_top), "+S"(to_top)
                     :
                     : "rax", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14",
                       "r15", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",
                       "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15",
                       "cc", "memory");
}

#else

void gop_fiber_switch(gop_fiber *from, gop_fiber *to);

#endif

#endif
