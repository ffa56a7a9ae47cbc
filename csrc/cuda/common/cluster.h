/*
 * cluster.h - blocks that run together and reach each other's shared memory.
 */
#ifndef GOP_CUDA_COMMON_CLUSTER_H
#define GOP_CUDA_COMMON_CLUSTER_H

#include "cuda/common/sm90.h"

#if GOP_SM90

/* Marks a kernel that runs in clusters; the launch gives their size: gop_cuda_grid(blocks,
 * cluster). */
#if GOP_CODE_SM90
#define GOP_CLUSTERS __cluster_dims__()
#else
#define GOP_CLUSTERS
#endif
/* The grid of clusters that stay and take item after item: as many as the SMs hold at once. */
static inline gop_cuda_grid cluster_grid(int items, int processors, int size)
{
    const int slots = processors / size;
    return gop_cuda_grid((items < slots ? items : slots) * size, size);
}

GOP_DEVICE int cluster_rank(void)
{
    uint32_t rank = 0;
#if GOP_CODE_SM90
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
#endif
    return (int)rank;
}

/* A barrier for all threads of the cluster; what was stored before it is visible after it. */
GOP_DEVICE void cluster_sync(void)
{
#if GOP_CODE_SM90
    asm volatile("barrier.cluster.arrive.release.aligned;\n"
                 "barrier.cluster.wait.acquire.aligned;" ::
                     : "memory");
#endif
}

/* The address in block `rank`'s shared memory that corresponds to `at` in this block's. */
template <typename T> GOP_DEVICE const T *map_shared_rank(const T *at, int rank)
{
    const T *there = at;
#if GOP_CODE_SM90
    asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(at), "r"(rank));
#endif
    return there;
}

/* A barrier for THREADS threads, whole warps of a block; returns whether any `says` so. */
template <int THREADS> GOP_DEVICE bool any_of(bool says)
{
    int any = 0;
#if GOP_CODE_SM90
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

#endif
#endif
