/*
 * skinny_wgmma_sm90.cu - matmul of float32 with some columns: the large operand is split in
 * registers.
 *
 * To write a large operand's pieces and to read them again takes three times as long as to read
 * it; with a hundred columns that is longer than multiplying. Here four warps copy it as it
 * lies into a ring in shared memory, and the warps that multiply split it in registers, from
 * which wgmma takes one operand. Only the small operand is packed.
 */
#include "cuda/matmul/lines.h"
#include "cuda/matmul/gemm_sm90.h"

struct skinny_wgmma_job {
    int64_t items, tiles, stages; /* tiles of columns; stages of a whole sum */
    int wide, pairs;
    const uint8_t *factors;
    unsigned *wanted;
};

struct skinny_wgmma_plan {
    thin_cut cut;
    skinny_wgmma_job job;
    int64_t each; /* threads that pack a product's small operand */
    size_t at_wanted;
};

#if GOP_SM90

/* A block: 128 lines by 128 columns, 32 reals of each a stage. */
template <typename T, bool ALONG> struct skinny_wgmma_shape {
    enum { LINES = RING_LINES, ITEM = sizeof(T), PARTS = ITEM / 4, TERMS = 32 / PARTS };
    enum {
        A_BYTES =
            ALONG ? LINES * RING_LINE_BYTES : (TERMS * ring_pitch<T>() + 1023) / 1024 * 1024
    };
    enum { B_PIECE = 8192, B_BYTES = 3 * B_PIECE, BYTES = A_BYTES + B_BYTES };
    typedef gemm_ring<5, BYTES> ring;
};

/* Images of the small operand as in bf16x3_parts.h, but the terms in the order of ring_term. */
template <typename T, bool ALONG>
__global__ void matmul_skinny_wgmma_pack_kernel(const matmul_product<T> p, uint8_t *to,
                                                int64_t stages, int64_t each, unsigned *wanted)
{
    enum { GROUPS = SKINNY_WGMMA_COLUMNS / 8 };
    launch_dependents();
    if (blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0) *wanted = 0;
    const int64_t at = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= each) return;
    const int c = at % GROUPS, row = at / GROUPS % 32, r = row % 16;
    const int64_t stage = at / GROUPS / 32 % stages, tile = at / GROUPS / 32 / stages;
    const int64_t l =
        stage * 32 + row / 16 * 16 + ring_term<T, ALONG>(r % 8 / 2, r / 8 * 2 + r % 2);
    for (int64_t batch = blockIdx.y; batch < p.part.batches; batch += gridDim.y) {
        const T *const b = p.b + matmul_batch(p.g, batch).b;
        float x[8];
#pragma unroll
        for (int e = 0; e < 8; e++) {
            x[e] = ring_factor(p.g, b, l, tile * SKINNY_WGMMA_COLUMNS + c * 8 + e);
            if (beyond_pieces<3>(x[e])) x[e] = gop_bits_to_float(0x7fc00000u);
        }
        put_pieces<3>(x,
                      to + (batch * each / GROUPS / 32 + tile * stages + stage) * 3 * 8192 +
                          c / 8 * 4096 + row * 128 + ((c ^ row) & 7) * 16,
                      8192);
    }
}

/* Waits until all lanes of a consumer warp have read. __syncwarp is slower here, for reasons
 * unknown; an arrival of each lane, which racecheck could follow, is slower still. */
GOP_DEVICE void skinny_wgmma_warp_meets(int warp)
{
#if GOP_WGMMA
    asm volatile("bar.sync %0, 32;" ::"r"(warp + 1) : "memory");
#endif
}

/* A block's tiles, whose sums are cut into chunks. */
template <typename shape, typename T> struct skinny_wgmma_tiles {
    struct block : thin_block {
        int64_t first, last; /* stages */
    };
    const matmul_product<T> &p;
    int64_t across, first, last, step;

    GOP_DEVICE block at(int64_t i) const
    {
        const thin_block of = thin_block_of(p, i, across, shape::LINES);
        return {of, of.begin / shape::TERMS, (of.end + shape::TERMS - 1) / shape::TERMS};
    }
};

/* Four warps copy the large operand into the ring, one thread the factors. */
template <typename shape, bool ALONG, typename T, typename TILES>
GOP_DEVICE void skinny_wgmma_feed(const matmul_product<T> &p, const skinny_wgmma_job &job,
                                  const typename shape::ring &ring, const TILES &tiles)
{
    const matmul_geometry &g = p.g;
    producer_mainloop(ring, tiles, [&](const auto &at) {
        const ring_lines<T, ALONG> a = {p.a + matmul_batch(g, at.batch).a + at.i0 * g.a_row,
                                        g.a_row,
                                        g.a_col,
                                        g.m - at.i0,
                                        at.end,
                                        job.wide ? 16 / shape::ITEM : 1};
        const uint8_t *const b =
            job.factors + (at.batch * job.tiles + at.tile) * job.stages * shape::B_BYTES;
        return [=](int64_t k, uint8_t *to, uint64_t *full) {
            if (threadIdx.x == 0) {
                mbarrier_arrive_expect_tx(full, shape::B_BYTES);
                cp_async_bulk_load(to + shape::A_BYTES, b + k * shape::B_BYTES, shape::B_BYTES,
                                   full);
            }
            a.template fetch<PRODUCERS>(to, k * shape::TERMS);
            cp_async_mbarrier_arrive(full);
        };
    });
}

