/*
 * launch.c - one launch: runs its blocks on the threads of the pool, until all are done or
 * Ctrl-C.
 *
 * Every thread takes blocks until none are left. The calling thread then waits for the others.
 * Only it handles Ctrl-C, so it wakes up often enough to react in time.
 */
#define _GNU_SOURCE /* sigaltstack, pthread_condattr_setclock */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sim/calls.h"
#include "sim/check.h"
#include "sim/counters.h"
#include "sim/locks.h"

/* ---- workers: one for each thread at work, kept for the next launch ---- */

static pthread_mutex_t *const lock = &gop_sim_locks[GOP_SIM_WORKERS];
static gop_sim_worker *idle;

static gop_sim_worker *take_worker(void)
{
    pthread_mutex_lock(lock);
    gop_sim_worker *worker = idle;
    if (worker) idle = worker->next_idle;
    pthread_mutex_unlock(lock);
    if (worker) return worker;
    worker = aligned_alloc(_Alignof(gop_sim_worker), sizeof *worker);
    if (worker) memset(worker, 0, sizeof *worker);
    return worker;
}

static void give_worker(gop_sim_worker *worker)
{
    pthread_mutex_lock(lock);
    worker->next_idle = idle;
    idle = worker;
    pthread_mutex_unlock(lock);
}

/* ---- blocks ---- */

typedef struct launching {
    const gop_sim_launch *launch;
    gop_sim_plan plan;
    gop_sim_hunt *hunt; /* NULL: nothing is checked */
    gop_sim_schedule schedule;
    gop_sim_crew crew;
    gop_error error;          /* of the first thread that failed */
    int64_t next, end, piece; /* the stage's next item and end; items taken at a time */
    pthread_mutex_t lock;     /* guards the fields below */
    pthread_cond_t changed;
    int playing, over; /* other threads that run a piece; the stage is over */
} launching;

static void keep_error(launching *l, gop_status status)
{
    if (__atomic_exchange_n(&l->crew.stopped, 1, __ATOMIC_ACQ_REL)) return;
    l->error = *gop_services->error();
    l->error.code = status;
}

/* Runs items [first, end) of the stage. */
static void run_blocks(launching *l, gop_sim_worker *worker, int64_t first, int64_t end)
{
    const gop_sim_plan *plan = &l->plan;
    const gop_sim_index grid = l->launch->grid;
    const int64_t blocks = (int64_t)grid.x * grid.y * grid.z;
    int64_t kept = first;
    gop_sim_counting_begin(worker, plan);
    gop_sim_checks_begin(worker, l->hunt);
    __atomic_add_fetch(&l->crew.working, 1, __ATOMIC_ACQ_REL);
    for (int64_t item = first; item < end; item++) {
        const int64_t b = plan->counted ? gop_sim_plan_block(plan, item)
                                        : gop_sim_scheduled_block(&l->schedule, item, blocks);
        if (plan->unit && item % plan->unit == 0 && item > kept) {
            gop_sim_counting_keep(worker, plan, kept, item);
            kept = item;
        }
        worker->block.x = (unsigned)(b % grid.x);
        worker->block.y = (unsigned)(b / grid.x % grid.y);
        worker->block.z = (unsigned)(b / grid.x / grid.y);
        const gop_status status = gop_sim_run_block(worker);
        if (status != GOP_OK) {
            keep_error(l, status);
            break;
        }
    }
    gop_sim_stop_polling(worker);
    __atomic_sub_fetch(&l->crew.working, 1, __ATOMIC_ACQ_REL);
    gop_sim_counting_keep(worker, plan, kept, end);
    gop_sim_counting_end(worker);
    gop_sim_checks_end(worker);
}

/* ---- threads ---- */

static int stopped(const gop_sim_crew *crew)
{
    return __atomic_load_n(&crew->stopped, __ATOMIC_ACQUIRE);
}

/* Looks for Ctrl-C on the calling thread's own stack: a signal handler may run any Python code.
 */
static void listen(gop_sim_crew *crew)
{
    if (stopped(crew)) return;
    crew->heard = gop_services->interrupted();
    crew->refused = crew->heard == GOP_OK && !gop_sim_watch_tells(crew);
    if (crew->heard != GOP_OK || crew->refused)
        __atomic_store_n(&crew->stopped, 1, __ATOMIC_RELEASE);
}

