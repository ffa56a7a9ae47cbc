/*
 * threads.c - the thread pool: jobs in pieces handed out by a counter, several at once.
 *
 * Workers are started on first use. The calling thread works too, so a machine without spare
 * threads or a failed start costs speed and nothing else. Workers join the job that has the
 * fewest of them; when another thread of the program brings a job, workers go over to it
 * between two pieces. After a fork the child starts new ones.
 *
 * To wake a worker costs as much as adding 100 KB. So an idle worker polls for the next job for
 * a while before it sleeps, and meanwhile even jobs of microseconds are shared. Sleeping
 * workers are woken for a job that turns out to be long, or that closely follows another.
 *
 * If other programs keep the processors busy, a worker may be preempted in the middle of a
 * piece, and a job of a millisecond waits several for it. After that has happened, jobs begin
 * without workers for a while, and workers join only long ones.
 */
#define _GNU_SOURCE /* RUSAGE_THREAD */
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "core/host/team.h"

enum {
    STACK = 1 << 20, /* bytes of a worker's: no frame has over 16 KiB, a driver may want more */
    /* nanoseconds */
    SHORT = 4000000,  /* a job that is over by then is better done alone on a busy machine */
    SHUN = 100000000, /* how long the machine is taken to be busy */
    HEAR = 20000000,  /* between two looks for Ctrl-C */
    SOON = 100000,    /* a job that follows so closely on another is taken for one of many */
    WORTH = 20000,    /* what is left to one thread, if a sleeping worker is to be woken */
};

static struct {
    pthread_mutex_t
        lock; /* guards what follows, and what is the pool's of each job in the list */
    pthread_cond_t work, done;
    atomic_int workers; /* started */
    atomic_int asleep;  /* of them, and not called */
    int called;         /* of them, and not awake yet */
    job *jobs;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER,
          .work = PTHREAD_COND_INITIALIZER,
          .done = PTHREAD_COND_INITIALIZER};

static _Alignas(CACHE_LINE) _Atomic uint64_t jobs_so_far; /* of the pool; workers look at it */
static _Thread_local job *innermost;                      /* that this thread called */
static _Thread_local struct {
    job *at;           /* where this worker of the pool is; NULL: a caller's thread */
    uint64_t seen;     /* of jobs_so_far, when it last looked whether it is wanted elsewhere */
    uint64_t promised; /* number of the job that it left the last one for; 0: none */
} me;

static _Alignas(CACHE_LINE) _Atomic int64_t last_ended; /* on the clock: a job of pieces */
static _Atomic int64_t busy_until;                      /* the same: a worker came late */

/* ---- interrupts ---- */

int (*gop_interrupt_hook)(void);

/* Fails in the child of a fork by a signal's handler: pieces that workers had taken are lost.
 */
static gop_status forked(const job *j)
{
    if (!j->lost) return GOP_OK;
    return gop_fail(GOP_INTERNAL,
                    "a signal handler forked in the middle of a call: what its other threads "
                    "were doing is lost to this process; make the call again");
}

/* At a time on the clock. */
static gop_status interrupted_at(int64_t time)
{
    static _Thread_local int64_t asked; /* when the hook was asked last */
    if (time - asked < HEAR || !gop_interrupt_hook) return GOP_OK;
    asked = time;
    if (gop_interrupt_hook()) return gop_fail(GOP_INTERRUPTED, "interrupted");
    return innermost ? forked(innermost) : GOP_OK;
}

gop_status gop_interrupted(void)
{
    return interrupted_at(now());
}

/* ---- who works where; with the pool's lock held ---- */

static int is_needy(job *j)
{
    return j->share < j->wanted && j->members < j->wanted && !atomic_load(&j->stop) &&
           (j->crew || pieces_left(j) > 0);
}

/* The job with the fewest workers of those that would take one more, or NULL. */
static job *neediest(void)
{
    job *found = NULL;
    for (job *j = pool.jobs; j; j = j->next_job)
        if (is_needy(j) && (!found || j->share < found->share)) found = j;
    return found;
}

/* The job that this worker goes to now. */
static job *choose_job(void)
{
    const uint64_t promised = me.promised;
    me.promised = 0;
    for (job *j = pool.jobs; j && promised; j = j->next_job) {
        if (j->number != promised) continue;
        if (j->members < j->wanted) return j; /* it counts on this worker */
        j->share--;
    }
    job *const found = neediest();
    if (found) found->share++;
    return found;
}

