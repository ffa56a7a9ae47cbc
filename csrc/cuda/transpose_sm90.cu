/*
 * transpose_sm90.cu - the transpose row whose rows are moved by the copy engine of a processor.
 *
 * GPUs of compute capability 9.0 and later copy a row of a tile between memory and shared
 * memory at the word of one thread, without a register or a load or store of it; a barrier in
 * shared memory counts the bytes that have arrived. What the threads still do is to turn the
 * tile, from one place in shared memory to another.
 */
#include "cuda/transpose.h"

/* ---- bulk ----
 * A thread fetches a row, the block turns the tile, a thread writes a row. The threads of one
 * turn of shared memory move 8 items along y by N along x, N being the items of 16 bytes. Rows
 * as they come are N items longer than the tile, rows as they go 8: so both times these threads
 * meet every bank once, and every row still starts at a multiple of 16 bytes. */

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#define HAS_ENGINE 0 /* code for other GPUs, where the row refuses: the same by hand */
#else
#define HAS_ENGINE 1
#endif

GOP_DEVICE uint32_t shared_address(const void *at)
{
    return (uint32_t)__cvta_generic_to_shared(at);
}

/* One thread arrives at the barrier, and says how many bytes will. */
GOP_DEVICE void expect(uint64_t *barrier, int bytes)
{
#if HAS_ENGINE
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(barrier)));
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
        "r"(bytes)
        : "memory");
#endif
}

GOP_DEVICE void wait(uint64_t *barrier)
{
#if HAS_ENGINE
    uint32_t arrived = 0;
    while (!arrived)
        asm volatile("{\n"
                     ".reg .pred done;\n"
                     "mbarrier.try_wait.parity.shared::cta.b64 done, [%1], 0;\n"
                     "selp.u32 %0, 1, 0, done;\n"
                     "}"
                     : "=r"(arrived)
                     : "r"(shared_address(barrier))
                     : "memory");
#else
    __syncthreads();
#endif
}

/* Addresses and bytes are multiples of 16. */
GOP_DEVICE void fetch_row(void *to, const void *from, int bytes, uint64_t *barrier)
{
#if HAS_ENGINE
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::"
                 "bytes [%0], [%1], %2, "
                 "[%3];" ::"r"(shared_address(to)),
                 "l"(from), "r"(bytes), "r"(shared_address(barrier))
                 : "memory");
#else
    for (int i = 0; i < bytes / 16; i++) ((uint4 *)to)[i] = ((const uint4 *)from)[i];
#endif
}

GOP_DEVICE void write_row(void *to, const void *from, int bytes)
{
#if HAS_ENGINE
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to),
                 "r"(shared_address(from)), "r"(bytes)
                 : "memory");
#else
    for (int i = 0; i < bytes / 16; i++) ((uint4 *)to)[i] = ((const uint4 *)from)[i];
#endif
}

/* What the threads stored is there for the engine; */
GOP_DEVICE void publish(void)
{
#if HAS_ENGINE
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

/* and the engine has read what this thread gave it. */
GOP_DEVICE void finish_writes(void)
{
#if HAS_ENGINE
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
#endif
}

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

    if (i == 0) expect(&barrier, nx * ny * (int)sizeof(T));
    __syncthreads();
    if (i < ny)
        fetch_row(came + i * B::IN_ROW, in + t.from + run_offset(p.y, t.y + i) + t.x,
                  nx * (int)sizeof(T), &barrier);
    wait(&barrier);

    const int y = i % 8, x = i / 8 % B::N;
#pragma unroll 8
    for (int k = i / (8 * B::N); k < B::SIDE / 8 * (B::SIDE / B::N); k += B::GROUPS) {
        const int j = k % (B::SIDE / 8) * 8 + y, l = k / (B::SIDE / 8) * B::N + x;
        goes[l * B::OUT_ROW + j] = came[j * B::IN_ROW + l];
    }
    publish();
    __syncthreads();
    if (i < nx)
        write_row(out + t.to + run_offset(p.x, t.x + i) + t.y, goes + i * B::OUT_ROW,
                  ny * (int)sizeof(T));
    finish_writes();
}

template <typename T>
static gop_status bulk(gop_ctx *ctx, const gop_task *task, const tiling &p)
{
    if (p.tiles == 0) return GOP_OK;
    return GOP_LAUNCH(ctx, transpose_bulk_kernel<T>, dim3((unsigned)p.tiles),
                      bulk_tile<T>::THREADS, 0, (T *)task->out[0].data,
                      (const T *)task->in[0].data, p);
}

/* The item may have grown: neighbours that stay neighbours move as one. */
static int plan_bulk(const gop_task *task, tiling *p, gop_status *status)
{
    gop_permutation g = task->geometry.permutation;
    const int item = transpose_widen(task, &g), side = item == 4 ? 64 : 32;
    *status = transpose_tiling("bulk", g, side, side, 0, p);
    return item;
}

gop_status transpose_bulk(gop_ctx *ctx, const gop_task *task, int64_t)
{
    tiling p;
    gop_status status;
    const int item = plan_bulk(task, &p, &status);
    GOP_TRY(status);
    switch (item) {
    case 4:
        return bulk<uint32_t>(ctx, task, p);
    case 8:
        return bulk<uint64_t>(ctx, task, p);
    default:
        return bulk<complex128>(ctx, task, p);
    }
}

gop_status transpose_takes_bulk(const gop_ctx *ctx, const gop_task *task)
{
    tiling p;
    gop_status status;
    if (ctx->info.major < 9)
        return gop_fail(GOP_REFUSED,
                        "transpose: the bulk kernel takes a GPU of compute capability 9.0 or "
                        "later, whose copy engine moves rows, got %d.%d",
                        ctx->info.major, ctx->info.minor);
    const int item = plan_bulk(task, &p, &status);
    GOP_TRY(status);
    return transpose_rows_of_16("bulk", task, p, item);
}
