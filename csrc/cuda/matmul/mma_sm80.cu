/*
 * mma_sm80.cu - matmul of halves by the tensor cores that all GPUs since 8.0 have.
 *
 * wgmma_f16 (wgmma_f16_sm90.cu) fetches tiles by TMA, which needs rows at multiples of 16
 * bytes; other operands are copied first. Here threads bring tiles of any strides to shared
 * memory, by copies of 16, 8 or 4 bytes where these are whole, and else item
 * by item through registers while the tile before is multiplied. ldmatrix reads fragments of
 * either order. If sums have few terms, stores bound the time: results go through shared
 * memory, so that rows are stored 16 bytes at a time.
 */
#include <type_traits>

#include "cuda/common/cvt.h"
#include "cuda/common/mma.h"
#include "cuda/matmul/copied.h"
#include "cuda/matmul/tiling.h"

/* What a plan decides. */
struct mma_cut {
    matmul_cut steps; /* first: matmul_plan_steps fills it */
    int64_t split, chunk;
    int tile, a_along, b_along;
    int a_many, b_many; /* items that are copied at once: eight, four, two or one */
    int store;          /* items of a row of results that are stored at once */
};

#if GOP_SM80

enum { MMA_STAGES = 4, MMA_DEPTH = 32, MMA_WARP_N = 32 };

/* A tile of M x N outputs, of which a warp has W rows and 32 columns. */
template <typename T, int M, int N, int W> struct mma_shape {
    enum { WARPS = M / W * (N / MMA_WARP_N), THREADS = 32 * WARPS };
    enum { LINE = N + 8 }; /* of the results on their way out */
    template <int LINES, bool ALONG, int VECTOR> using tile =
        copied_tile<T, LINES, MMA_DEPTH, ALONG, VECTOR, THREADS, 8, 8>;
};

/* How a thread brings an operand's tiles: by copies some stages ahead, of eight, four or two
 * items, which only the call knows; */
template <typename shape, typename T, int LINES, bool ALONG, bool COPIED> struct mma_feed {
    template <int MANY> using tile = typename shape::template tile<LINES, ALONG, MANY>;
    template <int MANY> using number = std::integral_constant<int, MANY>;
    copied_share<T> share;
    int left, vector;
    int many; /* copies of a stage that a thread of the block needs */

    template <typename does> GOP_DEVICE void each(const does &todo)
    {
        if (vector == 8) todo(number<8>());
        else if (vector == 4) todo(number<4>());
        else todo(number<2>());
    }
    GOP_DEVICE mma_feed(const T *first, const T *some, T *stages, int64_t line_stride,
                        int64_t term_stride, int lines, int terms, int vector)
        : left(terms), vector(vector)
    {
        each([&](auto of) {
            typedef tile<decltype(of)::value> here;
            enum { STEP = here::LINE_STEP > 0 ? +here::LINE_STEP : 1 };
            many = here::LINE_STEP > 0 && lines < here::EACH * STEP ? (lines + STEP - 1) / STEP
                                                                    : +here::EACH;
            share.template begin<here>(first, some, stages, line_stride, term_stride, lines);
        });
    }
    GOP_DEVICE void fetch(int step)
    {
        if (left <= 0) return;
        each([&](auto of) {
            typedef tile<decltype(of)::value> here;
            if (many < here::EACH) share.template fetch<here>(step % MMA_STAGES, left, many);
            else share.template fetch<here>(step % MMA_STAGES, left);
        });
        left -= MMA_DEPTH;
    }
    GOP_DEVICE void begin(int step) { fetch(step); }
    GOP_DEVICE void put(int) {}
    GOP_DEVICE void next(int step) { fetch(step + MMA_STAGES - 1); }
};

/* or item by item, which wait in registers while the stage before is multiplied. */
template <typename shape, typename T, int LINES, bool ALONG>
struct mma_feed<shape, T, LINES, ALONG, false> {
    typedef typename shape::template tile<LINES, ALONG, 1> tile;
    T held[tile::EACH];
    const T *from;
    T *to;
    int64_t step, ahead;
    int line, term, exist, left;

