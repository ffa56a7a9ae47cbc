/*
 * tma.h - the Tensor Memory Accelerator (TMA): bulk copies, and tiles of an array by tensor
 * maps.
 *
 * A tile has rows of 128 bytes. In shared memory it is aligned to 1024 bytes, and the order of
 * the 16-byte chunks of a row depends on the row (the 128-byte swizzle). Items beyond the array
 * are loaded as 0 and not stored, except up to the end of the 16 bytes in which a row ends.
 */
#ifndef GOP_CUDA_COMMON_TMA_H
#define GOP_CUDA_COMMON_TMA_H

#include "cuda/common/sm90.h"

/* The driver's CUtensorMap, passed to a kernel by value. */
struct alignas(64) gop_cuda_tensor_map {
    char bytes[128];
};

/* Three axes, the innermost first and contiguous; the address and what the other strides come
 * to are multiples of 16 bytes. */
struct gop_cuda_tensor {
    void *data;
    int item;     /* bytes */
    bool rounded; /* float32 is rounded to 11 bits (TF32) by the load */
    int64_t extent[3], stride[3];
    int box[3]; /* a tile; box[0] items are 128 bytes */
};
gop_status gop_cuda_map(gop_cuda_tensor_map *map, const gop_cuda_tensor *tensor);

#if GOP_SM90

/* ---- bulk copies, issued by one thread: addresses and bytes are multiples of 16 ---- */

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

/* ---- tiles ---- */

/* Loads a tile to the same offset in all blocks with a bit in the mask; each one's barrier
 * counts the bytes. */
GOP_DEVICE void tma_load(void *to, const gop_cuda_tensor_map *map, int x, int y, int z,
                         uint64_t *barrier, int blocks)
{
#if GOP_CODE_SM90
    if (blocks == 1)
        asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx"
                     "::bytes [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(shared_address(to)),
                     "l"(map), "r"(x), "r"(y), "r"(z), "r"(shared_address(barrier))
                     : "memory");
    else
        asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx"
                     "::bytes.multicast::cluster [%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(
                         shared_address(to)),
                     "l"(map), "r"(x), "r"(y), "r"(z), "r"(shared_address(barrier)),
                     "h"((uint16_t)blocks)
                     : "memory");
#endif
}

/* Stores a tile from shared memory, as a group of its own. */
GOP_DEVICE void tma_store(const gop_cuda_tensor_map *map, int x, int y, int z, const void *from)
{
#if GOP_CODE_SM90
    asm volatile(
        "cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3}], "
        "[%4];\ncp.async.bulk.commit_group;" ::"l"(map),
        "r"(x), "r"(y), "r"(z), "r"(shared_address(from))
        : "memory");
#endif
}

/* Waits until TMA has read all but the last N of this thread's groups from shared memory. */
template <int N> GOP_DEVICE void tma_store_wait_read(void)
{
#if GOP_CODE_SM90
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory");
#endif
}

/* A barrier for the calling warpgroup; `number` names it, from 1 on. */
GOP_DEVICE void group_wait(int number)
{
#ifdef __CUDA_ARCH__
    asm volatile("bar.sync %0, 128;" ::"r"(number) : "memory");
#endif
}

/* Stores four 8 x 8 matrices of 2-byte items: each lane gives a row's address and two items of
 * each. */
GOP_DEVICE void stmatrix(uint8_t *row, const uint32_t (&two)[4])
{
#if GOP_CODE_SM90
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                     shared_address(row)),
                 "r"(two[0]), "r"(two[1]), "r"(two[2]), "r"(two[3])
                 : "memory");
#endif
}

/* The same, each matrix transposed. */
GOP_DEVICE void stmatrix_trans(uint8_t *row, const uint32_t (&two)[4])
{
#if GOP_CODE_SM90
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                     shared_address(row)),
                 "r"(two[0]), "r"(two[1]), "r"(two[2]), "r"(two[3])
                 : "memory");
#endif
}

#endif
#endif
