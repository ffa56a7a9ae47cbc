/*
 * outer_mma_sm80.cu - matmul of halves with few terms and many outputs, bound by the store.
 *
 * What outer.cu does, by tensor cores: a result of two bytes leaves no time for as many
 * multiply-adds. All terms of a tile stand in shared memory at once, as they lie in memory, so
 * that there is one wait for memory a tile. Where a product has few rows, the warps of a tile
 * stand side by side. A warp has whole rows; its results go through shared memory of its own
 * and leave by 16 bytes. Where a row begins within 16 bytes, its results stand there as many
 * items later, which makes them whole again but for both ends.
 */
#include <type_traits>

#include "cuda/common/cp_async.h"
#include "cuda/common/cvt.h"
#include "cuda/common/mma.h"
#include "cuda/matmul/outer.h"
#include "cuda/matmul/thin.h"

enum { OUTER_MMA_OUTPUTS = 64 * 128, OUTER_MMA_WAYS = 3 }; /* of a tile; tiles */

/* What a plan decides. */
struct outer_mma_plan {
    matmul_cut steps;     /* first: matmul_plan_steps fills it */
    int way;              /* a tile has 16 << way rows */
    int a_along, b_along; /* terms are neighbours */
    int a_many, b_many;   /* neighbours that are brought at once: eight, two or one */
    int edges;            /* whether rows of results are no groups of 16 bytes */
    int log2_terms;       /* in shared memory, where there are 16, 32 or 64 */
    int shared;
};

#if GOP_SM80

enum { OUTER_MMA_THREADS = 128, OUTER_MMA_PAD = 8 };
/* Columns of a warp, whose rows of results in shared memory have so many items. */
enum { OUTER_MMA_COLUMNS = 128, OUTER_MMA_LINE = OUTER_MMA_COLUMNS + OUTER_MMA_PAD };

/* LINES lines of an operand, or, of the other order, its terms, in shared memory; these are
 * padded so that ldmatrix meets all banks. */
