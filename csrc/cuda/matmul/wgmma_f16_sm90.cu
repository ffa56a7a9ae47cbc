/*
 * wgmma_f16_sm90.cu - matmul of float16 and bfloat16 by the tensor cores, operands by tensor
 * maps.
 *
 * TMA fetches tiles of 64 terms into a ring in shared memory; two warpgroups multiply from
 * there, and no thread loads. Tensor cores truncate sums instead of rounding: every 128 terms a
 * sum is added to float32 registers. Two blocks of a cluster share rows of a, and each fetches
 * half of them for both. The warpgroups take turns: one adds while the other multiplies.
 */
#include "cuda/matmul/wgmma_f16.h"
#include "cuda/common/pipeline.h"
#include "cuda/common/cluster.h"
#include "cuda/common/wgmma.h"

/* The plan: tiles, partial sums, and where copied operands lie. */
struct wgmma_f16_plan {
    straight_operand a, b, out;
    size_t b_copy, partials; /* offsets into scratch */
    matmul_schedule schedule;
    int per_step;
};

#if GOP_SM90

template <typename T> constexpr bool IS_HALF = false;
template <> constexpr bool IS_HALF<float16> = true;

/* One thread keeps the ring full. */
template <int WAVES, int CLUSTER, bool A_TRANSPOSED, bool B_TRANSPOSED> GOP_DEVICE void
fetch_tiles(const wgmma_f16_work &w, uint8_t *slots, uint64_t *full, uint64_t *empty, int rank)
{
    typedef ring<WAVES> R;
    int slot = 0;
    uint32_t parity = 1; /* at first all slots are free */
    for (int it = w.first + blockIdx.x / CLUSTER; it < w.last; it += gridDim.x / CLUSTER) {
        const tile_item i = tile_item_of<R::TILE_M, TILE_N * CLUSTER>(w.schedule, it);
        const int za = w.a_batch ? i.batch : 0, zb = w.b_batch ? i.batch : 0;
        for (int s = i.first * PROMOTED; s < i.last * PROMOTED; s++) {
            const int l = s * TILE_K, n = i.j0 + rank * TILE_N;
            uint8_t *const a = slots + slot * R::SLOT, *const b = a + R::A_BYTES;
            mbarrier_wait(empty + slot, parity);
            mbarrier_arrive_expect_tx(full + slot, R::SLOT);
            if (A_TRANSPOSED) {
                for (int c = 0; c < 2 * WAVES / CLUSTER; c++) {
                    const int part = rank * (2 * WAVES / CLUSTER) + c;
                    tma_load(a + part * TILE_K * 128, &w.a, i.i0 + part * 64, l, za,
                             full + slot, (1 << CLUSTER) - 1);
                }
            } else {
                const int rows = R::TILE_M / CLUSTER;
                tma_load(a + rank * rows * 128, &w.a, l, i.i0 + rank * rows, za, full + slot,
                         (1 << CLUSTER) - 1);
            }
            if (B_TRANSPOSED) {
                tma_load(b, &w.b, n, l, zb, full + slot, 1);
                tma_load(b + TILE_K * 128, &w.b, n + 64, l, zb, full + slot, 1);
            } else {
                tma_load(b, &w.b, l, n, zb, full + slot, 1);
            }
            pipeline_advance<R::SLOTS>(slot, parity);
        }
    }
}

/* Two neighbours of a row, each rounded once. */
template <typename T> GOP_DEVICE uint32_t two_of(float first, float second)
{
    uint32_t both;
    if (!IS_HALF<T>)
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
    else asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
    return both;
}

/* Writes a wave's 64 x 128 results. A thread has columns 8 j + 2 (lane % 4) and the next of
 * rows 16 warp + lane / 4 and eight below, in sum[4 j ...]. They leave in halves of 64 columns,
 * by the two halves of `results`: one is written while the other is filled. */
