/*
 * threads.c - the thread pool: jobs in pieces handed out by a counter, several at once.
 *
 * Workers are started on first use and sleep between jobs. The calling thread works too, so a
 * machine without spare threads or a failed start costs speed and nothing else. Workers join
 * the job that has the fewest of them; when another thread of the program brings a job, workers
 * go over to it between two pieces. After a fork the child starts anew.
 *
 * Where other programs keep the processors busy, a worker may be put to sleep in the middle of
 * a piece, and what would have taken the caller a millisecond waits several for it. After that
 * happened, jobs begin without workers for a while, and only long ones are joined by them.
 */
#define _GNU_SOURCE /* sched_getaffinity */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/host/threads.h"

enum {
    MAX_THREADS = 256,
    STACK = 1 << 20, /* bytes of a worker's: no frame has over 16 KiB, a driver may want more */
    /* nanoseconds */
    LATE = 1000000,   /* less is no sleep: a time slice is longer */
    SHORT = 4000000,  /* a job that is over by then is better done alone on a busy machine */
    SHUN = 100000000, /* how long the machine is taken to be busy */
    HEAR = 20000000,  /* between two looks for Ctrl-C */
};

typedef struct job {
    gop_body body;
    gop_crew_body crew; /* or this, called until it says that nothing is left */
    void *argument;
    int64_t items, grain;
    int64_t own; /* pieces that the caller did */
    _Atomic int64_t next;
    atomic_int stop;
    uint64_t number;              /* of all jobs */
    int wanted;                   /* workers that it takes */
    int members;                  /* workers inside it */
    int share;                    /* those that will stay, and those on their way to it */
    int lost;                     /* a fork left its workers behind */
    struct job *next_job, *outer; /* in the pool; around this one, in the same thread */
    char taken[MAX_THREADS];      /* numbers of its workers: 1 to wanted */
} job;

static struct {
    pthread_mutex_t lock; /* guards what follows, and from `wanted` on each job in the list */
    pthread_cond_t work, done;
    int workers; /* started */
    job *jobs;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER,
          .work = PTHREAD_COND_INITIALIZER,
          .done = PTHREAD_COND_INITIALIZER};

static _Atomic uint64_t jobs_so_far;
static _Thread_local job *innermost; /* that this thread called */
static _Thread_local struct {
    job *at;           /* where this worker of the pool is; NULL: a caller's thread */
    uint64_t seen;     /* of jobs_so_far, when it last looked whether it is wanted elsewhere */
    uint64_t promised; /* number of the job that it left the last one for; 0: none */
} me;

static _Atomic int64_t busy_until; /* on the clock: a worker came late */

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static atomic_int threads_set; /* 0: the default */

static int default_threads(void)
{
    const char *text = getenv("GPUOPS_NUM_THREADS");
    if (text && *text) {
        char *end;
        const long asked = strtol(text, &end, 10);
        if (*end == 0 && asked >= 1) return asked < MAX_THREADS ? (int)asked : MAX_THREADS;
    }
#if defined(__linux__)
    cpu_set_t mask;
    if (sched_getaffinity(0, sizeof mask, &mask) == 0) {
        const int count = CPU_COUNT(&mask);
        return count < MAX_THREADS ? count : MAX_THREADS;
    }
#endif
    const long online = sysconf(_SC_NPROCESSORS_ONLN); /* also of more than a mask holds */
    return online < 1 ? 1 : online < MAX_THREADS ? (int)online : MAX_THREADS;
}

int gop_threads(void)
{
    const int set = atomic_load(&threads_set);
    if (set > 0) return set;
    static atomic_int cached;
    int count = atomic_load(&cached);
    if (count == 0) atomic_store(&cached, count = default_threads());
    return count;
}

void gop_threads_set(int threads)
{
    atomic_store(&threads_set, threads < 0 ? 0 : threads < MAX_THREADS ? threads : MAX_THREADS);
}

/* ---- interrupts ---- */

int (*gop_interrupt_hook)(void);

/* What workers had taken when a signal's handler forked is not done in the child. */
static gop_status forked(const job *j)
{
    if (!j->lost) return GOP_OK;
    return gop_fail(GOP_INTERNAL,
                    "a signal handler forked in the middle of a call: what its other threads "
                    "were doing is lost to this process; make the call again");
}

gop_status gop_interrupted(void)
{
    static _Thread_local int64_t asked; /* when the hook was asked last, in nanoseconds */
    const int64_t time = now();
    if (time - asked < HEAR || !gop_interrupt_hook) return GOP_OK;
    asked = time;
    if (gop_interrupt_hook()) return gop_fail(GOP_INTERRUPTED, "interrupted");
    return innermost ? forked(innermost) : GOP_OK;
}

/* ---- who works where; with the pool's lock held ---- */

