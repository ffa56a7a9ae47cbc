/*
 * bf16x3_sm90.cu - matmul of float32 by wgmma in one launch: nothing is packed.
 *
 * bf16x3_packed writes packed copies of the operands to memory and reads them again. With a few
 * hundred to a few thousand rows that is hardly worth it. Here TMA brings both operands as they
 * lie into a ring of stages in shared memory. Producer warps split b's numbers into three
 * bfloat16 there. Consumer warps split a's in registers, from which wgmma takes them. Where
 * tiles are few, the blocks of a cluster share an output's sum, and read each other's part from
 * shared memory. Where the last wave of tiles would leave SMs idle, its sums are split along k,
 * and a second kernel adds the partial sums.
 *
 * A number that three bfloat16 cannot hold makes a sum NaN, or the lane that splits it notices.
 * Then the block computes its outputs again, term by term.
 */
#include "cuda/matmul/bf16x3_parts.h"
#include "cuda/matmul/gemm_sm90.h"
#include "cuda/matmul/straight.h"

enum { BF16X3_TERMS = 32 }; /* of a stage */

/* A block: 128 W lines of a by N columns of b. A stage is a's numbers, b's, and b's pieces. */
template <int N, int W> struct bf16x3_shape {
    enum { LINES = 128 * W, SUMS = N / 2, CHUNKS = W * SUMS / 4, PIECE = N * 64 };
    enum { A_BYTES = LINES * 128, RAW = A_BYTES + N * 128, BYTES = RAW + 3 * PIECE };
    enum { STAGES = N == 64 ? 6 : W == 1 ? 4 : 3 };
    /* Stages that are fetched ahead. A stage is split once all stages before it, but one, have
     * been multiplied. */
    enum { AHEAD = N == 64 ? 3 : STAGES - 2 };
    enum { FEED = W == 2 ? 40 : 56, MULTIPLY = W == 2 ? 232 : 224 }; /* registers */
};

struct bf16x3_job : tile_schedule {
    int a_batch, b_batch; /* whether the operand differs from product to product */
    int pairs;
    float4 *parts; /* of sums that were cut */
    unsigned *odd;
};

struct bf16x3_work {
    gop_cuda_tensor_map a, b;
    straight_product<float> p;
    bf16x3_job job;
};

enum { BF16X3_CLUSTER = 3 }; /* blocks that may share a sum */

struct bf16x3_plan {
    bf16x3_job job;
    straight_operand a, b;
    size_t odd; /* in the scratch memory */
    int columns, waves, cluster;
    double time;
};

#if GOP_SM90

/* Behind the ring: a barrier for each stage that has been copied but not split, two by which
 * the consumer warpgroups take turns, and whether the block met numbers beyond the pieces. */
template <int N, int W> using bf16x3_ring =
    gemm_ring<bf16x3_shape<N, W>::STAGES, bf16x3_shape<N, W>::BYTES,
              bf16x3_shape<N, W>::STAGES * 8 + 64>;

/* ---- a's numbers: lines of 32 terms, or terms of 32 lines, in swizzled rows ---- */

/* Row lane / 4 of a fragment is this line of eight: lanes that read at once meet all banks. */
GOP_DEVICE int bf16x3_line(int lane)
{
    return lane / 4 % 4 * 2 + lane / 16;
}

/* A warp's 16 lines of a stage from `first` on, as factors. */
template <bool ALONG> GOP_DEVICE void bf16x3_split_a(uint32_t (&piece)[2][3][4],
                                                     const uint8_t *a, int first, int lane,
                                                     uint32_t &least)
{
    const int q = lane % 4, line = bf16x3_line(lane);
#pragma unroll
    for (int half = 0; half < 2; half++) {
        uint32_t low[4], high[4];
#pragma unroll
        for (int pair = 0; pair < 2; pair++) {
            if (ALONG) {
                const uint8_t *const at = a + (first + line) * 128 + q % 2 * 8 +
                                          ((half * 4 + pair * 2 + q / 2) ^ line) * 16;
                __builtin_memcpy(low + pair * 2, __builtin_assume_aligned(at, 8), 8);
                __builtin_memcpy(high + pair * 2, __builtin_assume_aligned(at + 1024, 8), 8);
            } else {
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    const int l = half * 16 + pair * 8 + q * 2 + i;
                    const uint8_t *const at = a + first / 32 * 4096 + l * 128 + line % 4 * 4;
                    const int chunk = (first % 32 + line) / 4 ^ (q * 2 + i);
                    __builtin_memcpy(low + pair * 2 + i,
                                     __builtin_assume_aligned(at + chunk * 16, 4), 4);
                    __builtin_memcpy(high + pair * 2 + i,
                                     __builtin_assume_aligned(at + (chunk ^ 2) * 16, 4), 4);
                }
            }
        }
        split_eight(low, high, piece[half], least);
    }
}