template <typename T> GOP_DEVICE void write_tile(const wgmma_f16_work &w,
                                                 const float (&sum)[64], uint8_t *results,
                                                 int m, int n, int batch)
{
    const int thread = threadIdx.x % GROUP_THREADS, lane = thread % 32, warp = thread / 32;
    const int row = warp * 16 + lane % 16, side = lane / 16;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        uint8_t *const to = results + half * 64 * 128;
        if (thread == 0) tma_store_wait_read<1>();
        group_wait((int)threadIdx.x / GROUP_THREADS);
#pragma unroll
        for (int j = 0; j < 8; j += 2) {
            const float *const from = sum + 32 * half + 4 * j;
            uint32_t q[4];
#pragma unroll
            for (int e = 0; e < 4; e++) q[e] = two_of<T>(from[2 * e], from[2 * e + 1]);
            stmatrix(to + row * 128 + ((j + side) ^ (row % 8)) * 16, q);
        }
        fence_proxy_async();
        group_wait((int)threadIdx.x / GROUP_THREADS);
        if (thread == 0) tma_store(&w.out, n + 64 * half, m, batch, to);
    }
}

/* Writes element by element, to any strides. */
template <typename T> GOP_DEVICE void
write_elements(const wgmma_f16_work &w, const float (&sum)[64], int m, int n, int batch)
{
    const int thread = threadIdx.x % GROUP_THREADS, lane = thread % 32;
    T *const out = (T *)w.direct + batch * w.out_batch;
#pragma unroll
    for (int e = 0; e < 64; e++) {
        const int64_t r = m + thread / 32 * 16 + lane / 4 + e / 2 % 2 * 8;
        const int64_t c = n + e / 4 * 8 + lane % 4 * 2 + e % 2;
        if (r < w.m && c < w.n) put(out + r * w.out_row + c * w.out_col, sum[e]);
    }
}

/* Writes to scratch, where lines are as long as a cluster's tile. */
GOP_DEVICE void write_partial(float *partial, const float (&sum)[64], int row, int line)
{
    const int thread = threadIdx.x % GROUP_THREADS, lane = thread % 32;
    row += thread / 32 * 16 + lane / 4;
#pragma unroll
    for (int e = 0; e < 64; e += 2)
        *(float2 *)(partial + (row + e / 2 % 2 * 8) * line + e / 4 * 8 + lane % 4 * 2) =
            make_float2(sum[e], sum[e + 1]);
}

