/*
 * fiber.c - making stacks to switch between: by assembly on x86-64, by ucontext elsewhere,
 * which also saves the signal mask, by a system call: right anywhere, but far slower.
 */
#define _GNU_SOURCE /* MAP_ANONYMOUS, MAP_NORESERVE */
#include "sim/fiber.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#ifdef GOP_FIBER_ASSEMBLY

/* Stacks lie a power of two apart: begun at the same height, all would share the same few lines
 * of the caches. */
static char *bottom(const gop_fiber *fiber)
{
    const uintptr_t number = (uintptr_t)fiber->stack / GOP_FIBER_STACK;
    return fiber->stack + GOP_FIBER_STACK - number % 64 * 128;
}

/* As if `entry` had been called and had switched away before its first instruction. */
void gop_fiber_reset(gop_fiber *fiber, void (*entry)(void))
{
    void **top = (void **)bottom(fiber);
    *--top = NULL; /* the address entry would return to; also what aligns the stack */
    *--top = (void *)entry;
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
