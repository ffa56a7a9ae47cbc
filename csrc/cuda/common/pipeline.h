/*
 * pipeline.h - barriers in shared memory that count arrivals and bytes, and a ring of stages
 * between producers and consumers.
 *
 * A stage has two barriers. Producers, and the bytes they load, arrive at `full`; consumers
 * that have read the stage arrive at `empty`. A wait names a phase, which pipeline_advance
 * flips after the last stage; producers begin one phase ahead, since all stages are empty at
 * first.
 */
#ifndef GOP_CUDA_COMMON_PIPELINE_H
#define GOP_CUDA_COMMON_PIPELINE_H

#include "cuda/common/sm90.h"

#if GOP_SM90

/* ---- one barrier ---- */

GOP_DEVICE void mbarrier_init(uint64_t *barrier, int arrivals)
{
#if GOP_CODE_SM90
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)),
                 "r"(arrivals));
#endif
}

/* Arrives, and expects so many bytes. */
GOP_DEVICE void mbarrier_arrive_expect_tx(uint64_t *barrier, int bytes)
{
#if GOP_CODE_SM90
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
        "r"(bytes)
        : "memory");
#endif
}

/* Waits until the phase of this parity has ended. */
GOP_DEVICE void mbarrier_wait(uint64_t *barrier, uint32_t parity)
{
#if GOP_CODE_SM90
    uint32_t ended = 0;
    while (!ended)
        asm volatile("{\n"
                     ".reg .pred done;\n"
                     "mbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2;\n"
                     "selp.u32 %0, 1, 0, done;\n"
                     "}"
                     : "=r"(ended)
                     : "r"(shared_address(barrier)), "r"(parity)
                     : "memory");
#endif
}

/* Makes the barriers that this thread initialised visible to the cluster. */
GOP_DEVICE void fence_mbarrier_release(void)
{
#if GOP_CODE_SM90
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}

/* Arrives at the same barrier of block `rank`. It is relaxed: a release would wait for all
 * stores of this thread, also those to other blocks. */
GOP_DEVICE void mbarrier_arrive_cluster(uint64_t *barrier, int rank)
{
#if GOP_CODE_SM90
    asm volatile("{\n"
                 ".reg .b32 there;\n"
                 "mapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [there];\n"
                 "}" ::"r"(shared_address(barrier)),
                 "r"(rank)
                 : "memory");
#endif
}

/* Makes this thread arrive once its copies so far (cp_async) are complete. */
GOP_DEVICE void cp_async_mbarrier_arrive(uint64_t *barrier)
{
#if GOP_CODE_SM90
    asm volatile(
        "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(shared_address(barrier))
        : "memory");
#endif
}

GOP_DEVICE void mbarrier_arrive(uint64_t *barrier)
{
#if GOP_CODE_SM90
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier))
                 : "memory");
#endif
}

/* ---- the ring ---- */

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