    GOP_DEVICE mma_feed(const T *first, const T *, T *stages, int64_t line_stride,
                        int64_t term_stride, int lines, int terms, int)
    {
        const int near = threadIdx.x % tile::ACROSS, far = threadIdx.x / tile::ACROSS;
        line = tile::TERM == 1 ? far : near;
        term = tile::TERM == 1 ? near : far;
        from = first + line * line_stride + term * term_stride;
        step = tile::LINE_STEP * line_stride + tile::TERM_STEP * term_stride;
        ahead = tile::TERMS * term_stride;
        to = stages + line * tile::LINE + term * tile::TERM;
        exist = lines;
        left = terms;
    }
    GOP_DEVICE void next(int)
    {
        const T zero = {};
#pragma unroll
        for (int e = 0; e < tile::EACH; e++) {
            const bool exists =
                line + e * tile::LINE_STEP < exist && term + e * tile::TERM_STEP < left;
            held[e] = exists ? from[e * step] : zero;
        }
        from += ahead;
        left -= MMA_DEPTH;
    }
    GOP_DEVICE void begin(int stage)
    {
        if (stage == 0) next(0);
    }
    GOP_DEVICE void put(int stage)
    {
#pragma unroll
        for (int e = 0; e < tile::EACH; e++)
            to[stage % MMA_STAGES * tile::SIZE +
               e * (tile::LINE_STEP * tile::LINE + tile::TERM_STEP * tile::TERM)] = held[e];
    }
};

/* Fragments of 16 lines and 16 terms, the first of which is at `corner`: registers have (lines,
 * terms) (0, 0), (8, 0), (0, 8), (8, 8), or, of b, whose lines are columns, (0, 0), (0, 8),
 * (8, 0), (8, 8). */
template <typename tile, bool IS_B>
GOP_DEVICE void mma_load(uint32_t (&to)[4], const typename tile::item *corner)
{
    const int lane = threadIdx.x % 32, first = lane / 8 % 2, second = lane / 16;
    const int line = (IS_B ? second : first) * 8, term = (IS_B ? first : second) * 8;
    const bool along = tile::TERM == 1;
    const uint32_t at =
        address_in_shared(corner + (line + (along ? lane % 8 : 0)) * tile::LINE +
                          (term + (along ? 0 : lane % 8)) * tile::TERM);
    if (along) ldmatrix(to, at);
    else ldmatrix_trans(to, at);
}

/* A warp's sums, rounded, to its place among a tile's results, whose rows have LINE items. */
template <int LINE, typename T, int DOWN, int ACROSS>
GOP_DEVICE void mma_round(T *results, const float (&sum)[DOWN][ACROSS][4], int m0, int n0)
{
    const int lane = threadIdx.x % 32, row = lane / 4, q = lane % 4;
#pragma unroll
    for (int m = 0; m < DOWN; m++)
#pragma unroll
        for (int n = 0; n < ACROSS; n++)
#pragma unroll
            for (int e = 0; e < 4; e += 2)
                *reinterpret_cast<uint32_t *>(results + (m0 + m * 16 + row + e * 4) * LINE +
                                              n0 + n * 8 + q * 2) =
                    cvt_rn_two(sum[m][n][e], sum[m][n][e + 1], T());
}

/* Rows of results, a word at a time. */
template <typename word, typename T, int M, int N, int W>
GOP_DEVICE void mma_store(T *out, const T *tile, int64_t out_row, int rows, int columns)
{
    typedef mma_shape<T, M, N, W> shape;
    enum { ITEMS = (int)(sizeof(word) / sizeof(T)) };
#pragma unroll 4
    for (int at = threadIdx.x; at < M * N / ITEMS; at += shape::THREADS) {
        const int i = at / (N / ITEMS), j = at % (N / ITEMS) * ITEMS;
        if (i >= rows || j >= columns) continue;
        const T *const from = tile + i * shape::LINE + j;
        T *const to = out + i * out_row + j;
        if (j + ITEMS <= columns)
            *reinterpret_cast<word *>(to) = *reinterpret_cast<const word *>(from);
        else
            for (int e = 0; e < columns - j; e++) to[e] = from[e];
    }
}

/* sum += a stage's tiles, of which a warp's lines begin at m0 and n0. */
template <typename of_a, typename of_b, typename T, int DOWN, int ACROSS> GOP_DEVICE void
mma_multiply(float (&sum)[DOWN][ACROSS][4], const T *a, const T *b, int m0, int n0)
{
    uint32_t fa[DOWN][MMA_DEPTH / 16][4], fb[ACROSS / 2][MMA_DEPTH / 16][4];
#pragma unroll
    for (int l = 0; l < MMA_DEPTH / 16; l++) {
#pragma unroll
        for (int m = 0; m < DOWN; m++)
            mma_load<of_a, false>(fa[m][l],
                                  a + (m0 + m * 16) * of_a::LINE + l * 16 * of_a::TERM);
#pragma unroll
        for (int n = 0; n < ACROSS / 2; n++)
            mma_load<of_b, true>(fb[n][l],
                                 b + (n0 + n * 16) * of_b::LINE + l * 16 * of_b::TERM);
    }
#pragma unroll
    for (int m = 0; m < DOWN; m++)
#pragma unroll
        for (int n = 0; n < ACROSS; n++) {
            float few[4] = {}; /* tensor cores truncate sums: 32 terms at most */
#pragma unroll
            for (int l = 0; l < MMA_DEPTH / 16; l++) {
                const uint32_t two[2] = {fb[n / 2][l][n % 2 * 2], fb[n / 2][l][n % 2 * 2 + 1]};
                mma_sync(few, fa[m][l], two, T());
            }
#pragma unroll
            for (int e = 0; e < 4; e++) sum[m][n][e] += few[e];
        }
}