/* ---- b's numbers: terms of 32 columns, or columns of 32 terms ---- */

/* Writes the pieces of a stage, as wgmma wants them: terms of 64 columns, or
 * columns of 32 terms. A number that pieces cannot hold becomes NaN. A thread splits eight
 * neighbours at a time; those that read or write at once meet all banks. */
template <int N, bool ALONG> GOP_DEVICE void bf16x3_split_b(const uint8_t *b, uint8_t *pieces)
{
    const int t = threadIdx.x;
#pragma unroll 2
    for (int e = 0; e < N / 32; e++) {
        int from, odd, to;
        if (ALONG) {
            const int column = t % N, eight = N == 64 ? t / N * 2 + e : e;
            from = column * 128 + eight * 32;
            odd = column % 8 * 16;
            to = column * 64 + ((eight ^ column / 2) & 3) * 16;
        } else {
            const int q = t % 4, l = t / 8 * 2 ^ t / 4 % 2 * 5;
            from = e * 4096 + l * 128 + q * 32;
            odd = l % 8 * 16;
            to = e / 2 * 4096 + l * 128 + (((e % 2 * 4 + q) ^ l) & 7) * 16;
        }
        float x[8];
        uint32_t least = ~0u, piece[3][4];
#pragma unroll
        for (int i = 0; i < 8; i += 4) {
            const vec128<float> v = load128((const float *)(b + ((from + i * 4) ^ odd)));
#pragma unroll
            for (int c = 0; c < 4; c++) x[i + c] = v.at[c];
        }
#pragma unroll
        for (int i = 0; i < 8; i++) least = min(least, 2 * gop_float_to_bits(x[i]) - 1);
        if (least < 2 * gop_float_to_bits(IMAGE_SMALLEST) - 1)
            x[0] = gop_bits_to_float(0x7fc00000u);
#pragma unroll
        for (int i = 0; i < 4; i++)
            split_two(x[2 * i], x[2 * i + 1], piece[0][i], piece[1][i], piece[2][i]);
#pragma unroll
        for (int n = 0; n < 3; n++)
            *reinterpret_cast<uint4 *>(pieces + n * N * 64 + to) =
                make_uint4(piece[n][0], piece[n][1], piece[n][2], piece[n][3]);
    }
}

/* Four warps: each issues the TMA loads of every fourth box of a stage, and splits a part of
 * what has come of b. A box is an operand's lines, or terms of 32 lines. */
