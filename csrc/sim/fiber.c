/*
 * fiber.c - makes stacks to switch between: by assembly on x86-64, by ucontext elsewhere.
 *
 * ucontext also saves the signal mask by a system call. It works everywhere, but is far slower.
 */
#define _GNU_SOURCE /* MAP_ANONYMOUS, MAP_NORESERVE, REG_RIP */
#include "sim/fiber.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#ifdef GOP_FIBER_ASSEMBLY

/* The start of a fiber's stack. Stacks are a power of two apart: if all began at the same
 * offset, they would share a few cache sets. */
static char *bottom(const gop_fiber *fiber)
{
    const uintptr_t number = (uintptr_t)fiber->stack / (GOP_FIBER_STACK + GOP_FIBER_RED);
    return fiber->stack + GOP_FIBER_STACK - number % 64 * 128;
}

/* Makes the stack look as if `entry` had been called and had switched away at once. */
void gop_fiber_reset(gop_fiber *fiber, void (*entry)(void))
{
    void **top = (void **)bottom(fiber);
    *--top = NULL; /* the return address of entry; it also aligns the stack */
    *--top = (void *)entry;
    fiber->top = top;
}

/* Resumes `to` from a signal handler: restores what gop_fiber_switch has pushed on its stack.
 */
void gop_fiber_leave(void *context, gop_fiber *to)
{
    enum { DOWNWARDS = 0x400 }; /* the direction flag, which memmove may have set */
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    void **top = to->top;
    registers[REG_RIP] = (greg_t)top[0];
    registers[REG_RSP] = (greg_t)(top + 1);
    registers[REG_EFL] &= ~(greg_t)DOWNWARDS;
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

void gop_fiber_leave(void *context, gop_fiber *to)
{
    (void)context;
    setcontext(&to->context);
}

#endif

/* Pages are committed as stacks grow. Below each stack is a red zone, for a function that takes
 * more before its first check of the room left (paths.c). Red zones are not protected, because
 * a process may have few mappings. A protected one is below the lowest stack. */
int gop_fibers_make(gop_fiber **list, void (*entry)(void))
{
    enum { EACH = GOP_FIBER_RED + GOP_FIBER_STACK };
    const size_t bytes = GOP_FIBER_RED + (size_t)GOP_FIBERS_MADE * EACH;
    gop_fiber *fibers = calloc(GOP_FIBERS_MADE, sizeof *fibers);
    char *stacks = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!fibers || stacks == MAP_FAILED) {
        free(fibers);
        if (stacks != MAP_FAILED) munmap(stacks, bytes);
        return 0;
    }
    mprotect(stacks, GOP_FIBER_RED, PROT_NONE);
    for (int f = GOP_FIBERS_MADE - 1; f >= 0; f--) {
        fibers[f].stack = stacks + 2 * GOP_FIBER_RED + (size_t)f * EACH;
        gop_fiber_reset(&fibers[f], entry);
        fibers[f].next = *list;
        *list = &fibers[f];
    }
    return 1;
}
