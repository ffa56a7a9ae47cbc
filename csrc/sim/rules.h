/*
 * rules.h - what one memory instruction of a warp costs, by compute capability.
 */
#ifndef GOP_SIM_RULES_H
#define GOP_SIM_RULES_H

#include "sim/worker.h"

enum {
    GOP_SIM_BANKS = 32,
    GOP_SIM_PARTITIONS = 8,
    GOP_SIM_PARTITION_BYTES = 256,
    GOP_SIM_SECTOR = 32,
    GOP_SIM_PIECES = 2 * GOP_SIM_WARP, /* most transactions of a request */
};

/* A memory request: the lanes of a warp that execute one instruction in one memory space. */
typedef struct gop_sim_request {
    int count, bytes, kind;     /* active lanes; bytes of each; a gop_sim_kind */
    int lane[GOP_SIM_WARP];     /* the active lanes, ascending */
    uintptr_t at[GOP_SIM_WARP]; /* their addresses */
} gop_sim_request;

/* One transaction of global memory. `used` has one bit for each byte that a lane asked for. */
typedef struct gop_sim_piece {
    uintptr_t address;
    int bytes;
    uint32_t used[4]; /* by sector */
} gop_sim_piece;

/* The rules of one device. Arrays of five are indexed by log2 of the access size: 1 to 16
 * bytes. */
typedef struct gop_sim_rules {
    const char *name; /* the device is "sim:" and this; "" for the newest */
    int major, minor;
    /* Global memory: lanes that share transactions, and bytes of a segment. */
    int together[5], segment[5];
    int in_order; /* lane k must access word k, else each lane has its own transaction */
    int shrinks;  /* a transaction shrinks to the used half of a segment, and again */
    /* Shared memory: lanes served together. GPUs with 16 banks split wide words into 4 bytes,
     * and broadcast only one word per wavefront. */
    int banks, sharing[5];
    int pairs; /* lanes that load the same words let two groups share a wavefront */
    /* Memory partitions (0: not counted), and the GPU's size, from which follow the resident
     * blocks. */
    int partitions, processors, blocks, threads, shared;
    int most; /* most threads of a block; 0: sim's limit */
} gop_sim_rules;

enum { GOP_SIM_DEVICES = 4 };
extern const gop_sim_rules gop_sim_rules_of[GOP_SIM_DEVICES];

/* Global memory: returns the transactions. `ideal`: the fewest for as many bytes. `least`: the
 * fewest for the same distinct bytes. */
int gop_sim_transactions(const gop_sim_rules *rules, const gop_sim_request *request,
                         gop_sim_piece pieces[GOP_SIM_PIECES], int *ideal, int *least);
/* Shared memory: returns the wavefronts, with the fewest possible and the words of each bank.
 */
int gop_sim_wavefronts(const gop_sim_rules *rules, const gop_sim_request *request,
                       int64_t by_bank[GOP_SIM_BANKS], int *ideal);
/* Limits on the threads and the shared memory of a block; `sims` is used if the device has
 * none. Old GPUs' limits apply to kernels that Python compiles, so that all of the library's
 * run. */
int gop_sim_most_threads(const gop_sim_launch *launch);
size_t gop_sim_most_shared(const gop_sim_launch *launch, size_t sims);
/* The number of blocks of such a launch that the GPU runs at a time. */
int64_t gop_sim_resident(const gop_sim_rules *rules, int threads, size_t shared);

#endif