template <int N, int W, bool A_ALONG, bool B_ALONG, typename TILES> GOP_DEVICE void
bf16x3_feed(const bf16x3_work &w, const bf16x3_ring<N, W> &ring, const TILES &tiles)
{
    typedef bf16x3_shape<N, W> shape;
    enum { BOXES_A = A_ALONG ? 1 : shape::LINES / 32, BOXES_B = B_ALONG ? 1 : N / 32 };
    enum { BOXES = BOXES_A + BOXES_B };
    const bf16x3_job &job = w.job;
    uint64_t *const copied = (uint64_t *)ring.own;
    int next = tiles.first, to = 0, s = 0;
    uint32_t to_phase = 1, phase = 0;
    tile_item at = tiles.at(next);
    int stage = at.first;
    const auto fetch = [&]() {
        if (next >= tiles.last) return;
        if (threadIdx.x % 32 == 0) {
            mbarrier_wait(ring.empty + to, to_phase);
            if (threadIdx.x == 0) mbarrier_arrive_expect_tx(copied + to, shape::RAW);
            const int l = stage * BF16X3_TERMS;
#pragma unroll
            for (int e = 0; e < (BOXES + 3) / 4; e++) {
                const int box = e * 4 + threadIdx.x / 32;
                if (box >= BOXES) break;
                const bool of_a = box < BOXES_A, along = of_a ? A_ALONG : B_ALONG;
                const int i = of_a ? box : box - BOXES_A;
                const int line = (of_a ? at.i0 : at.j0) + i * 32;
                tma_load(ring.stages + to * shape::BYTES + (of_a ? 0 : shape::A_BYTES) +
                             i * 4096,
                         of_a ? &w.a : &w.b, along ? l : line, along ? line : l,
                         (of_a ? job.a_batch : job.b_batch) ? at.batch : 0, copied + to, 1);
            }
        }
        __syncwarp();
        pipeline_advance<shape::STAGES>(to, to_phase);
        if (++stage < at.last) return;
        next += tiles.step;
        if (next >= tiles.last) return;
        at = tiles.at(next);
        stage = at.first;
    };
    for (int i = 0; i < shape::AHEAD; i++) fetch();
    for (int i = tiles.first; i < tiles.last; i += tiles.step) {
        const tile_item now = tiles.at(i);
        for (int l = now.first; l < now.last; l++) {
            fetch();
            mbarrier_wait(copied + s, phase);
            uint8_t *const raw = ring.stages + s * shape::BYTES;
            bf16x3_split_b<N, B_ALONG>(raw + shape::A_BYTES, raw + shape::RAW);
            fence_proxy_async();
            __syncwarp();
            if (threadIdx.x % 32 == 0) mbarrier_arrive(ring.full + s);
            pipeline_advance<shape::STAGES>(s, phase);
        }
    }
}

/* ---- where sums go ---- */

/* Four sums of a lane: two neighbours, and those eight rows below. */
template <int N, int W> GOP_DEVICE void bf16x3_put(const bf16x3_work &w, const tile_item &at,
                                                   int row, int column, const float4 &four)
{
    const straight_product<float> &p = w.p;
    float *const up = p.out + at.batch * p.out_batch + (at.i0 + row) * p.out_row +
                      (at.j0 + column) * p.out_col;
    float *const down = up + 8 * p.out_row;
    if (w.job.pairs && at.i0 + bf16x3_shape<N, W>::LINES <= p.m && at.j0 + N <= p.n) {
        *reinterpret_cast<float2 *>(up) = make_float2(four.x, four.y);
        *reinterpret_cast<float2 *>(down) = make_float2(four.z, four.w);
        return;
    }
    const bool left = at.j0 + column < p.n, right = at.j0 + column + 1 < p.n;
    if (at.i0 + row < p.m && left) up[0] = four.x;
    if (at.i0 + row < p.m && right) up[p.out_col] = four.y;
    if (at.i0 + row + 8 < p.m && left) down[0] = four.z;
    if (at.i0 + row + 8 < p.m && right) down[p.out_col] = four.w;
}

/* Row and column of chunk v of four sums of thread t of those that multiply. */
template <int N> GOP_DEVICE int2 bf16x3_chunk(int v, int t)
{
    enum { EACH = N / 8 };
    const int lane = t % 32;
    return make_int2(v / EACH * 128 + t / 32 * 16 + bf16x3_line(lane),
                     v % EACH * 8 + lane % 4 * 2);
}

/* A tile term by term. */
template <int N, int W>
GOP_DEVICE void bf16x3_anew(const straight_product<float> &p, const tile_item &at, int thread)
{
    const float *const a = p.a + at.batch * p.a_batch, *const b = p.b + at.batch * p.b_batch;
    float *const out = p.out + at.batch * p.out_batch;
    const int64_t left = p.m - at.i0, lines = bf16x3_shape<N, W>::LINES;
    const int64_t rows = left < lines ? left : lines;
    const int columns = (int)(p.n - at.j0 < N ? p.n - at.j0 : N);
    for (int64_t e = thread; e < rows * columns; e += CONSUMERS) {
        const int64_t i = at.i0 + e / columns, j = at.j0 + e % columns;
        const float *x = a + i * p.a_row, *y = b + j * p.b_col;
        float total = 0;
        for (int64_t l = 0; l < p.k; l++, x += p.a_col, y += p.b_row)
            total = fmaf(*x, *y, total);
        out[i * p.out_row + j * p.out_col] = total;
    }
}

