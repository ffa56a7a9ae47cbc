/*
 * dots.h - matmul by dot products: each output is a sum over the lanes of vectors. The summed
 * index l is contiguous in the lines of b.
 *
 * A line is a row of a or a column of b. One row of a is multiplied by several lines of b at a
 * time. Two to four rows form tiles, in which each loaded vector is used with all lines of the
 * other side. The lanes are folded at the end.
 */
#ifdef D

#if (IS_FLOAT && !IS_HALF) || IS_COMPLEX
typedef R FN(anywhere) __attribute__((vector_size(VECTOR), aligned(sizeof(R)), may_alias));
enum { FN(N) = VECTOR / (int)sizeof(R), FN(PARTS) = DOT_BYTES / EACH / VECTOR };

static ALWAYS_INLINE void FN(fold_parts)(V *sum)
{
#pragma GCC unroll 16
    for (int d = FN(PARTS) / 2; d > 0; d /= 2)
#pragma GCC unroll 16
        for (int v = 0; v < d; v++) sum[v] += sum[v + d];
}

static ALWAYS_INLINE void FN(fold_lanes)(V *sum)
{
    FN(fold_parts)(sum);
#pragma GCC unroll 4
    for (int d = FN(N) / 2; d >= EACH; d /= 2) sum[0] += VFN(turn)(sum[0], d);
}

/* Computes the dot products of x with `lines` lines of b, over `count` real numbers. Term l
 * goes to lane l mod (DOT_BYTES / EACH / sizeof(T)) at every instruction-set level, and the
 * lanes fold by halves. Complex numbers are multiplied by x, and by x with its parts exchanged.
 */
static ALWAYS_INLINE void FN(dot_lines)(const int lines, int64_t count, const R *b,
                                        int64_t line, const R *x, R *sums)
{
    enum { N = FN(N), STEP = FN(PARTS) * FN(N) };
    V sum[DOT_LINES][FN(PARTS)];
#if IS_COMPLEX
    V turned[DOT_LINES][FN(PARTS)];
#define TURNED(j, v, from) turned[j][v] = VFN(fma)(from, VFN(swap)(part), turned[j][v])
#pragma GCC unroll 16
    for (int j = 0; j < lines; j++)
#pragma GCC unroll 16
        for (int v = 0; v < FN(PARTS); v++) turned[j][v] = (V){0};
#else
#define TURNED(j, v, from) (void)0
#endif
#pragma GCC unroll 16
    for (int j = 0; j < lines; j++)
#pragma GCC unroll 16
        for (int v = 0; v < FN(PARTS); v++) sum[j][v] = (V){0};
    const int64_t whole = count / STEP * STEP, full = (count - whole) / N;
    const int64_t rest = count - whole - full * N;
    for (int64_t l = 0; l < whole; l += STEP)
#pragma GCC unroll 16
        for (int v = 0; v < FN(PARTS); v++) {
            const V part = *(const FN(anywhere) *)(x + l + v * N);
#pragma GCC unroll 16
            for (int j = 0; j < lines; j++) {
                const R *const from = b + j * line + l + v * N;
                const V here = *(const FN(anywhere) *)from;
                if (v * VECTOR % 64 == 0) __builtin_prefetch((const char *)from + 2 * AHEAD);
                sum[j][v] = VFN(fma)(here, part, sum[j][v]);
                TURNED(j, v, here);
            }
        }
    if (whole < count)
#pragma GCC unroll 16
        for (int v = 0; v < FN(PARTS); v++) {
            const int64_t l = whole + v * N, left = v < full ? N : v == full ? rest : 0;
            const V part = left > 0 ? (V)UFN(load)(x + l, left) : (V){0};
#pragma GCC unroll 16
            for (int j = 0; j < lines; j++) {
                const V here = left > 0 ? (V)UFN(load)(b + j * line + l, left) : (V){0};
                sum[j][v] = VFN(fma)(here, part, sum[j][v]);
                TURNED(j, v, here);
            }
        }
#pragma GCC unroll 16
    for (int j = 0; j < lines; j++) {
        FN(fold_lanes)(sum[j]);
#if IS_COMPLEX
        FN(fold_lanes)(turned[j]);
        sums[2 * j] = sum[j][0][0] - sum[j][0][1];
        sums[2 * j + 1] = turned[j][0][0] + turned[j][0][1];
#else
        sums[j] = sum[j][0][0];
#endif
    }
#undef TURNED
}

