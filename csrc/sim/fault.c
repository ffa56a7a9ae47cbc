/*
 * fault.c - lanes that the CPU stops: they divide by zero, or touch memory that does not exist.
 *
 * The signal handler suspends the lane as if it had stopped by itself: the thread continues in
 * its scheduler, which writes the sentence. A signal that no lane caused is passed on to the
 * handler that was installed before the launch. The file also holds what the compiler's checks
 * and assert call.
 */
#define _GNU_SOURCE /* dladdr, REG_RIP */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>

#include "sim/calls.h"
#include "sim/check.h"
#include "sim/locks.h"

static const int caught[] = {SIGFPE, SIGSEGV, SIGBUS, SIGILL};
enum { CAUGHT = sizeof caught / sizeof *caught };

static pthread_mutex_t *const lock = &gop_sim_locks[GOP_SIM_FAULTS];
static int launches; /* launches that run now */
static struct sigaction before[CAUGHT];

/* ---- the handler ---- */

/* Calls the earlier handler. Without one, the signal ends the process, as it would have. */
static void pass_on(int number, siginfo_t *info, void *context)
{
    static __thread int inside;
    const struct sigaction *to = NULL;
    for (int c = 0; c < CAUGHT; c++)
        if (caught[c] == number) to = &before[c];
    const int is_function = to->sa_handler != SIG_DFL && to->sa_handler != SIG_IGN;
    if (!is_function || inside) {
        signal(number, SIG_DFL);
        if (info->si_code <= 0)
            raise(number); /* it was sent: returning would not raise it again */
        return;
    }
    inside = 1;
    if (to->sa_flags & SA_SIGINFO) to->sa_sigaction(number, info, context);
    else to->sa_handler(number);
    inside = 0;
}

#if defined(__x86_64__)

/* Whether an integer division fails because the dividend rdx:rax is the lowest integer. The
 * opcode is F6 or F7, after prefixes that say the width. */
static int divides_lowest(const ucontext_t *context)
{
    const greg_t *registers = context->uc_mcontext.gregs;
    const unsigned char *code = (const unsigned char *)registers[REG_RIP];
    int wide = 0;
    for (; *code == 0x66 || (*code & 0xf0) == 0x40; code++)
        if (*code != 0x66) wide = *code & 8;
    return wide ? (int64_t)registers[REG_RAX] == INT64_MIN
                : (int32_t)registers[REG_RAX] == INT32_MIN;
}

static gop_sim_fault fault_of(int number, const siginfo_t *info, const ucontext_t *context)
{
    const greg_t *registers = context->uc_mcontext.gregs;
    gop_sim_fault f = {number, (uintptr_t)registers[REG_RIP], (uintptr_t)registers[REG_RSP],
                       (uintptr_t)info->si_addr, 0};
    if (number == SIGFPE) f.lowest = divides_lowest(context);
    return f;
}

#elif defined(__aarch64__)

static gop_sim_fault fault_of(int number, const siginfo_t *info, const ucontext_t *context)
{
    return (gop_sim_fault){number, context->uc_mcontext.pc, context->uc_mcontext.sp,
                           (uintptr_t)info->si_addr, 0};
}

#else

static gop_sim_fault fault_of(int number, const siginfo_t *info, const ucontext_t *context)
{
    (void)context; /* the pc is not known, so every signal is passed on */
    return (gop_sim_fault){number, 0, 0, (uintptr_t)info->si_addr, 0};
}

#endif

static void handle(int number, siginfo_t *info, void *context)
{
    gop_sim_worker *w = gop_sim_here;
    const gop_sim_fault fault = fault_of(number, info, context);
    const gop_fiber *fiber = w ? w->fiber : NULL;
    const int was_sent = info->si_code <= 0; /* by kill, to the process */
    /* A large frame may reach below all the stacks that were allocated together. */
    enum { BELOW = GOP_FIBERS_MADE * (GOP_FIBER_RED + GOP_FIBER_STACK) + GOP_FIBER_RED };
    if (was_sent || !fiber ||
        fault.stack - (uintptr_t)(fiber->stack - BELOW) >= BELOW + GOP_FIBER_STACK) {
        pass_on(number, info, context);
        return;
    }
    w->fault = fault;
    w->failed = 1;
    gop_fiber_leave(context, &w->scheduler);
}

