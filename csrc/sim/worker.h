/*
 * worker.h - the state of a CPU thread that plays a multiprocessor: one block and its lanes.
 */
#ifndef GOP_SIM_WORKER_H
#define GOP_SIM_WORKER_H

#include "sim/fiber.h"
#include "sim/schedule.h"
#include "sim/simt.h"

#define gop_fail gop_services->fail

enum {
    GOP_SIM_WARPS = GOP_SIM_LANES / GOP_SIM_WARP,
    GOP_SIM_SITES = 1024,          /* shared variables that a block may have */
    GOP_SIM_FEW = 4096,            /* accesses of a lane before it is checked for polling */
    GOP_SIM_TIME_SLICE = 2048,     /* basic blocks between two calls of gop_sim_rest */
    GOP_SIM_ALTERNATE = 32 * 1024, /* bytes of the signal handlers' stack */
    GOP_SIM_SEEN = 4,              /* distinct reads in a row that still count as polling */
    GOP_SIM_PASTS = 8, /* statements with barriers that a lane may leave between two barriers */
    GOP_SIM_TEXT = 640, /* characters of the text that says where a lane is */
};

/* An access that a lane is about to make. */
typedef struct gop_sim_access {
    const void *pc; /* the instruction; lanes at the same one make the access together */
    uintptr_t address;
    int bytes, kind; /* a gop_sim_kind */
} gop_sim_access;

typedef enum gop_sim_kind { GOP_SIM_LOAD, GOP_SIM_STORE, GOP_SIM_ATOMIC } gop_sim_kind;

/* A statement with barriers in it that a lane has left, by its first and last source line. */
typedef struct gop_sim_done {
    int first, last, in_kernel; /* in_kernel: in the kernel's body, which a lane runs once */
    int times;
} gop_sim_done;

typedef struct gop_sim_lane {
    gop_sim_index index; /* threadIdx */
    gop_fiber *fiber;    /* the stack that it runs on */
    gop_sim_meeting kind;
    unsigned mask, source; /* members of the meeting it waits for; the lane to shuffle from */
    uint64_t value, result;
    const void *site; /* the instruction at which it waits */
    int line; /* source line of the barrier; the compiler's copies of a barrier share it */
    gop_sim_done done[GOP_SIM_PASTS]; /* statements left since its last barrier */
    int ndone;
    gop_sim_access access;
    gop_sim_access loaded;       /* its last load; set if races are checked */
    uint64_t seen[GOP_SIM_SEEN]; /* hashes of its last reads: place and value */
    int steps;                   /* number of its accesses, at most GOP_SIM_FEW */
    unsigned repeats;          /* reads since the last one that differed from those in `seen` */
    struct gop_sim_path *path; /* NULL: nothing is counted */
    uintptr_t passed;          /* the last instruction that it recorded */
    uintptr_t entered;         /* the last basic block that it recorded */
    int met;         /* it passed a barrier in that basic block and made no access since */
    uintptr_t place; /* twice the pc it waits at; plus 1: before a jump back, not an access */
} gop_sim_lane;

/* Sets of lanes of a warp, as bits. A live lane that waits at nothing and is not paused either
 * runs or has not started. A lane in `polls` is also in `at_access`; it waits until no other
 * lane can go on. */
typedef struct gop_sim_warp {
    unsigned live, at_access, at_meeting, at_barrier, paused, polls;
} gop_sim_warp;

typedef struct gop_sim_counters gop_sim_counters;
typedef struct gop_sim_checks gop_sim_checks;
typedef struct gop_sim_path gop_sim_path;
struct gop_sim_rules;

/* What the threads that work on one launch share. `polling` counts the threads whose block can
 * only poll. */
typedef struct gop_sim_crew {
    int working, polling;
    int stopped;      /* a thread has failed, so that the others stop */
    gop_status heard; /* by the calling thread: Ctrl-C, or that it is now a child process */
    int slow, at;     /* a gop_sim_said each: the state of the two texts */
    int refused;      /* Python was warned of a slow block and asked to stop */
    char slow_text[2 * GOP_SIM_TEXT], at_text[GOP_SIM_TEXT];
} gop_sim_crew;

/* Why the CPU stopped the running lane. */
typedef struct gop_sim_fault {
    int signal; /* 0: none */
    uintptr_t pc, stack, address;
    int lowest; /* the dividend is the lowest integer */
} gop_sim_fault;