int gop_sim_goes_on(gop_sim_worker *w)
{
    gop_sim_here = NULL; /* a signal handler may launch a kernel on this thread */
    if (w->listens) listen(w->crew);
    gop_sim_here = w;
    if (stopped(w->crew)) {
        gop_sim_note_stop(w);
        w->failed = 1;
    }
    return !w->failed;
}

void gop_sim_rest(gop_sim_worker *w, const void *pc, ptrdiff_t room)
{
    char text[512];
    if (room < GOP_FIBER_RESERVE) {
        gop_fail(GOP_DEVICE_FAILED,
                 "%s has used up the %d KiB of its stack: a function that calls itself without "
                 "end, or too often",
                 gop_sim_who(w, w->lane, pc, text), GOP_FIBER_STACK / 1024);
        gop_sim_stop_for_good(w);
    }
    w->time_slice = GOP_SIM_TIME_SLICE;
    gop_sim_watch_lane(w, pc);
    if (!w->listens && !stopped(w->crew)) return;
    w->rests = 1;
    gop_sim_stop(w);
}

/* Whether a signal handler has forked and this is the child, where no other thread exists. */
static int is_alone(const launching *l)
{
    return l->crew.heard != GOP_OK && l->crew.heard != GOP_INTERRUPTED;
}

/* Waits for a change, at most TURN. The caller holds the lock. */
static void wait_a_turn(launching *l)
{
    enum { TURN = 20 * 1000 * 1000 }; /* nanoseconds between two looks for Ctrl-C */
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += TURN;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&l->changed, &l->lock, &until);
}

/* Runs the next piece. Returns 0 if there is none. */
static int play_piece(launching *l, int is_caller)
{
    if (stopped(&l->crew)) return 0;
    const int64_t first = __atomic_fetch_add(&l->next, l->piece, __ATOMIC_RELAXED);
    if (first >= l->end) return 0;
    gop_sim_worker *worker = take_worker();
    if (!worker) {
        keep_error(l, gop_fail(GOP_NO_MEMORY, "sim: no memory for a block's shared memory"));
        return 0;
    }
    const stack_t mine = {.ss_sp = worker->alternate, .ss_size = GOP_SIM_ALTERNATE};
    stack_t theirs;
    sigaltstack(&mine, &theirs);
    worker->launch = l->launch;
    worker->schedule = l->schedule;
    worker->crew = &l->crew;
    worker->listens = is_caller;
    worker->time_slice = GOP_SIM_TIME_SLICE;
    gop_sim_here = worker;
    run_blocks(l, worker, first, l->end - first < l->piece ? l->end : first + l->piece);
    gop_sim_here = NULL;
    sigaltstack(&theirs, NULL);
    give_worker(worker);
    return 1;
}

/* The calling thread's work: it runs pieces, then waits for the other threads. */
static void play_all(launching *l)
{
    while (play_piece(l, 1)) listen(&l->crew);
    if (is_alone(l)) return;
    pthread_mutex_lock(&l->lock);
    while (l->playing > 0) {
        wait_a_turn(l);
        if (l->playing == 0) break;
        pthread_mutex_unlock(&l->lock);
        listen(&l->crew);
        if (is_alone(l)) return;
        pthread_mutex_lock(&l->lock);
    }
    l->over = 1;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
}

/* Runs on each thread of the pool. A 0 ends the work of all threads, so only the calling thread
 * decides it. */
static int play_blocks(void *argument, int thread)
{
    launching *l = argument;
    if (thread == 0) {
        play_all(l);
        return 0;
    }
    pthread_mutex_lock(&l->lock);
    l->playing++;
    pthread_mutex_unlock(&l->lock);
    const int played = play_piece(l, 0);
    pthread_mutex_lock(&l->lock);
    l->playing--;
    pthread_cond_broadcast(&l->changed);
    while (!played && !l->over && !gop_services->wanted_elsewhere()) wait_a_turn(l);
    const int goes_on = !l->over;
    pthread_mutex_unlock(&l->lock);
    return goes_on;
}