void gop_sim_faults_begin(void)
{
    struct sigaction ours = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigemptyset(&ours.sa_mask);
    pthread_mutex_lock(lock);
    if (launches++ == 0)
        for (int c = 0; c < CAUGHT; c++) sigaction(caught[c], &ours, &before[c]);
    pthread_mutex_unlock(lock);
}

/* Restores the earlier handlers, except where another one was installed since. */
void gop_sim_faults_end(void)
{
    struct sigaction now;
    pthread_mutex_lock(lock);
    if (--launches == 0)
        for (int c = 0; c < CAUGHT; c++)
            if (sigaction(caught[c], NULL, &now) == 0 && now.sa_sigaction == handle)
                sigaction(caught[c], &before[c], NULL);
    pthread_mutex_unlock(lock);
}

/* ---- sentences ---- */

static int is_of_kernel(const gop_sim_worker *w, uintptr_t pc)
{
    Dl_info code, kernel;
    return dladdr((const void *)pc, &code) && dladdr(w->launch->function, &kernel) &&
           code.dli_fbase == kernel.dli_fbase;
}

/* The kernel's instruction at the fault. If the kernel had called a function, its return
 * address is near the top of the stack. Places are return addresses, hence the + 1. */
static const void *place_of_fault(const gop_sim_worker *w)
{
    const gop_sim_fault *f = &w->fault;
    const void *printing = gop_sim_printing();
    if (is_of_kernel(w, f->pc)) return (const char *)f->pc + 1;
    if (printing) return printing;
    const uintptr_t *end = (const uintptr_t *)(w->fiber->stack + GOP_FIBER_STACK);
    const uintptr_t *at = (const uintptr_t *)(f->stack & ~(uintptr_t)7);
    for (int i = 0; i < 64 && at + i < end; i++)
        if (is_of_kernel(w, at[i])) return (const void *)at[i];
    return w->lane->passed ? (const void *)w->lane->passed : w->launch->function;
}

static void divides(const char *who, const char *what)
{
    gop_fail(GOP_DEVICE_FAILED,
             "%s divides %s: a GPU goes on with a number that means nothing; look at the "
             "divisor before",
             who, what);
}

void gop_sim_fault_said(const gop_sim_worker *w)
{
    const gop_sim_fault *f = &w->fault;
    char text[512];
    gop_sim_who(w, w->lane, place_of_fault(w), text);
    if (f->signal == SIGFPE)
        divides(text, f->lowest ? "the lowest integer by 0 or -1" : "an integer by 0");
    else if (f->signal == SIGILL)
        gop_fail(GOP_DEVICE_FAILED,
                 "%s comes where the compiler put no code: a function without its return, or a "
                 "trap",
                 text);
    else
        gop_fail(GOP_DEVICE_FAILED,
                 "%s touches memory that is not there, at address 0x%llx: is a pointer wrong, "
                 "or an array of the thread's own overrun?",
                 text, (unsigned long long)f->address);
}

/* ---- what kernels that Python compiles call when something is wrong ---- */

#define CALLER __builtin_return_address(0)

static __attribute__((noreturn)) void end_lane(gop_sim_worker *w)
{
    gop_sim_stop_for_good(w);
    __builtin_unreachable();
}

void gop_sim_assert(const char *condition, const char *file, unsigned line,
                    const char *function)
{
    char text[512];
    gop_sim_worker *w = gop_sim_here;
    (void)file, (void)line, (void)function; /* the sentence names the place by the pc */
    gop_fail(GOP_DEVICE_FAILED, "%s asserts `%.300s`, which is false",
             gop_sim_who(w, w->lane, CALLER, text), condition);
    end_lane(w);
}

void gop_sim_abort(void)
{
    char text[512];
    gop_sim_worker *w = gop_sim_here;
    gop_fail(GOP_DEVICE_FAILED, "%s ends the kernel", gop_sim_who(w, w->lane, CALLER, text));
    end_lane(w);
}

