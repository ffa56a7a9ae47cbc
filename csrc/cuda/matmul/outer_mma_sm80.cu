/*
 * outer_mma_sm80.cu - matmul of halves with few terms and many outputs, bound by the store.
 *
 * What outer.cu does, by tensor cores: a result of two bytes leaves no time for as many
 * multiply-adds. All terms of a tile stand in shared memory at once, as they lie in memory, so
 * that there is one wait for memory a tile. A warp has whole rows; its results go through
 * shared memory of its own and leave as words of neighbouring lanes. Where a row begins between
 * two words its results stand there one item later, which makes them whole words again.
 */
#include "cuda/common/cp_async.h"
#include "cuda/common/cvt.h"
#include "cuda/common/mma.h"
#include "cuda/matmul/outer.h"
#include "cuda/matmul/thin.h"

enum { OUTER_MMA_M = 64, OUTER_MMA_N = 128 }; /* of a tile */

struct outer_mma_plan {
    matmul_cut steps; /* first: matmul_plan_steps fills it */
    int a_along, b_along, wide_a, wide_b, wide_out;
    int log2_terms; /* in shared memory, where there are 16, 32 or 64 */
    int shared;
};

#if GOP_SM80

enum { OUTER_MMA_THREADS = OUTER_MMA_M / 16 * 32, OUTER_MMA_PAD = 8 };

/* LINES lines of an operand, or, of the other order, its terms, in shared memory; these are
 * padded so that ldmatrix meets all banks. */
template <typename T, int LINES> struct outer_mma_tile {
    T *items;
    int along, log2_terms, pitch;

    GOP_DEVICE outer_mma_tile(T *items, int along, int log2_terms)
        : items(items), along(along), log2_terms(log2_terms),
          pitch((along ? 1 << log2_terms : LINES) + OUTER_MMA_PAD)
    {
    }
    GOP_DEVICE T *end(void) const { return items + (along ? LINES : 1 << log2_terms) * pitch; }

    /* A thread's share of 16 terms of them, MANY neighbours at a time; 0 stands for what does
     * not exist. All that a thread brings is on its way before it waits for the first. */
    template <int MANY> struct share {
        enum { EACH = LINES * 16 / MANY / OUTER_MMA_THREADS };
        thin_group<T, MANY> at[EACH];
    };
    template <int MANY> GOP_DEVICE int across(void) const /* threads of a line, or term */
    {
        return along ? 16 / MANY : LINES / MANY;
    }
    template <int MANY> GOP_DEVICE void fetch(share<MANY> &to, const T *from, int64_t line,
                                              int64_t term, int lines, int terms) const
    {
        const int t = threadIdx.x, x = t % across<MANY>() * MANY, y = t / across<MANY>();
        const int step = OUTER_MMA_THREADS / across<MANY>();
        const int64_t far = along ? line : term;
        const int exist = x < (along ? terms : lines) ? (along ? lines : terms) : 0;
        from += x * (along ? term : line) + y * far;
#pragma unroll
        for (int e = 0; e < share<MANY>::EACH; e++, from += step * far) {
            to.at[e] = {};
            if (y + e * step < exist)
                to.at[e] = *reinterpret_cast<const thin_group<T, MANY> *>(from);
        }
    }
    template <int MANY> GOP_DEVICE void put(const share<MANY> &of, int first_term) const
    {
        const int t = threadIdx.x, step = OUTER_MMA_THREADS / across<MANY>();
        T *const to = items + first_term * (along ? 1 : pitch) + t / across<MANY>() * pitch +
                      t % across<MANY>() * MANY;
#pragma unroll
        for (int e = 0; e < share<MANY>::EACH; e++)
            *reinterpret_cast<thin_group<T, MANY> *>(to + e * step * pitch) = of.at[e];
    }

    /* Fragments of 16 lines and 16 terms, as mma.sync takes a's, or b's two. */
    template <bool IS_B>
    GOP_DEVICE void load(uint32_t (&to)[4], int first_line, int first_term) const
    {
        const int lane = threadIdx.x % 32, of_8 = lane % 8, first = lane / 8 % 2,
                  second = lane / 16;
        const int line = first_line + (IS_B ? second : first) * 8;
        const int term = first_term + (IS_B ? first : second) * 8;
        if (along) ldmatrix(to, address_in_shared(items + (line + of_8) * pitch + term));
        else ldmatrix_trans(to, address_in_shared(items + (term + of_8) * pitch + line));
    }
};

/* A warp's 16 rows of results, rounded, into its shared memory: row r `odd` items later, if its
 * place in memory is. */
