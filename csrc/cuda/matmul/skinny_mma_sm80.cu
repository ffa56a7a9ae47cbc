/*
 * skinny_mma_sm80.cu - matmul with few columns, by tensor cores fed straight from memory.
 *
 * With some ten columns the arithmetic units cannot keep up with memory; tensor cores can. A
 * sum may take its terms in any order, so the 16 bytes that a lane loads are its fragments as
 * they come: nothing passes through shared memory. Tensor cores truncate, so they sum only a
 * few terms of halves, and float32 additions do the rest.
 */
#include "cuda/matmul/thin.h"
#include "cuda/common/mma.h"

#if GOP_SM80

/* What a warp takes at a time: LINES outputs down, TERMS of their sums, MT fragments down. */
template <typename T, bool ALONG> struct skinny_mma_shape {
    enum { V = 16 / (int)sizeof(T), MT = ALONG || sizeof(T) == 8 ? 2 : 4, LINES = 16 * MT };
    enum { TERMS = sizeof(T) == 8 ? 8 : ALONG ? 32 : 16, AHEAD = sizeof(T) == 8 ? 4 : 2 };
};

template <typename T> struct alignas(16) skinny_mma_load {
    T at[16 / sizeof(T)];
};

/* 16 bytes, or as many elements one by one: those from first on, of which `exist` are there. */
template <typename T, bool WIDE>
GOP_DEVICE skinny_mma_load<T> skinny_mma_fetch(const T *from, int64_t stride, int64_t exist)
{
    enum { V = 16 / (int)sizeof(T) };
    skinny_mma_load<T> got = {};
    if constexpr (WIDE) {
        if (exist > 0) {
            const vec128<T> word = load128_stream(from);
            __builtin_memcpy(&got, &word, sizeof got);
        }
    } else {
#pragma unroll
        for (int v = 0; v < V; v++)
            if (v < exist) got.at[v] = from[v * stride];
    }
    return got;
}

GOP_DEVICE uint32_t lane_word(const void *load, int i)
{
    uint32_t word;
    __builtin_memcpy(&word, (const char *)load + 4 * i, 4);
    return word;
}

/* sum[.][n] += the fragments of a, a load a line, times those of b's column n at `from`. */
template <typename T, bool ALONG, int NT, int MT, int LOADS>
GOP_DEVICE void skinny_mma_multiply(sum_t<T> (&sum)[MT][NT][4], int n,
                                    const skinny_mma_load<T> (&line)[LOADS], const T *from)
{
    enum { HALVES = sizeof(T) == 2 };
    if constexpr (HALVES && ALONG) {
        const vec128<T> of_b = load128(from);
#pragma unroll
        for (int m = 0; m < MT; m++) {
            float few[4] = {};
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const skinny_mma_load<T> &x = line[2 * m], &y = line[2 * m + 1];
                const uint32_t fa[4] = {lane_word(&x, 2 * half), lane_word(&y, 2 * half),
                                        lane_word(&x, 2 * half + 1),
                                        lane_word(&y, 2 * half + 1)};
                const uint32_t fb[2] = {lane_word(&of_b, 2 * half),
                                        lane_word(&of_b, 2 * half + 1)};
                mma_sync(few, fa, fb, T());
            }
#pragma unroll
            for (int e = 0; e < 4; e++) sum[m][n][e] += few[e];
        }
    } else if constexpr (HALVES) {
        const uint2 of_b = *reinterpret_cast<const uint2 *>(from);
        const uint32_t fb[2] = {of_b.x, of_b.y};
#pragma unroll
        for (int m = 0; m < MT; m++) {
            float few[4] = {};
            const uint32_t w0 = lane_word(&line[0], m), w1 = lane_word(&line[1], m);
            const uint32_t w2 = lane_word(&line[2], m), w3 = lane_word(&line[3], m);
            const uint32_t fa[4] = {__byte_perm(w0, w1, 0x5410), __byte_perm(w0, w1, 0x7632),
                                    __byte_perm(w2, w3, 0x5410), __byte_perm(w2, w3, 0x7632)};
            mma_sync(few, fa, fb, T());
#pragma unroll
            for (int e = 0; e < 4; e++) sum[m][n][e] += few[e];
        }
    } else {
        const vec128<double> of_b = load128((const double *)from);
        const double fb[2] = {of_b.at[0], of_b.at[1]};
#pragma unroll
        for (int m = 0; m < MT; m++) {
            const skinny_mma_load<T> &x = line[2 * m], &y = line[2 * m + 1];
            if constexpr (ALONG) {
                const double fa[4] = {x.at[0], y.at[0], x.at[1], y.at[1]};
                mma_sync(sum[m][n], fa, fb);
            } else {
                const double fa[4] = {x.at[0], x.at[1], y.at[0], y.at[1]};
                mma_sync(sum[m][n], fa, fb);
            }
        }
    }
}

/* A lane's loads of rows from i0 on, and how much of each exists: along, a lane's terms follow
 * each other; across, its rows do. */
