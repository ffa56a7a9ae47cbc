/*
 * trace.c - hooks that the compiler's thread sanitizer calls before every access of a kernel.
 *
 * The sanitizer's runtime is not linked. In lockstep a lane waits here until its warp's other
 * lanes have reached the same instruction or wait elsewhere. Then gop_sim_count sees them
 * together, as a GPU's load/store unit would.
 */
#include "sim/check.h"

#include <string.h>

/* Whether an access is to a lane's own variables or the arguments, which are registers on a
 * GPU. */
static int is_private(const gop_sim_worker *w, uintptr_t address)
{
    return address - (uintptr_t)w->lane->fiber->stack < GOP_FIBER_STACK ||
           address - (uintptr_t)w->launch->closure < w->launch->closure_bytes;
}

static void access(void *address, int bytes, int kind, const void *pc)
{
    gop_sim_worker *w = gop_sim_here;
    if (!w || is_private(w, (uintptr_t)address)) return;
    gop_sim_lane *lane = w->lane;
    gop_sim_warp *warp = &w->warp[gop_sim_warp_of(w, lane)];
    const gop_sim_turns turns = w->schedule.turns;
    /* A lane that polls makes many accesses, so the check starts only after some. */
    const int polls = lane->steps < GOP_SIM_FEW ? lane->steps++, 0 : gop_sim_polls(w);
    lane->access = (gop_sim_access){pc, (uintptr_t)address, bytes, kind};
    lane->passed = (uintptr_t)pc;
    lane->met = 0;
    w->accesses++;
    lane->place = 2 * (uintptr_t)pc;
    gop_sim_settle(w);
    if (polls) warp->polls |= gop_sim_bit_of(w, lane);
    if (polls || turns == GOP_SIM_LOCKSTEP ||
        (turns == GOP_SIM_RANDOM && gop_sim_chance(&w->random) % 4 == 0)) {
        warp->at_access |= gop_sim_bit_of(w, lane);
        gop_sim_stop(w);
    }
    if (w->arrays && !(w->checks ? gop_sim_check : gop_sim_inside)(w, &lane->access))
        gop_sim_stop_for_good(w);
}

#pragma GCC visibility push(default) /* for kernels that Python compiles */

#define CALLER __builtin_return_address(0)
#define ACCESS(name, bytes, kind)                                                              \
    void __tsan_##name(void *address);                                                         \
    void __tsan_##name(void *address)                                                          \
    {                                                                                          \
        access(address, bytes, kind, CALLER);                                                  \
    }
