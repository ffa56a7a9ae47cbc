/*
 * contexts.c - one context for each device and host thread. A thread that ends leaves its
 * contexts to the next.
 */
#include <pthread.h>

#include "core/core.h"

enum { DEVICES = 64 }; /* of a backend, at most */
typedef gop_ctx *contexts[GOP_MAX_BACKENDS][DEVICES];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static contexts idle; /* of each device, those that threads have left */
static _Thread_local contexts mine;

static void give_up(void *of_thread)
{
    gop_ctx *(*const own)[DEVICES] = of_thread;
    pthread_mutex_lock(&lock);
    for (int b = 0; b < GOP_MAX_BACKENDS; b++)
        for (int d = 0; d < DEVICES; d++) {
            if (!own[b][d]) continue;
            own[b][d]->next = idle[b][d];
            idle[b][d] = own[b][d];
        }
    pthread_mutex_unlock(&lock);
}

/* Another thread may have had the lock. */
static void after_fork(void)
{
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

static void begin(void)
{
    pthread_key_create(&key, give_up);
    pthread_atfork(NULL, NULL, after_fork);
}

gop_status gop_thread_context(gop_backend_id id, int ordinal, gop_make_context make,
                              gop_ctx **ctx)
{
    if (ordinal < 0 || ordinal >= DEVICES) return make(ordinal, ctx); /* which fails */
    if (!mine[id][ordinal]) {
        pthread_once(&once, begin);
        pthread_mutex_lock(&lock);
        gop_ctx *own = idle[id][ordinal];
        if (own) idle[id][ordinal] = own->next;
        pthread_mutex_unlock(&lock);
        if (!own) GOP_TRY(make(ordinal, &own));
        mine[id][ordinal] = own;
        pthread_setspecific(key, mine);
    }
    *ctx = mine[id][ordinal];
    return GOP_OK;
}