int gop_wanted_elsewhere(void)
{
    const uint64_t now = atomic_load_explicit(&jobs_so_far, memory_order_relaxed);
    if (!me.at || me.promised || now == me.seen) return me.promised != 0;
    pthread_mutex_lock(&pool.lock);
    job *const other = neediest();
    if (other && other->share + 1 < me.at->share) {
        me.promised = other->number;
        other->share++;
        me.at->share--;
    } else {
        me.seen = now;
    }
    pthread_mutex_unlock(&pool.lock);
    return me.promised != 0;
}

/* ---- the pool ---- */

static void *worker_main(void *argument)
{
    int looked = 0;
    gop_float_environment(NULL);
    pthread_mutex_lock(&pool.lock);
    for (;;) {
        job *const j = choose_job();
        if (!j && !looked) {
            const uint64_t seen = atomic_load(&jobs_so_far);
            pthread_mutex_unlock(&pool.lock);
            team_look(&jobs_so_far, seen);
            pthread_mutex_lock(&pool.lock);
            looked = 1;
            continue;
        }
        if (!j) {
            pool.asleep++;
            while (pool.called == 0) pthread_cond_wait(&pool.work, &pool.lock);
            pool.called--;
            looked = 0;
            continue;
        }
        int number = 1;
        while (j->taken[number]) number++;
        j->taken[number] = 1;
        j->members++;
        me.at = j;
        me.seen = atomic_load(&jobs_so_far);
        pthread_mutex_unlock(&pool.lock);
        const int64_t begun = now();
        while (do_piece(j, number) && !gop_wanted_elsewhere()) {
        }
        end_work(j, begun);
        pthread_mutex_lock(&pool.lock);
        me.at = NULL;
        j->taken[number] = 0;
        if (!me.promised) j->share--;
        if (--j->members == 0) pthread_cond_broadcast(&pool.done); /* j may be gone */
        looked = 0;
    }
    return argument;
}

/* In the child, whose only thread is the one that forked, maybe in the middle of its jobs. */
static void after_fork(void)
{
    pool.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_init(&pool.work, NULL);
    pthread_cond_init(&pool.done, NULL);
    pool.workers = pool.asleep = pool.called = 0;
    pool.jobs = NULL;
    for (job *j = innermost; j; j = j->outer) {
        j->lost = j->with == TEAM ? team_members() > 0 : j->with == POOL && j->members > 0;
        j->members = j->wanted = 0;
    }
    team_forget();
}

/* With the pool's lock held. If a thread cannot be started, there are fewer. Workers block
 * signals: these are for the program's own threads, which may wait for them. */