template <typename T, int WAVES, int CLUSTER, bool A_TRANSPOSED, bool B_TRANSPOSED>
GOP_DEVICE void multiply_tiles(const wgmma_f16_work &w, uint8_t *slots, uint64_t *full,
                               uint64_t *empty, uint64_t *ping_pong, int rank)
{
    typedef ring<WAVES> R;
    const int group = __shfl_sync(~0u, (int)threadIdx.x / GROUP_THREADS - 1, 0);
    const int lane = threadIdx.x % 32;
    uint8_t *const results = slots + R::SLOTS * R::SLOT + group * R::RESULTS;
    const uint64_t a =
        make_smem_desc(shared_address(slots) + group * WAVES * 64 * 128, 16, 1024, 1);
    const uint64_t b = make_smem_desc(shared_address(slots) + R::A_BYTES,
                                      B_TRANSPOSED ? TILE_K * 128 : 16, 1024, 1);
    int slot = 0;
    uint32_t parity = 0, mine = group == 0; /* the first group begins without being told to */
    for (int it = w.first + blockIdx.x / CLUSTER; it < w.last; it += gridDim.x / CLUSTER) {
        const tile_item i = tile_item_of<R::TILE_M, TILE_N * CLUSTER>(w.schedule, it);
        float sum[WAVES][64];
#pragma unroll
        for (int v = 0; v < WAVES; v++)
#pragma unroll
            for (int e = 0; e < 64; e++) sum[v][e] = 0;
        for (int stage = i.first; stage < i.last; stage++) {
#pragma unroll
            for (int v = 0; v < WAVES; v++) {
                float part[64];
                if (v == 0) mbarrier_wait(full + slot, parity);
                mbarrier_wait(ping_pong + group, mine);
                mine ^= 1;
                wgmma_fence();
#pragma unroll
                for (int s = 0; s < PROMOTED; s++) {
                    if (v == 0 && s > 0) mbarrier_wait(full + slot + s, parity);
#pragma unroll
                    for (int l = 0; l < TILE_K / 16; l++) {
                        const int at = (slot + s) * R::SLOT;
                        const int la = A_TRANSPOSED ? l * 2048 : l * 32;
                        const int lb = B_TRANSPOSED ? l * 2048 : l * 32;
                        wgmma_add<IS_HALF<T>, A_TRANSPOSED, B_TRANSPOSED>(
                            part, a + (at + v * 64 * 128 + la) / 16, b + (at + lb) / 16,
                            s > 0 || l > 0);
                    }
                }
                wgmma_commit();
                if (lane == 0) mbarrier_arrive_cluster(ping_pong + 1 - group, rank);
                wgmma_wait();
                if (v == WAVES - 1 && lane < CLUSTER)
#pragma unroll
                    for (int s = 0; s < PROMOTED; s++)
                        mbarrier_arrive_cluster(empty + slot + s, lane);
#pragma unroll
                for (int e = 0; e < 64; e++) sum[v][e] += part[e];
            }
            slot += PROMOTED;
            if (slot == R::SLOTS) slot = 0, parity ^= 1;
        }
#pragma unroll
        for (int v = 0; v < WAVES; v++) {
            const int m = i.i0 + (group * WAVES + v) * 64, n = i.j0 + rank * TILE_N;
            if (i.part >= 0)
                write_partial(w.partials + (int64_t)i.part * R::TILE_M * TILE_N * CLUSTER +
                                  rank * TILE_N,
                              sum[v], (group * WAVES + v) * 64, TILE_N * CLUSTER);
            else if (w.direct) write_elements<T>(w, sum[v], m, n, i.batch);
            else if (m < w.m && n < w.n) write_tile<T>(w, sum[v], results, m, n, i.batch);
        }
    }
    tma_store_wait_read<0>();
}

template <typename T, int WAVES, int CLUSTER, bool A_TRANSPOSED, bool B_TRANSPOSED>
__global__ void GOP_CLUSTERS __launch_bounds__(BLOCK_THREADS, 1)
    matmul_wgmma_f16_kernel(const __grid_constant__ wgmma_f16_work w)
{
    typedef ring<WAVES> R;
    extern __shared__ uint8_t memory[];
    uint8_t *const slots = memory + (1024 - shared_address(memory) % 1024) % 1024;
    uint64_t *const full = (uint64_t *)(slots + R::SLOTS * R::SLOT + 2 * R::RESULTS);
    uint64_t *const empty = full + R::SLOTS, *const ping_pong = empty + R::SLOTS;
    const int rank = CLUSTER > 1 ? cluster_rank() : 0;
    if (threadIdx.x == 0) {
        pipeline_init<R::SLOTS>(full, 1, empty,
                                8 * CLUSTER); /* consumer warps of the cluster */
        mbarrier_init(ping_pong, 4), mbarrier_init(ping_pong + 1, 4);
        fence_mbarrier_release();
        fence_proxy_async();
    }
    if (CLUSTER > 1) cluster_sync();
    else __syncthreads();
    if (threadIdx.x < GROUP_THREADS) {
        setmaxnreg_dec<40>();
        if (threadIdx.x == 0)
            fetch_tiles<WAVES, CLUSTER, A_TRANSPOSED, B_TRANSPOSED>(w, slots, full, empty,
                                                                    rank);
        __syncwarp();
    } else {
        setmaxnreg_inc<232>();
        multiply_tiles<T, WAVES, CLUSTER, A_TRANSPOSED, B_TRANSPOSED>(w, slots, full, empty,
                                                                      ping_pong, rank);
    }
    if (CLUSTER > 1) cluster_sync(); /* the other block may still write to this one */
}