template <bool ALONG, typename T, int LOADS>
GOP_DEVICE void skinny_mma_rows(const T *(&a)[LOADS], int64_t (&exist)[LOADS], const T *from,
                                const matmul_geometry &g, int64_t i0)
{
    enum { V = 16 / (int)sizeof(T) };
    const int lane = threadIdx.x % 32, q = lane % 4, of_8 = lane / 4;
#pragma unroll
    for (int x = 0; x < LOADS; x++) {
        int64_t i, l;
        if constexpr (ALONG) {
            i = i0 + x * 8 + of_8;
            l = q * V;
            exist[x] = i < g.m ? V : 0;
        } else if constexpr (sizeof(T) == 2) {
            i = i0 + of_8 * 8;
            l = q * 4 + x;
            exist[x] = g.m - i;
        } else {
            i = i0 + x / 2 * 16 + of_8 * 2;
            l = q * 2 + x % 2;
            exist[x] = g.m - i;
        }
        a[x] = from + i * g.a_row + l * g.a_col;
    }
}

/* A warp's sums of 8 columns to shared memory. */
template <bool ALONG, typename S, int MT, int NT, int PITCH>
GOP_DEVICE void skinny_mma_share(S (&meet)[8][PITCH], const S (&sum)[MT][NT][4], int n)
{
    const int lane = threadIdx.x % 32, q = lane % 4, of_8 = lane / 4;
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const int slot = e / 2; /* row g, or g + 8 */
            const int at = ALONG            ? m * 16 + of_8 + slot * 8
                           : sizeof(S) == 4 ? of_8 * 8 + m * 2 + slot
                                            : m * 16 + of_8 * 2 + slot;
            meet[q * 2 + e % 2][at] = sum[m][n][e];
        }
}

/* Adds what the warps of each sum have put there, and stores it, from column j0 on. */
template <typename T, int PITCH>
GOP_DEVICE void skinny_mma_store(const matmul_product<T> &p,
                                 const sum_t<T> (&meet)[THIN_WARPS][8][PITCH], int parts,
                                 const thin_block &block, int64_t j0, int64_t out)
{
    enum { LINES = PITCH - 1 };
    const matmul_geometry &g = p.g;
    const int rows = THIN_WARPS / parts * LINES; /* of a block */
    for (int at = threadIdx.x; at < rows * 8; at += THIN_THREADS) {
        const bool down_first = thin_down_first(g);
        const int x = down_first ? at % rows : at / 8, c = down_first ? at / rows : at % 8;
        const int from = x / LINES * parts, row = x % LINES;
        sum_t<T> total = meet[from][c][row];
        for (int w = 1; w < parts; w++) total = plus(total, meet[from + w][c][row]);
        const int64_t i = block.i0 + x, j = j0 + c;
        if (i < g.m && j < g.n)
            thin_put(p, out + i * g.out_row + j * g.out_col, block.chunk, total);
    }
}

/* At least two blocks an SM where the compiler would just miss that. */
template <typename T, bool ALONG, bool WIDE, int COLUMNS> __global__ void
__launch_bounds__(THIN_THREADS, sizeof(T) == 2 && !ALONG && COLUMNS == 16 ? 2 : 1)
    matmul_skinny_mma_kernel(const matmul_product<T> p, const int parts)
{
    typedef sum_t<T> S;
    typedef skinny_mma_shape<T, ALONG> shape;
    enum { V = shape::V, MT = shape::MT, LINES = shape::LINES, TERMS = shape::TERMS };
    enum { AHEAD = shape::AHEAD, NT = COLUMNS / 8, HALVES = sizeof(T) == 2 };
    enum { LOADS = ALONG ? 2 * MT : TERMS / 4 * (HALVES ? 1 : MT) };
    __shared__ S meet[THIN_WARPS][8][LINES + 1];
    const matmul_geometry &g = p.g;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, q = lane % 4, of_8 = lane / 4;
    const thin_block block =
        thin_block_of(p, blockIdx.x, (g.n + COLUMNS - 1) / COLUMNS, THIN_WARPS / parts * LINES);
    const int64_t c0 = block.tile * COLUMNS, end = block.end;
    const matmul_offsets of = matmul_batch(g, block.batch);

    const T *a[LOADS];
    int64_t exist[LOADS];
    skinny_mma_rows<ALONG>(a, exist, p.a + of.a, g, block.i0 + warp / parts * LINES);
    enum { B_TERMS = ALONG ? V : TERMS / 4 };
    const T *b[NT];
#pragma unroll
    for (int n = 0; n < NT; n++) {
        const int64_t j = c0 + n * 8 + of_8;
        b[n] = p.b + of.b + (j < g.n ? j : g.n - 1) * g.b_col + q * B_TERMS;
    }
    const int64_t apart = ALONG ? g.a_col : g.a_row;

    /* Main loop: load fragments AHEAD times at once, multiply. */
    S sum[MT][NT][4] = {};
    for (int64_t l0 = block.begin + warp % parts * TERMS * AHEAD; l0 < end;
         l0 += parts * TERMS * AHEAD) {
        skinny_mma_load<T> line[AHEAD][LOADS];
#pragma unroll
        for (int u = 0; u < AHEAD; u++)
#pragma unroll
            for (int x = 0; x < LOADS; x++) {
                const int64_t l = l0 + u * TERMS;
                int64_t there = exist[x];
                if constexpr (ALONG) {
                    const int64_t left = end - l - q * V;
                    if (there > left) there = left;
                } else {
                    if (l + q * B_TERMS + x % B_TERMS >= end) there = 0;
                }
                line[u][x] = skinny_mma_fetch<T, WIDE>(a[x] + l * g.a_col, apart, there);
            }
#pragma unroll
        for (int u = 0; u < AHEAD; u++)
#pragma unroll
            for (int n = 0; n < NT; n++) {
                const T *const from = b[n] + l0 + u * TERMS;
                skinny_mma_multiply<T, ALONG>(sum, n, line[u], from);
            }
    }

    /* Epilogue: the warps of a sum meet, 8 columns at a time. */
#pragma unroll
    for (int n = 0; n < NT; n++) {
        __syncthreads();
        skinny_mma_share<ALONG>(meet[warp], sum, n);
        __syncthreads();
        skinny_mma_store(p, meet, parts, block, c0 + n * 8, of.out);
    }
}

