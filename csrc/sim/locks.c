/*
 * locks.c - a fork takes sim's locks before it and gives them back after it.
 *
 * No thread takes a second one while it holds one, so that their order does not matter.
 */
#include "sim/locks.h"

pthread_mutex_t gop_sim_locks[GOP_SIM_LOCKS] = {
    PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
    PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
};

static void take_all(void)
{
    for (int i = 0; i < GOP_SIM_LOCKS; i++) pthread_mutex_lock(&gop_sim_locks[i]);
}

static void give_all(void)
{
    for (int i = 0; i < GOP_SIM_LOCKS; i++) pthread_mutex_unlock(&gop_sim_locks[i]);
}

/* From here on a fork waits until no other thread holds one of the locks: the child lacks that
 * thread, and could never take its lock. */
__attribute__((constructor)) static void bear_forks(void)
{
    pthread_atfork(take_all, give_all, give_all);
}