/* Adds the partial sums, first to last: a block has eight rows of a tile. */
template <typename T, int TILE_M, int WIDTH> __global__ void __launch_bounds__(256)
    matmul_wgmma_f16_partials_kernel(const __grid_constant__ wgmma_f16_work w)
{
    const int tile = blockIdx.x, each = TILE_M * WIDTH;
    const tile_item i = tile_item_of<TILE_M, WIDTH>(w.schedule, w.schedule.whole + tile);
    const int row = blockIdx.y * 8 + threadIdx.x / 32;
    const int64_t r = i.i0 + row, n = i.j0;
    if (r >= w.m) return;
    T *const out = (T *)w.results + i.batch * w.out_batch + r * w.out_row;
    const float *const from = w.partials + (int64_t)tile * each + row * WIDTH;
    for (int c = threadIdx.x % 32; c < WIDTH && n + c < w.n; c += 32) {
        float sum = from[c];
        for (int s = 1; s < w.schedule.slices; s++)
            sum += from[(int64_t)s * gridDim.x * each + c];
        put(out + (n + c) * w.out_col, sum);
    }
}

template <typename T, int WAVES, int CLUSTER> static gop_status
launch_tiles(gop_ctx *ctx, const wgmma_f16_plan &plan, const wgmma_f16_work &w)
{
    const int slots = ctx->info.processors / CLUSTER, items = w.last - w.first;
    const gop_cuda_grid grid((items < slots ? items : slots) * CLUSTER, CLUSTER);
    const size_t shared = ring<WAVES>::BYTES;
    gop_status status = GOP_OK;
#define GO(at, bt)                                                                             \
    if (plan.a.transposed == at && plan.b.transposed == bt)                                    \
        status = GOP_LAUNCH(ctx, (matmul_wgmma_f16_kernel<T, WAVES, CLUSTER, at, bt>), grid,   \
                            BLOCK_THREADS, shared, w);
    GO(false, false)
    GO(false, true)
    GO(true, false)
    GO(true, true)
#undef GO
    const int rest = w.schedule.tiles - w.schedule.whole;
    if (status != GOP_OK || rest == 0 || w.last < w.schedule.items) return status;
    const int tile_m = ring<WAVES>::TILE_M;
    return GOP_LAUNCH(ctx, (matmul_wgmma_f16_partials_kernel<T, tile_m, TILE_N * CLUSTER>),
                      dim3((unsigned)rest, (unsigned)tile_m / 8), 256, 0, w);
}

template <typename T>
static gop_status matmul_wgmma_f16(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const wgmma_f16_plan &plan = *GOP_OWN(const wgmma_f16_plan, task->plan);
    const matmul_schedule &t = plan.schedule;
    const gop_gemm &g = task->geometry.gemm;
    char *const scratch = (char *)task->scratch;
    const void *a = task->in[0].data, *b = task->in[1].data;
    if (plan.a.copied) {
        if (step == 0) GOP_TRY(straighten(ctx, plan.a, g, false, a, scratch));
        a = scratch;
    }
    if (plan.b.copied) {
        if (step == 0) GOP_TRY(straighten(ctx, plan.b, g, true, b, scratch + plan.b_copy));
        b = scratch + plan.b_copy;
    }
    const straight_operand &out = plan.out;
    wgmma_f16_work w = {};
    w.m = g.m, w.n = g.n;
    w.out_row = g.out_row, w.out_col = g.out_col, w.out_batch = out.batch;
    w.a_batch = plan.a.batches > 1, w.b_batch = plan.b.batches > 1;
    w.schedule = t;
    w.first = (int)step * plan.per_step;
    w.last = t.items - w.first < plan.per_step ? t.items : w.first + plan.per_step;
    w.results = task->out[0].data;
    w.partials = (float *)(scratch + plan.partials);
    GOP_TRY(straight_map(&w.a, plan.a, a, plan.a.transposed ? 64 : 128 * t.waves / t.cluster));
    GOP_TRY(straight_map(&w.b, plan.b, b, plan.b.transposed ? 64 : TILE_N));
    if (out.copied) w.direct = w.results;
    else GOP_TRY(straight_map(&w.out, out, w.results, 64));
    if (t.waves == 2) return launch_tiles<T, 2, 2>(ctx, plan, w);
    if (t.cluster == 2) return launch_tiles<T, 1, 2>(ctx, plan, w);
    return launch_tiles<T, 1, 1>(ctx, plan, w);
}

