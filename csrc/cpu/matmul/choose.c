/*
 * choose.c - the choice of a kernel for matmul: the first of the table that takes the call.
 *
 * Packing pays if packed values are used often. The plans of vector and direct take the other
 * products. ladder.c includes this file.
 */
#include "core/choice.h"

/* Whether packing costs more than it saves. It saves loads of a's strided columns, which
 * otherwise are repeated for each vector of a row of b, and a large b's, whose lines some rows
 * of a read by short pieces. Of a matrix times its own transpose both ways leave out half. */
static int matmul_is_cheap_in_place(const gop_ctx *ctx, const gop_task *task)
{
    enum {
        OWN_ROW = 512,  /* bytes of a's row, if b is its transpose */
        TERMS = 64,     /* whose lines of a the L1 cache keeps */
        NEAR = 1 << 18, /* bytes of KC lines of a that the L2 cache keeps, */
        NEAR_REAL = VECTOR == 64 ? NEAR : NEAR / 2,
        FEWEST = 7,      /* rows from which on a piece of b's lines has two vectors only */
        LONG = 512,      /* bytes of a line that has many such pieces */
        LARGE = 1 << 19, /* bytes of a b, and of those of all products, */
        FAR = 1 << 21    /* from which on such pieces come slowly */
    };
    const gop_gemm *g = &task->geometry.gemm;
    const gop_dtype dtype = task->out[0].dtype;
    const int is_complex = gop_dtype_kind(dtype) == 'c';
    const int64_t item = gop_dtype_size(dtype);
    sides s;
    (void)ctx;
    /* The plan refuses the call, and says why. */
    if (!direct_way(g, dtype, &s)) return 1;
    if (is_own_transpose(task->call)) return s.n * item < OWN_ROW;
    const int64_t line = s.n * item;
    if (s.m <= (is_complex ? COMPLEX_ROWS : ROWS))
        return is_complex || s.m < FEWEST || line <= LONG || line <= LARGE / s.k ||
               line <= FAR / s.k / g->batches;
    return s.a_col == 1 || s.k <= TERMS ||
           s.m <= (is_complex ? NEAR : NEAR_REAL) / item / gop_smaller(s.k, KC);
}

/* Whether integers are few lines times few that run along the sum. The loop of naive is vectors
 * there, as integers add in any order, and packing copies what is read once or a few times. It
 * is one thread, so long products are left to all. */
static int matmul_is_few_integers(const gop_ctx *ctx, const gop_task *task)
{
    enum { LONG = 64, MOST = 24, WORK = 1 << 22 };
    const gop_gemm *g = &task->geometry.gemm;
    const int kind = gop_dtype_kind(task->out[0].dtype);
    const int64_t few = gop_smaller(g->m, g->n), many = g->m + g->n - few;
    (void)ctx;
    return kind != 'f' && kind != 'c' && g->a_col == 1 && g->k >= LONG &&
           (g->b_row == 1 ? few <= 4 || many <= MOST : many <= 4) &&
           (double)g->batches * (double)many * (double)few * (double)g->k <= WORK;
}

static const gop_candidate matmul_candidates[] = {
    {.row = &matmul_vector_row,
     .why = "a matrix times a vector or a few, and few long lines times few: (2, 1e5) @ (1e5, "
            "2) float32 5.4 times NumPy's speed, packed 0.01; of 16 lines 1.1 to 1.5, packed "
            "0.09: AMD EPYC, a thread, 2026-11-28. Rows across the sum, (5328, 2).T @ (2, "
            "5328).T: 11 us, packed 60, NumPy 11: Intel Xeon, a thread, 2026-12-01"},
    {.row = &matmul_direct_row,
     .suits = matmul_is_cheap_in_place,
     .when = "contiguous rows of a, at most 64 terms, or 256 terms of a in 256 KB, unless 7 to "
             "14 rows meet a b of 512 KB (2 MB in all); a.T @ a of rows below 512 bytes",
     .why =
         "small and thin products where they lie, (100, 1000) @ (1000, 4) float32 20.8 us: "
         "AMD EPYC, a thread, 2026-11-24; a.T of up to 46 terms 0.46 to 0.92 of the packed "
         "time: 2026-11-30. Intel Xeon, a thread, direct and packed: a.T (200, 600) @ (600, "
         "100) 197, 224 us, (3000, 1600) @ (1600, 16) 4413, 2208, (64, 8, 300) @ (64, 300, "
         "700) 13193, 5933, (12, 500) @ (500, 500) 47, 80; a.T @ a of (4000, 34) float64 "
         "161, 290, of 64 columns 516, 512: 2026-11-30. b laid out first, (168, 2404) @ (16, "
         "2404).T complex64 365, 1232, float32 121, 272: 2026-12-01"},
    {.row = &matmul_naive_row,
     .suits = matmul_is_few_integers,
     .when = "integers, up to 4 lines times others or 24 times 24, contiguous along a sum of "
             "at least 64 terms, or rows of a up to 4 times any 4 columns, and at most 2^22 "
             "products",
     .why =
         "(2, 1e5) @ (1e5, 2) int32 73 us, packed 815, NumPy 233; (1, 1e5) @ (1e5, 1) 22, 339, "
         "56: Intel Xeon, 2 threads, 2026-11-30"},
    {.row = &matmul_threaded_row, .why = "all others, packed, on all cores"},
};

static const gop_choice matmul_choice = {sizeof matmul_candidates / sizeof *matmul_candidates,
                                         matmul_candidates, NULL};
