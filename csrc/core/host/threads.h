/*
 * threads.h - the pool's own neighbours; gop_parallel and gop_threads stand in core/core.h.
 */
#ifndef GOP_THREADS_H
#define GOP_THREADS_H

#include "core/core.h"

enum { GOP_MAX_THREADS = 256 };

/* Sets the calling thread's rounding and subnormal modes: to the ones the promises need, or
 * back to *restore. Returns what they were. */
unsigned gop_float_environment(const unsigned *restore);

#endif