/* Epilogue: store outputs, or a part of them where sums are cut. Blocks of a cluster put their
 * parts into the ring, and each adds all of them, in order, for its share of the outputs. */
template <int N, int W, int CLUSTER>
GOP_DEVICE void bf16x3_epilogue(const bf16x3_work &w, const tile_item &at,
                                const float (&sum)[W][bf16x3_shape<N, W>::SUMS], bool beyond,
                                uint8_t *ring, float4 *odd_here, int rank, int t)
{
    enum { SUMS = bf16x3_shape<N, W>::SUMS, CHUNKS = bf16x3_shape<N, W>::CHUNKS };
    const bf16x3_job &job = w.job;
    const auto four = [&](int v) {
        const float *const from = &sum[v / (SUMS / 4)][v % (SUMS / 4) * 4];
        return make_float4(from[0], from[1], from[2], from[3]);
    };
    const auto put = [&](int v, const float4 &sums) {
        const int2 of = bf16x3_chunk<N>(v, t);
        bf16x3_put<N, W>(w, at, of.x, of.y, sums);
    };
    if (CLUSTER == 1) {
        if (at.part >= 0) {
            float4 *const parts = job.parts + (int64_t)at.part * CHUNKS * CONSUMERS + t;
#pragma unroll
            for (int v = 0; v < CHUNKS; v++) parts[v * CONSUMERS] = four(v);
            if (t == 0) job.odd[at.part] = beyond;
        } else if (beyond) {
            bf16x3_anew<N, W>(w.p, at, t);
        } else {
#pragma unroll
            for (int v = 0; v < CHUNKS; v++) put(v, four(v));
        }
        return;
    }
    /* Each block adds all blocks' parts, in order, of its share of the outputs. */
    float4 *const meet = (float4 *)ring + t;
#pragma unroll
    for (int v = 0; v < CHUNKS; v++) meet[v * CONSUMERS] = four(v);
    if (t == 0) odd_here->x = beyond;
    cluster_sync();
    for (int r = 0; r < CLUSTER; r++) beyond |= map_shared_rank(odd_here, r)->x != 0;
    if (beyond && rank == 0) bf16x3_anew<N, W>(w.p, at, t);
    if (!beyond)
#pragma unroll
        for (int v = 0; v < CHUNKS; v++) {
            if (v % CLUSTER != rank) continue;
            float4 all = map_shared_rank(meet, 0)[v * CONSUMERS];
#pragma unroll
            for (int r = 1; r < CLUSTER; r++)
                add_part(all, map_shared_rank(meet, r)[v * CONSUMERS]);
            put(v, all);
        }
    cluster_sync(); /* another block may still read from this one */
}

/* Whether three bfloat16 could not hold a tile's numbers; asked by all consumers. */
template <int W, int SUMS>
GOP_DEVICE bool bf16x3_beyond(const float (&sum)[W][SUMS], uint32_t least)
{
    float odd[4] = {}; /* NaN once a sum is an infinity or NaN */
#pragma unroll
    for (int v = 0; v < W; v++)
#pragma unroll
        for (int e = 0; e < SUMS; e++) odd[e % 4] = fmaf(sum[v][e], 0.0f, odd[e % 4]);
    return any_of<CONSUMERS>((odd[0] + odd[1]) + (odd[2] + odd[3]) != 0.0f ||
                             least < 2 * gop_float_to_bits(IMAGE_SMALLEST) - 1);
}

