/*
 * simt.h - the interface between kernels compiled for the CPU and the runtime that plays the
 * GPU.
 *
 * A lane is one CUDA thread. The functions here are compiled without instrumentation: reading
 * threadIdx or doing an atomic does not count as a memory access of the kernel.
 */
#ifndef GOP_SIMT_H
#define GOP_SIMT_H

#include "core/core.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Kernels that Python compiles are separate libraries that link against this one. */
#pragma GCC visibility push(default)

enum {
    GOP_SIM_WARP = 32,
    GOP_SIM_LANES = 1024,         /* most lanes of a block */
    GOP_SIM_STATIC = 48 * 1024,   /* most bytes of shared memory that a kernel may declare */
    GOP_SIM_DYNAMIC = 227 * 1024, /* most bytes with those that a launch asks for */
    GOP_SIM_PROCESSORS = 16,      /* fixed: matmul's splits, and so its bits, depend on it */
};

typedef struct gop_sim_index {
    unsigned x, y, z;
} gop_sim_index;

/* Indices by axis: 0 to 2 for x to z. They are the same during a lane's life, so the compiler
 * may reuse a value. */
__attribute__((const)) unsigned gop_sim_thread(int axis);
__attribute__((const)) unsigned gop_sim_block(int axis);
__attribute__((const)) unsigned gop_sim_block_size(int axis);
__attribute__((const)) unsigned gop_sim_grid_size(int axis);

/* The block's shared variable declared at `site`. The first lane that asks allocates it. */
void *gop_sim_shared(unsigned site, size_t bytes);
void *gop_sim_dynamic(void);

/* __syncthreads in source line `line`. Returns how many lanes passed a nonzero value. */
int gop_sim_barrier(int value, int line);

typedef enum gop_sim_meeting { GOP_SIM_SYNC, GOP_SIM_SHUFFLE, GOP_SIM_BALLOT } gop_sim_meeting;

/* The lanes of `mask` wait for each other. A shuffle returns the value of lane `source` of the
 * warp, a ballot the set of lanes whose value is not 0. */
uint64_t gop_sim_meet(gop_sim_meeting kind, unsigned mask, uint64_t value, unsigned source);
__attribute__((const)) unsigned gop_sim_lane_of_warp(void);

/* Compare-and-swap: returns 1 if *address was `expected` and now is `desired`; else sets
 * `expected` to what it is. */
int gop_sim_swap32(uint32_t *address, uint32_t *expected, uint32_t desired);
int gop_sim_swap64(uint64_t *address, uint64_t *expected, uint64_t desired);
/* Begins an atomic: records the access and returns the value at the address. */
uint32_t gop_sim_begin32(uint32_t *address);
uint64_t gop_sim_begin64(uint64_t *address);
/* Says that the atomic that has begun compares: the lane's earlier load there may be stale. */
void gop_sim_compares(const void *address);
void gop_sim_fence(int of_device); /* 0: block scope */

/* Replacements in kernels that Python compiles: of functions of the C library, and of what the
 * compiler's checks call. See csrc/sim/include/cuda/call.h. */
void *gop_sim_memset(void *to, int value, size_t bytes);
void *gop_sim_memcpy(void *to, const void *from, size_t bytes);
void *gop_sim_memmove(void *to, const void *from, size_t bytes);
__attribute__((noreturn)) void gop_sim_assert(const char *condition, const char *file,
                                              unsigned line, const char *function);
__attribute__((noreturn)) void gop_sim_abort(void);
void gop_sim_overrun(const void *array, uintptr_t index, const void *pc);
__attribute__((noreturn)) void gop_sim_smashed(const void *pc);

/* One launch. `run` calls the kernel with the arguments in `closure`. */
typedef struct gop_sim_launch {
    const char *kernel; /* its name as the launcher wrote it */
    const void *function;
    gop_sim_index grid, block;
    size_t shared, closure_bytes;
    void (*run)(void *closure);
    void *closure;
    int device; /* of the call; 0: the profile's device, if there is a profile */
    int own;    /* Python compiled the kernel: the limits of its device apply */
} gop_sim_launch;

gop_status gop_sim_run(const gop_sim_launch *launch);

/* The configuration of a launch of a kernel that Python compiled. Its library exports
 * gop_call_<kernel>. */
typedef struct gop_sim_place {
    unsigned grid[3], block[3];
    size_t shared;
    int device; /* ordinal of a sim device */
} gop_sim_place;

typedef int gop_sim_call(const gop_sim_place *place, void **arguments); /* a gop_status */

#pragma GCC visibility pop

extern const gop_host *gop_services; /* functions of the host that opened this library */

#ifdef __cplusplus
}
#endif
#endif
