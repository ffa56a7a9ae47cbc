/*
 * gemm_sm90.h - the frame of the matrix products on Hopper: producer and consumer warps, the
 * ring between them, their main loops, and which tiles a block does.
 *
 * A thread that waits for a load cannot issue a product. So warps specialise: producer warps
 * fill a ring of stages in shared memory, and two consumer warpgroups multiply from it, with
 * the registers that producers do not need. Blocks are persistent: they take tile after tile,
 * and the next one's stages come while sums are stored.
 *
 * What is left to a kernel: what a stage holds and how it is loaded, how consumers transform
 * and multiply it, and the epilogue.
 */
#ifndef GOP_CUDA_MATMUL_GEMM_SM90_H
#define GOP_CUDA_MATMUL_GEMM_SM90_H

#include "cuda/common/cluster.h"
#include "cuda/common/pipeline.h"
#include "cuda/common/tile_scheduler.h"
#include "cuda/common/tma.h"
#include "cuda/common/wgmma.h"

#if GOP_SM90

/* ---- shared memory ---- */

/* Stages, aligned as the 128-byte swizzle wants them; a full and an empty barrier for each; and
 * OWN bytes of the kernel's, aligned to 16. Consumers take EACH stages at once. */
template <int STAGES_, int BYTES_, int OWN = 0, int EACH_ = 1> struct gemm_ring {
    enum { STAGES = STAGES_, BYTES = BYTES_, EACH = EACH_ };
    enum { SHARED = STAGES * (BYTES + 16) + OWN + 1024 };
    uint8_t *stages, *own;
    uint64_t *full, *empty;

    GOP_DEVICE gemm_ring(void)
    {
        extern __shared__ uint8_t memory[];
        stages = memory + (-shared_address(memory) & 1023);
        full = (uint64_t *)(stages + STAGES * BYTES);
        empty = full + STAGES;
        own = (uint8_t *)(empty + STAGES);
    }
    /* Called by one thread, which then makes all barriers visible: to the cluster, to TMA. */
    GOP_DEVICE void init(int producers, int consumers) const
    {
        pipeline_init<STAGES>(full, producers, empty, consumers);
        fence_mbarrier_release();
        fence_proxy_async();
    }
};

/* A barrier for all threads of the block, or of the cluster. */
template <int CLUSTER> GOP_DEVICE void gemm_sync(void)
{
    if (CLUSTER > 1) cluster_sync();
    else __syncthreads();
}

/* ---- the persistent tile scheduler ---- */

/* A block's items of a schedule, or its cluster's: every `step` from `first` on. With SHARING
 * the blocks of a cluster have a slice each of a tile's sums. */
template <int ROWS, int COLUMNS, int CLUSTER = 1, bool SHARING = false>
struct persistent_tiles {
    enum { SHARERS = SHARING ? CLUSTER : 1 };
    const tile_schedule &schedule;
    int first, last, step, rank;

    GOP_DEVICE persistent_tiles(const tile_schedule &t, int begin, int end, int of_cluster = 0)
        : schedule(t), first(begin + (int)blockIdx.x / CLUSTER), last(end),
          step((int)gridDim.x / CLUSTER), rank(of_cluster)
    {
    }
    GOP_DEVICE tile_item at(int i) const
    {
        return tile_item_of<ROWS, COLUMNS, SHARERS>(schedule, i, rank);
    }
};

/* ---- warps and their main loops ---- */

/* Producers run the one, consumers the other. */
template <int PRODUCER_REGISTERS = 40, int CONSUMER_REGISTERS = 232, typename P, typename C>
GOP_DEVICE void gemm_specialise(P produce, C consume)
{
    if (threadIdx.x < PRODUCERS) {
        setmaxnreg_dec<PRODUCER_REGISTERS>();
        produce();
    } else {
        setmaxnreg_inc<CONSUMER_REGISTERS>();
        consume();
    }
}

/* A producer thread, or several together, fill the ring: begin(tile) returns what loads stage k
 * of the tile's sums, load(k, stage, full), once consumers have read what was in its place. */
template <typename R, typename T, typename B>
GOP_DEVICE void producer_mainloop(const R &ring, const T &tiles, B begin)
{
    int s = 0;
    uint32_t phase = 1; /* at first all stages are empty */
    for (auto i = tiles.first; i < tiles.last; i += tiles.step) {
        const auto tile = tiles.at(i);
        const auto load = begin(tile);
        for (auto k = tile.first * R::EACH; k < tile.last * R::EACH; k++) {
            mbarrier_wait(ring.empty + s, phase);
            load(k, ring.stages + s * R::BYTES, ring.full + s);
            pipeline_advance<R::STAGES>(s, phase);
        }
    }
}

/* A consumer thread has W times SUMS sums of a tile: multiply(sum, s, phase) waits for stage s,
 * adds its products and gives it back; epilogue(tile, sum) stores the sums. */
template <typename R, int W, int SUMS, typename T, typename M, typename E>
GOP_DEVICE void consumer_mainloop(const T &tiles, M multiply, E epilogue)
{
    int s = 0;
    uint32_t phase = 0;
    for (auto i = tiles.first; i < tiles.last; i += tiles.step) {
        const auto tile = tiles.at(i);
        float sum[W][SUMS] = {};
        for (auto k = tile.first; k < tile.last; k++) {
            multiply(sum, s, phase);
            if ((s += R::EACH) == R::STAGES) s = 0, phase ^= 1;
        }
        epilogue(tile, sum);
    }
}

/* Tensor cores truncate: what a stage adds moves to sums in registers, where it is rounded. */
template <int SUMS> GOP_DEVICE void promote(float (&sum)[SUMS], const float (&part)[SUMS])
{
#pragma unroll
    for (int e = 0; e < SUMS; e++) sum[e] += part[e];
}

#endif
#endif
