/*
 * pipeline.h - a ring of stages in shared memory between producers and consumers.
 *
 * A stage has two barriers. At `full` arrive its bytes and those who bring them, at `empty`
 * those who have read it. Both wait by the phase of their round, which pipeline_advance flips
 * where a new round begins; producers begin a phase ahead, since the first stages are empty.
 */
#ifndef GOP_CUDA_COMMON_PIPELINE_H
#define GOP_CUDA_COMMON_PIPELINE_H

#include "cuda/common/mbarrier.h"

#if GOP_SM90

/* By one thread: how many arrivals each barrier waits for. */
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