#define ACCESSES(bytes)                                                                        \
    ACCESS(read##bytes, bytes, GOP_SIM_LOAD)                                                   \
    ACCESS(write##bytes, bytes, GOP_SIM_STORE)                                                 \
    ACCESS(unaligned_read##bytes, bytes, GOP_SIM_LOAD)                                         \
    ACCESS(unaligned_write##bytes, bytes, GOP_SIM_STORE)                                       \
    ACCESS(volatile_read##bytes, bytes, GOP_SIM_LOAD)                                          \
    ACCESS(volatile_write##bytes, bytes, GOP_SIM_STORE)
ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)

void __tsan_init(void);
void __tsan_init(void) {}

/* A constructor stores its object's pointer to the virtual functions. */
void __tsan_vptr_update(void **address, void *value);
void __tsan_vptr_update(void **address, void *value)
{
    (void)value;
    access((char *)address, sizeof *address, GOP_SIM_STORE, CALLER);
}

/* The size of the next piece of a structure: the largest that the address allows, at most 16
 * bytes. */
static size_t bytes_to_boundary(const char *address, size_t bytes)
{
    size_t piece = 16;
    while (piece > bytes || (uintptr_t)address % piece != 0) piece /= 2;
    return piece;
}

static void range(char *address, size_t bytes, int kind, const void *pc)
{
    while (bytes > 0) {
        const size_t piece = bytes_to_boundary(address, bytes);
        access(address, (int)piece, kind, pc);
        address += piece;
        bytes -= piece;
    }
}

void __tsan_read_range(void *address, size_t bytes);
void __tsan_read_range(void *address, size_t bytes)
{
    range(address, bytes, GOP_SIM_LOAD, CALLER);
}

void __tsan_write_range(void *address, size_t bytes);
void __tsan_write_range(void *address, size_t bytes)
{
    range(address, bytes, GOP_SIM_STORE, CALLER);
}

#pragma GCC visibility pop

/* ---- memset and its like, which kernels that Python compiles call by these names ---- */

/* Counts the time slice in the loops below, which have no instrumented basic blocks. */
static void look_up_trace(const void *pc)
{
    gop_sim_worker *w = gop_sim_here;
    if (w && --w->time_slice < 0) gop_sim_rest(w, pc, GOP_FIBER_RESERVE);
}

void *gop_sim_memset(void *to, int value, size_t bytes)
{
    for (char *at = to; bytes > 0;) {
        const size_t piece = bytes_to_boundary(at, bytes);
        access(at, (int)piece, GOP_SIM_STORE, CALLER);
        memset(at, value, piece);
        look_up_trace(CALLER);
        at += piece;
        bytes -= piece;
    }
    return to;
}

/* The largest piece that both addresses allow. */
static size_t piece_of_both(const char *to, const char *from, size_t bytes)
{
    const size_t one = bytes_to_boundary(to, bytes), other = bytes_to_boundary(from, bytes);
    return one < other ? one : other;
}

static void copy_traced(char *to, char *from, size_t bytes, const void *pc)
{
    access(from, (int)bytes, GOP_SIM_LOAD, pc);
    access(to, (int)bytes, GOP_SIM_STORE, pc);
    memmove(to, from, bytes);
    look_up_trace(pc);
}

static void *copy_up(char *to, char *from, size_t bytes, const void *pc)
{
    for (size_t at = 0; at < bytes;) {
        const size_t piece = piece_of_both(to + at, from + at, bytes - at);
        copy_traced(to + at, from + at, piece, pc);
        at += piece;
    }
    return to;
}

void *gop_sim_memcpy(void *to, const void *from, size_t bytes)
{
    return copy_up(to, (char *)from, bytes, CALLER);
}

void *gop_sim_memmove(void *to, const void *from, size_t bytes)
{
    if ((uintptr_t)to - (uintptr_t)from >= bytes)
        return copy_up(to, (char *)from, bytes, CALLER);
    while (bytes > 0) { /* they overlap: copy from the end */
        char *source = (char *)from + bytes, *target = (char *)to + bytes;
        const size_t piece = piece_of_both(target, source, bytes);
        copy_traced(target - piece, source - piece, piece, CALLER);
        bytes -= piece;
    }
    return to;
}

/* ---- atomics, which the kernels' header calls by these names ---- */

uint32_t gop_sim_begin32(uint32_t *address)
{
    access(address, 4, GOP_SIM_ATOMIC, CALLER);
    return __atomic_load_n(address, __ATOMIC_RELAXED);
}

uint64_t gop_sim_begin64(uint64_t *address)
{
    access(address, 8, GOP_SIM_ATOMIC, CALLER);
    return __atomic_load_n(address, __ATOMIC_RELAXED);
}

void gop_sim_compares(const void *address)
{
    gop_sim_worker *w = gop_sim_here;
    if (w->checks && w->lane->access.address == (uintptr_t)address) gop_sim_checks_compare(w);
}

int gop_sim_swap32(uint32_t *address, uint32_t *expected, uint32_t desired)
{
    return __atomic_compare_exchange_n(address, expected, desired, 0, __ATOMIC_SEQ_CST,
                                       __ATOMIC_SEQ_CST);
}

int gop_sim_swap64(uint64_t *address, uint64_t *expected, uint64_t desired)
{
    return __atomic_compare_exchange_n(address, expected, desired, 0, __ATOMIC_SEQ_CST,
                                       __ATOMIC_SEQ_CST);
}

void gop_sim_fence(int of_device)
{
    gop_sim_worker *w = gop_sim_here;
    if (w->checks) gop_sim_checks_fence(w, of_device);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
