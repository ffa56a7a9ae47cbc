/*
 * ring_sm80.cu - matmul with few columns, by tensor cores fed from a ring in shared memory.
 *
 * A kernel that asks for its next bytes only once the last have come waits most of the time.
 * Asynchronous copies (cp.async) keep some 100 KB on their way to each SM, in whole lines of
 * memory, and take no registers. The large operand is read once, as it lies; the small one is
 * first laid out as the factors that tensor cores take.
 */
#include "cuda/matmul/lines.h"
#include "cuda/matmul/thin.h"
#include "cuda/common/cp_async.h"
#include "cuda/common/mma.h"

struct ring_plan {
    thin_cut cut;
    int64_t stages, each; /* of a product: stages, and threads that write factors */
    int64_t tiles;        /* of columns */
    int many;             /* items of the large operand that are copied at once */
    size_t at_wanted;
};

#if GOP_SM80

/* Writes the factors: tile by tile of columns, of this stage by stage. A number that pieces
 * cannot hold becomes NaN, and so does every sum it enters. `width` is the logarithm of NT. */
template <typename T>
__global__ void matmul_ring_pack_kernel(const matmul_product<T> p, uint8_t *to, int64_t stages,
                                        int64_t each, unsigned *wanted, bool along, int width)
{
    typedef ring_shape<T, true, 1> shape;
    enum { V = shape::V };
    launch_dependents();
    if (wanted && blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0) *wanted = 0;
    const int64_t at = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    const int lane = at % 32, n = (int)(at / 32) & ((1 << width) - 1);
    const int half = (int)(at >> (5 + width)) & 1;
    const int64_t stages_before = at >> (6 + width), tile = stages_before / stages;
    const int64_t stage = stages_before - tile * stages;
    if (at >= each) return;
    for (int64_t batch = blockIdx.y; batch < p.part.batches; batch += gridDim.y) {
        const T *const b = p.b + matmul_batch(p.g, batch).b;
        typename shape::R x[V];
#pragma unroll
        for (int v = 0; v < V; v++)
            x[v] = ring_factor(p.g, b,
                               (stage * 2 + half) * 4 * V +
                                   (along ? ring_term<T, true>(lane % 4, v)
                                          : ring_term<T, false>(lane % 4, v)),
                               (tile << (3 + width)) + n * 8 + lane / 4);
        uint8_t *const image = to + (batch * each + at) / 32 * shape::FACTORS;
        if constexpr (shape::SPLIT) {
            uint16_t piece[V][3];
#pragma unroll
            for (int v = 0; v < V; v++)
                split<3>(beyond_pieces<3>(x[v]) ? gop_bits_to_float(0x7fc00000u) : x[v],
                         piece[v]);
#pragma unroll
            for (int i = 0; i < 3; i++)
                *reinterpret_cast<uint2 *>(image + i * 256 + lane * 8) =
                    make_uint2(piece[0][i] | (uint32_t)piece[1][i] << 16,
                               piece[2][i] | (uint32_t)piece[3][i] << 16);
        } else {
            uint4 word;
            __builtin_memcpy(&word, x, 16);
            *reinterpret_cast<uint4 *>(image + lane * 16) = word;
        }
    }
}

GOP_DEVICE double ring_double(const uint32_t *words)
{
    double value;
    __builtin_memcpy(&value, words, 8);
    return value;
}

/* sum += a stage of floats, each operand as three bfloat16: six products of them. */
template <typename shape, int NT>
GOP_DEVICE void ring_multiply_split(float (&sum)[NT][4], const uint32_t (&low)[2][4],
                                    const uint32_t (&high)[2][4], const uint8_t *of_b, int lane,
                                    uint32_t &least)
{
    uint32_t fa[2][3][4];
#pragma unroll
    for (int half = 0; half < 2; half++) split_eight(low[half], high[half], fa[half], least);
    enum { TWO = NT > 1 ? 2 : 1 };
#pragma unroll
    for (int n = 0; n < NT; n += TWO) {
        uint2 fb[TWO][2][3];
        float few[TWO][4] = {};
#pragma unroll
        for (int c = 0; c < TWO; c++)
#pragma unroll
            for (int half = 0; half < 2; half++)
#pragma unroll
                for (int i = 0; i < 3; i++)
                    fb[c][half][i] = *reinterpret_cast<const uint2 *>(
                        of_b + (half * NT + n + c) * shape::FACTORS + i * 256 + lane * 8);
#pragma unroll
        for (int e = 0; e < 6; e++)
#pragma unroll
            for (int half = 0; half < 2; half++)
#pragma unroll
                for (int c = 0; c < TWO; c++) {
                    const uint2 b = fb[c][half][piece_of_b(3, e)];
                    mma_sync(few[c], fa[half][piece_of_a(3, e)], {b.x, b.y}, bfloat16());
                }
#pragma unroll
        for (int c = 0; c < TWO; c++)
#pragma unroll
            for (int e = 0; e < 4; e++) sum[n + c][e] += few[c][e];
    }
}