/* Adds the products of vector v to its sums: with complex numbers by x, and by x with its parts
 * exchanged. */
static ALWAYS_INLINE void FN(dot_vector)(V here, V x, V (*sum)[FN(PARTS)], int v)
{
    sum[0][v] = VFN(fma)(here, x, sum[0][v]);
#if IS_COMPLEX
    sum[1][v] = VFN(fma)(here, VFN(swap)(x), sum[1][v]);
#endif
}

/* The same for many short lines, which end in `parts` vectors of `count` numbers: as many sums
 * as a vector has lanes fold together. */
static ALWAYS_INLINE void FN(dot_short)(const int parts, int64_t whole, int64_t count,
                                        int64_t outputs, const R *b, int64_t line, const R *x,
                                        R *out, int64_t out_step)
{
    enum { N = FN(N), AT_ONCE = N / EACH, STEP = FN(PARTS) * FN(N) };
    const int64_t last = count - (parts - 1) * N;
    V with[FN(PARTS)];
#pragma GCC unroll 16
    for (int v = 0; v < parts; v++)
        with[v] = (V)UFN(load)(x + whole + v * N, v < parts - 1 ? N : last);
    for (int64_t j = 0; j < outputs; j += AT_ONCE) {
        const int64_t left = gop_smaller(outputs - j, AT_ONCE);
        V sums[N];
#pragma GCC unroll 16
        for (int i = 0; i < AT_ONCE; i++) {
            V sum[EACH][FN(PARTS)];
            const R *const from = b + (j + (i < left ? i : 0)) * line;
#pragma GCC unroll 16
            for (int v = 0; v < EACH * FN(PARTS); v++)
                sum[v / FN(PARTS)][v % FN(PARTS)] = (V){0};
            for (int64_t l = 0; l < whole; l += STEP)
#pragma GCC unroll 16
                for (int v = 0; v < FN(PARTS); v++) {
                    if (v * VECTOR % 64 == 0)
                        __builtin_prefetch((const char *)(from + l + v * N) + 2 * AHEAD);
                    FN(dot_vector)
                    (*(const FN(anywhere) *)(from + l + v * N),
                     *(const FN(anywhere) *)(x + l + v * N), sum, v);
                }
#pragma GCC unroll 16
            for (int v = 0; v < parts; v++) {
                const R *const at = from + whole + v * N;
                if (whole > 0 && v * VECTOR % 64 == 0)
                    __builtin_prefetch((const char *)at + 2 * AHEAD);
                FN(dot_vector)((V)UFN(load)(at, v < parts - 1 ? N : last), with[v], sum, v);
            }
            FN(fold_parts)(sum[0]);
#if IS_COMPLEX
            FN(fold_parts)(sum[1]);
            sums[2 * i] = VFN(minus_odd)(sum[0][0]);
#endif
            sums[EACH * (i + 1) - 1] = sum[EACH - 1][0];
        }
        const V all = VFN(fold)(sums);
        if (out_step == 1) UFN(store)(out + EACH * j, EACH * left, (U)all);
        for (int64_t i = 0; i < left && out_step != 1; i++)
            memcpy(out + EACH * (j + i) * out_step, (const R *)&all + EACH * i, sizeof(T));
    }
}

