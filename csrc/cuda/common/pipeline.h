/*
 * pipeline.h - a ring of stages in shared memory between producers and consumers.
 *
 * A stage has two barriers. Producers, and the bytes they load, arrive at `full`; consumers
 * that have read the stage arrive at `empty`. A wait names a phase, which pipeline_advance
 * flips after the last stage; producers begin one phase ahead, since all stages are empty at
 * first.
 */
#ifndef GOP_CUDA_COMMON_PIPELINE_H
#define GOP_CUDA_COMMON_PIPELINE_H

#include "cuda/common/mbarrier.h"

#if GOP_SM90

/* Called by one thread; the numbers are the arrivals that each barrier waits for. */
template <int STAGES>
GOP_DEVICE void pipeline_init(uint64_t *full, int producers, uint64_t *empty, int consumers)
{
    for (int stage = 0; stage < STAGES; stage++) {
        mbarrier_init(full + stage, producers);
        mbarrier_init(empty + stage, consumers);
    }
}

template <int STAGES> GOP_DEVICE void pipeline_advance(int &stage, uint32_t &phase)
{
    if (++stage == STAGES) stage = 0, phase ^= 1;
}

#endif
#endif
