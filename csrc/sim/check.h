/*
 * check.h - finding errors in a kernel: accesses out of bounds, races, uninitialised reads.
 */
#ifndef GOP_SIM_CHECK_H
#define GOP_SIM_CHECK_H

#include "sim/worker.h"

/* The device's memory. A kernel may access nothing else but shared memory and its own
 * variables. */
void *gop_sim_memory_take(size_t bytes);
void gop_sim_memory_give(void *memory);
size_t gop_sim_memory_used(void); /* bytes in use */

/* The arrays that exist when a launch begins. */
typedef struct gop_sim_array {
    uintptr_t begin, end;
} gop_sim_array;

typedef struct gop_sim_arrays {
    int count;
    gop_sim_array at[];
} gop_sim_arrays;

gop_sim_arrays *gop_sim_arrays_now(void); /* the caller frees them; NULL: no memory */

/* What the threads of a launch share; NULL if nothing is checked. */
typedef struct gop_sim_hunt gop_sim_hunt;

/* Sets whether the calling thread's launches are checked (-1: as GPUOPS_SIM_CHECKS says), and
 * returns the setting before. Python calls it by name: gpuops/scheduling.py. */
__attribute__((visibility("default"))) int gop_sim_set_checks(int wanted);
gop_sim_hunt *gop_sim_hunt_begin(void);
/* Frees the shadow memory; in_a_hurry: another thread frees it if there is much. */
void gop_sim_hunt_end(gop_sim_hunt *hunt, int in_a_hurry);
/* Called around a thread's blocks, and at the start of each. */
void gop_sim_checks_begin(gop_sim_worker *worker, gop_sim_hunt *hunt);
void gop_sim_checks_end(gop_sim_worker *worker);
void gop_sim_checks_block(gop_sim_worker *worker);
void gop_sim_checks_abandon(gop_sim_worker *worker);    /* the block was stopped */
gop_status gop_sim_checks_over(gop_sim_worker *worker); /* all lanes have ended */

/* Check an access of the running lane. They return 0 if it is wrong, with the sentence in this
 * thread's error. gop_sim_inside checks bounds and alignment only. */
int gop_sim_inside(gop_sim_worker *worker, const gop_sim_access *access);
int gop_sim_check(gop_sim_worker *worker, const gop_sim_access *access);
/* The running lane's atomic compares: the lane's earlier load there is no race. */
void gop_sim_checks_compare(gop_sim_worker *worker);
/* Called after the launch. Fails if a load that raced with an atomic was never compared. */
gop_status gop_sim_suspects_said(const gop_sim_launch *launch, const gop_sim_hunt *hunt);
/* Checks the lane's last store, which is now done: did it overwrite another lane's store with a
 * different value? It is called before any other check, and before other lanes run. */
int gop_sim_check_store(gop_sim_worker *worker);

/* Record a barrier of the block; a meeting of one warp, where `orders` is set for __syncwarp,
 * the only one that orders memory; and a fence of the running lane. */
void gop_sim_checks_barrier(gop_sim_worker *worker);
void gop_sim_checks_meeting(gop_sim_worker *worker, int warp, int orders);
void gop_sim_checks_fence(gop_sim_worker *worker, int of_device);

/* ---- element.c: what is touched, for sentences ---- */

/* What an access touches: the variable or array, and the byte offset in it. */
typedef struct gop_sim_element {
    uint64_t of; /* a shared variable's site, 0: dynamic; an array's address, 0: none */
    int64_t offset;
    int bytes, is_shared;
} gop_sim_element;

gop_sim_element gop_sim_element_of(const gop_sim_worker *worker, const gop_sim_access *access);
/* Writes and returns "{s12+128:4}" or "{g55d0+4000:4}", which gpuops/_show/elements.py turns
 * into tile[1][0]. */
const char *gop_sim_element_text(const gop_sim_element *element, char text[64]);

/* ---- stuck.c: for sentences ---- */

/* Writes "[library+0x12]", which gpuops/_show/where.py turns into a source line. */
void gop_sim_place_of(const void *pc, char *text, size_t room);
/* Writes and returns "sim: k: block (0, 0, 0), thread (5, 0, 0) [library+0x12]", of at most 512
 * characters. */
const char *gop_sim_who_of(const gop_sim_launch *launch, gop_sim_index block,
                           gop_sim_index thread, const void *pc, char *text);
const char *gop_sim_who(const gop_sim_worker *worker, const gop_sim_lane *lane, const void *pc,
                        char *text);

#endif
