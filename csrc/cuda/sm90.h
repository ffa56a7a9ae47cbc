/*
 * sm90.h - what GPUs of compute capability 9.0 have instructions for, by name.
 *
 * The copy engine of a processor moves bytes between memory and shared memory at the word of
 * one thread; a barrier in shared memory (mbarrier) counts what has arrived. Files that use
 * these are named *_sm90.cu, and the build compiles them for 9.0 alone: their rows refuse on
 * every other GPU, by gop_has_sm90. GOP_SM90 is 0 where no such code can be made: on sim, whose
 * rows refuse too.
 */
#ifndef GOP_CUDA_SM90_H
#define GOP_CUDA_SM90_H

#include "cuda/device.h"

#ifdef __CUDACC__
#define GOP_SM90 1
#else
#define GOP_SM90 0
#endif

/* Refuses, for `who`, where code for compute capability 9.0 does not run. */
static inline gop_status gop_has_sm90(const gop_ctx *ctx, const char *who, const char *why)
{
    GOP_TRY(gop_has_code(ctx, who, 9, why));
    if (ctx->info.major == 9) return GOP_OK;
    return gop_fail(GOP_REFUSED,
                    "%s takes a GPU of compute capability 9.0, for which alone it is compiled, "
                    "got %d.%d",
                    who, ctx->info.major, ctx->info.minor);
}

#if GOP_SM90

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define GOP_BULK_COPIES 1
#else
#define GOP_BULK_COPIES 0
#endif

GOP_DEVICE uint32_t shared_address(const void *at)
{
    return (uint32_t)__cvta_generic_to_shared(at);
}

/* ---- barriers that count arrivals and bytes ---- */

GOP_DEVICE void barrier_init(uint64_t *barrier, int arrivals)
{
#if GOP_BULK_COPIES
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)),
                 "r"(arrivals));
#endif
}

/* One arrival, and so many bytes that will come. */
GOP_DEVICE void barrier_expect(uint64_t *barrier, int bytes)
{
#if GOP_BULK_COPIES
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
        "r"(bytes)
        : "memory");
#endif
}

/* Until the phase of this parity has ended. */
GOP_DEVICE void barrier_wait(uint64_t *barrier, uint32_t parity)
{
#if GOP_BULK_COPIES
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

/* Kernels that wait for this one by themselves may be made ready from here on. */
GOP_DEVICE void let_kernel_after_come(void)
{
#if GOP_BULK_COPIES
    cudaTriggerProgrammaticLaunchCompletion();
#endif
}

/* ---- clusters: blocks that run together and reach each other's shared memory ---- */

/* Of a kernel whose launch says how many: gop_cuda_grid(blocks, cluster). */
#if GOP_BULK_COPIES
#define GOP_CLUSTERS __cluster_dims__()
#else
#define GOP_CLUSTERS
#endif
GOP_DEVICE int cluster_rank(void)
{
    uint32_t rank = 0;
#if GOP_BULK_COPIES
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
#endif
    return (int)rank;
}

/* Every thread of every block of the cluster has come here, and sees what was stored. */
GOP_DEVICE void cluster_sync(void)
{
#if GOP_BULK_COPIES
    asm volatile("barrier.cluster.arrive.release.aligned;\n"
                 "barrier.cluster.wait.acquire.aligned;" ::
                     : "memory");
#endif
}

/* The barriers that this thread made are seen by the cluster. */
GOP_DEVICE void barrier_publish(void)
{
#if GOP_BULK_COPIES
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}

/* One arrival at the same barrier of block `rank`. It orders no stores of this thread: a
 * release that did would wait for all of them, far ones too. */
GOP_DEVICE void barrier_arrive_at(uint64_t *barrier, int rank)
{
#if GOP_BULK_COPIES
    asm volatile("{\n"
                 ".reg .b32 there;\n"
                 "mapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [there];\n"
                 "}" ::"r"(shared_address(barrier)),
                 "r"(rank)
                 : "memory");
#endif
}

/* An arrival of this thread's when its copies so far (copy_async) are there. */
GOP_DEVICE void barrier_arrive_copied(uint64_t *barrier)
{
#if GOP_BULK_COPIES
    asm volatile(
        "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(shared_address(barrier))
        : "memory");
#endif
}

GOP_DEVICE void barrier_arrive(uint64_t *barrier)
{
#if GOP_BULK_COPIES
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier))
                 : "memory");
#endif
}

/* Where block `rank` has in its shared memory what lies at `at` here. */
template <typename T> GOP_DEVICE const T *cluster_place(const T *at, int rank)
{
    const T *there = at;
#if GOP_BULK_COPIES
    asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(at), "r"(rank));
#endif
    return there;
}

/* Whether any of THREADS threads, whole warps of a block, says so: a barrier of theirs. */
template <int THREADS> GOP_DEVICE bool any_of(bool says)
{
    int any = 0;
#if GOP_BULK_COPIES
    asm volatile("{\n"
                 ".reg .pred says, any;\n"
                 "setp.ne.b32 says, %1, 0;\n"
                 "barrier.cta.red.or.pred any, 1, %2, says;\n"
                 "selp.u32 %0, 1, 0, any;\n"
                 "}"
                 : "=r"(any)
                 : "r"((int)says), "n"(THREADS)
                 : "memory");
#endif
    return any;
}

/* ---- bulk copies: addresses and bytes are multiples of 16 ---- */

/* Into shared memory; the barrier counts the bytes. */
GOP_DEVICE void bulk_fetch(void *to, const void *from, int bytes, uint64_t *barrier)
{
#if GOP_BULK_COPIES
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::"
                 "bytes [%0], [%1], %2, "
                 "[%3];" ::"r"(shared_address(to)),
                 "l"(from), "r"(bytes), "r"(shared_address(barrier))
                 : "memory");
#endif
}

/* The same into two blocks of a cluster, at the same place; the barrier of each counts. */
GOP_DEVICE void bulk_fetch_both(void *to, const void *from, int bytes, uint64_t *barrier)
{
#if GOP_BULK_COPIES
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::"
                 "bytes.multicast::cluster [%0], [%1], %2, [%3], %4;" ::"r"(shared_address(to)),
                 "l"(from), "r"(bytes), "r"(shared_address(barrier)), "h"((uint16_t)3)
                 : "memory");
#endif
}

/* Out of shared memory, as part of the thread's open group. */
GOP_DEVICE void bulk_write(void *to, const void *from, int bytes)
{
#if GOP_BULK_COPIES
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to),
                 "r"(shared_address(from)), "r"(bytes)
                 : "memory");
#endif
}

/* What this thread stored in shared memory, barriers too, is seen by the engine. */
GOP_DEVICE void bulk_publish(void)
{
#if GOP_BULK_COPIES
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

/* Until the engine has read what this thread gave it to write. */
GOP_DEVICE void bulk_finish(void)
{
#if GOP_BULK_COPIES
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
#endif
}

#endif
#endif
