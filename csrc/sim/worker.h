/*
 * worker.h - what a CPU thread keeps while it plays a multiprocessor: one block of lanes.
 */
#ifndef GOP_SIM_WORKER_H
#define GOP_SIM_WORKER_H

#include "sim/fiber.h"
#include "sim/schedule.h"
#include "sim/simt.h"

#define gop_fail gop_services->fail

enum {
    GOP_SIM_WARPS = GOP_SIM_LANES / GOP_SIM_WARP,
    GOP_SIM_SITES = 1024,          /* shared variables of a block */
    GOP_SIM_FEW = 4096,            /* accesses of a lane */
    GOP_SIM_TIME_SLICE = 2048,     /* basic blocks after which a lane lets its thread look up */
    GOP_SIM_ALTERNATE = 32 * 1024, /* bytes of the stack that a fault is looked at on */
    GOP_SIM_SEEN = 4,   /* values that a lane may read in turn and count as polling */
    GOP_SIM_PASTS = 8,  /* statements with barriers in them, from one barrier to the next */
    GOP_SIM_TEXT = 640, /* characters of where a lane is */
};

/* An access that a lane is about to make, where counters are kept. */
typedef struct gop_sim_access {
    const void *pc; /* the instruction: lanes at the same one go together */
    uintptr_t address;
    int bytes, kind; /* a gop_sim_kind */
} gop_sim_access;

typedef enum gop_sim_kind { GOP_SIM_LOAD, GOP_SIM_STORE, GOP_SIM_ATOMIC } gop_sim_kind;

/* A statement with barriers in it, in these lines, that a lane has done with. */
typedef struct gop_sim_done {
    int first, last, in_kernel; /* in the body of a kernel, which a lane goes through once */
    int times;
} gop_sim_done;

typedef struct gop_sim_lane {
    gop_sim_index index; /* threadIdx */
    gop_fiber *fiber;    /* the stack it waits on */
    gop_sim_meeting kind;
    unsigned mask, source; /* of the meeting it waits for */
    uint64_t value, result;
    const void *site; /* where it waits */
    int line;         /* of the barrier's call: copies of it by the compiler have the same */
    gop_sim_done done[GOP_SIM_PASTS]; /* since its last barrier */
    int ndone;
    gop_sim_access access;
    gop_sim_access loaded;       /* its last load, where races are looked for */
    uint64_t seen[GOP_SIM_SEEN]; /* the last places it read, each with what was there */
    int steps;                   /* its accesses, up to GOP_SIM_FEW */
    unsigned repeats;            /* reads since the last one that was new */
    struct gop_sim_path *path;   /* NULL: nothing is counted */
    uintptr_t passed;            /* the last place in the code that it noted */
    uintptr_t entered;           /* the last basic block that it noted */
    int met;                     /* others at a barrier of that block, with no access since */
    uintptr_t place; /* twice where it waits to access; one more: behind it, to go back */
} gop_sim_lane;

/* Lanes of a warp as bits. A live lane that is at nothing and not paused runs or has not
 * started. What `polls` is at an access too, and waits until all others have gone as far as
 * they can. */
typedef struct gop_sim_warp {
    unsigned live, at_access, at_meeting, at_barrier, paused, polls;
} gop_sim_warp;

typedef struct gop_sim_counters gop_sim_counters;
typedef struct gop_sim_checks gop_sim_checks;
typedef struct gop_sim_path gop_sim_path;
struct gop_sim_rules;

/* The threads at work on a launch, and those whose block polls and does nothing else. */
typedef struct gop_sim_crew {
    int working, polling;
    int stopped;      /* one of them met a failure: the others need not go on */
    gop_status heard; /* by the calling thread: Ctrl-C, or that it is a child's now */
    int slow, at;     /* gop_sim_said: whether these texts are there */
    int refused;      /* by who was told that a block takes long */
    char slow_text[2 * GOP_SIM_TEXT], at_text[GOP_SIM_TEXT];
} gop_sim_crew;

/* What the CPU stopped the running lane for. */
typedef struct gop_sim_fault {
    int signal; /* 0: nothing */
    uintptr_t pc, stack, address;
    int lowest; /* what was divided is the lowest integer */
} gop_sim_fault;