/* sum += a stage of numbers that tensor cores take as they are. */
template <typename R, bool ALONG, typename shape, int NT>
GOP_DEVICE void ring_multiply(sum_t<R> (&sum)[NT][4], const uint32_t (&low)[2][4],
                              const uint32_t (&high)[2][4], const uint8_t *of_b, int lane)
{
#pragma unroll
    for (int n = 0; n < NT; n++) {
        sum_t<R> few[4] = {};
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const uint4 b = *reinterpret_cast<const uint4 *>(
                of_b + (half * NT + n) * shape::FACTORS + lane * 16);
            const uint32_t *const x = low[half], *const y = high[half];
            if constexpr (sizeof(R) == 8) {
                const double fa[4] = {ring_double(x), ring_double(y), ring_double(x + 2),
                                      ring_double(y + 2)};
                double fb[2];
                __builtin_memcpy(fb, &b, 16);
                mma_sync(sum[n], fa, fb);
            } else if constexpr (ALONG) {
                mma_sync(few, {x[0], y[0], x[1], y[1]}, {b.x, b.y}, R());
                mma_sync(few, {x[2], y[2], x[3], y[3]}, {b.z, b.w}, R());
            } else {
                mma_sync(few, {x[0], x[1], x[2], x[3]}, {b.x, b.y}, R());
                mma_sync(few, {y[0], y[1], y[2], y[3]}, {b.z, b.w}, R());
            }
        }
        if constexpr (sizeof(R) < 8)
#pragma unroll
            for (int e = 0; e < 4; e++) sum[n][e] += few[e];
    }
}

/* Stores a warp's sums. `beyond` becomes true if float32 products have overflowed. */
template <typename shape, typename T, typename S, int NT>
GOP_DEVICE void ring_store(const matmul_product<T> &p, const thin_block &block, int64_t out,
                           const S (&sum)[NT][4], bool &beyond)
{
    enum { PARTS = shape::PARTS };
    const matmul_geometry &g = p.g;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
    for (int n = 0; n < NT; n++)
#pragma unroll
        for (int e = 0; e < 4; e += PARTS) {
            const int64_t i = block.i0 + warp * 16 + lane / 4 + e / 2 * 8;
            const int64_t j =
                (block.tile * shape::COLUMNS + n * 8 + lane % 4 * 2 + e % 2) / PARTS;
            if constexpr (shape::SPLIT)
                for (int part = 0; part < PARTS; part++)
                    beyond |= !(fabsf(sum[n][e + part]) <= 3.4028234e38f);
            if (i >= g.m || j >= g.n) continue;
            const int64_t to = out + i * g.out_row + j * g.out_col;
            if constexpr (PARTS == 2) thin_put(p, to, block.chunk, {sum[n][e], sum[n][e + 1]});
            else thin_put(p, to, block.chunk, sum[n][e]);
        }
}

