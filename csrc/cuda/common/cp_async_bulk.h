/*
 * cp_async_bulk.h - bulk copies, issued by one thread, by the Tensor Memory Accelerator (TMA).
 * Addresses and bytes are multiples of 16.
 */
#ifndef GOP_CUDA_COMMON_CP_ASYNC_BULK_H
#define GOP_CUDA_COMMON_CP_ASYNC_BULK_H

#include "cuda/common/mbarrier.h"

#if GOP_SM90

/* Copies to shared memory; the barrier counts the bytes. */
GOP_DEVICE void cp_async_bulk_load(void *to, const void *from, int bytes, uint64_t *barrier)
{
#if GOP_CODE_SM90
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::"
                 "bytes [%0], [%1], %2, "
                 "[%3];" ::"r"(shared_address(to)),
                 "l"(from), "r"(bytes), "r"(shared_address(barrier))
                 : "memory");
#endif
}

/* The same to two blocks of a cluster, at the same offset; each one's barrier counts. */
GOP_DEVICE void cp_async_bulk_load_multicast(void *to, const void *from, int bytes,
                                             uint64_t *barrier)
{
#if GOP_CODE_SM90
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::"
                 "bytes.multicast::cluster [%0], [%1], %2, [%3], %4;" ::"r"(shared_address(to)),
                 "l"(from), "r"(bytes), "r"(shared_address(barrier)), "h"((uint16_t)3)
                 : "memory");
#endif
}

/* Makes this thread's stores to shared memory, barriers included, visible to TMA (the async
 * proxy). */
GOP_DEVICE void fence_proxy_async(void)
{
#if GOP_CODE_SM90
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

#endif
#endif