static gop_launch launch_of(gop_dtype dtype)
{
    return dtype == GOP_FLOAT16 ? matmul_wgmma_f16<float16> : matmul_wgmma_f16<bfloat16>;
}
#else
static gop_launch launch_of(gop_dtype)
{
    return nullptr;
}
#endif

static gop_status wgmma_f16_takes(const gop_ctx *ctx, const gop_gemm &g)
{
    GOP_TRY(gop_has_wgmma(ctx, "matmul: kernel 'wgmma_f16'"));
    if (g.m <= 32 || g.n <= 32 || g.k < 32 || g.m > INT32_MAX / 2 || g.n > INT32_MAX / 2 ||
        g.k > INT32_MAX / 2 || g.batches > INT32_MAX / 32)
        return gop_fail(GOP_REFUSED,
                        "matmul: kernel 'wgmma_f16' takes products of more than 32 rows and "
                        "columns, of at least 32 terms, got (%lld, %lld) of %lld terms",
                        (long long)g.m, (long long)g.n, (long long)g.k);
    GOP_TRY(matmul_takes_batch(g, "wgmma_f16"));
    if (uniform_batch(g, g.out) < 0)
        return gop_fail(GOP_REFUSED, "matmul: kernel 'wgmma_f16' takes an output whose "
                                     "products lie one stride apart");
    const double tiles = (double)((g.m + 127) / 128) * (double)((g.n + 127) / 128);
    if (tiles * (double)g.batches > 1e8)
        return gop_fail(GOP_REFUSED, "matmul: kernel 'wgmma_f16' takes at most 10^8 tiles of "
                                     "128 x 128 results");
    return GOP_OK;
}

static gop_status matmul_wgmma_f16_plan(const gop_ctx *ctx, const gop_task *task,
                                        gop_plan *plan)
{
    const gop_gemm &g = task->geometry.gemm;
    GOP_TRY(wgmma_f16_takes(ctx, g));
    wgmma_f16_plan *p = GOP_OWN(wgmma_f16_plan, plan);
    matmul_schedule &t = p->schedule;
    matmul_choose_schedule(ctx, g, of_itself(task->call), &t);
    p->a = straight_operand_of(g, g.a, task->in[0].data, g.m, g.a_row, g.a_col);
    p->b = straight_operand_of(g, g.b, task->in[1].data, g.n, g.b_col, g.b_row);
    p->out = straight_result(g, task->out[0].data);
    p->b_copy = straight_bytes(p->a);
    p->partials = p->b_copy + straight_bytes(p->b);
    plan->scratch = p->partials + matmul_partials_bytes(t);
    /* Some 50 ms a step. */
    const double fit = 2.5e13 / (2.0 * 128 * TILE_N * t.waves * t.cluster * (double)g.k);
    p->per_step = fit < 1 ? 1 : fit < (double)t.items ? (int)fit : t.items;
    plan->steps = (t.items + p->per_step - 1) / p->per_step;
    plan->launch = launch_of(task->in[0].dtype);
    return GOP_OK;
}

#define DTYPES (UINT32_C(1) << GOP_FLOAT16 | UINT32_C(1) << GOP_BFLOAT16)

extern const gop_row matmul_wgmma_f16_row = {
    .name = "wgmma_f16",
    .note = "tensor cores multiply what TMA put into shared memory, 64 x 128 x 16 "
            "products an instruction; sums move to float32 registers every 128 terms",
    .role = GOP_CONFORMING,
    .plan = matmul_wgmma_f16_plan,
    .dtypes = GOP_SM90 ? DTYPES : 0,
    .imagined = DTYPES,
    .before = "warpgroup",
};