template <int N, int W, int CLUSTER, bool A_ALONG, bool B_ALONG>
__global__ void GOP_CLUSTERS __launch_bounds__(BLOCK_THREADS, 1)
    matmul_bf16x3_kernel(const __grid_constant__ bf16x3_work w)
{
#if GOP_WGMMA
    typedef bf16x3_shape<N, W> shape;
    enum { SUMS = shape::SUMS };
    const bf16x3_ring<N, W> ring;
    const int rank = CLUSTER > 1 ? cluster_rank() : 0;
    const persistent_tiles<shape::LINES, N, CLUSTER, true> tiles(w.job, 0, w.job.items, rank);
    uint64_t *const copied = (uint64_t *)ring.own;
    uint64_t *const ping_pong = copied + shape::STAGES; /* whose warpgroup multiplies */
    float4 *const odd_here = (float4 *)(ping_pong + 2 + shape::STAGES % 2);
    if (threadIdx.x == 0) {
        for (int s = 0; s < shape::STAGES; s++) mbarrier_init(copied + s, 1);
        mbarrier_init(ping_pong, 4), mbarrier_init(ping_pong + 1, 4);
        ring.init(PRODUCERS / 32, CONSUMERS / 32);
    }
    launch_dependents();
    __syncthreads();
    grid_dependency_sync();
    /* One thread of each producer warp issues TMA loads, all split b. */
    const auto produce = [&] {
        bf16x3_feed<N, W, A_ALONG, B_ALONG>(w, ring, tiles);
        if (CLUSTER > 1) {
            cluster_sync();
            cluster_sync();
        }
    };
    /* Two warpgroups split a and multiply, ping-pong. */
    const auto consume = [&] {
        const int t = threadIdx.x - PRODUCERS, lane = t % 32;
        const int group = __shfl_sync(~0u, t / 128, 0);
        const int first = t / 32 * 16; /* of a warp's lines */
        const uint32_t pieces = shared_address(ring.stages) + shape::RAW;
        const uint64_t at_b =
            B_ALONG ? make_smem_desc(pieces, 0, 512, 2) : make_smem_desc(pieces, 4096, 1024, 1);
        uint32_t mine = group == 0; /* the first group need not wait at first */
        uint32_t least = ~0u;
        const auto multiply = [&](float(&sum)[W][SUMS], int s, uint32_t phase) {
            mbarrier_wait(copied + s, phase);
#pragma unroll
            for (int v = 0; v < W; v++) {
                uint32_t fa[2][3][4];
                bf16x3_split_a<A_ALONG>(fa, ring.stages + s * shape::BYTES, v * 128 + first,
                                        lane, least);
                if (v == 0) mbarrier_wait(ring.full + s, phase);
                /* One splits while the other multiplies. */
                mbarrier_wait(ping_pong + group, mine);
                mine ^= 1;
                float part[SUMS];
                multiply_lines<shape::PIECE, B_ALONG>(part, fa, at_b, s * shape::BYTES);
                wgmma_commit();
                if (lane == 0) mbarrier_arrive(ping_pong + 1 - group);
                wgmma_wait();
                __syncwarp(); /* all lanes have read */
                if (v == W - 1 && lane == 0) mbarrier_arrive(ring.empty + s);
                promote(sum[v], part);
            }
        };
        consumer_mainloop<bf16x3_ring<N, W>, W, SUMS>(
            tiles, multiply, [&](const tile_item &at, const float(&sum)[W][SUMS]) {
                const bool beyond = bf16x3_beyond(sum, least);
                least = ~0u;
                bf16x3_epilogue<N, W, CLUSTER>(w, at, sum, beyond, ring.stages, odd_here, rank,
                                               t);
            });
    };
    gemm_specialise<shape::FEED, shape::MULTIPLY>(produce, consume);
#endif
}

/* Adds the parts of sums that were cut: a block one chunk of the threads of a tile. */
template <int N, int W> __global__ void __launch_bounds__(CONSUMERS)
    matmul_bf16x3_parts_kernel(const __grid_constant__ bf16x3_work w)
{
    enum { CHUNKS = bf16x3_shape<N, W>::CHUNKS };
    const bf16x3_job &job = w.job;
    grid_dependency_sync();
    const int rest = job.tiles - job.whole, t = threadIdx.x;
    const int cut = blockIdx.x / CHUNKS, chunk = blockIdx.x % CHUNKS;
    const tile_item at = tile_item_of<bf16x3_shape<N, W>::LINES, N>(job, job.whole + cut);
    const float4 *const from = job.parts + ((int64_t)cut * CHUNKS + chunk) * CONSUMERS + t;
    unsigned odd = 0;
#pragma unroll
    for (int slice = 0; slice < MOST_SLICES; slice++)
        if (slice < job.slices) odd |= job.odd[cut + slice * rest];
    const float4 all = sum_of_parts(from, (int64_t)rest * CHUNKS * CONSUMERS, job.slices);
    if (odd) {
        if (chunk == 0) bf16x3_anew<N, W>(w.p, at, t);
        return;
    }
    const int2 of = bf16x3_chunk<N>(chunk, t);
    bf16x3_put<N, W>(w, at, of.x, of.y, all);
}

