/*
 * simt.h - what a kernel compiled for the CPU asks of the runtime that plays the GPU.
 *
 * A lane is one CUDA thread. The functions here are compiled without instrumentation, so that
 * reading threadIdx or doing an atomic is not counted as an access of the kernel's own.
 */
#ifndef GOP_SIMT_H
#define GOP_SIMT_H

#include "core/core.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Kernels that Python compiles are libraries of their own, and link against this one. */
#pragma GCC visibility push(default)

enum {
    GOP_SIM_WARP = 32,
    GOP_SIM_LANES = 1024,         /* of a block at most */
    GOP_SIM_STATIC = 48 * 1024,   /* bytes of shared memory that a kernel may declare */
    GOP_SIM_DYNAMIC = 227 * 1024, /* and that a launch may ask for, both together */
    GOP_SIM_PROCESSORS = 16,      /* fixed: matmul cuts sums by it, so bits depend on it */
};

typedef struct gop_sim_index {
    unsigned x, y, z;
} gop_sim_index;

/* By axis: 0 to 2 for x to z. The same for a lane as long as it lives, so a compiler may ask
 * once. */
__attribute__((const)) unsigned gop_sim_thread(int axis);
__attribute__((const)) unsigned gop_sim_block(int axis);
__attribute__((const)) unsigned gop_sim_block_size(int axis);
__attribute__((const)) unsigned gop_sim_grid_size(int axis);

/* The block's variable declared at `site`, made by the first lane that comes by. */
void *gop_sim_shared(unsigned site, size_t bytes);
void *gop_sim_dynamic(void);

/* __syncthreads, called in a line; returns how many lanes gave a value other than 0. */
int gop_sim_barrier(int value, int line);

typedef enum gop_sim_meeting { GOP_SIM_SYNC, GOP_SIM_SHUFFLE, GOP_SIM_BALLOT } gop_sim_meeting;

/* The lanes of `mask` meet. A shuffle returns the value of lane `source` of the warp, a ballot
 * the lanes whose value is not 0. */
uint64_t gop_sim_meet(gop_sim_meeting kind, unsigned mask, uint64_t value, unsigned source);
__attribute__((const)) unsigned gop_sim_lane_of_warp(void);

/* Returns whether *address was `expected` and now is `desired`; else updates `expected`. */
int gop_sim_swap32(uint32_t *address, uint32_t *expected, uint32_t desired);
int gop_sim_swap64(uint64_t *address, uint64_t *expected, uint64_t desired);
/* The value at the start of an atomic, and the word to the profile that one is done. */
uint32_t gop_sim_begin32(uint32_t *address);
uint64_t gop_sim_begin64(uint64_t *address);
/* The atomic that has begun compares: what its lane loaded there before may be stale. */
void gop_sim_compares(const void *address);
void gop_sim_fence(int of_device); /* else of the block */

/* What kernels that Python compiles call by the names of the C library, or by the compiler's
 * own checks: csrc/sim/include/cuda/call.h. */
void *gop_sim_memset(void *to, int value, size_t bytes);
void *gop_sim_memcpy(void *to, const void *from, size_t bytes);
void *gop_sim_memmove(void *to, const void *from, size_t bytes);
__attribute__((noreturn)) void gop_sim_assert(const char *condition, const char *file,
                                              unsigned line, const char *function);
__attribute__((noreturn)) void gop_sim_abort(void);
void gop_sim_overrun(const void *array, uintptr_t index, const void *pc);
__attribute__((noreturn)) void gop_sim_smashed(const void *pc);

/* One launch. `run` calls the kernel with its arguments, which stand in `closure`. */
typedef struct gop_sim_launch {
    const char *kernel; /* its name as the launcher wrote it */
    const void *function;
    gop_sim_index grid, block;
    size_t shared, closure_bytes;
    void (*run)(void *closure);
    void *closure;
    int device; /* of the call; 0: the profile's, if one is kept */
    int own;    /* a kernel that Python compiled: its device's limits hold */
} gop_sim_launch;

gop_status gop_sim_run(const gop_sim_launch *launch);

/* Where Python launches a kernel that it compiled. Its library has gop_call_<kernel>. */
typedef struct gop_sim_place {
    unsigned grid[3], block[3];
    size_t shared;
    int device; /* of sim's */
} gop_sim_place;

typedef int gop_sim_call(const gop_sim_place *place, void **arguments); /* a gop_status */

#pragma GCC visibility pop

extern const gop_host *gop_services; /* the host that opened this library */

#ifdef __cplusplus
}
#endif
#endif