/* Epilogue: a lane's sums, of `row` and eight rows further down, two columns of each eight. */
template <typename shape, typename T>
GOP_DEVICE void skinny_wgmma_store(const matmul_product<T> &p, const skinny_wgmma_job &job,
                                   const thin_block &at, const float (&sum)[64], int64_t row,
                                   int lane)
{
    const matmul_geometry &g = p.g;
    const int64_t column = at.tile * SKINNY_WGMMA_COLUMNS + lane % 4 * 2;
    const int64_t to =
        matmul_batch(g, at.batch).out + row * g.out_row + column / shape::PARTS * g.out_col;
    if (job.pairs && at.i0 + shape::LINES <= g.m &&
        (at.tile + 1) * SKINNY_WGMMA_COLUMNS <= g.n) {
        float *const up = (float *)p.out + at.chunk * p.part.split_stride + to;
        float *const down = up + 8 * g.out_row;
#pragma unroll
        for (int e = 0; e < 64; e += 4) {
            *reinterpret_cast<float2 *>(up + e * 2) = make_float2(sum[e], sum[e + 1]);
            *reinterpret_cast<float2 *>(down + e * 2) = make_float2(sum[e + 2], sum[e + 3]);
        }
        return;
    }
#pragma unroll
    for (int e = 0; e < 64; e += shape::PARTS) {
        const int i = e / 2 % 2 * 8, j = e / 4 * 8 + e % 2;
        if (row + i >= g.m || column + j >= g.n * shape::PARTS) continue;
        const int64_t here = to + i * g.out_row + j / shape::PARTS * g.out_col;
        if constexpr (shape::PARTS == 2) thin_put(p, here, at.chunk, {sum[e], sum[e + 1]});
        else thin_put(p, here, at.chunk, sum[e]);
    }
}

template <typename T, bool ALONG> __global__ void __launch_bounds__(BLOCK_THREADS, 1)
    matmul_skinny_wgmma_kernel(const matmul_product<T> p, const skinny_wgmma_job job)
{
#if GOP_WGMMA
    typedef skinny_wgmma_shape<T, ALONG> shape;
    const typename shape::ring ring;
    const skinny_wgmma_tiles<shape, T> tiles = {p, job.tiles, blockIdx.x, job.items, gridDim.x};
    if (threadIdx.x == 0) ring.init(PRODUCERS + 1, CONSUMERS / 32);
    __syncthreads();
    grid_dependency_sync();
    /* Consumers split a. */
    const auto multiply = [&] {
        const int t = threadIdx.x - PRODUCERS, lane = t % 32;
        const int first = t / 32 * 16; /* of a warp's lines */
        const uint64_t at_b =
            make_smem_desc(shared_address(ring.stages) + shape::A_BYTES, 4096, 1024, 1);
        uint32_t least = ~0u;
        float odd = 0.0f; /* NaN once a sum is an infinity or NaN */
        consumer_mainloop<typename shape::ring, 1, 64>(
            tiles,
            [&](float(&sum)[1][64], int s, uint32_t phase) {
                mbarrier_wait(ring.full + s, phase);
                uint32_t fa[2][3][4];
                split_lines<T, ALONG>(fa, ring.stages + s * shape::BYTES, first, lane, least);
                float part[64];
                multiply_lines<shape::B_PIECE, false>(part, fa, at_b, s * shape::BYTES);
                wgmma_finish();
                skinny_wgmma_warp_meets(t / 32);
                if (lane == 0) mbarrier_arrive(ring.empty + s);
                promote(sum[0], part);
            },
            [&](const auto &at, const float(&sum)[1][64]) {
#pragma unroll
                for (int e = 0; e < 64; e++) odd = fmaf(sum[0][e], 0.0f, odd);
                skinny_wgmma_store<shape>(p, job, at, sum[0], at.i0 + first + lane / 4, lane);
            });
        if (odd != 0.0f || least < 2 * gop_float_to_bits(IMAGE_SMALLEST) - 1) *job.wanted = 1;
    };
    gemm_specialise([&] { skinny_wgmma_feed<shape, ALONG>(p, job, ring, tiles); }, multiply);
#endif
}

