/*
 * choose.c - the choice of a kernel for matmul: the first of the table that takes the call.
 *
 * Packing pays if packed values are used often. The plans of vector and direct take the other
 * products. ladder.c includes this file.
 */
#include "core/choice.h"

/* Whether packing costs more than it saves. It saves half the work for a matrix times its own
 * transpose. It also saves loads of a's strided columns, which otherwise are repeated for each
 * vector of a row of b. */
static int matmul_is_cheap_in_place(const gop_ctx *ctx, const gop_task *task)
{
    enum {
        LONG_ROW_OF_B = 256, /* bytes; complex numbers count twice */
        OWN_ROW = 512,       /* bytes of a's row, if b is its transpose */
        NEAR_TERMS = 64,     /* whose lines of a the first-level cache keeps */
        NEAR = 3 << 17,      /* bytes of KC lines of a that the second-level cache keeps */
        NARROW_ROWS = 7,     /* from which on direct reads b by short pieces of its lines, */
        FAR = 1 << 21,       /* bytes of all b's from which on that is slow, */
        LARGE = 1 << 19      /* and bytes of one */
    };
    const gop_dtype dtype = task->out[0].dtype;
    const int is_complex = gop_dtype_kind(dtype) == 'c';
    const int64_t item = gop_dtype_size(dtype);
    const int rows = is_complex ? COMPLEX_ROWS : ROWS;
    sides s;
    (void)ctx;
    /* The plan refuses the call, and says why. */
    if (!direct_way(&task->geometry.gemm, dtype, &s)) return 1;
    if (is_own_transpose(task->call)) return s.n * item < OWN_ROW;
    if (s.m <= rows)
        return is_complex || s.m < NARROW_ROWS || s.n <= LARGE / item / s.k ||
               s.n <= FAR / item / s.k / task->geometry.gemm.batches;
    if (s.a_col == 1 || s.k <= NEAR_TERMS) return 1;
    if (is_complex && s.n * item << is_complex < LONG_ROW_OF_B) return 1;
    return s.m <= NEAR / item / gop_smaller(s.k, KC) >> is_complex;
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
    return kind != 'f' && kind != 'c' && g->a_col == 1 && g->b_row == 1 && g->k >= LONG &&
           (few <= 4 || many <= MOST) &&
           (double)g->batches * (double)many * (double)few * (double)g->k <= WORK;
}

static const gop_candidate matmul_candidates[] = {
    {.row = &matmul_vector_row,
     .why = "a matrix times a vector or a few, and few long lines times few: (2, 1e5) @ (1e5, "
            "2) float32 5.4 times NumPy's speed, packed 0.01; of 16 lines 1.1 to 1.5, packed "
            "0.09: AMD EPYC, a thread, 2026-11-28"},
    {.row = &matmul_direct_row,
     .suits = matmul_is_cheap_in_place,
     .when = "rows of b that are shorter than 256 bytes, contiguous rows of a, or at most 64 "
             "terms, unless b is a's transpose",
     .why = "small and thin products where they lie, (100, 1000) @ (1000, 4) float32 20.8 us: "
            "AMD EPYC, a thread, 2026-11-24; packed, a.T (512, 2048) @ (2048, 64) is 1.2 times "
            "as fast, a.T @ a of (40000, 64) complex64 twice: 2 threads, 2026-11-29; up to 46 "
            "terms of a.T 0.46 to 0.92 of the packed time (8 drawn): the same, 2026-11-30"},
    {.row = &matmul_naive_row,
     .suits = matmul_is_few_integers,
     .when = "integers, up to 4 lines times others or 24 times 24, contiguous along a sum of "
             "at least 64 terms, and at most 2^22 products",
     .why =
         "(2, 1e5) @ (1e5, 2) int32 73 us, packed 815, NumPy 233; (1, 1e5) @ (1e5, 1) 22, 339, "
         "56: Intel Xeon, 2 threads, 2026-11-30"},
    {.row = &matmul_threaded_row, .why = "all others, packed, on all cores"},
};

static const gop_choice matmul_choice = {sizeof matmul_candidates / sizeof *matmul_candidates,
                                         matmul_candidates, NULL};
