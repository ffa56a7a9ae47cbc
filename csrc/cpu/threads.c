/*
 * threads.c - the thread pool: one job at a time, in pieces handed out by a counter.
 *
 * Workers are started on first use and sleep between jobs. The calling thread works too, so a
 * machine without spare threads, a failed start or a pool busy with another thread's job cost
 * speed and nothing else. After a fork the child starts anew.
 */
#define _GNU_SOURCE /* sched_getaffinity */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "cpu/threads.h"

enum { MAX_THREADS = 256 };

typedef struct job {
    gop_body body;
    void *argument;
    int64_t items, grain;
    _Atomic int64_t next;
    atomic_int stop;
} job;

static struct {
    pthread_mutex_t busy; /* held by the thread whose job runs */
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t work, done;
    int workers;   /* started */
    int wanted;    /* of them, how many join the current job */
    int running;   /* still inside it */
    uint64_t turn; /* number of the current job */
    job *current;
} pool = {.busy = PTHREAD_MUTEX_INITIALIZER,
          .lock = PTHREAD_MUTEX_INITIALIZER,
          .work = PTHREAD_COND_INITIALIZER,
          .done = PTHREAD_COND_INITIALIZER};

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

gop_status gop_interrupted(void)
{
    static _Thread_local int64_t asked; /* when the hook was asked last, in nanoseconds */
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    const int64_t now = t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
    if (now - asked < 20000000 || !gop_interrupt_hook) return GOP_OK;
    asked = now;
    return gop_interrupt_hook() ? gop_fail(GOP_INTERRUPTED, "interrupted") : GOP_OK;
}

/* ---- the pool ---- */

/* Takes pieces until none is left. The calling thread (worker 0) hears Ctrl-C in between. */
static gop_status work_through(job *j, int worker)
{
    while (!atomic_load_explicit(&j->stop, memory_order_relaxed)) {
        const int64_t begin = atomic_fetch_add(&j->next, j->grain);
        if (begin >= j->items) break;
        const int64_t left = j->items - begin;
        j->body(j->argument, begin, begin + (left < j->grain ? left : j->grain), worker);
        if (worker == 0) {
            const gop_status status = gop_interrupted();
            if (status != GOP_OK) {
                atomic_store(&j->stop, 1);
                return status;
            }
        }
    }
    return GOP_OK;
}

static void *worker_main(void *argument)
{
    const int worker = (int)(intptr_t)argument;
    uint64_t seen = 0;
    gop_float_environment(NULL);
    pthread_mutex_lock(&pool.lock);
    for (;;) {
        while (pool.turn == seen || !pool.current) pthread_cond_wait(&pool.work, &pool.lock);
        seen = pool.turn;
        if (worker > pool.wanted) continue;
        job *const j = pool.current;
        pool.running++;
        pthread_mutex_unlock(&pool.lock);
        work_through(j, worker);
        pthread_mutex_lock(&pool.lock);
        if (--pool.running == 0) pthread_cond_signal(&pool.done);
    }
    return NULL;
}

static void after_fork(void)
{
    pthread_mutex_init(&pool.busy, NULL);
    pthread_mutex_init(&pool.lock, NULL);
    pthread_cond_init(&pool.work, NULL);
    pthread_cond_init(&pool.done, NULL);
    pool.workers = pool.wanted = pool.running = 0;
    pool.current = NULL;
}

/* Called with pool.busy held. A thread that cannot be started is done without. Workers take no
 * signals: those are for the program's own threads, which may wait for them. */
static void start_workers(int count)
{
    static int registered;
    sigset_t all, before;
    if (pool.workers >= count) return;
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
            pthread_create(&thread, NULL, worker_main, (void *)(intptr_t)(pool.workers + 1)) !=
                0)
            break;
        pthread_detach(thread);
        pool.workers++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

gop_status gop_parallel(int64_t items, int64_t grain, gop_body body, void *argument)
{
    job j = {
        .body = body, .argument = argument, .items = items, .grain = grain > 0 ? grain : 1};
    const int64_t pieces = items / j.grain + (items % j.grain != 0);
    int helpers = gop_threads() - 1;
    if (helpers > pieces - 1) helpers = (int)(pieces - 1);
    if (helpers <= 0 || pthread_mutex_trylock(&pool.busy) != 0) return work_through(&j, 0);

    start_workers(helpers);
    pthread_mutex_lock(&pool.lock);
    pool.wanted = helpers;
    pool.current = &j;
    pool.turn++;
    pthread_cond_broadcast(&pool.work);
    pthread_mutex_unlock(&pool.lock);

    const gop_status status = work_through(&j, 0);

    pthread_mutex_lock(&pool.lock);
    pool.current = NULL; /* a worker that has not woken yet finds nothing */
    while (pool.running > 0) pthread_cond_wait(&pool.done, &pool.lock);
    pthread_mutex_unlock(&pool.lock);
    pthread_mutex_unlock(&pool.busy);
    return status;
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