template <typename T, bool ALONG>
static gop_status matmul_skinny_wgmma(gop_ctx *ctx, const gop_task *task, int64_t)
{
    typedef skinny_wgmma_shape<T, ALONG> shape;
    const skinny_wgmma_plan &plan = *GOP_OWN(const skinny_wgmma_plan, task->plan);
    const matmul_product<T> p = thin_product_of<T>(task, plan.cut);
    uint8_t *const factors = (uint8_t *)task->scratch + plan.cut.pack_at;
    skinny_wgmma_job job = plan.job;
    job.factors = factors;
    job.wanted = (unsigned *)((uint8_t *)task->scratch + plan.at_wanted);
    const matmul_geometry &g = p.g;
    const dim3 packers((unsigned)blocks_for(plan.each, 256),
                       (unsigned)(g.batches < 65535 ? g.batches : 65535));
    const bool added = plan.cut.split > 1; /* two kernels become one graph */
    GOP_TRY(GOP_LAUNCH_FOLLOWED(ctx, !added, (matmul_skinny_wgmma_pack_kernel<T, ALONG>),
                                packers, 256, 0, p, factors, job.stages, plan.each,
                                job.wanted));
    const int64_t most = ctx->info.processors;
    const unsigned blocks = (unsigned)(job.items < most ? job.items : most);
    if (added)
        GOP_TRY(GOP_LAUNCH_FOLLOWED(ctx, true, (matmul_skinny_wgmma_kernel<T, ALONG>), blocks,
                                    BLOCK_THREADS, shape::ring::SHARED, p, job));
    else
        GOP_TRY(GOP_LAUNCH_EARLY(ctx, (matmul_skinny_wgmma_kernel<T, ALONG>), blocks,
                                 BLOCK_THREADS, shape::ring::SHARED, p, job));
    GOP_TRY(thin_add_partials<T>(ctx, task, p.part));
    matmul_part whole = matmul_whole(task->geometry.gemm);
    whole.wanted = job.wanted;
    return matmul_launch_blocks<T, T>(ctx, matmul_product_of<T>(task, whole));
}

static gop_launch launch_of(gop_dtype dtype, int along)
{
    if (dtype == GOP_FLOAT32)
        return along ? matmul_skinny_wgmma<float, true> : matmul_skinny_wgmma<float, false>;
    return along ? matmul_skinny_wgmma<complex64, true> : matmul_skinny_wgmma<complex64, false>;
}
#endif

static gop_status matmul_skinny_wgmma_plan(const gop_ctx *ctx, const gop_task *task,
                                           gop_plan *plan)
{
    GOP_TRY(gop_has_wgmma(ctx, "matmul: kernel 'skinny_wgmma'"));
    skinny_wgmma_plan *const p = GOP_OWN(skinny_wgmma_plan, plan);
    *p = {};
    const gop_gemm g = thin_geometry(task, &p->cut.swapped);
    const int64_t parts = matmul_item(task) / 4;
    GOP_TRY(thin_takes(g, "skinny_wgmma", SKINNY_WGMMA_MOST));
    if (of_itself(task->call))
        return gop_fail(GOP_REFUSED,
                        "matmul: kernel 'skinny_wgmma' takes arrays that are not each "
                        "other's transpose, whose product is symmetric");
    const double terms_of_all = (double)g.batches * (double)g.m * (double)g.n * (double)g.k;
    if (terms_of_all * (double)(parts * parts) > (double)ctx->info.processors * 3.5e10)
        return gop_fail(GOP_REFUSED,
                        "matmul: kernel 'skinny_wgmma' takes products of some 100 ms at "
                        "most, as it computes one in one step");
    const int along = gop_magnitude(g.a_col) <= gop_magnitude(g.a_row);
    skinny_wgmma_job &job = p->job;
    job.wide = thin_wide(task, g, p->cut.swapped ? 1 : 0, along);
    thin_cut &cut = p->cut;
    matmul_tiling &tiling = cut;
    tiling = skinny_wgmma_tiling(thin_tiling_of(ctx, task, g, job.wide));
    cut.packed = false; /* thin_pack is not used */
    job.tiles = blocks_for(g.n * parts, SKINNY_WGMMA_COLUMNS);
    job.stages = blocks_for(g.k, cut.step);
    p->each = job.tiles * job.stages * 32 * (SKINNY_WGMMA_COLUMNS / 8);
    job.items = cut.blocks;
    const matmul_product<float> to = thin_product_of<float>(task, cut); /* out, or scratch */
    job.pairs = parts == 1 && to.g.out_col == 1 && to.g.out_row % 2 == 0 &&
                (uintptr_t)to.out % 8 == 0 && to.part.split_stride % 2 == 0;
    for (int axis = 0; axis < g.batch_rank; axis++) job.pairs &= to.g.out[axis] % 2 == 0;
    thin_scratch(task, g, &cut, plan);
    p->at_wanted = cut.pack_at + (size_t)(g.batches * job.tiles * job.stages * 3 * 8192);
    plan->scratch = p->at_wanted + 256;
    plan->launch = GOP_NATIVE_LAUNCH(launch_of(task->in[0].dtype, along));
    return GOP_OK;
}

extern const gop_row matmul_skinny_wgmma_row = {
    .name = "skinny_wgmma",
    .note = "few columns beside a far larger operand: float32 split into three bfloat16 in "
            "registers, which wgmma takes, and never written",
    .role = GOP_CONFORMING,
    .plan = matmul_skinny_wgmma_plan,
    GOP_NATIVE_DTYPES(1u << GOP_FLOAT32 | 1u << GOP_COMPLEX64),
    .before = "raw",
};