/* Computes `outputs` outputs from one segment of l. */
static void FN(dots)(int64_t outputs, int64_t count, const T *b, int64_t line, const T *x,
                     T *out, int64_t out_step)
{
    const R *const from = (const R *)b, *const with = (const R *)x;
    T sums[DOT_LINES];
    int64_t j = 0;
    count *= EACH, line *= EACH;
    const int64_t whole = count / (FN(PARTS) * FN(N)) * (FN(PARTS) * FN(N)),
                  rest = count - whole;
    if (whole <= SHORT_STEPS * FN(PARTS) * FN(N) && outputs > 1) {
        R *const to = (R *)out;
#define CASE(parts)                                                                            \
    case parts:                                                                                \
        if (parts <= FN(PARTS)) FN(dot_short)                                                  \
        (parts, whole, rest, outputs, from, line, with, to, out_step);                         \
        return;
        switch (gop_ceil(rest, FN(N))) {
            CASE(0)
            CASE(1)
            CASE(2)
            CASE(3)
            CASE(4)
            CASE(5)
            CASE(6)
            CASE(7)
            CASE(8) CASE(9) CASE(10) CASE(11) CASE(12) CASE(13) CASE(14) CASE(15) CASE(16)
        }
#undef CASE
        return;
    }
    for (; j + DOT_LINES <= outputs; j += DOT_LINES) {
        FN(dot_lines)(DOT_LINES, count, from + j * line, line, with, (R *)sums);
        for (int r = 0; r < DOT_LINES; r++) out[(j + r) * out_step] = sums[r];
    }
    for (; j < outputs; j++)
        FN(dot_lines)(1, count, from + j * line, line, with, (R *)(out + j * out_step));
}

#if !IS_COMPLEX
/* Half a vector at an address; volatile, since GCC otherwise loads it again for each use. */
typedef R FN(half_anywhere)
    __attribute__((vector_size(VECTOR / 2), aligned(sizeof(R)), may_alias));
#define HALF_AT(from) (*(const volatile FN(half_anywhere) *)(from))

/* Prefetches each line AHEAD bytes on: the L1 prefetcher does not follow that many streams. */
static ALWAYS_INLINE void FN(fetch_lines)(const int lines, const T *from, int64_t line)
{
#pragma GCC unroll 16
    for (int j = 0; j < lines; j++) __builtin_prefetch((const char *)(from + j * line) + AHEAD);
}

/* Adds the products of `left` terms, at most TILE_BYTES, to the tile's lanes. */
static ALWAYS_INLINE void FN(tile_terms)(const int rows, const int lines, int64_t left,
                                         const T *b, int64_t line, const T *x, int64_t x_row,
                                         V (*sum)[TILE_PARTS])
{
    enum { N = FN(N) };
#pragma GCC unroll 4
    for (int v = 0; v < TILE_PARTS; v++) {
        const int64_t count = lanes_left(left - v * N, N);
        if (count == 0) { /* as adding zeros does, which turns -0 into +0 */
#pragma GCC unroll 16
            for (int o = 0; o < rows * lines; o++) sum[o][v] += 0;
            continue;
        }
        V with[MOST_ROWS];
#pragma GCC unroll 4
        for (int i = 0; i < rows; i++) with[i] = (V)UFN(load)(x + i * x_row + v * N, count);
#pragma GCC unroll 8
        for (int j = 0; j < lines; j++) {
            const V here = (V)UFN(load)(b + j * line + v * N, count);
#pragma GCC unroll 4
            for (int i = 0; i < rows; i++)
                sum[j * rows + i][v] = VFN(fma)(here, with[i], sum[j * rows + i][v]);
        }
    }
}

/* Adds the products of the whole steps of `count` terms to the tile's lanes, by half vectors:
 * where the caches' speed decides, these take fewer cycles if lines do not begin at multiples
 * of a vector. Returns the number of terms. */