template <typename T, bool ALONG, int NT>
__global__ void __launch_bounds__(THIN_THREADS, (ring_shape<T, ALONG, NT>::BLOCKS))
    matmul_ring_kernel(const matmul_product<T> p, const uint8_t *factors, const int64_t stages,
                       const int many, unsigned *wanted)
{
    typedef ring_shape<T, ALONG, NT> shape;
    typedef typename shape::R R;
    typedef sum_t<R> S;
    enum { TERMS = shape::TERMS, PARTS = shape::PARTS };
    enum { STAGES = shape::STAGES, BURST = shape::BURST };
    extern __shared__ uint8_t memory[];
    const matmul_geometry &g = p.g;
    const int t = threadIdx.x, lane = t % 32, warp = t / 32;
    const int64_t across = (g.n * PARTS + shape::COLUMNS - 1) / shape::COLUMNS;
    const thin_block block = thin_block_of(p, blockIdx.x, across, RING_LINES);
    const matmul_offsets of = matmul_batch(g, block.batch);
    const int64_t begin = block.begin;
    const int count = (int)((block.end - begin + TERMS - 1) / TERMS);
    const ring_lines<T, ALONG> a = {
        p.a + of.a + block.i0 * g.a_row, g.a_row, g.a_col, g.m - block.i0, block.end, many};
    factors += ((block.batch * across + block.tile) * stages + begin / TERMS) * shape::B_BYTES;

    const auto fetch_factors = [&](int x) {
        uint8_t *const to = memory + x % STAGES * shape::BYTES + shape::A_BYTES;
        for (int at = t * 16; at < shape::B_BYTES; at += THIN_THREADS * 16)
            cp_async<16>(address_in_shared(to + at), factors + x * shape::B_BYTES + at, true);
    };
    const auto fetch_lines = [&](int x) {
        a.template fetch<THIN_THREADS>(memory + x % STAGES * shape::BYTES,
                                       begin + (int64_t)x * TERMS);
    };
    /* Prologue: fill the ring. Stages come and go BURST at a time: that many neighbouring
     * lines of memory. */
    for (int x = 0; x < STAGES - BURST; x++)
        if (x < count) fetch_lines(x);
    grid_dependency_sync();
    for (int x = 0; x < STAGES - BURST; x += BURST) {
        for (int y = x; y < x + BURST; y++)
            if (y < count) fetch_factors(y);
        cp_async_commit_group();
    }

    /* Main loop: wait for a burst, fetch the next one, multiply. */
    S sum[NT][4] = {};
    uint32_t least = ~0u; /* of the numbers that are not 0: twice the bits, less 1 */
    for (int x = 0; x < count; x++) {
        if (x % BURST == 0) {
            cp_async_wait_group<STAGES / BURST - 2>();
            __syncthreads();
            for (int y = x + STAGES - BURST; y < x + STAGES; y++)
                if (y < count) {
                    fetch_lines(y);
                    fetch_factors(y);
                }
            cp_async_commit_group();
        }
        const uint8_t *const stage = memory + x % STAGES * shape::BYTES;
        const uint8_t *const of_b = stage + shape::A_BYTES;
        uint32_t low[2][4], high[2][4];
#pragma unroll
        for (int half = 0; half < 2; half++)
            ring_read<T, ALONG>(low[half], high[half], stage, warp * 16, half, lane);
        if constexpr (shape::SPLIT)
            ring_multiply_split<shape>(sum, low, high, of_b, lane, least);
        else ring_multiply<R, ALONG, shape>(sum, low, high, of_b, lane);
    }

    /* Epilogue: store the sums; say whether bfloat16 could not hold the numbers. */
    bool beyond = least < 2 * gop_float_to_bits(IMAGE_SMALLEST) - 1;
    ring_store<shape>(p, block, of.out, sum, beyond);
    if (shape::SPLIT && beyond) *wanted = 1;
}

template <typename T, bool ALONG, int NT>
static gop_status matmul_ring(gop_ctx *ctx, const gop_task *task, int64_t)
{
    typedef ring_shape<T, ALONG, NT> shape;
    static_assert(shape::STAGES * shape::BYTES <= RING_SHARED, "what a block may have");
    const ring_plan &plan = *GOP_OWN(const ring_plan, task->plan);
    const matmul_product<T> p = thin_product_of<T>(task, plan.cut);
    uint8_t *const factors = (uint8_t *)task->scratch + plan.cut.pack_at;
    unsigned *const wanted =
        shape::SPLIT ? (unsigned *)((uint8_t *)task->scratch + plan.at_wanted) : nullptr;
    const int threads = plan.each < 256 ? (int)plan.each : 256;
    const dim3 packers((unsigned)blocks_for(plan.each, threads),
                       (unsigned)(p.g.batches < 65535 ? p.g.batches : 65535));
    typedef std::conditional_t<shape::HALVES, uint16_t, T> P; /* halves are laid out as bits */
    const matmul_product<P> as_bits = {p.g, (const P *)p.a, (const P *)p.b, p.out, p.part};
    const int64_t stages = blocks_for(plan.cut.chunk, shape::TERMS); /* short sums need few */
    const size_t shared =
        (size_t)((stages < shape::STAGES ? stages : shape::STAGES) * shape::BYTES);
    const bool added = plan.cut.split > 1; /* two kernels become one graph */
    GOP_TRY(GOP_LAUNCH_FOLLOWED(ctx, !added, matmul_ring_pack_kernel<P>, packers, threads, 0,
                                as_bits, factors, plan.stages, plan.each, wanted, ALONG,
                                plan.cut.way));
    if (added)
        GOP_TRY(GOP_LAUNCH_FOLLOWED(ctx, true, (matmul_ring_kernel<T, ALONG, NT>),
                                    (unsigned)plan.cut.blocks, THIN_THREADS, shared, p, factors,
                                    plan.stages, plan.many, wanted));
    else
        GOP_TRY(GOP_LAUNCH_EARLY(ctx, (matmul_ring_kernel<T, ALONG, NT>),
                                 (unsigned)plan.cut.blocks, THIN_THREADS, shared, p, factors,
                                 plan.stages, plan.many, wanted));
    GOP_TRY(thin_add_partials<T>(ctx, task, p.part));
    if constexpr (shape::SPLIT) {
        matmul_part whole = matmul_whole(task->geometry.gemm);
        whole.wanted = wanted;
        return matmul_launch_blocks<T, T>(ctx, matmul_product_of<T>(task, whole));
    }
    return GOP_OK;
}

