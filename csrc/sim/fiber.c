/*
 * fiber.c - making stacks, and the switch between them: assembly on x86-64, ucontext elsewhere.
 *
 * A switch happens inside a call, so only what a callee must keep has to be saved. ucontext
 * also saves the signal mask, by a system call: right anywhere, but far slower.
 */
#define _GNU_SOURCE /* MAP_ANONYMOUS, MAP_NORESERVE */
#include "sim/fiber.h"

#include <stdlib.h>
#include <sys/mman.h>

#ifdef GOP_FIBER_ASSEMBLY

void gop_fiber_swap(void **from_top, void *to_top);

__asm__(".text\n"
        ".globl gop_fiber_swap\n"
        ".hidden gop_fiber_swap\n"
        ".type gop_fiber_swap, @function\n"
        ".p2align 4\n"
        "gop_fiber_swap:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size gop_fiber_swap, . - gop_fiber_swap\n");

void gop_fiber_switch(gop_fiber *from, gop_fiber *to)
{
    gop_fiber_swap(&from->top, to->top);
}

/* As if `entry` had been called and had switched away before its first instruction. */
void gop_fiber_reset(gop_fiber *fiber, void (*entry)(void))
{
    void **top = (void **)(fiber->stack + GOP_FIBER_STACK);
    *--top = NULL; /* the address entry would return to; also what aligns the stack */
    *--top = (void *)entry;
    for (int saved = 0; saved < 6; saved++) *--top = NULL;
    fiber->top = top;
}

#else

void gop_fiber_switch(gop_fiber *from, gop_fiber *to)
{
    swapcontext(&from->context, &to->context);
}

void gop_fiber_reset(gop_fiber *fiber, void (*entry)(void))
{
    getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = fiber->stack;
    fiber->context.uc_stack.ss_size = GOP_FIBER_STACK;
    makecontext(&fiber->context, entry, 0);
}

#endif

/* Pages are touched as stacks grow; one more below them catches the lowest one's overflow. */
int gop_fibers_make(gop_fiber **list, void (*entry)(void))
{
    enum { GUARD = 64 * 1024 };
    gop_fiber *fibers = calloc(GOP_FIBERS_MADE, sizeof *fibers);
    char *stacks =
        mmap(NULL, GUARD + (size_t)GOP_FIBERS_MADE * GOP_FIBER_STACK, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!fibers || stacks == MAP_FAILED) {
        free(fibers);
        if (stacks != MAP_FAILED)
            munmap(stacks, GUARD + (size_t)GOP_FIBERS_MADE * GOP_FIBER_STACK);
        return 0;
    }
    mprotect(stacks, GUARD, PROT_NONE);
    for (int f = GOP_FIBERS_MADE - 1; f >= 0; f--) {
        fibers[f].stack = stacks + GUARD + (size_t)f * GOP_FIBER_STACK;
        gop_fiber_reset(&fibers[f], entry);
        fibers[f].next = *list;
        *list = &fibers[f];
    }
    return 1;
}
