/*
 * direct_blocks.h - the plan of direct, and its blocks of sums in registers.
 */
#ifdef D

#if (IS_FLOAT && !IS_HALF) || IS_COMPLEX
enum {
    FN(LANES) = VECTOR / (int)sizeof(R),
    FN(MR) = IS_COMPLEX ? (VECTOR == 32 ? 3 : COMPLEX_ROWS) : ROWS,
    FN(NV) = IS_COMPLEX && VECTOR == 16 ? 1 : 2,
    FN(NARROW_MR) = FN(MR) < 8 ? FN(MR) : 7,
    FN(FEW) = (VECTOR == 16 ? 2 : 3 + (VECTOR == 64)) / EACH, /* most vectors of chains */
    FN(WIDEST) = VECTOR > 16 ? 8 / EACH : FN(NV), /* most vectors of a block, which has one */
    FN(WIDE_ROWS) = VECTOR == 64 ? 6 : 2,         /* row, and half of them up to this many */
};

/* Computes `rows` x (vectors - 1 whole vectors and `last` lanes) outputs, over `chains` times
 * kc values of l. For complex numbers, the products with the real part of a are one chain,
 * those with the imaginary part another. */
static ALWAYS_INLINE void FN(direct_block)(const int rows, const int vectors, const int chains,
                                           int64_t last, int64_t kc, const R *a, const R *b,
                                           R *out, const direct *p, int is_first)
{
    V sum[CHAINS][FN(MR)][FN(WIDEST)];
    const int64_t a_row = EACH * p->s.a_row, a_col = EACH * p->s.a_col,
                  b_row = EACH * p->s.b_row;
#if IS_COMPLEX
    V turned[CHAINS][FN(MR)][FN(WIDEST)];
#endif
#pragma GCC unroll 16
    for (int c = 0; c < chains; c++)
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
            for (int v = 0; v < vectors; v++) {
                sum[c][i][v] = (V){0};
#if IS_COMPLEX
                turned[c][i][v] = (V){0};
#endif
            }
    for (int64_t l = 0; l < kc; l++, a += a_col, b += b_row)
#pragma GCC unroll 16
        for (int c = 0; c < chains; c++) {
            V line[FN(WIDEST)];
#pragma GCC unroll 8
            for (int v = 0; v < vectors; v++)
                line[v] = (V)UFN(load)(b + c * KC * b_row + v * FN(LANES),
                                       v == vectors - 1 ? last : FN(LANES));
#pragma GCC unroll 16
            for (int i = 0; i < rows; i++) {
                const R *const x = a + c * KC * a_col + i * a_row;
#pragma GCC unroll 8
                for (int v = 0; v < vectors; v++) {
                    sum[c][i][v] = VFN(fma)(VECTOR_SPLAT(V, x[0]), line[v], sum[c][i][v]);
#if IS_COMPLEX
                    turned[c][i][v] = VFN(fma)(VECTOR_SPLAT(V, x[1]), line[v], turned[c][i][v]);
#endif
                }
            }
        }
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++) {
            R *const to = out + i * EACH * p->s.out_row + v * FN(LANES);
            const int64_t count = v == vectors - 1 ? last : FN(LANES), apart = EACH * p->apart;
            V all = is_first ? (V){0} : (V)UFN(load)(to, count);
#pragma GCC unroll 16
            for (int c = 0; c < chains; c++) {
                V one = sum[c][i][v];
#if IS_COMPLEX
                one += VFN(times_i)(turned[c][i][v]);
#endif
                if (chains > 1 && apart > 0) {
                    UFN(store)(to + c * apart, count, (U)one);
                    continue;
                }
                all = is_first && c == 0 ? one : all + one;
            }
            if (chains == 1 || apart == 0) UFN(store)(to, count, (U)all);
        }
}

/* Computes `rows` rows and all columns, over kc values of l. The fewer the rows, the wider the
 * blocks: a sum waits for its last term, so there should be many. */
static ALWAYS_INLINE void FN(direct_rows)(const int rows, int64_t cols, int64_t kc, const R *a,
                                          const R *b, R *out, const direct *p, int is_first)
{
    enum { N = FN(LANES) };
    const int most = rows == 1 ? FN(WIDEST) : rows <= FN(WIDE_ROWS) ? FN(WIDEST) / 2 : 1;
#define BLOCK(v)                                                                               \
    if (v <= most || v <= FN(NV))                                                              \
        for (; left > (v - 1) * N; left -= v * N, b += v * N, out += v * N) FN(direct_block)   \
    (rows, v <= FN(WIDEST) ? v : 1, 1, gop_smaller(left - (v - 1) * N, N), kc, a, b, out, p,   \
     is_first)
    int64_t left = EACH * cols;
    BLOCK(8);
    BLOCK(4);
    BLOCK(2);
    BLOCK(1);
#undef BLOCK
}