template <int N, int W, int CLUSTER, bool A_ALONG, bool B_ALONG>
static gop_status bf16x3_enqueue(gop_ctx *ctx, const gop_task *task, const bf16x3_work &w)
{
    typedef bf16x3_shape<N, W> shape;
    GOP_TRY(GOP_LAUNCH_FIRST(ctx, task, w.job.slices > 1,
                             (matmul_bf16x3_kernel<N, W, CLUSTER, A_ALONG, B_ALONG>),
                             cluster_grid(w.job.items, ctx->info.processors, CLUSTER),
                             BLOCK_THREADS, bf16x3_ring<N, W>::SHARED, w));
    if (w.job.slices == 1) return GOP_OK;
    return GOP_LAUNCH_EARLY(ctx, (matmul_bf16x3_parts_kernel<N, W>),
                            (unsigned)((w.job.tiles - w.job.whole) * shape::CHUNKS), CONSUMERS,
                            0, w);
}

static gop_status matmul_bf16x3(gop_ctx *ctx, const gop_task *task, int64_t)
{
    typedef gop_status (*enqueue)(gop_ctx *, const gop_task *, const bf16x3_work &);
#define OF(N, W, CLUSTER) MATMUL_BY_ORDER(bf16x3_enqueue, N, W, CLUSTER)
    static const enqueue kernels[3][BF16X3_CLUSTER][2][2] = {
        {OF(64, 1, 1), OF(64, 1, 2), OF(64, 1, 3)},
        {OF(128, 1, 1), OF(128, 1, 2), OF(128, 1, 3)},
        {OF(128, 2, 1)}};
#undef OF
    const bf16x3_plan &plan = *GOP_OWN(const bf16x3_plan, task->plan);
    const gop_gemm &g = task->geometry.gemm;
    bf16x3_work w = {};
    w.p = straight_product_of(matmul_product_of<float>(task, matmul_whole(g)));
    w.job = plan.job;
    w.job.parts = (float4 *)task->scratch;
    w.job.odd = (unsigned *)((uint8_t *)task->scratch + plan.odd);
    GOP_TRY(straight_map(&w.a, plan.a, w.p.a, plan.a.transposed ? 32 : 128 * plan.waves));
    GOP_TRY(straight_map(&w.b, plan.b, w.p.b, plan.b.transposed ? 32 : plan.columns));
    return kernels[plan.columns / 128 + plan.waves - 1][plan.cluster - 1][!plan.a.transposed]
                  [!plan.b.transposed](ctx, task, w);
}

#endif

/* The time of a plan, in clocks, as measured on an H200. */
static double bf16x3_time(const gop_ctx *ctx, const bf16x3_plan &plan)
{
    enum { STAGE = 780, COLUMN = 12, TWO_WAVES = 3740, AROUND = 5000, MEETING = 1500 };
    /* Adding parts of sums: the launch, and writing and reading one of 128 columns. */
    enum { ADDING = 1000, PART = 80, PART_OF_TWO = 220 };
    const bf16x3_job &job = plan.job;
    const int64_t processors = ctx->info.processors > 1 ? ctx->info.processors : 2;
    const double each = plan.waves == 2 ? TWO_WAVES : STAGE + plan.columns * COLUMN;
    const int64_t parts = job.items - job.whole;
    const double computing = tile_waves(job, plan.cluster, processors, each, AROUND);
    const int64_t adding = parts * plan.columns * (plan.waves == 2 ? PART_OF_TWO : PART) / 128;
    return computing + (double)(adding + (parts ? ADDING : 0)) +
           (plan.cluster > 1 ? MEETING : 0);
}

/* Chooses the fastest tile and cut: if one wave has all tiles, the blocks of a cluster share
 * their sums; else the sums of the last wave are cut. */