static ALWAYS_INLINE int64_t FN(tile_halves)(const int rows, const int lines, int64_t count,
                                             const T *b, int64_t line, const T *x,
                                             int64_t x_row, V (*sum)[TILE_PARTS])
{
    enum { N = FN(N) / 2 };
    H half[HALVED][2];
#pragma GCC unroll 16
    for (int o = 0; o < rows * lines; o++) half[o][0] = half[o][1] = (H){0};
    int64_t l = 0;
    for (; l + 2 * N <= count; l += 2 * N) {
        FN(fetch_lines)(rows, x + l, x_row);
        FN(fetch_lines)(lines, b + l, line);
#pragma GCC unroll 2
        for (int v = 0; v < 2; v++) {
            H with[MOST_ROWS];
#pragma GCC unroll 4
            for (int i = 0; i < rows; i++) with[i] = HALF_AT(x + i * x_row + l + v * N);
#pragma GCC unroll 8
            for (int j = 0; j < lines; j++) {
                const H here = HALF_AT(b + j * line + l + v * N);
#pragma GCC unroll 4
                for (int i = 0; i < rows; i++)
                    half[j * rows + i][v] = HFN(fma)(here, with[i], half[j * rows + i][v]);
            }
        }
    }
#pragma GCC unroll 16
    for (int o = 0; o < rows * lines; o++) memcpy(sum[o], half[o], sizeof half[o]);
    return l;
}
#undef HALF_AT

/* Computes the dot products of `lines` lines of b with `rows` rows of x. Each loaded vector is
 * used with all lines of the other side. Term l goes to lane l mod (TILE_BYTES / sizeof(T)). */
static ALWAYS_INLINE void FN(dot_tile)(const int rows, const int lines, int64_t count,
                                       const T *b, int64_t line, const T *x, int64_t x_row,
                                       T *out, int64_t out_row, int64_t out_step)
{
    enum { N = FN(N), STEP = TILE_PARTS * N, WIDE = (TILE + N - 1) / N * N };
    V sum[WIDE][TILE_PARTS];
#pragma GCC unroll 16
    for (int o = 0; o < WIDE; o++)
#pragma GCC unroll 4
        for (int v = 0; v < TILE_PARTS; v++) sum[o][v] = (V){0};
    int64_t l = 0;
    if (VECTOR == 64 && rows * lines <= HALVED)
        l = FN(tile_halves)(rows, lines, count, b, line, x, x_row, sum);
    for (; l + STEP <= count; l += STEP) {
        FN(fetch_lines)(rows, x + l, x_row);
        FN(fetch_lines)(lines, b + l, line);
        FN(tile_terms)(rows, lines, STEP, b + l, line, x + l, x_row, sum);
    }
    if (l < count) FN(tile_terms)(rows, lines, count - l, b + l, line, x + l, x_row, sum);
    R each[WIDE];
#pragma GCC unroll 16
    for (int o = 0; o < WIDE; o += N) {
        V folded[N];
#pragma GCC unroll 16
        for (int i = 0; i < N; i++) {
#pragma GCC unroll 4
            for (int d = TILE_PARTS / 2; d > 0; d /= 2)
#pragma GCC unroll 4
                for (int v = 0; v < d; v++) sum[o + i][v] += sum[o + i][v + d];
            folded[i] = sum[o + i][0];
        }
        UFN(store)(each + o, N, (U)VFN(fold)(folded));
    }
#pragma GCC unroll 8
    for (int j = 0; j < lines; j++)
#pragma GCC unroll 4
        for (int i = 0; i < rows; i++) out[i * out_row + j * out_step] = each[j * rows + i];
}

/* The same for many short lines of b, stored transposed: term l of all lines is contiguous, and
 * terms are `width` apart. So a vector holds one term of several lines. Each lane of dot_tile
 * becomes a chain of additions here, one chain after the other. Their sums are added in the
 * order in which dot_tile folds lanes, so the bits are the same without shuffles. LEVELS: of
 * that fold; DOWN: rows at a time. */