template <int LINE, typename T, int ACROSS>
GOP_DEVICE void outer_mma_round(T *results, const float (&sum)[ACROSS][4], bool odd, bool odder)
{
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const bool later = half ? odder : odd;
        T *const to = results + (lane / 4 + half * 8) * LINE + lane % 4 * 2 + later;
#pragma unroll
        for (int n = 0; n < ACROSS; n++) {
            const uint32_t two = cvt_rn_two(sum[n][half * 2], sum[n][half * 2 + 1], T());
            if (later) {
                to[n * 8] = {(uint16_t)two};
                to[n * 8 + 1] = {(uint16_t)(two >> 16)};
            } else {
                *reinterpret_cast<uint32_t *>(to + n * 8) = two;
            }
        }
    }
}

/* Stores them, 16 bytes at a time. */
template <int N, typename T> GOP_DEVICE void
outer_mma_store_wide(T *out, const T *results, int64_t row, int rows, int columns)
{
    enum { V = 8, EACH = N / V, LINE = N + OUTER_MMA_PAD };
#pragma unroll
    for (int e = 0; e < EACH / 2; e++) {
        const int at = e * 32 + threadIdx.x % 32, i = at / EACH, j = at % EACH * V;
        if (i < rows && j < columns)
            *reinterpret_cast<uint4 *>(out + i * row + j) =
                *reinterpret_cast<const uint4 *>(results + i * LINE + j);
    }
}

/* The same by words of two; those at a row's ends may be of one. */
template <int N, typename T>
GOP_DEVICE void outer_mma_store(T *out, const T *results, int64_t row, int rows, int columns)
{
    const int lane = threadIdx.x % 32;
#pragma unroll 4
    for (int i = 0; i < 16; i++, out += row, results += N + OUTER_MMA_PAD) {
        if (i >= rows) break;
        const int later = (int)((uintptr_t)out / sizeof(T) % 2);
#pragma unroll
        for (int e = 0; e <= N / 64; e++) {
            const int j = e * 64 + lane * 2; /* of the results in shared memory */
            if (j >= columns + later || (e == N / 64 && lane > 0)) continue;
            const T *const from = results + j;
            T *const to = out + j - later;
            if (j >= later && j + 1 < columns + later)
                *reinterpret_cast<uint32_t *>(to) = *reinterpret_cast<const uint32_t *>(from);
            else if (j >= later) to[0] = from[0];
            else if (columns > 0) to[1] = from[1];
        }
    }
}

template <typename T, bool WIDE_A, bool WIDE_B>
__global__ void __launch_bounds__(OUTER_MMA_THREADS, 7 + (WIDE_A & WIDE_B))
    matmul_outer_mma_kernel(const matmul_product<T> p, const outer_mma_plan way)
{
    enum { M = OUTER_MMA_M, N = OUTER_MMA_N, ACROSS = N / 8, LINE = N + OUTER_MMA_PAD };
    enum { STEPS = WIDE_A && WIDE_B ? 2 : 1 };
    extern __shared__ __align__(16) unsigned char shared[];
    T *const items = reinterpret_cast<T *>(shared);
    const matmul_geometry &g = p.g;
    const matmul_tile<T> tile = outer_tile_of<M, N>(p);
    const int terms = (int)tile.terms, first = threadIdx.x / 32 * 16; /* row of the warp */

    /* Both operands, all terms; those of two steps are on their way at once. */
    typedef outer_mma_tile<T, M> of_a;
    typedef outer_mma_tile<T, N> of_b;
    const of_a a(items, way.a_along, way.log2_terms);
    const of_b b(a.end(), way.b_along, way.log2_terms);
#pragma unroll 1
    for (int l = 0; l < terms; l += STEPS * 16) {
        typename of_a::template share<WIDE_A ? 8 : 1> some_a[STEPS];
        typename of_b::template share<WIDE_B ? 8 : 1> some_b[STEPS];
#pragma unroll
        for (int e = 0; e < STEPS; e++) {
            const int at = l + e * 16;
            a.fetch(some_a[e], tile.a + at * g.a_col, g.a_row, g.a_col, tile.rows, terms - at);
            b.fetch(some_b[e], tile.b + at * g.b_row, g.b_col, g.b_row, tile.columns,
                    terms - at);
        }
#pragma unroll
        for (int e = 0; e < STEPS; e++)
            if (e == 0 || l + e * 16 < terms) {
                a.put(some_a[e], l + e * 16);
                b.put(some_b[e], l + e * 16);
            }
    }
    __syncthreads();

    /* A warp multiplies 16 rows, half of the columns at a time. */
    T *const results = b.end() + first * LINE;
    T *const out = (T *)p.out + tile.out + first * g.out_row;
    const int rows = tile.rows - first;
    const T *const place = out + threadIdx.x % 32 / 4 * g.out_row;
    const auto is_odd = [](const T *at) { return (uintptr_t)at / sizeof(T) % 2 != 0; };
    const bool odd = is_odd(place), odder = is_odd(place + 8 * g.out_row);
#pragma unroll 1
    for (int column = 0; column < N; column += N / 2) {
        float sum[ACROSS / 2][4] = {};
#pragma unroll 1
        for (int l = 0; l < terms; l += 16) {
            uint32_t fa[4];
            a.template load<false>(fa, first, l);
#pragma unroll
            for (int n = 0; n < ACROSS / 2; n += 2) {
                uint32_t fb[4];
                b.template load<true>(fb, column + n * 8, l);
                mma_sync(sum[n], fa, {fb[0], fb[1]}, T());
                mma_sync(sum[n + 1], fa, {fb[2], fb[3]}, T());
            }
        }
        outer_mma_round<LINE>(results + column, sum, odd, odder);
    }

    /* Epilogue: a warp waits for no other. */
    __syncwarp();
    if (way.wide_out) outer_mma_store_wide<N>(out, results, g.out_row, rows, tile.columns);
    else outer_mma_store<N>(out, results, g.out_row, rows, tile.columns);
}

