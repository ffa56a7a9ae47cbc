/*
 * team.h - a job that threads share, and the team: workers that poll for jobs instead of
 * sleeping, and the one job that they see without a lock.
 *
 * The job is on its caller's stack. A worker that registers in the team's word while this is
 * open may use the job until it deregisters; the caller waits for that. A worker that is too
 * late has touched only the word.
 */
#ifndef GOP_TEAM_H
#define GOP_TEAM_H

#include <sched.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <time.h>

#include "core/counts.h"
#include "core/host/threads.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum {
    CACHE_LINE = 64,
    LOOKS = 256, /* at memory, between two at the clock */
    /* nanoseconds */
    LATE = 1000000,  /* nanoseconds of work within which a worker cannot have lost a whole time
                        slice */
    LINGER = 200000, /* how long a worker polls for the next job before it sleeps */
    NAP = 50000, /* how long a caller sleeps between looks once it has polled so long for its
                    workers' end */
};

typedef enum company { ALONE, TEAM, POOL } company; /* with whom a caller works */

typedef struct job {
    /* What each piece needs. */
    _Alignas(CACHE_LINE) _Atomic uint64_t dealt; /* pieces: FRONT and BACK for each */
    int64_t items, grain, pieces;
    gop_body body;
    gop_crew_body crew; /* or this, called until it says that nothing is left */
    void *argument;
    atomic_int stop;
    int wanted; /* workers that it takes */
    /* The caller's. */
    _Alignas(CACHE_LINE) int64_t own; /* pieces that it did */
    int64_t begun, ended;             /* on the clock; the latter of its last piece */
    int is_brief; /* sleeping workers are woken only once the job turns out to be long */
    company with;
    atomic_int held_up; /* by a worker that lost its processor meanwhile */
    int lost;           /* a fork left its workers behind */
    struct job *outer;  /* around this one, in the same thread */
    /* The pool's. */
    struct job *next_job;
    uint64_t number;             /* of all jobs */
    int members;                 /* workers inside it */
    int share;                   /* those that will stay, and those on their way to it */
    char taken[GOP_MAX_THREADS]; /* numbers of its workers: 1 to wanted */
} job;

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* The caller takes pieces from the front, workers from the back: so each finds the same parts
 * of an array in its caches from call to call. */
static const uint64_t FRONT = 1, BACK = 1ull << 32;

static int64_t pieces_left(job *j)
{
    const uint64_t dealt = atomic_load(&j->dealt);
    return j->pieces - (int64_t)(dealt % BACK) - (int64_t)(dealt / BACK);
}

/* Does a piece; returns 0 if none is left. */
static int do_piece(job *j, int worker)
{
    if (atomic_load_explicit(&j->stop, memory_order_relaxed)) return 0;
    if (j->crew) {
        if (!j->crew(j->argument, worker)) atomic_store(&j->stop, 1);
        return 1;
    }
    const uint64_t dealt = atomic_fetch_add(&j->dealt, worker ? BACK : FRONT);
    const int64_t front = (int64_t)(dealt % BACK), back = (int64_t)(dealt / BACK);
    if (front + back >= j->pieces) return 0;
    const int64_t begin = (worker ? j->pieces - 1 - back : front) * j->grain;
    j->body(j->argument, begin, begin + gop_smaller(j->items - begin, j->grain), worker);
    return 1;
}

/* Whether this thread has lost its processor to others since it last asked. */
static int lost_processor(void)
{
#if defined(RUSAGE_THREAD)
    static _Thread_local long before;
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    const int lost = usage.ru_nivcsw > before;
    before = usage.ru_nivcsw;
    return lost;
#else
    return 1; /* it is not known */
#endif
}

/* A worker that began at `begun` leaves a job: notes whether it lost its processor meanwhile.
 */
static void end_work(job *j, int64_t begun)
{
    if (now() - begun > LATE && lost_processor()) atomic_store(&j->held_up, 1);
}