/* What -fsanitize=bounds passes about an index, in the layout that gcc and clang share. */
typedef struct type_name {
    uint16_t kind, detail; /* of an integer: is_signed + 2 * log2(bits) */
    char name[];
} type_name;

typedef struct bad_index {
    const char *file;
    uint32_t line, column;
    const type_name *array, *index;
} bad_index;

void gop_sim_overrun(const void *array, uintptr_t index, const void *pc)
{
    const bad_index *bad = array;
    const int unused = 64 - (1 << (bad->index->detail >> 1));
    const uint64_t high = (uint64_t)index << unused;
    const long long value =
        bad->index->detail & 1 ? (long long)high >> unused : (long long)(high >> unused);
    const int length = (int)strlen(bad->array->name) - 2; /* the name is in quotes */
    char text[512];
    gop_sim_worker *w = gop_sim_here;
    gop_fail(GOP_DEVICE_FAILED,
             "%s takes element %lld of an array of type %.*s; compare the index with the size",
             gop_sim_who(w, w->lane, pc, text), value, length < 200 ? length : 200,
             bad->array->name + 1);
    end_lane(w);
}

/* What the checks of casts and shifts pass. */
typedef struct bad_cast {
    const char *file;
    uint32_t line, column;
    const type_name *from, *to;
} bad_cast;

/* Writes a type's name without its quotes, at most 60 characters. */
static void name_of(const type_name *type, char *name)
{
    const int length = (int)strlen(type->name) - 2;
    snprintf(name, 64, "%.*s", length < 60 ? length : 60, type->name + 1);
}

void gop_sim_cast(const void *cast, uintptr_t value, const void *pc)
{
    const bad_cast *bad = cast;
    char text[512], name[64];
    gop_sim_worker *w = gop_sim_here;
    if (!w->arrays) return; /* checks are off */
    double number = 0;
    float narrow;
    memcpy(&narrow, &value, sizeof narrow);
    if (bad->from->detail == 32) number = (double)narrow;
    else if (bad->from->detail == 64) memcpy(&number, &value, sizeof number);
    name_of(bad->to, name);
    gop_fail(GOP_DEVICE_FAILED,
             "%s makes %s of %g, which C++ leaves undefined: a GPU takes the nearest there is, "
             "and 0 for NaN; compare it with the limits before the cast",
             gop_sim_who(w, w->lane, pc, text), name, number);
    end_lane(w);
}

/* Before the compiler makes `1 / x` a comparison, and `x / x` a 1. */
void gop_sim_divide(const void *pc)
{
    char text[512];
    gop_sim_worker *w = gop_sim_here;
    if (!w->arrays) return;
    divides(gop_sim_who(w, w->lane, pc, text), "an integer by 0");
    end_lane(w);
}

void gop_sim_shift(const void *shift, uintptr_t value, uintptr_t by, const void *pc)
{
    const bad_cast *bad = shift;
    char text[512], name[64];
    gop_sim_worker *w = gop_sim_here;
    (void)value;
    if (!w->arrays) return;
    const int unused = 64 - (1 << (bad->to->detail >> 1)), is_signed = bad->to->detail & 1;
    const uint64_t high = (uint64_t)by << unused;
    const long long distance =
        is_signed ? (long long)high >> unused : (long long)(high >> unused);
    name_of(bad->from, name);
    gop_fail(GOP_DEVICE_FAILED,
             "%s shifts %s of %d bits by %lld, which C++ leaves undefined: a GPU shifts all of "
             "them out; compare the distance with the width",
             gop_sim_who(w, w->lane, pc, text), name, 1 << (bad->from->detail >> 1), distance);
    end_lane(w);
}

void gop_sim_smashed(const void *pc)
{
    char text[512];
    gop_sim_worker *w = gop_sim_here;
    gop_fail(GOP_DEVICE_FAILED,
             "%s has stored past the end of an array of its own; compare its indices with the "
             "size (the line is the end of the function)",
             gop_sim_who(w, w->lane, pc, text));
    end_lane(w);
}