static void start_workers(int count)
{
    static int registered;
    pthread_attr_t attributes;
    sigset_t all, before;
    if (pool.workers >= count || pthread_attr_init(&attributes) != 0) return;
    pthread_attr_setstacksize(&attributes, STACK); /* or the default, where it is refused */
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    if (!registered) registered = pthread_atfork(NULL, NULL, after_fork) == 0;
    sigfillset(&all);
    sigdelset(&all, SIGSEGV); /* faults are the thread's own */
    sigdelset(&all, SIGBUS);
    sigdelset(&all, SIGFPE);
    sigdelset(&all, SIGILL);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (pool.workers < count) {
        pthread_t thread;
        if (gop_fault("thread.start") ||
            pthread_create(&thread, &attributes, worker_main, NULL) != 0)
            break;
        pool.workers++;
    }
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* Starts workers, if there are fewer, and wakes as many of those that sleep. */
static void call_workers(int count)
{
    pthread_mutex_lock(&pool.lock);
    start_workers(count);
    for (int64_t k = gop_smaller(count, pool.asleep); k > 0; k--) {
        pool.asleep--;
        pool.called++;
        pthread_cond_signal(&pool.work);
    }
    pthread_mutex_unlock(&pool.lock);
}

/* Whether that would do anything; without the lock, as of late. */
static int can_call(int count)
{
    return atomic_load(&pool.asleep) > 0 || atomic_load(&pool.workers) < count;
}

static void pool_enter(job *j)
{
    memset(j->taken, 0, (size_t)j->wanted + 1);
    j->members = j->share = 0;
    j->with = POOL;
    pthread_mutex_lock(&pool.lock);
    j->next_job = pool.jobs;
    pool.jobs = j;
    j->number = atomic_fetch_add(&jobs_so_far, 1) + 1;
    pthread_mutex_unlock(&pool.lock);
    call_workers(j->wanted);
}

/* Returns whether it had to wait for workers. */
static int pool_leave(job *j)
{
    pthread_mutex_lock(&pool.lock);
    job **at = &pool.jobs; /* a worker that has not woken yet finds nothing */
    while (*at && *at != j) at = &(*at)->next_job;
    if (*at) *at = j->next_job;
    const int waits = j->members > 0;
    while (j->members > 0) pthread_cond_wait(&pool.done, &pool.lock);
    pthread_mutex_unlock(&pool.lock);
    return waits;
}

/* Waits for the workers that are in the job. */
static void wait_for_workers(job *j)
{
    const int waits = j->with == TEAM ? team_close(j) : j->with == POOL ? pool_leave(j) : 0;
    if (!waits || j->own == 0 || !atomic_load(&j->held_up)) return;
    const int64_t waited = now() - j->ended;
    if (waited > LATE && waited > 2 * (j->ended - j->begun) / j->own)
        atomic_store(&busy_until, j->ended + waited + SHUN); /* pieces are alike, mostly */
}

/* Whether the rest would take one thread so long that waking workers pays. */
static int is_long(job *j)
{
    return pieces_left(j) * (j->ended - j->begun) > WORTH * j->own;
}

/* Looks for company, once a piece is done. */
static void seek_company(job *j, int is_busy)
{
    if (j->with == POOL || (is_busy && j->ended - j->begun < SHORT)) return;
    if (j->with == ALONE && team_open(j)) return;
    if ((j->with == TEAM && team_is_whole(j)) || !is_long(j)) return;
    if (j->with == TEAM) team_close(j);
    pool_enter(j);
}

/* The calling thread's part, which hears Ctrl-C between pieces. */
static gop_status take_part(job *j, int is_busy)
{
    while (do_piece(j, 0)) {
        if (j->crew) continue;
        j->own++;
        j->ended = now();
        const gop_status status = interrupted_at(j->ended);
        if (status != GOP_OK) {
            atomic_store(&j->stop, 1);
            return status;
        }
        seek_company(j, is_busy);
    }
    return GOP_OK;
}

static gop_status hand_out(job *j, int helpers)
{
    atomic_init(&j->dealt, 0);
    atomic_init(&j->stop, 0);
    atomic_init(&j->held_up, 0);
    j->wanted = helpers < GOP_MAX_THREADS ? helpers : GOP_MAX_THREADS - 1;
    j->own = j->lost = 0;
    j->with = ALONE;
    j->outer = innermost;
    innermost = j;
    j->begun = j->ended = now();
    const int is_busy = j->begun < atomic_load(&busy_until);
    const int is_one_of_many = j->begun - atomic_load(&last_ended) < SOON;
    if (j->crew || (!is_busy && !team_open(j) && !j->is_brief)) pool_enter(j);
    else if (!is_busy && j->with == ALONE && is_one_of_many && can_call(j->wanted))
        call_workers(j->wanted);
    const gop_status status = take_part(j, is_busy);
    atomic_store(&last_ended, j->ended);
    wait_for_workers(j);
    innermost = j->outer;
    return status != GOP_OK ? status : forked(j);
}

/* The calling thread alone. */
static gop_status run_alone(int64_t items, int64_t grain, gop_body body, void *argument)
{
    for (int64_t i = 0; i < items; i += grain) {
        if (i > 0) GOP_TRY(gop_interrupted());
        body(argument, i, i + gop_smaller(items - i, grain), 0);
    }
    return GOP_OK;
}

static gop_status run_pieces(int is_brief, int workers, int64_t items, int64_t grain,
                             gop_body body, void *argument)
{
    job j;
    if (grain <= 0) grain = 1;
    if (workers <= 1 || items <= grain) return run_alone(items, grain, body, argument);
    j.is_brief = is_brief;
    j.crew = NULL;
    j.body = body;
    j.argument = argument;
    j.items = items;
    j.grain = grain;
    while (items / j.grain > INT32_MAX) j.grain *= 2; /* pieces are counted in 32 bits */
    j.pieces = gop_ceil(items, j.grain);
    return hand_out(&j, (int)gop_smaller(j.pieces, workers) - 1);
}

gop_status gop_parallel(int64_t items, int64_t grain, gop_body body, void *argument)
{
    return run_pieces(0, gop_threads(), items, grain, body, argument);
}

gop_status gop_parallel_by(int workers, int64_t items, int64_t grain, gop_body body,
                           void *argument)
{
    return run_pieces(0, workers, items, grain, body, argument);
}

gop_status gop_parallel_brief(int workers, int64_t items, int64_t grain, gop_body body,
                              void *argument)
{
    return run_pieces(1, workers, items, grain, body, argument);
}

gop_status gop_crew(int most, gop_crew_body body, void *argument)
{
    const int threads = gop_threads(), workers = most < threads ? most : threads;
    while (workers <= 1 && body(argument, 0)) {
    }
    if (workers <= 1) return GOP_OK;
    job j;
    j.crew = body;
    j.argument = argument;
    return hand_out(&j, workers - 1);
}