/* ---- the team ---- */

static const uint64_t JOINED = 1, MEMBER = 1 << 16, MEMBERS = 0xffff0000, OPEN = 1ull << 32;

static struct {
    _Alignas(
        CACHE_LINE) _Atomic uint64_t word; /* the workers that joined this job; the members,
                                              those inside now or too late; OPEN */
    _Atomic uint64_t number;               /* of the team's jobs */
    job *at;
    atomic_flag taken;                       /* by a caller */
    _Alignas(CACHE_LINE) atomic_int looking; /* workers */
} team = {.taken = ATOMIC_FLAG_INIT};

/* Called at each poll; returns 1 when it is time to look at the clock. Then it also yields the
 * processor, maybe to the thread that is waited for. */
static int look_again(int *looks)
{
#if defined(__x86_64__)
    _mm_pause();
#endif
    if (++*looks % LOOKS) return 0;
    sched_yield();
    return 1;
}

/* Whether enough workers are polling for the job. */
static int team_is_whole(const job *j)
{
    return atomic_load(&team.looking) >= j->wanted;
}

/* Hands the job to the polling workers, if there are enough; returns 0 if not. */
static int team_open(job *j)
{
    if (!team_is_whole(j) || atomic_flag_test_and_set(&team.taken)) return 0;
    team.at = j;
    j->with = TEAM;
    uint64_t word = atomic_load(&team.word);
    while (!atomic_compare_exchange_weak(&team.word, &word, (word & MEMBERS) | OPEN)) {
    }
    atomic_fetch_add(&team.number, 1);
    return 1;
}

static int team_members(void)
{
    return (int)((atomic_load(&team.word) & MEMBERS) / MEMBER);
}

/* Closes the job and waits until no worker is inside it; returns whether it had to wait. */
static int team_close(job *j)
{
    const struct timespec nap = {0, NAP};
    int looks = 0, long_since = 0;
    atomic_fetch_and(&team.word, ~OPEN);
    const int waits = team_members() > 0;
    while (team_members() > 0) {
        if (long_since) nanosleep(&nap, NULL);
        else if (look_again(&looks)) long_since = now() - j->ended > LINGER;
    }
    j->with = ALONE;
    atomic_flag_clear(&team.taken);
    return waits;
}

/* Resets the team in the child of a fork, which has no workers. */
static void team_forget(void)
{
    atomic_store(&team.word, 0);
    atomic_store(&team.looking, 0);
    atomic_flag_clear(&team.taken);
}

/* A worker takes pieces of the team's job, if it is open. Once the pool has had more jobs than
 * `had`, half of the team leaves for those. */
static void team_join(const _Atomic uint64_t *pool_jobs, uint64_t had)
{
    const int64_t begun = now();
    const uint64_t word = atomic_fetch_add(&team.word, JOINED + MEMBER);
    if (word & OPEN) {
        job *const j = team.at;
        const int number = 1 + (int)(word % MEMBER), stays = 2 * number <= j->wanted + 1;
        while (number <= j->wanted && do_piece(j, number) &&
               (stays || atomic_load(pool_jobs) == had)) {
        }
        end_work(j, begun);
    }
    atomic_fetch_sub(&team.word, MEMBER);
}

/* A worker polls for jobs of the team, until the pool has more jobs than `had`, or nothing came
 * for LINGER. */
static void team_look(const _Atomic uint64_t *pool_jobs, uint64_t had)
{
    uint64_t seen = 0; /* of the team's jobs */
    int64_t begun = now();
    int looks = 0;
    atomic_fetch_add(&team.looking, 1);
    while (atomic_load(pool_jobs) == had) {
        const uint64_t number = atomic_load(&team.number);
        if (number != seen) {
            seen = number;
            team_join(pool_jobs, had);
            begun = now();
        } else if (look_again(&looks) && now() - begun > LINGER) {
            break;
        }
    }
    atomic_fetch_sub(&team.looking, 1);
}

#endif