template <typename T, int LINES> struct outer_mma_tile {
    enum { THREADS = OUTER_MMA_THREADS };
    T *items;
    int along, log2_terms, pitch;

    GOP_DEVICE outer_mma_tile(T *items, int along, int log2_terms)
        : items(items), along(along), log2_terms(log2_terms),
          pitch((along ? 1 << log2_terms : LINES) + OUTER_MMA_PAD)
    {
    }
    GOP_DEVICE T *end(void) const { return items + (along ? LINES : 1 << log2_terms) * pitch; }

    /* Copies MANY neighbours at a time. What lies beyond the terms is 0; no result that is
     * stored hangs on lines that do not exist. */
    template <int MANY> GOP_DEVICE void copy_by(const T *from, int64_t line, int64_t term,
                                                int lines, int terms) const
    {
        const int t = threadIdx.x;
        if (along) {
            enum { WIDTH = 16 / MANY, STEP = THREADS / WIDTH };
            const int x = t % WIDTH * MANY;
            for (int l = x; l < (terms + 15) / 16 * 16; l += 16)
#pragma unroll 4
                for (int i = t / WIDTH; i < lines; i += STEP)
                    cp_async<2 * MANY>(address_in_shared(items + i * pitch + l),
                                       l < terms ? from + i * line + l * term : from,
                                       l < terms);
        } else {
            enum { ALL = LINES / MANY, WIDTH = ALL < THREADS ? +ALL : +THREADS };
            enum { STEP = THREADS / WIDTH };
#pragma unroll 2
            for (int l = t / WIDTH; l < terms; l += STEP)
#pragma unroll
                for (int i = t % WIDTH * MANY; i < LINES; i += WIDTH * MANY)
                    if (i < lines)
                        cp_async<2 * MANY>(address_in_shared(items + l * pitch + i),
                                           from + i * line + l * term, true);
        }
    }
    GOP_DEVICE void copy(const T *from, int64_t line, int64_t term, int lines, int terms,
                         int many) const
    {
        const uint4 zero = {};
        if (many == 8) copy_by<8>(from, line, term, lines, terms);
        else if (many == 2) copy_by<2>(from, line, term, lines, terms);
        if (along || many == 1) return;
        const int absent = ((terms + 15) / 16 * 16 - terms) * (pitch / 8);
        for (int at = threadIdx.x; at < absent; at += THREADS)
            *reinterpret_cast<uint4 *>(items + terms * pitch + at * 8) = zero;
    }

    /* One by one: a thread's share of 16 terms, as much at a time as registers hold. All of it
     * is on its way before the thread waits for the first. Where a line of memory is longer
     * than the threads, these take ROUND pieces of it. */
    enum { EACH = LINES * 16 / THREADS, MOST = EACH < 16 ? +EACH : 16, PARTS = EACH / MOST };
    enum { ROUND = LINES > THREADS ? LINES / THREADS : 1, WIDTH = LINES / ROUND };
    struct share {
        T at[MOST];
    };
    struct stride { /* from one to the next, or from ROUND to ROUND */
        int line, lines, terms;
    };
    GOP_DEVICE stride strides(void) const
    {
        if (along) return {THREADS / 16, ROUND * THREADS / 16, 0};
        return {WIDTH, 0, THREADS / WIDTH};
    }
    GOP_DEVICE void begin(int part, int &i, int &l) const
    {
        const int t = threadIdx.x;
        i = along ? t / 16 + part * MOST * (THREADS / 16) : t % WIDTH;
        l = along ? t % 16 : t / WIDTH + part * MOST / ROUND * (THREADS / WIDTH);
    }
    GOP_DEVICE void fetch(share &to, int part, const T *from, int64_t line, int64_t term,
                          int lines, int terms) const
    {
        const stride by = strides();
        const int64_t near = by.line * line, far = by.lines * line + by.terms * term;
        int i, l;
        begin(part, i, l);
        from += i * line + l * term;
        /* What there is in the direction in which `far` goes. */
        const int step = along ? by.lines : by.terms;
        int left = along ? (l < terms ? lines - i : 0) : terms - l;
        if (ROUND == 1 && !along && i >= lines) left = 0;
#pragma unroll
        for (int e = 0; e < MOST; e += ROUND, from += far, left -= step)
#pragma unroll
            for (int r = 0; r < ROUND; r++) {
                const int after = r * by.line;
                to.at[e + r] = {};
                if (left > (along ? after : 0) && (ROUND == 1 || along || i + after < lines))
                    to.at[e + r] = from[r * near];
            }
    }
    GOP_DEVICE void put(const share &of, int part, int first) const
    {
        const stride by = strides();
        const int near = by.line * (along ? pitch : 1);
        const int far = along ? by.lines * pitch : by.terms * pitch;
        int i, l;
        begin(part, i, l);
        T *to = items + (along ? i * pitch + first + l : (first + l) * pitch + i);
#pragma unroll
        for (int e = 0; e < MOST; e += ROUND, to += far)
#pragma unroll
            for (int r = 0; r < ROUND; r++) to[r * near] = of.at[e + r];
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

/* How many items after a group of 16 bytes this one lies. */
template <typename T> GOP_DEVICE int outer_mma_later(const T *at)
{
    return (int)((uintptr_t)at / sizeof(T) % 8);
}

/* A warp's 16 rows of results, rounded, into its shared memory: each so many items later as
 * its place in memory is, so that groups of 16 bytes there are groups here. */
template <typename T, int ACROSS>
GOP_DEVICE void outer_mma_round(T *results, const float (&sum)[ACROSS][4], int later, int other)
{
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int shift = half ? other : later;
        T *const to = results + (lane / 4 + half * 8) * OUTER_MMA_LINE + lane % 4 * 2 + shift;
#pragma unroll
        for (int n = 0; n < ACROSS; n++) {
            const uint32_t two = cvt_rn_two(sum[n][half * 2], sum[n][half * 2 + 1], T());
            if (shift % 2) {
                to[n * 8] = {(uint16_t)two};
                to[n * 8 + 1] = {(uint16_t)(two >> 16)};
            } else {
                *reinterpret_cast<uint32_t *>(to + n * 8) = two;
            }
        }
    }
}

/* Stores them: what fills 16 bytes, a lane each; */
template <typename T>
GOP_DEVICE void outer_mma_store(T *out, const T *results, int64_t row, int rows, int columns)
{
    enum { V = 8, WIDTH = OUTER_MMA_COLUMNS / V };
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int e = 0; e < WIDTH / 2; e++) {
        const int i = e * 2 + lane / WIDTH;
        T *const to = out + i * row;
        const int later = outer_mma_later(to), j = lane % WIDTH * V - later;
        if (i < rows && j >= 0 && j + V <= columns)
            *reinterpret_cast<uint4 *>(to + j) =
                *reinterpret_cast<const uint4 *>(results + i * OUTER_MMA_LINE + j + later);
    }
}

