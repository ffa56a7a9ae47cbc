/*
 * fiber.h - fibers: stacks that a host thread switches between, one for each lane that waits.
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
    GOP_FIBER_RED = 64 * 1024,     /* guard zone below it: an overflow may be noticed late */
    GOP_FIBER_RESERVE = 12 * 1024, /* bytes of a stack that the runtime itself may take */
    GOP_FIBERS_MADE = 32,          /* fibers allocated at a time */
};

typedef struct gop_fiber {
#ifdef GOP_FIBER_ASSEMBLY
    void *top; /* its stack pointer while it does not run */
#else
    ucontext_t context;
#endif
    char *stack; /* its lowest byte */
    struct gop_fiber *next;
} gop_fiber;

/* Allocates GOP_FIBERS_MADE fibers that begin in `entry`, and puts them before *list. Returns 0
 * if there is no memory. */
int gop_fibers_make(gop_fiber **list, void (*entry)(void));
/* Resets a fiber to the start of `entry`. */
void gop_fiber_reset(gop_fiber *fiber, void (*entry)(void));
/* Called in a signal handler with its third argument: the thread continues with `to`
 * afterwards. */
void gop_fiber_leave(void *context, gop_fiber *to);
#ifdef GOP_FIBER_ASSEMBLY

/* Resumes `to` where it stopped. Returns when `from` is resumed. It is inlined because a return
 * would be predicted to go to the fiber that called. It skips 128 bytes below the stack
 * pointer, the ABI's red zone, which a leaf function may use. */
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
