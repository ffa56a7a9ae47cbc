/*
 * trace.c - the compiler's thread sanitizer calls these before every access of a kernel.
 *
 * Its own runtime is not linked. Where nothing is counted a call returns at once. Otherwise the
 * lane waits here until its warp's other lanes have come to the same instruction, or gone
 * elsewhere; gop_sim_count then sees them together, as the GPU's load and store unit would.
 */
#include "sim/check.h"
#include "sim/counters.h"

/* Arguments, a lane's own variables and its place are registers on a GPU, not memory. */
static int is_private(const gop_sim_worker *w, uintptr_t address)
{
    return address - (uintptr_t)w->lane->fiber->stack < GOP_FIBER_STACK ||
           address - (uintptr_t)w->launch->closure < w->launch->closure_bytes;
}

static void access(void *address, int bytes, int kind, const void *pc)
{
    gop_sim_worker *w = gop_sim_here;
    if (!w || !(w->counters || w->checks) || is_private(w, (uintptr_t)address)) return;
    gop_sim_lane *lane = w->lane;
    const int index = (int)(lane - w->all);
    lane->access = (gop_sim_access){pc, (uintptr_t)address, bytes, kind};
    if (w->checks && !(gop_sim_check_store(w) && gop_sim_check(w, &lane->access)))
        gop_sim_stop_for_good(w);
    if (!w->counters) return;
    w->warp[index / GOP_SIM_WARP].at_access |= 1u << index % GOP_SIM_WARP;
    gop_sim_stop(w);
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

/* Structures: pieces as large as their address allows, at most 16 bytes. */
static void range(char *address, size_t bytes, int kind, const void *pc)
{
    while (bytes > 0) {
        size_t piece = 16;
        while (piece > bytes || (uintptr_t)address % piece != 0) piece /= 2;
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

/* ---- counting ---- */

gop_sim_counter *gop_sim_counter_of(gop_sim_counters *counters, const void *pc, int kind,
                                    int space)
{
    size_t at = ((uintptr_t)pc * UINT64_C(0x9e3779b97f4a7c15)) >> 48;
    for (int tries = 0; tries < GOP_SIM_COUNTERS; tries++, at++) {
        gop_sim_counter *c = &counters->at[at % GOP_SIM_COUNTERS];
        if (c->pc && (c->pc != pc || c->kind != kind || c->space != space)) continue;
        c->pc = pc;
        c->kind = kind;
        c->space = space;
        return c;
    }
    return &counters->at[GOP_SIM_COUNTERS - 1];
}

/* How many different numbers there are in items[0, count). */
static int distinct(uintptr_t *items, int count)
{
    int kept = 0;
    for (int i = 0; i < count; i++) {
        int seen = kept - 1; /* neighbours are often equal: look at the last ones first */
        while (seen >= 0 && items[seen] != items[i]) seen--;
        if (seen < 0) items[kept++] = items[i];
    }
    return kept;
}

/* Sectors of 32 bytes that lanes touch. */
static int sectors(const gop_sim_lane *lanes, unsigned group)
{
    uintptr_t touched[2 * GOP_SIM_WARP];
    int count = 0;
    for (; group; group &= group - 1) {
        const gop_sim_access *a = &lanes[__builtin_ctz(group)].access;
        const uintptr_t first = a->address / 32,
                        last = (a->address + (uintptr_t)a->bytes - 1) / 32;
        touched[count++] = first;
        if (last != first) touched[count++] = last;
    }
    return distinct(touched, count);
}

/* Shared memory delivers a 4-byte word from each of 32 banks at a time: what counts is the
 * bank that has to deliver most. Wider accesses go by halves or quarters of the warp. */
static int wavefronts(const gop_sim_lane *lanes, unsigned group, int bytes, int *ideal)
{
    const int part = bytes <= 4 ? 32 : bytes <= 8 ? 16 : 8;
    int total = 0;
    *ideal = 0;
    for (int first = 0; first < GOP_SIM_WARP; first += part) {
        uintptr_t words[4 * GOP_SIM_WARP];
        int count = 0, in_bank[32] = {0}, most = 0;
        for (int l = first; l < first + part; l++) {
            if (!(group >> l & 1)) continue;
            const uintptr_t word = lanes[l].access.address / 4;
            for (int w = 0; w < (bytes + 3) / 4; w++) words[count++] = word + (uintptr_t)w;
        }
        count = distinct(words, count);
        for (int i = 0; i < count; i++) {
            const int load = ++in_bank[words[i] % 32];
            if (load > most) most = load;
        }
        total += most;
        *ideal += most > 0;
    }
    return total;
}

static int is_shared(const gop_sim_worker *w, uintptr_t address)
{
    return address - (uintptr_t)w->memory < sizeof w->memory;
}

void gop_sim_count(gop_sim_worker *w, const gop_sim_warp *warp, unsigned group)
{
    const gop_sim_lane *lanes = &w->all[(warp - w->warp) * GOP_SIM_WARP];
    const gop_sim_access *one = &lanes[__builtin_ctz(group)].access;
    unsigned in[GOP_SIM_NSPACES] = {0, 0};
    for (unsigned m = group; m; m &= m - 1)
        in[is_shared(w, lanes[__builtin_ctz(m)].access.address)] |= m & -m;
    for (int space = 0; space < GOP_SIM_NSPACES; space++) {
        if (!in[space]) continue;
        gop_sim_counter *c = gop_sim_counter_of(w->counters, one->pc, one->kind, space);
        const int active = __builtin_popcount(in[space]), asked = active * one->bytes;
        int ideal = (asked + 31) / 32;
        c->requests++;
        c->lanes += active;
        c->bytes += asked;
        c->parts += space == GOP_SIM_GLOBAL ? sectors(lanes, in[space])
                                            : wavefronts(lanes, in[space], one->bytes, &ideal);
        c->ideal += ideal;
    }
}