template <typename T>
static gop_status matmul_outer_mma(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const outer_mma_plan &plan = *GOP_OWN(const outer_mma_plan, task->plan);
    const matmul_product<T> p = matmul_product_of<T>(task, matmul_part_of(task, step));
    const unsigned blocks = matmul_tile_count<OUTER_MMA_M, OUTER_MMA_N>(p);
    static void (*const kernels[2][2])(const matmul_product<T>, const outer_mma_plan) = {
        {matmul_outer_mma_kernel<T, false, false>, matmul_outer_mma_kernel<T, false, true>},
        {matmul_outer_mma_kernel<T, true, false>, matmul_outer_mma_kernel<T, true, true>}};
    return GOP_LAUNCH(ctx, kernels[plan.wide_a][plan.wide_b], blocks, OUTER_MMA_THREADS,
                      (size_t)plan.shared, p, plan);
}
#define LAUNCHES                                                                               \
    {                                                                                          \
        nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,       \
            matmul_outer_mma<float16>, matmul_outer_mma<bfloat16>                              \
    }
#else
#define LAUNCHES                                                                               \
    {                                                                                          \
    }
#endif

static gop_status matmul_outer_mma_plan(const gop_ctx *ctx, const gop_task *task,
                                        gop_plan *plan)
{
    GOP_TRY(
        gop_has_code(ctx, "matmul: kernel 'outer_mma'", 8, "whose tensor cores take halves"));
    const gop_gemm &g = task->geometry.gemm;
    GOP_TRY(outer_takes(g, "outer_mma"));
    matmul_plan_steps(ctx, task, 1, plan);
    outer_mma_plan *const p = GOP_OWN(outer_mma_plan, plan);
    const tiling_of of = tiling_of_task(ctx, task);
    p->a_along = of.a_along, p->b_along = of.b_along;
    p->wide_a = of.a_wide, p->wide_b = of.b_wide;
    p->wide_out = matmul_wide(g, g.out, task->out[0].data, 1, g.out_row, g.n, 8);
    p->log2_terms = g.k > 32 ? 6 : g.k > 16 ? 5 : 4;
    const auto items = [&](int lines, bool along) {
        const int terms = 1 << p->log2_terms, pad = 8;
        return along ? lines * (terms + pad) : terms * (lines + pad);
    };
    const int both = items(OUTER_MMA_M, of.a_along) + items(OUTER_MMA_N, of.b_along);
    const int results = OUTER_MMA_M * (OUTER_MMA_N + 8);
    p->shared = 2 * (both + results);
    return GOP_OK;
}

extern const gop_row matmul_outer_mma_row = {
    .name = "outer_mma",
    .note = "halves, few terms and many outputs: one wait for memory a tile, tensor cores, and "
            "rows stored by whole words wherever they begin",
    .role = GOP_CONFORMING,
    .launch = LAUNCHES,
    .plan = matmul_outer_mma_plan,
    .imagined = 1u << GOP_FLOAT16 | 1u << GOP_BFLOAT16,
};
