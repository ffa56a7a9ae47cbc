/*
 * shadow.h - shadow memory of the checks: which lane accessed each location, and when.
 *
 * Memory is divided into pages, and a page into granules as large as the smallest access to it.
 * A granule holds records of the accesses that a later access may still race with. Pages of
 * shared memory belong to the thread that runs the block. Pages of global memory belong to the
 * launch, because its blocks run on several threads.
 */
#ifndef GOP_SIM_SHADOW_H
#define GOP_SIM_SHADOW_H

#include <pthread.h>

#include "sim/check.h"

enum {
    GOP_SIM_PAGE = 1024, /* bytes of memory */
    GOP_SIM_RECORDS = 6, /* most records of a granule: two of each kind of access */
    GOP_SIM_NEAR = 512,  /* entries of a thread's cache of pages */
    GOP_SIM_PC_NONE = -1,
};

typedef struct gop_sim_record {
    uint32_t block; /* number in the launch; in shared memory, among this thread's blocks */
    uint32_t stamp; /* the block's time; 0: no record */
    int32_t pc;     /* offset from the kernel's first instruction */
    uint16_t lane, kind;
} gop_sim_record;

typedef struct gop_sim_page {
    uintptr_t number; /* address / GOP_SIM_PAGE */
    int lock;
    uint8_t shift, records; /* granules of 1 << shift bytes; records of each */
    uint32_t block;         /* shared memory: the block that used it last */
    gop_sim_record *at;
} gop_sim_page;

/* What the atomics on one location pass from lane to lane: see order.c. */
typedef struct gop_sim_log gop_sim_log;

/* A log that was read up to entry `count`, by the lanes `who`. `ready`: a fence or a barrier
 * followed the read, so that it orders later accesses. */
typedef struct gop_sim_reading {
    gop_sim_log *log;
    int count, ready;
    unsigned who;
} gop_sim_reading;

typedef struct gop_sim_fences {
    uint32_t at[GOP_SIM_LANES];                                /* time of a lane's last fence */
    uint32_t barrier[GOP_SIM_LANES], warp_sync[GOP_SIM_LANES]; /* of the last syncs before it */
} gop_sim_fences;

/* A block's time, and what its lanes know of other blocks. */
typedef struct gop_sim_order {
    uint32_t now;
    uint32_t barrier, warp_sync[GOP_SIM_WARPS]; /* earlier accesses are over for the others */
    int fenced, drew;                  /* the block executed a fence; it executed an atomic */
    gop_sim_fences fences[2];          /* block scope, device scope */
    uint32_t published[GOP_SIM_LANES]; /* a lane fenced up to this time, then synced */
    gop_sim_reading *read;
    int nread, room;
} gop_sim_order;

/* Which fence is known to be missing between two blocks that use the same atomics. */
typedef enum gop_sim_half { GOP_SIM_NEITHER, GOP_SIM_READER, GOP_SIM_WRITER } gop_sim_half;

/* A race: two accesses that nothing orders. */
typedef struct gop_sim_clash {
    gop_sim_access access; /* the later access, by this lane of this block */
    uint32_t block, lane;
    gop_sim_record other; /* the earlier access; its block is a number in the launch */
    const char *did;
    int is_shared, updates; /* both are read-modify-writes, as c[i]++ */
    int is_one_place;       /* both are by the same instruction */
    gop_sim_half half;
    gop_sim_element element;
} gop_sim_clash;

/* A plain load that races with an atomic. It is correct if its lane only compares the value, as
 * the loop around atomicCAS does; that is known only later. */
typedef struct gop_sim_suspect {
    uint32_t block, lane; /* of the lane that loads */
    gop_sim_clash clash;
} gop_sim_suspect;

/* What the threads of a checked launch share. */
typedef struct gop_sim_hunt {
    gop_sim_arrays *arrays;
    pthread_mutex_t lock;
    gop_sim_page **pages; /* hash table with open addressing; its size is a power of two */
    size_t npages, room;
    int64_t left; /* bytes that records may still take */
    gop_sim_log *logs;
    gop_sim_suspect *suspects;
    int nsuspects, suspects_room;
} gop_sim_hunt;

/* The block's first load of shared memory that no thread has stored to. The message depends on
 * whether a thread stores there later, so the lane continues, with the value 0. */
typedef struct gop_sim_early {
    gop_sim_access access; /* of 0 bytes if there was none */
    gop_sim_index thread;
    uint32_t barrier;
    int own;         /* the same lane has stored there since */
    char waits[400]; /* text about a lane that waited at a barrier then */
} gop_sim_early;

struct gop_sim_checks {
    gop_sim_hunt *hunt;
    gop_sim_early early;
    uint32_t life;   /* number of the running block among this thread's blocks */
    uint32_t number; /* number of the running block in the launch */
    gop_sim_order order;
    gop_sim_page *held; /* the page that is locked until the lane's store is done */
    /* A store to what another lane has stored, with the value before it: correct only if the
     * value stays the same. Or a load of what another lane has stored: a race, but the advice
     * depends on what the lane does next. */
    gop_sim_access again;
    gop_sim_record again_other;
    char before[16];
    gop_sim_page *near[GOP_SIM_NEAR];
    gop_sim_page shared[(GOP_SIM_STATIC + GOP_SIM_DYNAMIC) / GOP_SIM_PAGE];
};

/* ---- order.c ---- */

void gop_sim_order_block(gop_sim_order *order);
void gop_sim_order_end(gop_sim_hunt *hunt);
/* Whether a recorded access happens before what the running lane does now. gop_sim_over_here
 * takes records of the same block, gop_sim_over of any. */
int gop_sim_over_here(const gop_sim_worker *worker, const gop_sim_record *record);
int gop_sim_over(const gop_sim_worker *worker, const gop_sim_record *record);
/* Which half of the ordering is missing between another block's access and the running lane. */
gop_sim_half gop_sim_missing_half(const gop_sim_worker *worker, const gop_sim_record *record);
/* The running lane's atomic releases what the lane has fenced, and acquires what others
 * released. */
void gop_sim_order_atomic(gop_sim_worker *worker, uintptr_t address);

/* ---- race.c ---- */

int gop_sim_check_races(gop_sim_worker *worker, const gop_sim_access *access, int is_shared);
void gop_sim_unlock(gop_sim_checks *checks);
void gop_sim_pages_end(gop_sim_hunt *hunt);

/* ---- suspect.c ---- */

/* Records a load that races with an atomic. Returns 0 if there is no memory. */
int gop_sim_suspect_load(gop_sim_hunt *hunt, const gop_sim_clash *clash);
/* Drops the suspects of a lane that compares the value at this location: its load is correct.
 */
void gop_sim_suspects_compare(gop_sim_hunt *hunt, uint32_t block, uint32_t lane,
                              const gop_sim_access *access);
void gop_sim_suspects_end(gop_sim_hunt *hunt);

/* ---- check.c ---- */

/* Fails with the sentence for a race. Returns 0. */
int gop_sim_race(const gop_sim_launch *launch, const gop_sim_clash *clash);
/* Called if the running lane stores where a lane has loaded too early. Returns 1 if it was the
 * same lane, else fails with 0. */
int gop_sim_stored_late(const gop_sim_worker *worker, const gop_sim_access *access);
/* Handles an access to shared memory that no thread has stored to. Returns 1 for a load, which
 * it records. */
int gop_sim_uninitialised(gop_sim_worker *worker, const gop_sim_access *access);

#endif