/* Registers for two blocks of 128 x 128, for four of 64 x 64. */
template <typename T, int M, int N, int W, bool A_ALONG, bool B_ALONG, bool A_COPIED,
          bool B_COPIED>
__global__ void __launch_bounds__(mma_shape<T, M, N, W>::THREADS,
                                  512 / mma_shape<T, M, N, W>::THREADS)
    matmul_mma_kernel(const matmul_product<T> p, const int a_many, const int b_many,
                      const int store)
{
    typedef mma_shape<T, M, N, W> shape;
    typedef typename shape::template tile<M, A_ALONG, 1> of_a; /* one place for all widths */
    typedef typename shape::template tile<N, B_ALONG, 1> of_b;
    enum { ACROSS = MMA_WARP_N / 8, DOWN = W / 16 };
    extern __shared__ __align__(16) unsigned char shared[];
    T *const a_stages = reinterpret_cast<T *>(shared);
    T *const b_stages = a_stages + MMA_STAGES * of_a::SIZE;
    const matmul_geometry &g = p.g;
    const int warp = threadIdx.x / 32;
    const matmul_tile<T> tile = matmul_tile_of<M, N, 0>(p);
    const int m0 = warp % (M / W) * W, n0 = warp / (M / W) * MMA_WARP_N;
    float sum[DOWN][ACROSS][4] = {};

    /* Main loop: copies run MMA_STAGES - 1 steps ahead. */
    const int terms = (int)tile.terms, steps = (terms + MMA_DEPTH - 1) / MMA_DEPTH;
    mma_feed<shape, T, M, A_ALONG, A_COPIED> a(tile.a, p.a, a_stages, g.a_row, g.a_col,
                                               tile.rows, terms, a_many);
    mma_feed<shape, T, N, B_ALONG, B_COPIED> b(tile.b, p.b, b_stages, g.b_col, g.b_row,
                                               tile.columns, terms, b_many);
#pragma unroll 1
    for (int step = 0; step < MMA_STAGES - 1; step++) {
        a.begin(step);
        b.begin(step);
        cp_async_commit_group();
    }
    for (int step = 0; step < steps; step++) {
        a.put(step);
        b.put(step);
        cp_async_wait_group<MMA_STAGES - 2>();
        __syncthreads();
        a.next(step);
        b.next(step);
        cp_async_commit_group();
        if (m0 < tile.rows && n0 < tile.columns)
            mma_multiply<of_a, of_b>(sum, a_stages + step % MMA_STAGES * of_a::SIZE,
                                     b_stages + step % MMA_STAGES * of_b::SIZE, m0, n0);
    }
    cp_async_wait_group<0>();

    /* Epilogue: partial sums leave from registers, outputs as whole rows of shared memory. */
    if (p.part.split > 1) {
        matmul_store_fragments(p, tile, sum, m0, n0);
        return;
    }
    T *const results = reinterpret_cast<T *>(shared);
    __syncthreads();
    mma_round<shape::LINE>(results, sum, m0, n0);
    __syncthreads();
    T *const out = (T *)p.out + tile.out;
    if (store == 8) {
        mma_store<uint4, T, M, N, W>(out, results, g.out_row, tile.rows, tile.columns);
    } else if (store == 2) {
        mma_store<uint32_t, T, M, N, W>(out, results, g.out_row, tile.rows, tile.columns);
    } else if (store == 1) {
        mma_store<uint16_t, T, M, N, W>(out, results, g.out_row, tile.rows, tile.columns);
    } else { /* columns have any stride: rows first, which may be contiguous */
        for (int at = threadIdx.x; at < M * N; at += shape::THREADS) {
            const int i = at % M, j = at / M;
            if (i < tile.rows && j < tile.columns)
                out[i * g.out_row + j * g.out_col] = results[i * shape::LINE + j];
        }
    }
}

