/*
 * rules.h - what one instruction of a warp takes of memory, by compute capability.
 */
#ifndef GOP_SIM_RULES_H
#define GOP_SIM_RULES_H

#include "sim/worker.h"

enum {
    GOP_SIM_BANKS = 32,
    GOP_SIM_PARTITIONS = 8,
    GOP_SIM_PARTITION_BYTES = 256,
    GOP_SIM_SECTOR = 32,
    GOP_SIM_PIECES = 2 * GOP_SIM_WARP, /* transactions of a request at most */
};

/* Lanes of a warp at one instruction, and all in one kind of memory. */
typedef struct gop_sim_request {
    int count, bytes, kind;     /* active lanes; bytes of each; a gop_sim_kind */
    int lane[GOP_SIM_WARP];     /* which they are, in order */
    uintptr_t at[GOP_SIM_WARP]; /* their addresses */
} gop_sim_request;

/* One transaction of global memory; a bit of `used` for each byte that a lane asked for. */
typedef struct gop_sim_piece {
    uintptr_t address;
    int bytes;
    uint32_t used[4]; /* by sector */
} gop_sim_piece;

/* One row for each device of this backend. Words of 1, 2, 4, 8 and 16 bytes are 0 to 4. */
typedef struct gop_sim_rules {
    const char *name; /* of the device, behind "sim:"; "" for the newest */
    int major, minor;
    /* Global memory: lanes that are served together, bytes of the segments they ask for. */
    int together[5], segment[5];
    int in_order; /* the k-th lane must ask for the k-th word, or each is served by itself */
    int shrinks;  /* to the half of a segment that is used, and to the half of that */
    /* Shared memory: lanes served together. GPUs with fewer than 32 banks ask for wide words 4
     * bytes at a time, and only one word may go to several lanes. */
    int banks, sharing[5];
    int pairs; /* lanes that load the same words let two groups be served together */
    /* Memory partitions, 0 where none are counted; the GPU's size says what runs at a time. */
    int partitions, processors, blocks, threads, shared;
    int most; /* threads of a block; 0: as many as sim has */
} gop_sim_rules;

enum { GOP_SIM_DEVICES = 4 };
extern const gop_sim_rules gop_sim_rules_of[GOP_SIM_DEVICES];

/* Global memory: the transactions, how many as many bytes would take at best, and how many the
 * same data, where lanes ask for the same. */
int gop_sim_transactions(const gop_sim_rules *rules, const gop_sim_request *request,
                         gop_sim_piece pieces[GOP_SIM_PIECES], int *ideal, int *least);
/* Shared memory: the wavefronts, the fewest possible, and what each bank delivered. */
int gop_sim_wavefronts(const gop_sim_rules *rules, const gop_sim_request *request,
                       int64_t by_bank[GOP_SIM_BANKS], int *ideal);
/* Threads of a block and bytes of shared memory at most; `sims` where the device has no limit
 * of its own. Those of old GPUs hold for kernels that Python compiles: the library's all run.
 */
int gop_sim_most_threads(const gop_sim_launch *launch);
size_t gop_sim_most_shared(const gop_sim_launch *launch, size_t sims);
/* Blocks of such a launch that the GPU runs at a time. */
int64_t gop_sim_resident(const gop_sim_rules *rules, int threads, size_t shared);

#endif
