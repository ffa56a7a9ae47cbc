/*
 * check.h - finding what is wrong in a kernel: places outside arrays, races, missing writes.
 */
#ifndef GOP_SIM_CHECK_H
#define GOP_SIM_CHECK_H

#include "sim/worker.h"

/* The device's memory: what a kernel may touch beside shared memory and its own variables. */
void *gop_sim_memory_take(size_t bytes);
void gop_sim_memory_give(void *memory);
size_t gop_sim_memory_used(void); /* bytes that are taken */

/* Around a launch: the arrays that are there now. */
typedef struct gop_sim_array {
    uintptr_t begin, end;
} gop_sim_array;

typedef struct gop_sim_arrays {
    int count;
    gop_sim_array at[];
} gop_sim_arrays;

gop_sim_arrays *gop_sim_arrays_now(void); /* to be freed; NULL: no memory */

/* Around a launch: what its threads share, or NULL where nothing is checked. */
typedef struct gop_sim_hunt gop_sim_hunt;

/* Sets whether the calling thread's launches are checked, -1: as GPUOPS_SIM_CHECKS says, and
 * returns what it was. Python calls it by name: gpuops/scheduling.py. */
__attribute__((visibility("default"))) int gop_sim_set_checks(int wanted);
gop_sim_hunt *gop_sim_hunt_begin(void);
void gop_sim_hunt_end(gop_sim_hunt *hunt, int in_a_hurry);
/* Around a thread's blocks, and at the start of each. */
void gop_sim_checks_begin(gop_sim_worker *worker, gop_sim_hunt *hunt);
void gop_sim_checks_end(gop_sim_worker *worker);
void gop_sim_checks_block(gop_sim_worker *worker);
void gop_sim_checks_abandon(gop_sim_worker *worker);    /* its lanes will not go on */
gop_status gop_sim_checks_over(gop_sim_worker *worker); /* all lanes have ended */

/* An access of the running lane: 0 if it is wrong, with the sentence in this thread's error.
 * The first looks only at its own place. */
int gop_sim_inside(gop_sim_worker *worker, const gop_sim_access *access);
int gop_sim_check(gop_sim_worker *worker, const gop_sim_access *access);
/* The running lane's atomic compares, so that what it loaded there before is no race. */
void gop_sim_checks_compare(gop_sim_worker *worker);
/* After the launch: GOP_OK, or the first load of a suspect that compared nothing. */
gop_status gop_sim_suspects_said(const gop_sim_launch *launch, const gop_sim_hunt *hunt);
/* What the lane stored last is done: whether another one's is overwritten by something else.
 * Before any other check, and before other lanes run. */
int gop_sim_check_store(gop_sim_worker *worker);

/* A barrier of the block, or a meeting of one warp, has been passed; of these, only __syncwarp
 * orders memory. A fence of the running lane's. */
void gop_sim_checks_barrier(gop_sim_worker *worker);
void gop_sim_checks_meeting(gop_sim_worker *worker, int warp, int orders);
void gop_sim_checks_fence(gop_sim_worker *worker, int of_device);

/* ---- element.c: what is touched, for sentences ---- */

/* A byte of memory: of which variable or array, and where in it. */
typedef struct gop_sim_element {
    uint64_t of; /* a shared variable's site, 0: dynamic; an array's first byte, 0: none */
    int64_t offset;
    int bytes, is_shared;
} gop_sim_element;

gop_sim_element gop_sim_element_of(const gop_sim_worker *worker, const gop_sim_access *access);
/* "{s12+128:4}" or "{g55d0+4000:4}": gpuops/_show/elements.py makes it tile[1][0]; returns it.
 */
const char *gop_sim_element_text(const gop_sim_element *element, char text[64]);

/* ---- stuck.c: for sentences ---- */

/* "[library+0x12]": gpuops/_show/where.py makes it a line of the source. */
void gop_sim_place_of(const void *pc, char *text, size_t room);
/* "sim: k: block (0, 0, 0), thread (5, 0, 0) [library+0x12]", in 512 characters; returns it. */
const char *gop_sim_who_of(const gop_sim_launch *launch, gop_sim_index block,
                           gop_sim_index thread, const void *pc, char *text);
const char *gop_sim_who(const gop_sim_worker *worker, const gop_sim_lane *lane, const void *pc,
                        char *text);

#endif