static void FN(dots_across)(int64_t rows, int64_t outputs, int64_t count, const T *b,
                            int64_t width, const T *x, int64_t x_row, T *out, int64_t out_row,
                            int64_t out_step)
{
    enum { N = FN(N), LANES = TILE_BYTES / (int)sizeof(T), LEVELS = 6, DOWN = 4 };
    const int64_t all = rows * gop_ceil(outputs, 2 * N);
    V sums[LEVELS][DOWN][2];
    for (int64_t at = 0; at < all; at += gop_smaller(DOWN, rows - at % rows)) {
        const int64_t i = at % rows, j = at / rows * 2 * N, down = gop_smaller(rows - i, DOWN);
        int level = 0;
        /* Chains in bit-reversed order: those that fold together follow each other. */
        for (int c = 0; c < LANES; c++) {
            V sum[DOWN][2] = {{{0}}};
            int lane = 0; /* c with its bits reversed */
            for (int bit = 1; bit < LANES; bit *= 2) lane += c & bit ? LANES / 2 / bit : 0;
            for (int64_t l = lane; l < count; l += LANES)
#pragma GCC unroll 2
                for (int v = 0; v < 2; v++) {
                    const V line = *(const FN(anywhere) *)(b + l * width + j + v * N);
#pragma GCC unroll 4
                    for (int r = 0; r < DOWN; r++)
                        sum[r][v] =
                            VFN(fma)(VECTOR_SPLAT(V, x[(i + (r < down ? r : 0)) * x_row + l]),
                                     line, sum[r][v]);
                }
            level = 0;
            const int adds_zero = count % LANES > 0 && lane >= count % LANES; /* as tiles do */
#pragma GCC unroll 8
            for (int o = 0; o < 2 * DOWN; o++)
                if (adds_zero) sum[o / 2][o % 2] += 0;
            for (int left = c; left & 1; left /= 2, level++)
#pragma GCC unroll 8
                for (int o = 0; o < 2 * DOWN; o++)
                    sum[o / 2][o % 2] += sums[level][o / 2][o % 2];
            memcpy(sums[level], sum, sizeof sum);
        }
        /* Store: the last chain's level has the sums of all. */
        for (int64_t r = 0; r < down; r++)
            for (int v = 0; v < 2; v++) {
                const int64_t left = lanes_left(outputs - j - v * N, N);
                T *const to = out + (i + r) * out_row + (j + v * N) * out_step;
                if (out_step == 1 && left > 0) UFN(store)(to, left, (U)sums[level][r][v]);
                for (int64_t n = 0; n < left && out_step != 1; n++)
                    to[n * out_step] = sums[level][r][v][n];
            }
    }
}

/* Computes `outputs` outputs for each of `rows` rows, from one segment of l. Lines that two
 * rows have used are in the L1 cache for the other two. */
static ALWAYS_INLINE void FN(dot_tiles)(const int rows, int64_t outputs, int64_t count,
                                        const T *b, int64_t line, const T *x, int64_t x_row,
                                        T *out, int64_t out_row, int64_t out_step)
{
    const int at_once = rows <= TILE_ROWS ? rows : 2, lines = TILE / at_once;
    int64_t j = 0;
    for (; j + lines <= outputs; j += lines)
        for (int i = 0; i < rows; i += at_once) FN(dot_tile)
    (at_once, lines, count, b + j * line, line, x + i * x_row, x_row,
     out + i * out_row + j * out_step, out_row, out_step);
    for (; j < outputs; j++)
        for (int i = 0; i < rows; i += at_once) FN(dot_tile)
    (at_once, 1, count, b + j * line, line, x + i * x_row, x_row,
     out + i * out_row + j * out_step, out_row, out_step);
}
#endif

/* Multiplies one segment of `rows` lines of x by `outputs` lines of b, in a grid of nearly
 * equal tiles. If b is x, only tiles that reach above the diagonal are computed. */
static void FN(dots_of_few)(int64_t rows, int64_t outputs, int64_t count, const T *b,
                            int64_t line, const T *x, int64_t x_row, T *out, int64_t out_row,
                            int64_t out_step, int is_mirrored)
{
#if !IS_COMPLEX
    const int64_t across = (outputs + GRID_LINES - 1) / GRID_LINES;
    const int64_t down = (rows + GRID_ROWS - 1) / GRID_ROWS;
    for (int64_t c = 0; c < across; c++)
        for (int64_t r = 0; r < down; r++) {
            const int64_t j = outputs * c / across, j_end = outputs * (c + 1) / across;
            const int64_t i = rows * r / down, i_end = rows * (r + 1) / down;
            if (is_mirrored && j_end <= i) continue;
#define CASE(h, w)                                                                             \
    case 8 * h + w:                                                                            \
        if (h <= GRID_ROWS && w <= GRID_LINES) FN(dot_tile)                                    \
        (h, w, count, b + j * line, line, x + i * x_row, x_row,                                \
         out + i * out_row + j * out_step, out_row, out_step);                                 \
        break;
#define CASES(h) CASE(h, 1) CASE(h, 2) CASE(h, 3) CASE(h, 4)
            switch (8 * (i_end - i) + j_end - j) {
                CASES(1) CASES(2) CASES(3) CASES(4)
            }
#undef CASES
#undef CASE
        }
#else
    (void)is_mirrored;
    for (int64_t i = 0; i < rows; i++)
        FN(dots)(outputs, count, b, line, x + i * x_row, out + i * out_row, out_step);
#endif
}