template <typename T, int M, int W, bool A_COPIED, bool B_COPIED, bool A_ALONG, bool B_ALONG>
static gop_status mma_enqueue(gop_ctx *ctx, const matmul_product<T> &p, const mma_cut &cut)
{
    enum { N = M };
    typedef mma_shape<T, M, N, W> shape;
    const size_t stage =
        shape::template tile<M, A_ALONG, 1>::SIZE + shape::template tile<N, B_ALONG, 1>::SIZE;
    const size_t stages = MMA_STAGES * stage, results = M * shape::LINE;
    return GOP_LAUNCH_FOLLOWED(
        ctx, p.part.split > 1,
        (matmul_mma_kernel<T, M, N, W, A_ALONG, B_ALONG, A_COPIED, B_COPIED>),
        (matmul_tile_count<M, N>(p)), shape::THREADS,
        (stages > results ? stages : results) * sizeof(T), p, cut.a_many, cut.b_many,
        cut.store);
}

template <typename T>
static gop_status matmul_mma(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    typedef gop_status (*enqueue)(gop_ctx *, const matmul_product<T> &, const mma_cut &);
    static const enqueue large[2][2] = MATMUL_BY_ORDER(mma_enqueue, T, 128, 64, 1, 1);
    static const enqueue kernels[2][2][2][2] = {
        {MATMUL_BY_ORDER(mma_enqueue, T, 64, 32, 0, 0),
         MATMUL_BY_ORDER(mma_enqueue, T, 64, 32, 0, 1)},
        {MATMUL_BY_ORDER(mma_enqueue, T, 64, 32, 1, 0),
         MATMUL_BY_ORDER(mma_enqueue, T, 64, 32, 1, 1)}};
    const mma_cut &cut = *GOP_OWN(const mma_cut, task->plan);
    const enqueue multiply =
        cut.tile == 1 ? large[cut.a_along][cut.b_along]
                      : kernels[cut.a_many > 1][cut.b_many > 1][cut.a_along][cut.b_along];
    const matmul_product<T> p = matmul_product_of<T>(task, matmul_part_of(task, step));
    return matmul_multiply_chunks(
        ctx, task, p, cut.split, cut.chunk,
        [&](const matmul_product<T> &of) { return multiply(ctx, of, cut); });
}
#endif

static gop_status matmul_mma_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    enum { SHARED = 4 * (128 + 128) * (32 + 8) * 2 };
    GOP_TRY(gop_has_code(ctx, "matmul: kernel 'mma'", 8, "whose tensor cores take halves"));
    const gop_gemm &g = task->geometry.gemm;
    GOP_TRY(matmul_takes_sums(g, "mma"));
    GOP_TRY(matmul_has_shared(ctx, "mma", SHARED));
    matmul_plan_steps(ctx, task, 1, plan);
    mma_cut *const cut = GOP_OWN(mma_cut, plan);
    const tiling_of of = tiling_of_task(ctx, task);
    cut->a_along = of.a_along, cut->b_along = of.b_along;
    const void *const a = task->in[0].data, *const b = task->in[1].data;
    cut->a_many = tiling_copied(g, g.a, a, g.a_row, g.a_col, g.m, of.a_along);
    cut->b_many = tiling_copied(g, g.b, b, g.b_col, g.b_row, g.n, of.b_along);
    const matmul_tiling t = mma_tiling(of);
    cut->tile = t.way, cut->split = t.split, cut->chunk = t.chunk;
    if (plan->steps > 1) cut->split = 1, cut->chunk = g.k;
    plan->scratch = cut->split > 1 ? (size_t)(cut->split * g.batches * g.m * g.n) * 4 : 0;
    cut->store = g.out_col == 1 || g.n == 1 ? 8 : 0;
    int64_t all = g.out_row | (int64_t)((uintptr_t)task->out[0].data / 2);
    for (int axis = 0; axis < g.batch_rank; axis++) all |= g.out[axis];
    if (cut->store && all % 8) cut->store = all % 2 ? 1 : 2;
    plan->launch = GOP_NATIVE_LAUNCH(task->in[0].dtype == GOP_FLOAT16 ? matmul_mma<float16>
                                                                      : matmul_mma<bfloat16>);
    return GOP_OK;
}

extern const gop_row matmul_mma_row = {
    .name = "mma",
    .note = "halves of any strides by mma.sync: threads bring the tiles, ldmatrix reads "
            "fragments of either order, results leave as whole lines",
    .role = GOP_CONFORMING,
    .plan = matmul_mma_plan,
    GOP_NATIVE_DTYPES(1u << GOP_FLOAT16 | 1u << GOP_BFLOAT16),
};