static void bf16x3_cut(const gop_ctx *ctx, const gop_gemm &g, bf16x3_plan *best)
{
    static const int tiles[][2] = {{64, 1}, {128, 1}, {128, 2}};
    const int processors = ctx->info.processors > 1 ? ctx->info.processors : 2;
    const int64_t stages = blocks_for(g.k, BF16X3_TERMS);
    best->time = 0;
    for (const int *tile : tiles)
        for (int parts = 1; parts <= MOST_SLICES; parts++)
            for (int clusters = 0; clusters < 2; clusters++) {
                bf16x3_plan plan = *best;
                bf16x3_job &job = plan.job;
                plan.columns = tile[0], plan.waves = tile[1];
                plan.cluster = clusters ? parts : 1;
                (tile_schedule &)job = tile_schedule_of(
                    blocks_for(g.m, 128 * plan.waves), blocks_for(g.n, plan.columns), g.batches,
                    8 / plan.waves, stages, processors, clusters ? 1 : parts);
                if ((parts > 1 && stages < 2 * parts) ||
                    (job.slices > 1 && job.whole == job.tiles))
                    continue;
                /* Clusters of two fit on all processors, of three on 39 times three of 132. */
                const int room = plan.cluster > 2 ? processors * 9 / 10 : processors;
                if (plan.cluster > 1 && (plan.cluster > BF16X3_CLUSTER || plan.waves > 1 ||
                                         (int64_t)job.tiles * plan.cluster > room))
                    continue;
                plan.time = bf16x3_time(ctx, plan);
                if (best->time == 0 || plan.time < best->time) *best = plan;
            }
}

static gop_status matmul_bf16x3_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    GOP_TRY(gop_has_wgmma(ctx, "matmul: kernel 'bf16x3'"));
    const gop_gemm &g = task->geometry.gemm;
    const double terms = (double)g.batches * (double)g.m * (double)g.n * (double)g.k;
    const int64_t most = INT64_C(1) << 29;
    if (g.k == 0 || terms > (double)ctx->info.processors * 3.5e10 || g.m > most || g.n > most ||
        g.k > most || g.batches > most)
        return gop_fail(GOP_REFUSED, "matmul: kernel 'bf16x3' takes products of some 100 ms at "
                                     "most, as it computes one in one step, and sums of a "
                                     "term or more");
    if (of_itself(task->call))
        return gop_fail(GOP_REFUSED, "matmul: kernel 'bf16x3' takes arrays that are not each "
                                     "other's transpose, whose product is symmetric");
    bf16x3_plan *const p = GOP_OWN(bf16x3_plan, plan);
    *p = {};
    p->a = straight_operand_of(g, g.a, task->in[0].data, g.m, g.a_row, g.a_col, 4);
    p->b = straight_operand_of(g, g.b, task->in[1].data, g.n, g.b_col, g.b_row, 4);
    const int64_t apart = uniform_batch(g, g.out);
    if (p->a.copied || p->b.copied || apart < 0)
        return gop_fail(GOP_REFUSED, "matmul: kernel 'bf16x3' takes operands whose rows or "
                                     "columns are contiguous and begin at multiples of 16 "
                                     "bytes, products of a batch at equal distances");
    bf16x3_cut(ctx, g, p);
    bf16x3_job &job = p->job;
    job.a_batch = p->a.batches > 1, job.b_batch = p->b.batches > 1;
    job.pairs = g.out_col == 1 && g.out_row % 2 == 0 && apart % 2 == 0 &&
                (uintptr_t)task->out[0].data % 8 == 0;
    const size_t tile = (size_t)p->waves * (size_t)p->columns * 128 * sizeof(float);
    const size_t parts = (size_t)(job.items - job.whole);
    p->odd = parts * tile;
    plan->scratch = p->odd + parts * sizeof(unsigned);
    plan->launch = GOP_NATIVE_LAUNCH(matmul_bf16x3);
    return GOP_OK;
}

extern const gop_row matmul_bf16x3_row = {
    .name = "bf16x3",
    .note = "float32 as it lies, split into three bfloat16 in the multiprocessor: one launch, "
            "nothing packed, and clusters of blocks share sums where tiles are few",
    .role = GOP_CONFORMING,
    .plan = matmul_bf16x3_plan,
    GOP_NATIVE_DTYPES(1u << GOP_FLOAT32),
    .before = "direct",
};