typedef struct gop_sim_worker {
    gop_sim_lane *lane; /* that runs now */
    const gop_sim_launch *launch;
    gop_sim_counters *counters; /* NULL: nothing is counted */
    gop_sim_path *paths;        /* of each lane, where counters are kept */
    gop_sim_counters *kept_counters;
    gop_sim_path *kept_paths;
    const struct gop_sim_rules *rules;   /* that are counted by */
    gop_sim_checks *checks;              /* NULL: no races are looked for */
    const struct gop_sim_arrays *arrays; /* NULL: nothing is checked */
    const struct gop_sim_array *last;    /* that was hit */
    gop_sim_checks *kept_checks;
    gop_sim_schedule schedule;
    uint64_t random;
    int16_t order[GOP_SIM_LANES]; /* of starting, by chance */
    gop_sim_crew *crew;
    int polling, tries;    /* counted in the crew; how often in vain since all of it polls */
    int failed;            /* a lane was stopped for good */
    int time_slice, rests; /* of the running lane; it stopped to let its thread look up */
    int listens;           /* this thread is the caller's: it hears Ctrl-C */
    int done;              /* whether a lane has done with any since the last barrier */
    double since;          /* when its block was first looked at; 0: it was not */
    const void *looked_at; /* where its lane was then */
    const gop_sim_lane *looked_lane;
    unsigned accesses, looked_accesses; /* of all lanes */
    gop_sim_fault fault;
    gop_sim_index block;  /* blockIdx */
    int lanes, next, end; /* of the block; the next to start; where starting ends */
    int shared_used, sites;
    struct {
        unsigned site;
        void *memory;
    } site[GOP_SIM_SITES];
    gop_fiber *fiber, *idle; /* that runs now; that wait for a lane */
    gop_fiber scheduler;
    gop_sim_warp warp[GOP_SIM_WARPS];
    gop_sim_lane all[GOP_SIM_LANES];
    struct gop_sim_worker *next_idle;
    char alternate[GOP_SIM_ALTERNATE];
    /* Shared memory, in the banks it would have on a GPU: what is declared, then the rest. */
    _Alignas(1024) char memory[GOP_SIM_STATIC + GOP_SIM_DYNAMIC];
} gop_sim_worker;

/* This thread's, or NULL where it is between blocks. */
extern __thread gop_sim_worker *gop_sim_here;

static inline int gop_sim_warp_of(const gop_sim_worker *w, const gop_sim_lane *lane)
{
    return (int)(lane - w->all) / GOP_SIM_WARP;
}

static inline unsigned gop_sim_bit_of(const gop_sim_worker *w, const gop_sim_lane *lane)
{
    return 1u << (lane - w->all) % GOP_SIM_WARP;
}

/* Launches of this process so far. Python calls it by name: gpuops/timing.py. */
__attribute__((visibility("default"))) int64_t gop_sim_launches(void);

/* Runs one block; GOP_OK, or a failure whose sentence is in this thread's error. */
gop_status gop_sim_run_block(gop_sim_worker *worker);

/* Stops the running lane until the scheduler goes on with it. */
static inline __attribute__((always_inline)) void gop_sim_stop(gop_sim_worker *worker)
{
    gop_fiber_switch(worker->lane->fiber, &worker->scheduler);
}

/* The same, but the block does not go on: its mistake is in this thread's error. */
void gop_sim_stop_for_good(gop_sim_worker *worker);

/* Stops it right behind the last place it passed: it is about to jump back from there. */
void gop_sim_stop_behind(gop_sim_worker *worker);

/* Stops it until the lanes of its warp have all stopped, at whatever. */
void gop_sim_pause(gop_sim_worker *worker);

/* At a basic block, now and then: the thread looks up, and goes on with the lane or ends it. It
 * has `room` bytes of its stack left. */
void gop_sim_rest(gop_sim_worker *worker, const void *pc, ptrdiff_t room);
int gop_sim_goes_on(gop_sim_worker *worker);

/* Before the running lane waits for others: they may overwrite what it stored. */
void gop_sim_settle(gop_sim_worker *worker);

/* ---- stuck.c: blocks that cannot go on ---- */

/* Whether the running lane, at its next access, has long read the same values again and again.
 */
int gop_sim_polls(gop_sim_worker *worker);
/* Lets lanes that poll go on; 0 and a sentence if no lane is left to change what they read. */
int gop_sim_poll_again(gop_sim_worker *worker);
void gop_sim_stop_polling(gop_sim_worker *worker);
/* The sentence for lanes that wait for others of their warp; 1. */
int gop_sim_stuck(const gop_sim_worker *worker);

/* ---- barrier.c ---- */

/* Whether all lanes wait at the same barrier, and none has passed it by; else a sentence. */
int gop_sim_one_barrier(const gop_sim_worker *worker);
void gop_sim_forget_done(gop_sim_worker *worker);

/* ---- watch.c: where lanes are while a block takes long, and when Ctrl-C comes ---- */

typedef enum gop_sim_said { GOP_SIM_NO_TEXT, GOP_SIM_WRITING, GOP_SIM_TEXT_DONE } gop_sim_said;

/* The running lane looks up: has its block taken long? */
void gop_sim_watch_lane(gop_sim_worker *worker, const void *pc);
void gop_sim_note_stop(gop_sim_worker *worker);
/* On the calling thread: tells Python of a block that takes long; 0: it wants to stop. */
int gop_sim_watch_tells(gop_sim_crew *crew);
void gop_sim_watch_ends(const gop_sim_crew *crew);

/* ---- fault.c: what the CPU, or the compiler's own checks, stop a lane for ---- */

/* Around a launch, and around a thread's blocks. */
void gop_sim_faults_begin(void);
void gop_sim_faults_end(void);
/* The sentence for the lane that was stopped. */
void gop_sim_fault_said(const gop_sim_worker *worker);

/* ---- counting ---- */

/* Counts what the lanes of `group`, all at one instruction, do together. */
void gop_sim_count(gop_sim_worker *worker, const gop_sim_warp *warp, unsigned group);
/* Compares the ways that the lanes of a warp went since it was together, and begins new ones;
 * `part`: some are not at a place to compare, but have no room left. */
void gop_sim_paths_read(gop_sim_worker *worker, int warp, int part);

#endif