/* Runs the launch. A counted launch runs in stages: the first ones tell how long the rest will
 * take. */
static gop_status run_stages(launching *l)
{
    enum { MOST = 256 }; /* most threads of a pool */
    gop_sim_plan *plan = &l->plan;
    while (plan->done < plan->run && !l->crew.stopped) {
        l->next = plan->done;
        l->over = 0;
        l->end = gop_sim_plan_next(plan, l->piece);
        const int64_t pieces = (l->end - l->next + l->piece - 1) / l->piece;
        GOP_TRY(gop_services->crew(pieces < MOST ? (int)pieces : MOST, play_blocks, l));
        GOP_TRY(gop_sim_plan_after(plan, l->launch, l->end));
    }
    return GOP_OK;
}

/* ---- launching ---- */

static gop_status check_launch(const gop_sim_launch *l)
{
    const gop_sim_index g = l->grid, b = l->block;
    const uint64_t lanes = (uint64_t)b.x * b.y * b.z, blocks = (uint64_t)g.x * g.y * g.z;
    const uint64_t most = (uint64_t)gop_sim_most_threads(l);
    const size_t shared = gop_sim_most_shared(l, GOP_SIM_DYNAMIC);
    if (blocks == 0 || lanes == 0 || lanes > most || b.z > 64 || g.x > 0x7fffffffu ||
        g.y > 65535 || g.z > 65535)
        return gop_fail(
            GOP_DEVICE_FAILED,
            "sim: %s: a grid of (%u, %u, %u) blocks of (%u, %u, %u) threads, "
            "expected at least one block and one thread, and at most %d threads in a "
            "block",
            l->kernel, g.x, g.y, g.z, b.x, b.y, b.z, (int)most);
    if (l->shared > shared)
        return gop_fail(GOP_DEVICE_FAILED,
                        "sim: %s: the launch asks for %zu bytes of shared memory, expected at "
                        "most %d",
                        l->kernel, l->shared, (int)shared);
    return GOP_OK;
}

static void make_lock(launching *l)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

static int64_t launches;

int64_t gop_sim_launches(void)
{
    return __atomic_load_n(&launches, __ATOMIC_RELAXED);
}

gop_status gop_sim_run(const gop_sim_launch *launch)
{
    enum { PIECE = 2048 }; /* lanes of a piece: small, so that threads end together */
    launching l = {.launch = launch};
    GOP_TRY(check_launch(launch));
    __atomic_add_fetch(&launches, 1, __ATOMIC_RELAXED);
    const char *set = getenv("GPUOPS_SIM_SCHEDULE");
    if (!gop_sim_schedule_now(&l.schedule))
        return gop_fail(GOP_BAD_ARGUMENT,
                        "sim: GPUOPS_SIM_SCHEDULE is '%.40s', expected forward, lockstep, "
                        "reversed, random or random:SEED",
                        set ? set : "");
    gop_sim_plan_begin(&l.plan, launch);
    const gop_sim_index b = launch->block;
    const int64_t per_piece = PIECE / ((int64_t)b.x * b.y * b.z);
    l.piece = per_piece > 0 ? per_piece : 1;
    if (l.plan.counted) l.schedule.turns = GOP_SIM_LOCKSTEP;
    l.hunt = gop_sim_hunt_begin();
    make_lock(&l);
    gop_sim_faults_begin();
    const gop_status status = run_stages(&l);
    gop_sim_faults_end();
    gop_sim_printed();
    gop_status told = GOP_OK;
    if (status == GOP_OK && !l.crew.stopped) told = gop_sim_suspects_said(launch, l.hunt);
    gop_sim_hunt_end(l.hunt, l.crew.heard != GOP_OK);
    gop_sim_profile_ends(launch);
    gop_sim_watch_ends(&l.crew);
    GOP_TRY(status);
    if (l.crew.refused)
        return gop_fail(GOP_DEVICE_FAILED,
                        "sim: %s: stopped by the warning that a block takes long",
                        launch->kernel);
    if (l.crew.heard != GOP_OK) return l.crew.heard; /* this thread's error has it */
    if (!l.crew.stopped) return told;
    *gop_services->error() = l.error;
    return l.error.code;
}
