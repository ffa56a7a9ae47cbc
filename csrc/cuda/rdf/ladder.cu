/*
 * ladder.cu - the CUDA kernels of rdf, in the order of reading. Each is in the file of its
 * name.
 *
 * They count, per bin, the pairs of points whose distance falls into it. The floor is
 * arithmetic: about ten operations per pair, and n(n-1)/2 pairs of 3n numbers. What makes it
 * hard is the histogram: all threads increment the same few counters, so each row of this
 * ladder brings the counters, and the way to them, nearer to the thread.
 *
 * core/ops/rdf.c turned the edges into thresholds t: bin k holds t[k] <= r2 < t[k+1], exactly.
 */
#include "cuda/ladder.h"

#define ROWS(ROW)                                                                              \
    ROW(rdf, naive) ROW(rdf, shared) ROW(rdf, persistent) ROW(rdf, guessed) ROW(rdf, cells)

GOP_CUDA_LADDER(rdf, ROWS);