/* then what is left at both ends of a row, by groups of four, two and one: an end a lane. */
template <typename T>
GOP_DEVICE void outer_mma_edges(T *out, const T *results, int64_t row, int rows, int columns)
{
    const int lane = threadIdx.x % 32, i = lane % 16;
    if (i >= rows) return;
    const bool is_head = lane < 16;
    T *to = out + i * row;
    const int later = outer_mma_later(to), end = later + columns;
    const T *from = results + i * OUTER_MMA_LINE + later;
    if (later > 0 && end < 8) { /* of neither end: one by one */
        for (int j = 0; is_head && j < columns; j++) to[j] = from[j];
        return;
    }
    const int length = is_head ? (8 - later) % 8 : end % 8;
    if (!is_head) to += columns - length, from += columns - length;
    const auto put = [&](auto group) {
        enum { MANY = decltype(group)::value };
        typedef thin_group<T, MANY> some;
        const int at = is_head ? length & (MANY - 1) : length & -2 * MANY;
        if (length & MANY)
            *reinterpret_cast<some *>(to + at) = *reinterpret_cast<const some *>(from + at);
    };
    put(std::integral_constant<int, 4>());
    put(std::integral_constant<int, 2>());
    put(std::integral_constant<int, 1>());
}

template <typename T, int M> __global__ void __launch_bounds__(OUTER_MMA_THREADS, 7)
    matmul_outer_mma_kernel(const matmul_product<T> p, const outer_mma_plan way)
{
    enum { N = OUTER_MMA_OUTPUTS / M, DOWN = M / 16, ACROSS = OUTER_MMA_COLUMNS / 8 };
    extern __shared__ __align__(16) unsigned char shared[];
    const matmul_geometry &g = p.g;
    const matmul_tile<T> tile = outer_tile_of<M, N>(p);
    const int terms = (int)tile.terms, warp = threadIdx.x / 32;

    /* Both operands, all terms. */
    typedef outer_mma_tile<T, M> of_a;
    typedef outer_mma_tile<T, N> of_b;
    const of_a a(reinterpret_cast<T *>(shared), way.a_along, way.log2_terms);
    const of_b b(a.end(), way.b_along, way.log2_terms);
    b.copy(tile.b, g.b_col, g.b_row, tile.columns, terms, way.b_many);
    a.copy(tile.a, g.a_row, g.a_col, tile.rows, terms, way.a_many);
    cp_async_commit_group();
#pragma unroll 1
    for (int l = 0; l < terms && (way.a_many == 1 || way.b_many == 1); l += 16)
#pragma unroll 1
        for (int part = 0; part < of_b::PARTS; part++) {
            const bool has_a = way.a_many == 1 && part == 0, has_b = way.b_many == 1;
            typename of_a::share some_a;
            typename of_b::share some_b;
            if (has_a)
                a.fetch(some_a, 0, tile.a + l * g.a_col, g.a_row, g.a_col, tile.rows,
                        terms - l);
            if (has_b)
                b.fetch(some_b, part, tile.b + l * g.b_row, g.b_col, g.b_row, tile.columns,
                        terms - l);
            if (has_a) a.put(some_a, 0, l);
            if (has_b) b.put(some_b, part, l);
        }
    cp_async_wait_group<0>();
    __syncthreads();

    /* A warp multiplies 16 rows and 128 columns, half of these at a time. */
    const int first = warp % DOWN * 16, column = warp / DOWN * OUTER_MMA_COLUMNS;
    const int rows = tile.rows - first, columns = tile.columns - column;
    if (rows <= 0 || columns <= 0) return;
    const int here = columns < OUTER_MMA_COLUMNS ? columns : +OUTER_MMA_COLUMNS;
    T *const results = b.end() + warp * 16 * OUTER_MMA_LINE;
    T *const out = (T *)p.out + tile.out + first * g.out_row + column;
    const T *const place = out + threadIdx.x % 32 / 4 * g.out_row;
    const int later = outer_mma_later(place), other = outer_mma_later(place + 8 * g.out_row);
#pragma unroll 1
    for (int j = 0; j < here; j += OUTER_MMA_COLUMNS / 2) {
        float sum[ACROSS / 2][4] = {};
#pragma unroll 1
        for (int l = 0; l < terms; l += 16) {
            uint32_t fa[4];
            a.template load<false>(fa, first, l);
#pragma unroll
            for (int n = 0; n < ACROSS / 2; n += 2) {
                uint32_t fb[4];
                b.template load<true>(fb, column + j + n * 8, l);
                mma_sync(sum[n], fa, {fb[0], fb[1]}, T());
                mma_sync(sum[n + 1], fa, {fb[2], fb[3]}, T());
            }
        }
        outer_mma_round(results + j, sum, later, other);
    }

    /* Epilogue: a warp waits for no other. */
    __syncwarp();
    outer_mma_store(out, results, g.out_row, rows, here);
    if (way.edges) outer_mma_edges(out, results, g.out_row, rows, here);
}

