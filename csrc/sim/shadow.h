/*
 * shadow.h - what is remembered of memory while kernels are checked: who touched it, and when.
 *
 * Memory is remembered by pages, a page by granules as large as the smallest access to it, a
 * granule by records of the accesses that a later one may still race with. Shared memory's
 * pages belong to the thread that runs the block; global memory's to the launch, as its blocks
 * run on several threads.
 */
#ifndef GOP_SIM_SHADOW_H
#define GOP_SIM_SHADOW_H

#include <pthread.h>

#include "sim/check.h"

enum {
    GOP_SIM_PAGE = 1024, /* bytes of memory */
    GOP_SIM_RECORDS = 6, /* of a granule at most: two of each kind */
    GOP_SIM_NEAR = 512,  /* pages that a thread finds without asking the launch */
    GOP_SIM_PC_NONE = -1,
};

typedef struct gop_sim_record {
    uint32_t block; /* number in the launch; for shared memory, of this thread's blocks */
    uint32_t stamp; /* the block's own time, never 0: then there is no record */
    int32_t pc;     /* counted from the kernel's first instruction */
    uint16_t lane, kind;
} gop_sim_record;

typedef struct gop_sim_page {
    uintptr_t number; /* of its address */
    int lock;
    uint8_t shift, records; /* granules of 1 << shift bytes, each with that number of records */
    uint32_t block;         /* shared memory: the block it was last used by */
    gop_sim_record *at;
} gop_sim_page;

/* What a location's atomics carry from lane to lane: see order.c. */
typedef struct gop_sim_log gop_sim_log;

/* A log read up to some entry; by whom, and whether that orders what follows. */
typedef struct gop_sim_reading {
    gop_sim_log *log;
    int count, ready;
    unsigned who;
} gop_sim_reading;

typedef struct gop_sim_fences {
    uint32_t at[GOP_SIM_LANES];                                /* a lane's last one */
    uint32_t barrier[GOP_SIM_LANES], warp_sync[GOP_SIM_LANES]; /* and the last ones before it */
} gop_sim_fences;

/* A block's own time, and what it has learnt of others. */
typedef struct gop_sim_order {
    uint32_t now;
    uint32_t barrier, warp_sync[GOP_SIM_WARPS]; /* accesses before are over for the others */
    int fenced, drew;                  /* whether the block had a fence, and an atomic */
    gop_sim_fences fences[2];          /* of the block, of the device */
    uint32_t published[GOP_SIM_LANES]; /* fenced by the lane before a barrier */
    gop_sim_reading *read;
    int nread, room;
} gop_sim_order;

/* Which fence is missing between two blocks that meet at atomics: what is known of it. */
typedef enum gop_sim_half { GOP_SIM_NEITHER, GOP_SIM_READER, GOP_SIM_WRITER } gop_sim_half;

/* Two accesses that nothing orders. */
typedef struct gop_sim_clash {
    gop_sim_access access; /* the later one, of this lane of that block */
    uint32_t block, lane;
    gop_sim_record other; /* the earlier one; its block is a number in the launch */
    const char *did;
    int is_shared, updates; /* both load, change and store it, as in c[i]++ */
    int is_one_place;       /* by the same instruction */
    gop_sim_half half;
    gop_sim_element element;
} gop_sim_clash;

/* A plain load beside an atomic, which is right if the lane that loads only compares the value,
 * as the loop around atomicCAS does: that shows later. */
typedef struct gop_sim_suspect {
    uint32_t block, lane; /* that loads */
    gop_sim_clash clash;
} gop_sim_suspect;

/* One launch that is checked: what its threads share. */
typedef struct gop_sim_hunt {
    gop_sim_arrays *arrays;
    pthread_mutex_t lock;
    gop_sim_page **pages; /* open addressing, a power of two of them */
    size_t npages, room;
    int64_t left; /* bytes that may still be taken for records */
    gop_sim_log *logs;
    gop_sim_suspect *suspects;
    int nsuspects, suspects_room;
} gop_sim_hunt;

/* The block's first load of shared memory that no thread had stored to. The message depends on
 * whether a thread stores there later, so the lane goes on, with 0. */
typedef struct gop_sim_early {
    gop_sim_access access; /* of no bytes: there was none */
    gop_sim_index thread;
    uint32_t barrier;
    int own;         /* the lane itself has stored there since */
    char waits[400]; /* who waited at a barrier meanwhile */
} gop_sim_early;

struct gop_sim_checks {
    gop_sim_hunt *hunt;
    gop_sim_early early;
    uint32_t life;   /* of this thread's blocks, the one that runs */
    uint32_t number; /* the same block in the launch */
    gop_sim_order order;
    gop_sim_page *held; /* locked until the lane's store is done */
    /* A store to what another lane stored too: right if it stores the same. Or a load of it: a
     * mistake, but what would mend it depends on what the lane does next. */
    gop_sim_access again;
    gop_sim_record again_other;
    char before[16];
    gop_sim_page *near[GOP_SIM_NEAR];
    gop_sim_page shared[(GOP_SIM_STATIC + GOP_SIM_DYNAMIC) / GOP_SIM_PAGE];
};

/* ---- order.c ---- */

void gop_sim_order_block(gop_sim_order *order);
void gop_sim_order_end(gop_sim_hunt *hunt);
/* Whether a recorded access of this block, or of another one, is over for the running lane. */
int gop_sim_over_here(const gop_sim_worker *worker, const gop_sim_record *record);
int gop_sim_over(const gop_sim_worker *worker, const gop_sim_record *record);
/* Which half of the order an access of another block, which is not over, has. */
gop_sim_half gop_sim_missing_half(const gop_sim_worker *worker, const gop_sim_record *record);
/* The running lane's atomic hands on what it has fenced, and takes what others have. */
void gop_sim_order_atomic(gop_sim_worker *worker, uintptr_t address);

/* ---- race.c ---- */

int gop_sim_check_races(gop_sim_worker *worker, const gop_sim_access *access, int is_shared);
void gop_sim_unlock(gop_sim_checks *checks);
void gop_sim_pages_end(gop_sim_hunt *hunt);

/* ---- suspect.c ---- */

/* Keeps a load and an atomic in mind; 0: there is no room. */
int gop_sim_suspect_load(gop_sim_hunt *hunt, const gop_sim_clash *clash);
/* The lane's load is right: it compares what is at this place. */
void gop_sim_suspects_compare(gop_sim_hunt *hunt, uint32_t block, uint32_t lane,
                              const gop_sim_access *access);
void gop_sim_suspects_end(gop_sim_hunt *hunt);

/* ---- check.c ---- */

/* Fail with a sentence; return 0. */
int gop_sim_race(const gop_sim_launch *launch, const gop_sim_clash *clash);
/* The running lane stores where one has loaded too early; 1: it was itself. */
int gop_sim_stored_late(const gop_sim_worker *worker, const gop_sim_access *access);
/* Handles an access to shared memory that no thread has stored to. Returns 1 for a load, which
 * it records. */
int gop_sim_uninitialised(gop_sim_worker *worker, const gop_sim_access *access);

#endif