template <typename T, int ALONG, int WIDE, int COLUMNS>
static gop_status matmul_skinny_mma(gop_ctx *ctx, const gop_task *task, int64_t)
{
    const thin_cut &cut = *GOP_OWN(const thin_cut, task->plan);
    matmul_product<T> p = thin_product_of<T>(task, cut);
    if (cut.packed) GOP_TRY(thin_pack(ctx, task, cut, &p));
    GOP_TRY(GOP_LAUNCH(ctx, (matmul_skinny_mma_kernel<T, ALONG, WIDE, COLUMNS>),
                       (unsigned)cut.blocks, THIN_THREADS, 0, p, cut.parts));
    return thin_add_partials<T>(ctx, task, p.part);
}

#define OF_LOADS(T, ALONG, WIDE)                                                               \
    {                                                                                          \
        matmul_skinny_mma<T, ALONG, WIDE, 8>, matmul_skinny_mma<T, ALONG, WIDE, 16>,           \
            matmul_skinny_mma<T, ALONG, WIDE, 32>                                              \
    }
#define OF(T)                                                                                  \
    {                                                                                          \
        {OF_LOADS(T, 0, 0), OF_LOADS(T, 0, 1)},                                                \
        {                                                                                      \
            OF_LOADS(T, 1, 0), OF_LOADS(T, 1, 1)                                               \
        }                                                                                      \
    }
static gop_launch launch_of(gop_dtype dtype, int along, int wide, int columns)
{
    static const gop_launch halves[][2][2][3] = {OF(float16), OF(bfloat16)};
    static const gop_launch doubles[2][2][3] = OF(double);
    const int index = columns <= 8 ? 0 : columns <= 16 ? 1 : 2;
    if (dtype == GOP_FLOAT64) return doubles[along][wide][index];
    return halves[dtype - GOP_FLOAT16][along][wide][index];
}
#else
static gop_launch launch_of(gop_dtype, int, int, int)
{
    return nullptr;
}
#endif

static gop_status matmul_skinny_mma_plan(const gop_ctx *ctx, const gop_task *task,
                                         gop_plan *plan)
{
    GOP_TRY(gop_has_code(ctx, "matmul: kernel 'skinny_mma'", 8,
                         "whose tensor cores take halves and float64"));
    thin_cut *const cut = GOP_OWN(thin_cut, plan);
    *cut = {};
    const gop_gemm g = thin_geometry(task, &cut->swapped);
    GOP_TRY(thin_takes(g, "skinny_mma"));
    const int along = gop_magnitude(g.a_col) <= gop_magnitude(g.a_row);
    const int wide = thin_wide(task, g, cut->swapped ? 1 : 0, along);
    matmul_tiling &tiling = *cut;
    tiling = skinny_mma_tiling(thin_tiling_of(ctx, task, g, wide));
    cut->layout = {thin_padded(g.k, 64), g.n};
    thin_scratch(task, g, cut, plan);
    plan->launch = launch_of(task->in[0].dtype, along, wide, cut->columns);
    return GOP_OK;
}

#define DTYPES (1 << GOP_FLOAT16 | 1 << GOP_BFLOAT16 | 1 << GOP_FLOAT64)
extern const gop_row matmul_skinny_mma_row = {
    .name = "skinny_mma",
    .note = "few rows or columns: 16 bytes of the large operand are a lane's part of a small "
            "matrix that tensor cores multiply",
    .role = GOP_CONFORMING,
    .plan = matmul_skinny_mma_plan,
    .dtypes = GOP_SM80 ? DTYPES : 0,
    .imagined = DTYPES,
    .before = "fragments",
};