static int is_needy(job *j)
{
    return j->share < j->wanted && j->members < j->wanted && !atomic_load(&j->stop) &&
           (j->crew || atomic_load(&j->next) < j->items);
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

/* Takes pieces until none is left, or others need this worker more. The calling thread (worker
 * 0) hears Ctrl-C in between, and looks at the clock where it has `until` some time. */
static gop_status work_through(job *j, int worker, int64_t until)
{
    while (!atomic_load_explicit(&j->stop, memory_order_relaxed)) {
        if (j->crew) {
            if (!j->crew(j->argument, worker)) atomic_store(&j->stop, 1);
        } else {
            const int64_t begin = atomic_fetch_add(&j->next, j->grain);
            if (begin >= j->items) break;
            const int64_t left = j->items - begin;
            j->body(j->argument, begin, begin + (left < j->grain ? left : j->grain), worker);
        }
        if (worker > 0) {
            if (gop_wanted_elsewhere()) break;
        } else if (!j->crew) {
            const gop_status status = gop_interrupted();
            if (status != GOP_OK) {
                atomic_store(&j->stop, 1);
                return status;
            }
            j->own++;
            if (until && now() >= until) break;
        }
    }
    return GOP_OK;
}

static void *worker_main(void *argument)
{
    gop_float_environment(NULL);
    pthread_mutex_lock(&pool.lock);
    for (;;) {
        job *const j = choose_job();
        if (!j) {
            pthread_cond_wait(&pool.work, &pool.lock);
            continue;
        }
        int number = 1;
        while (j->taken[number]) number++;
        j->taken[number] = 1;
        j->members++;
        me.at = j;
        me.seen = atomic_load(&jobs_so_far);
        pthread_mutex_unlock(&pool.lock);
        work_through(j, number, 0);
        pthread_mutex_lock(&pool.lock);
        me.at = NULL;
        j->taken[number] = 0;
        if (!me.promised) j->share--;
        if (--j->members == 0) pthread_cond_broadcast(&pool.done);
    }
    return argument;
}

/* In the child, whose only thread is the one that forked, maybe in the middle of its jobs. */
static void after_fork(void)
{
    pthread_mutex_init(&pool.lock, NULL);
    pthread_cond_init(&pool.work, NULL);
    pthread_cond_init(&pool.done, NULL);
    pool.workers = 0;
    pool.jobs = NULL;
    for (job *j = innermost; j; j = j->outer) {
        j->lost = j->members > 0;
        j->members = j->wanted = 0;
    }
}

/* With the pool's lock held. A thread that cannot be started is done without. Workers take no
 * signals: those are for the program's own threads, which may wait for them. */
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

static void enter(job *j, int helpers)
{
    memset(j->taken, 0, (size_t)helpers + 1);
    j->wanted = helpers;
    j->members = j->share = j->lost = 0;
    j->outer = innermost;
    innermost = j;
    pthread_mutex_lock(&pool.lock);
    start_workers(helpers);
    j->number = atomic_fetch_add(&jobs_so_far, 1) + 1;
    j->next_job = pool.jobs;
    pool.jobs = j;
    pthread_cond_broadcast(&pool.work);
    pthread_mutex_unlock(&pool.lock);
}

static gop_status leave(job *j)
{
    pthread_mutex_lock(&pool.lock);
    job **at = &pool.jobs; /* a worker that has not woken yet finds nothing */
    while (*at && *at != j) at = &(*at)->next_job;
    if (*at) *at = j->next_job;
    while (j->members > 0) pthread_cond_wait(&pool.done, &pool.lock);
    pthread_mutex_unlock(&pool.lock);
    innermost = j->outer;
    return forked(j);
}

static int is_over(job *j)
{
    return atomic_load(&j->stop) || (!j->crew && atomic_load(&j->next) >= j->items);
}

static gop_status run(job *j, int helpers)
{
    atomic_init(&j->next, 0);
    atomic_init(&j->stop, 0);
    j->own = 0;
    if (helpers > MAX_THREADS - 1) helpers = MAX_THREADS - 1;
    if (helpers <= 0) return work_through(j, 0, 0);
    int64_t begun = now();
    if (!j->crew && begun < atomic_load(&busy_until)) {
        const gop_status status = work_through(j, 0, begun + SHORT);
        if (is_over(j)) return status;
        j->own = 0;
        begun = now();
    }
    enter(j, helpers);
    const gop_status status = work_through(j, 0, 0);
    const int64_t done = now();
    const gop_status whole = leave(j);
    const int64_t waited = now() - done;
    if (waited > LATE && j->own > 0 && waited > 2 * (done - begun) / j->own)
        atomic_store(&busy_until, done + waited + SHUN); /* pieces are alike, mostly */
    return status != GOP_OK ? status : whole;
}

gop_status gop_parallel(int64_t items, int64_t grain, gop_body body, void *argument)
{
    return gop_parallel_by(gop_threads(), items, grain, body, argument);
}

gop_status gop_parallel_by(int workers, int64_t items, int64_t grain, gop_body body,
                           void *argument)
{
    job j;
    j.body = body;
    j.crew = NULL;
    j.argument = argument;
    j.items = items;
    j.grain = grain > 0 ? grain : 1;
    const int64_t pieces = items / j.grain + (items % j.grain != 0);
    return run(&j, pieces < workers ? (int)pieces - 1 : workers - 1);
}

gop_status gop_crew(int most, gop_crew_body body, void *argument)
{
    job j;
    j.crew = body;
    j.argument = argument;
    const int threads = gop_threads();
    return run(&j, most < threads ? most - 1 : threads - 1);
}

/* ---- floating point ---- */

#if defined(__x86_64__)
#include <immintrin.h>
unsigned gop_float_environment(const unsigned *restore)
{
    const unsigned before = _mm_getcsr();
    const unsigned want =
        restore ? *restore : 0x1f80; /* nearest even, no trap, FTZ and DAZ off */
    if (before != want) _mm_setcsr(want);
    return before;
}
#else
unsigned gop_float_environment(const unsigned *restore)
{
    (void)restore; /* other processors start with subnormals on */
    return 0;
}
#endif
