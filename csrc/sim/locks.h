/*
 * locks.h - the locks of what sim keeps from launch to launch.
 */
#ifndef GOP_SIM_LOCKS_H
#define GOP_SIM_LOCKS_H

#include <pthread.h>

enum {
    GOP_SIM_PROFILE,
    GOP_SIM_RECORD,
    GOP_SIM_WORKERS,
    GOP_SIM_SCHEDULE,
    GOP_SIM_FAULTS,
    GOP_SIM_ARRAYS,
    GOP_SIM_LOCKS
};
extern pthread_mutex_t gop_sim_locks[GOP_SIM_LOCKS];

#endif