template <typename T>
static gop_status matmul_outer_mma(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const outer_mma_plan &plan = *GOP_OWN(const outer_mma_plan, task->plan);
    const matmul_product<T> p = matmul_product_of<T>(task, matmul_part_of(task, step));
    const auto launch = [&](auto rows) {
        enum { M = decltype(rows)::value };
        return GOP_LAUNCH(ctx, (matmul_outer_mma_kernel<T, M>),
                          (matmul_tile_count<M, OUTER_MMA_OUTPUTS / M>(p)), OUTER_MMA_THREADS,
                          (size_t)plan.shared, p, plan);
    };
    return plan.way == 0   ? launch(std::integral_constant<int, 16>())
           : plan.way == 1 ? launch(std::integral_constant<int, 32>())
                           : launch(std::integral_constant<int, 64>());
}
#endif

/* The tile of the least time: blocks, and lines that they bring. Warps that store are as many
 * with each. Beside a line of 16 terms, a block takes the time of so many of them. */
static int outer_mma_way(const gop_gemm &g)
{
    enum { BLOCK = 264 };
    int best = 0;
    int64_t least = INT64_MAX;
    for (int way = OUTER_MMA_WAYS - 1; way >= 0; way--) {
        const int64_t m = 16 << way, n = OUTER_MMA_OUTPUTS / m;
        const int64_t time =
            blocks_for(g.m, m) * blocks_for(g.n, n) * (BLOCK + (m + n) * blocks_for(g.k, 16));
        if (time < least) least = time, best = way;
    }
    return best;
}

static gop_status matmul_outer_mma_plan(const gop_ctx *ctx, const gop_task *task,
                                        gop_plan *plan)
{
    GOP_TRY(
        gop_has_code(ctx, "matmul: kernel 'outer_mma'", 8, "whose tensor cores take halves"));
    const gop_gemm &g = task->geometry.gemm;
    GOP_TRY(outer_takes(g, "outer_mma"));
    matmul_plan_steps(ctx, task, 1, plan, 16);
    outer_mma_plan *const p = GOP_OWN(outer_mma_plan, plan);
    const tiling_of of = tiling_of_task(ctx, task);
    const auto brought = [&](const int64_t *batch, const void *data, int64_t line, int64_t term,
                             int64_t lines, bool along) {
        const int many = tiling_copied(g, batch, data, line, g.k > 1 ? term : 0, lines, along);
        return many == 4 ? 2 : many;
    };
    p->a_along = of.a_along && g.k > 1, p->b_along = of.b_along && g.k > 1;
    p->a_many = brought(g.a, task->in[0].data, g.a_row, g.a_col, g.m, p->a_along);
    p->b_many = brought(g.b, task->in[1].data, g.b_col, g.b_row, g.n, p->b_along);
    p->way = outer_mma_way(g);
    p->edges = !matmul_wide(g, g.out, task->out[0].data, 1, g.out_row, g.n, 8);
    p->log2_terms = g.k > 32 ? 6 : g.k > 16 ? 5 : 4;
    const auto items = [&](int lines, bool along) {
        const int terms = 1 << p->log2_terms, pad = 8;
        return along ? lines * (terms + pad) : terms * (lines + pad);
    };
    const int m = 16 << p->way, n = OUTER_MMA_OUTPUTS / m, warps = 4, results = 16 * (128 + 8);
    p->shared = 2 * (items(m, p->a_along) + items(n, p->b_along) + warps * results);
    plan->launch =
        GOP_NATIVE_LAUNCH(task->in[0].dtype == GOP_FLOAT16 ? matmul_outer_mma<float16>
                                                           : matmul_outer_mma<bfloat16>);
    return GOP_OK;
}

extern const gop_row matmul_outer_mma_row = {
    .name = "outer_mma",
    .note = "halves, few terms and many outputs: one wait for memory a tile, tensor cores, and "
            "rows stored by whole words wherever they begin",
    .role = GOP_CONFORMING,
    .plan = matmul_outer_mma_plan,
    GOP_NATIVE_DTYPES(1u << GOP_FLOAT16 | 1u << GOP_BFLOAT16),
};