/* The same as dots, for each of `rows` rows of x. */
static void FN(dots_of_rows)(int64_t rows, int64_t outputs, int64_t count, const T *b,
                             int64_t line, const T *x, int64_t x_row, T *out, int64_t out_row,
                             int64_t out_step)
{
#if !IS_COMPLEX
#define CASE(r)                                                                                \
    case r:                                                                                    \
        FN(dot_tiles)(r, outputs, count, b, line, x, x_row, out, out_row, out_step);           \
        return;
    switch (rows) {
        CASE(2) CASE(3) CASE(4)
    }
#undef CASE
    if (rows > 1) {
        FN(dots_of_few)(rows, outputs, count, b, line, x, x_row, out, out_row, out_step, 0);
        return;
    }
#endif
    for (int64_t i = 0; i < rows; i++)
        FN(dots)(outputs, count, b, line, x + i * x_row, out + i * out_row, out_step);
}
#endif

#elif !defined(GOP_CPU_MATMUL_DOTS_H)
#define GOP_CPU_MATMUL_DOTS_H

#include "cpu/matmul/rows.h"

/* One row of a. */
enum {
    DOT_BYTES = 256,                     /* of a line's partial sums */
    DOT_LINES = VECTOR == 64 ? 4 : 2,    /* that share loads of a */
    SHORT_STEPS = VECTOR == 64 ? 4 : 64, /* steps of DOT_BYTES, up to which a line is short */
};
/* Tiles of several rows of a and lines of b. */
enum {
    TILE_BYTES = 64,                  /* of an output's partial sums */
    TILE_PARTS = TILE_BYTES / VECTOR, /* the same in vectors */
    TILE = VECTOR == 64 ? 16 : 6,     /* outputs, as registers allow */
    TILE_ROWS = VECTOR == 64 ? 4 : 3, /* rows, as registers allow */
    MOST_ROWS = 4,
    APART = 16,  /* numbers that pad a packed row of a: rows fall into different L1 sets */
    HALVED = 9,  /* most outputs of a tile whose sums are half vectors */
    AHEAD = 512, /* bytes from what a tile reads to what it prefetches */
};
/* A few long rows of a times a few long lines of b. */
enum {
    FEW_LINES = 24,                   /* most lines of real numbers, */
    FEW_COMPLEX = 4,                  /* and of complex ones */
    FEW_APART = 4,                    /* most lines that are not packed */
    FEW_MEET = 1 << 11,               /* bytes: rows that far apart map to one cache set */
    FEW_TERMS = 16,                   /* fewest terms */
    FEW_BYTES = 1 << 12,              /* of a line in a segment: all lines stay in L1 */
    FEWEST_LINES = 4,                 /* lines, up to which segments are longer: */
    FEWEST_BYTES = 1 << 15,           /* these lines are read once, or stay in L2 */
    GRID_ROWS = VECTOR == 64 ? 4 : 2, /* the size of a tile */
    GRID_LINES = VECTOR == 64 ? 4 : 3,
};

static inline int64_t lanes_left(int64_t left, int64_t most)
{
    return left < 0 ? 0 : left < most ? left : most;
}

#define GOP_TPL "cpu/matmul/dots.h"
#include "cpu/runtime/each_dtype.inc"

#endif