typedef struct gop_sim_worker {
    gop_sim_lane *lane; /* the lane that runs */
    const gop_sim_launch *launch;
    gop_sim_counters *counters; /* NULL: nothing is counted */
    gop_sim_path *paths;        /* one for each lane; NULL: nothing is counted */
    gop_sim_counters *kept_counters;
    gop_sim_path *kept_paths;
    const struct gop_sim_rules *rules;   /* of the device that is counted for */
    gop_sim_checks *checks;              /* NULL: races are not checked */
    const struct gop_sim_arrays *arrays; /* NULL: nothing is checked */
    const struct gop_sim_array *last;    /* the array of the last access */
    gop_sim_checks *kept_checks;
    gop_sim_schedule schedule;
    uint64_t random;
    int16_t order[GOP_SIM_LANES]; /* random order in which lanes start */
    gop_sim_crew *crew;
    int polling, tries;    /* crew->polling counts this thread; failed tries since all poll */
    int failed;            /* a lane was stopped and will not go on */
    int time_slice, rests; /* basic blocks left to the running lane; it stopped at none */
    int listens;           /* this is the calling thread, which handles Ctrl-C */
    int done;     /* a lane has left a statement with barriers since the last barrier */
    double since; /* when its block was first seen running; 0: not yet */
    const void *looked_at; /* where the lane was at the last look */
    const gop_sim_lane *looked_lane;
    unsigned accesses, looked_accesses; /* of all lanes, now and at the last look */
    gop_sim_fault fault;
    gop_sim_index block;  /* blockIdx */
    int lanes, next, end; /* lanes of the block; the next to start; the end of those to start */
    int shared_used, sites;
    struct {
        unsigned site;
        void *memory;
    } site[GOP_SIM_SITES];
    gop_fiber *fiber, *idle; /* the one that runs; those without a lane */
    gop_fiber scheduler;
    gop_sim_warp warp[GOP_SIM_WARPS];
    gop_sim_lane all[GOP_SIM_LANES];
    struct gop_sim_worker *next_idle;
    char alternate[GOP_SIM_ALTERNATE];
    /* Shared memory, aligned to the banks of a GPU: static variables, then dynamic memory. */
    _Alignas(1024) char memory[GOP_SIM_STATIC + GOP_SIM_DYNAMIC];
} gop_sim_worker;

/* This thread's worker; NULL between blocks. */
extern __thread gop_sim_worker *gop_sim_here;

static inline int gop_sim_warp_of(const gop_sim_worker *w, const gop_sim_lane *lane)
{
    return (int)(lane - w->all) / GOP_SIM_WARP;
}

static inline unsigned gop_sim_bit_of(const gop_sim_worker *w, const gop_sim_lane *lane)
{
    return 1u << (lane - w->all) % GOP_SIM_WARP;
}

/* The number of launches of this process so far. Python calls it by name: gpuops/timing.py. */
__attribute__((visibility("default"))) int64_t gop_sim_launches(void);

/* Runs one block. Returns GOP_OK, or a failure with its sentence in this thread's error. */
gop_status gop_sim_run_block(gop_sim_worker *worker);

/* Suspends the running lane until the scheduler resumes it. */
static inline __attribute__((always_inline)) void gop_sim_stop(gop_sim_worker *worker)
{
    gop_fiber_switch(worker->lane->fiber, &worker->scheduler);
}

/* Stops the lane and its block for good. The reason is in this thread's error. */
void gop_sim_stop_for_good(gop_sim_worker *worker);

/* Suspends the lane at the last instruction it passed, before it jumps back from there. */
void gop_sim_stop_behind(gop_sim_worker *worker);

/* Suspends the lane until all lanes of its warp have stopped, wherever they are. */
void gop_sim_pause(gop_sim_worker *worker);

/* Called at a basic block when the time slice is over: the thread looks for Ctrl-C and slow
 * blocks, then resumes or ends the lane. `room` is the number of bytes left on the lane's
 * stack. */
void gop_sim_rest(gop_sim_worker *worker, const void *pc, ptrdiff_t room);
int gop_sim_goes_on(gop_sim_worker *worker);

/* Checks the running lane's last store before it waits for others, which may overwrite it. */
void gop_sim_settle(gop_sim_worker *worker);

/* ---- stuck.c: blocks that cannot go on ---- */

/* Whether the running lane polls: for long it has read the same values again and again. */
int gop_sim_polls(gop_sim_worker *worker);
/* Lets lanes that poll go on. Fails with 0 if no lane is left to change what they read. */
int gop_sim_poll_again(gop_sim_worker *worker);
void gop_sim_stop_polling(gop_sim_worker *worker);
/* Writes the sentence for lanes that wait for others of their warp. Returns 1. */
int gop_sim_stuck(const gop_sim_worker *worker);

/* ---- barrier.c ---- */

/* Whether all lanes wait at the same barrier and none has skipped it; else fails. */
int gop_sim_one_barrier(const gop_sim_worker *worker);
void gop_sim_forget_done(gop_sim_worker *worker);

/* ---- watch.c: where lanes are while a block takes long, and when Ctrl-C comes ---- */

typedef enum gop_sim_said { GOP_SIM_NO_TEXT, GOP_SIM_WRITING, GOP_SIM_TEXT_DONE } gop_sim_said;

/* Checks whether the running lane's block takes long. */
void gop_sim_watch_lane(gop_sim_worker *worker, const void *pc);
void gop_sim_note_stop(gop_sim_worker *worker);
/* Called by the calling thread: tells Python of a slow block. Returns 0 if Python wants to
 * stop. */
int gop_sim_watch_tells(gop_sim_crew *crew);
void gop_sim_watch_ends(const gop_sim_crew *crew);

/* ---- fault.c: what the CPU, or the compiler's own checks, stop a lane for ---- */

/* Called around a launch. */
void gop_sim_faults_begin(void);
void gop_sim_faults_end(void);
/* Writes the sentence for the lane that was stopped. */
void gop_sim_fault_said(const gop_sim_worker *worker);

/* ---- counting ---- */

/* Counts one memory request: the accesses that the lanes of `group` make at one instruction. */
void gop_sim_count(gop_sim_worker *worker, const gop_sim_warp *warp, unsigned group);
/* Compares the paths that the lanes of a warp took since they were last together, and clears
 * them. `part`: the paths are incomplete, because a lane's path is full. */
void gop_sim_paths_read(gop_sim_worker *worker, int warp, int part);

#endif