/* By whether the large operand's terms are neighbours, and by the logarithm of NT; for eight
 * bytes columns are fewer. */
template <typename T> struct ring_launches {
    enum { MOST = sizeof(typename ring_real<T>::type) < 8 ? 8 : 4 };
    static constexpr gop_launch of[2][4] = {{matmul_ring<T, 0, 1>, matmul_ring<T, 0, 2>,
                                             matmul_ring<T, 0, 4>, matmul_ring<T, 0, MOST>},
                                            {matmul_ring<T, 1, 1>, matmul_ring<T, 1, 2>,
                                             matmul_ring<T, 1, 4>, matmul_ring<T, 1, MOST>}};
};
static gop_launch launch_of(gop_dtype dtype, int along, int width)
{
    typedef const gop_launch(*launches)[4];
    static const launches of[] = {ring_launches<float16>::of,   ring_launches<bfloat16>::of,
                                  ring_launches<float>::of,     ring_launches<double>::of,
                                  ring_launches<complex64>::of, ring_launches<complex128>::of};
    return of[dtype - GOP_FLOAT16][along][width];
}
#endif

static gop_status matmul_ring_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    GOP_TRY(gop_has_code(ctx, "matmul: kernel 'ring'", 8,
                         "whose tensor cores take halves and float64"));
    GOP_TRY(matmul_has_shared(ctx, "ring", RING_SHARED));
    ring_plan *const p = GOP_OWN(ring_plan, plan);
    *p = {};
    const gop_gemm g = thin_geometry(task, &p->cut.swapped);
    const gop_dtype dtype = task->in[0].dtype;
    const int parts = dtype == GOP_COMPLEX64 || dtype == GOP_COMPLEX128 ? 2 : 1;
    const int split = dtype == GOP_FLOAT32 || dtype == GOP_COMPLEX64;
    const int64_t item = matmul_item(task);
    GOP_TRY(thin_takes(g, "ring", split ? RING_SPLIT_MOST : THIN_COLUMNS));
    if (split && of_itself(task->call))
        return gop_fail(GOP_REFUSED, "matmul: kernel 'ring' takes float32 arrays that are not "
                                     "each other's transpose, whose product is symmetric");
    const int along = gop_magnitude(g.a_col) <= gop_magnitude(g.a_row);
    const int operand = p->cut.swapped ? 1 : 0;
    const bool wide = thin_wide(task, g, operand, along) || item == 16;
    p->many = wide                                                 ? (int)(16 / item)
              : item == 2 && thin_wide(task, g, operand, along, 4) ? 2
                                                                   : 1;

    thin_cut &cut = p->cut;
    matmul_tiling &tiling = cut;
    tiling = ring_tiling(thin_tiling_of(ctx, task, g, wide), parts);
    cut.packed = false; /* thin_pack is not used */
    p->tiles = blocks_for(g.n * parts, cut.columns);
    p->stages = blocks_for(g.k, cut.step);
    p->each = p->tiles * p->stages * 8 * cut.columns;
    thin_scratch(task, g, &cut, plan);
    p->at_wanted = cut.pack_at + (size_t)(g.batches * p->each / 32 * (split ? 768 : 512));
    plan->scratch = p->at_wanted + 256;
    plan->launch = GOP_NATIVE_LAUNCH(launch_of(dtype, along, cut.way));
    return GOP_OK;
}

extern const gop_row matmul_ring_row = {
    .name = "ring",
    .note = "few rows or columns: whole lines of the large operand by asynchronous "
            "copies, from shared memory into tensor cores",
    .role = GOP_CONFORMING,
    .plan = matmul_ring_plan,
    GOP_NATIVE_DTYPES(THIN_DTYPES),
    .before = "fragments",
};