/* Each number of rows has its own loop, because a padding row costs as much as another row. */
static void FN(direct_panel)(int rows, int64_t cols, int64_t kc, const R *a, const R *b, R *out,
                             const direct *p, int is_first)
{
#define CASE(r)                                                                                \
    case r:                                                                                    \
        if (r <= FN(MR)) FN(direct_rows)(r, cols, kc, a, b, out, p, is_first);                 \
        break;
    switch (rows) {
        EACH_ROWS(CASE)
    }
#undef CASE
}

#if !IS_COMPLEX
/* The same as direct_block, for columns that fit in half a vector. */
static ALWAYS_INLINE void FN(half_block)(const int rows, int64_t cols, int64_t kc, const R *a,
                                         const R *b, R *out, const direct *p, int is_first)
{
    H sum[FN(MR)];
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) sum[i] = (H){0};
    for (int64_t l = 0; l < kc; l++, a += p->s.a_col, b += p->s.b_row) {
        const V line = (V)UFN(load)(b, cols);
        H here;
        memcpy(&here, &line, sizeof here);
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++)
            sum[i] = HFN(fma)(VECTOR_SPLAT(H, a[i * p->s.a_row]), here, sum[i]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) {
        R *const to = out + i * p->s.out_row;
        V all = {0};
        memcpy(&all, &sum[i], sizeof sum[i]);
        if (!is_first) all = (V)UFN(load)(to, cols) + all;
        UFN(store)(to, cols, (U)all);
    }
}

static void FN(half_panel)(int rows, int64_t cols, int64_t kc, const R *a, const R *b, R *out,
                           const direct *p, int is_first)
{
#define CASE(r)                                                                                \
    case r:                                                                                    \
        FN(half_block)(r, cols, kc, a, b, out, p, is_first);                                   \
        break;
    switch (rows) {
        EACH_ROWS(CASE)
    }
#undef CASE
}
#endif

/* A few sums would each wait for their last term. So CHAINS segments of l run at the same time,
 * with the same bits as one after the other. */
static void FN(direct_chains)(int rows, int vectors, int64_t cols, const R *a, const R *b,
                              R *out, const direct *p, int is_first)
{
    const int64_t last = EACH * cols - (vectors - 1) * FN(LANES);
#define CASE(r, v)                                                                             \
    case 8 * r + v:                                                                            \
        if (r * v <= FN(FEW))                                                                  \
            FN(direct_block)(r, v, CHAINS, last, KC, a, b, out, p, is_first);                  \
        break;
    switch (8 * rows + vectors) {
        CASE(1, 1) CASE(2, 1) CASE(3, 1) CASE(4, 1) CASE(1, 2) CASE(2, 2) CASE(1, 3) CASE(1, 4)
    }
#undef CASE
}
#endif

#elif !defined(GOP_CPU_MATMUL_DIRECT_BLOCKS_H)
#define GOP_CPU_MATMUL_DIRECT_BLOCKS_H

#include "cpu/matmul/panels.h"
#include "cpu/matmul/tiles.h"
#include "cpu/matmul/turned.h"

/* Rows of LONG_ROW terms that are a power of two apart map to one set of the L1 cache, which
 * has 8 ways. So with one vector of b, seven rows are computed at a time. Wider blocks reuse
 * what they load more often. */
enum { CHAINS = 4, LONG_ROW = 128 };

/* The plan: each product has `pieces` of rows x cols outputs. */
typedef struct direct {
    sides s;
    int64_t apart_row, apart_col; /* strides of b if it is copied (`lays_out`) */
    int64_t rows, cols, pieces_n, pieces, grain;
    int64_t round_k;       /* values of l between two checks for Ctrl-C */
    int64_t own, tile_row; /* elements of a worker's scratch, and of a row of sums there */
    int workers;
    int lays_out; /* b is copied */
    int spreads;  /* sums go to scratch, and from there to columns of out that are apart */
    int is_turned, is_half; /* a lane is a row of a; the columns fit in half a vector */
    int is_mirrored;        /* a times its transpose: what is below the diagonal is copied */
    int64_t apart;  /* elements between the sums of two blocks, if workers share sums; else 0 */
    int64_t blocks; /* of KC terms, which workers share in a round */
    const gop_gemm *gemm; /* this and the following belong to one call */
    const void *a, *b;
    void *out, *scratch;
    int64_t l_begin, l_end;
} direct;

#define GOP_TPL "cpu/matmul/direct_blocks.h"
#include "cpu/runtime/each_dtype.inc"

#endif
