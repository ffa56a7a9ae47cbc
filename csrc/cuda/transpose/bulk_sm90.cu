/*
 * bulk_sm90.cu - transpose whose rows are moved by TMA, the Tensor Memory Accelerator.
 *
 * A thread fetches a row of a tile, the block turns the tile, a thread writes a row: no
 * register and no load or store is spent on moving between memory and shared memory. The
 * threads of one wavefront move 8 items along y by N along x, where N items are 16 bytes. Rows
 * of the incoming tile are padded by N items, those of the outgoing one by 8: so these threads
 * meet every bank once in both, and every row is aligned to 16 bytes.
 */
#include "cuda/common/cp_async_bulk.h"
#include "cuda/common/mbarrier.h"
#include "cuda/transpose/tiling.h"

#if GOP_SM90

template <typename T> struct bulk_tile {
    enum {
        N = 16 / (int)sizeof(T),
        SIDE = sizeof(T) == 4 ? 64 : 32,
        IN_ROW = SIDE + N,
        OUT_ROW = SIDE + 8,
        THREADS = 256,
        GROUPS = THREADS / (8 * N), /* of threads that move 8 by N items */
    };
};

template <typename T> __global__ void __launch_bounds__(bulk_tile<T>::THREADS)
    transpose_bulk_kernel(T *out, const T *in, tiling p)
{
    typedef bulk_tile<T> B;
    __shared__ __align__(128) T came[B::SIDE * B::IN_ROW];
    __shared__ __align__(128) T goes[B::SIDE * B::OUT_ROW];
    __shared__ uint64_t barrier;
    const tile_at t = place_tile(p, B::SIDE, B::SIDE);
    const int nx = (int)min_of(p.x.n - t.x, B::SIDE), ny = (int)min_of(p.y.n - t.y, B::SIDE);
    const int i = threadIdx.x;

    if (i == 0) {
        mbarrier_init(&barrier, 1);
        fence_proxy_async();
        mbarrier_arrive_expect_tx(&barrier, nx * ny * (int)sizeof(T));
    }
    __syncthreads();
    if (i < ny)
        cp_async_bulk_load(came + i * B::IN_ROW, in + t.from + run_offset(p.y, t.y + i) + t.x,
                           nx * (int)sizeof(T), &barrier);
    mbarrier_wait(&barrier, 0);

    const int y = i % 8, x = i / 8 % B::N;
#pragma unroll 8
    for (int k = i / (8 * B::N); k < B::SIDE / 8 * (B::SIDE / B::N); k += B::GROUPS) {
        const int j = k % (B::SIDE / 8) * 8 + y, l = k / (B::SIDE / 8) * B::N + x;
        goes[l * B::OUT_ROW + j] = came[j * B::IN_ROW + l];
    }
    fence_proxy_async();
    __syncthreads();
    if (i < nx)
        cp_async_bulk_store(out + t.to + run_offset(p.x, t.x + i) + t.y, goes + i * B::OUT_ROW,
                            ny * (int)sizeof(T));
    cp_async_bulk_wait_read();
}

template <typename T>
static gop_status transpose_bulk(gop_ctx *ctx, const gop_task *task, int64_t)
{
    const tiling &p = GOP_OWN(const tiling_plan, task->plan)->all;
    return GOP_LAUNCH(ctx, transpose_bulk_kernel<T>, dim3((unsigned)p.tiles),
                      bulk_tile<T>::THREADS, 0, (T *)task->out[0].data,
                      (const T *)task->in[0].data, p);
}

static gop_launch launch_of(int item)
{
    return item == 4   ? transpose_bulk<uint32_t>
           : item == 8 ? transpose_bulk<uint64_t>
                       : transpose_bulk<complex128>;
}
#else
static gop_launch launch_of(int)
{
    return nullptr;
}
#endif

static gop_status transpose_bulk_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    gop_permutation g = task->geometry.permutation;
    tiling_plan &t = *GOP_OWN(tiling_plan, plan);
    GOP_TRY(gop_has_sm90(ctx, "transpose: the bulk kernel",
                         "whose Tensor Memory Accelerator moves rows"));
    const int item = transpose_widen(task, &g), side = item == 4 ? 64 : 32;
    plan->launch = launch_of(item);
    GOP_TRY(transpose_tiling("bulk", g, side, side, 0, &t));
    return transpose_rows_of_16("bulk", task, t.all, item);
}

extern const gop_row transpose_bulk_row = {
    .name = "bulk",
    .note = "rows move to and from shared memory by TMA, without a register or "
            "a load of a thread",
    .role = GOP_CONFORMING,
    .plan = transpose_bulk_plan,
    .dtypes = GOP_SM90 ? TRANSPOSE_LARGE : 0,
    .imagined = TRANSPOSE_LARGE,
};
