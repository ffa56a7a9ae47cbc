/*
 * csr.c - checks of a CSR matrix in one pass by all threads: row starts, column indices, and
 * the diagonal while a piece's indices are still in the cache.
 *
 * The pass only says whether all is well. If not, a second one by a single thread looks for the
 * first thing that is wrong, and names it.
 */
#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

#include "core/ops/csr.h"

#define ALWAYS_INLINE inline __attribute__((always_inline))

enum {
    PIECE = 1 << 13, /* indices of a piece, which a near cache keeps for the second look */
    LOOK = 1 << 18,  /* indices between two looks at Ctrl-C */
    FEW = 8,         /* terms of a row that are compared at once */
    AHEAD = 1 << 10, /* bytes of data between what is read and what is asked for */
};

typedef struct csr {
    const void *data, *indices, *indptr;
    gop_dtype dtype; /* of data */
    int divides;     /* the diagonal is checked too */
    void *diagonal;  /* takes it; or NULL */
    int index64;
    int64_t n, stored;
    atomic_int bad;
    _Atomic int64_t longest; /* terms of a row */
} csr;

/* ---- the diagonal: terms add up in stored order and in their own dtype, as in the kernels
 * ---- */

static ALWAYS_INLINE void add_item(const void *data, gop_dtype dtype, int64_t p, double sum[2])
{
    const float *f = data;
    const double *d = data;
    if (dtype == GOP_FLOAT64) sum[0] += d[p];
    else if (dtype == GOP_FLOAT32) sum[0] = (float)sum[0] + f[p];
    else if (dtype == GOP_COMPLEX128) sum[0] += d[2 * p], sum[1] += d[2 * p + 1];
    else sum[0] = (float)sum[0] + f[2 * p], sum[1] = (float)sum[1] + f[2 * p + 1];
}

static ALWAYS_INLINE void keep_item(void *data, gop_dtype dtype, int64_t i, const double sum[2])
{
    float *f = data;
    double *d = data;
    if (dtype == GOP_FLOAT64) d[i] = sum[0];
    else if (dtype == GOP_FLOAT32) f[i] = (float)sum[0];
    else if (dtype == GOP_COMPLEX128) d[2 * i] = sum[0], d[2 * i + 1] = sum[1];
    else f[2 * i] = (float)sum[0], f[2 * i + 1] = (float)sum[1];
}

/* The place of the one term of row i in column i, of a row of at most FEW terms; -1 if there is
 * none or a second one. FEW indices are there to be read. */
static ALWAYS_INLINE int64_t only_hit(const csr *a, int64_t i, int64_t begin, int64_t terms)
{
#if defined(__SSE2__)
    const __m128i_u *const here = (const __m128i_u *)((const int32_t *)a->indices + begin);
    const __m128i column = _mm_set1_epi32((int)i);
    const __m128i low = _mm_cmpeq_epi32(_mm_loadu_si128(here), column),
                  high = _mm_cmpeq_epi32(_mm_loadu_si128(here + 1), column),
                  both = _mm_packs_epi16(_mm_packs_epi32(low, high), low);
    const unsigned hits = (unsigned)_mm_movemask_epi8(both) & ((1u << terms) - 1);
    if (hits != 0 && (hits & (hits - 1)) == 0) return begin + __builtin_ctz(hits);
#else
    (void)a, (void)i, (void)begin, (void)terms;
#endif
    return -1;
}

/* Copies the one term of a row in its column; returns whether it is a zero. */
static ALWAYS_INLINE int take_item(const csr *a, const gop_dtype dtype, int64_t i, int64_t p)
{
    const size_t size = (size_t)gop_dtype_size(dtype);
    const char *const item = (const char *)a->data + (size_t)p * size;
    float f[2] = {0, 0};
    double d[2] = {0, 0};
    const int is_double = dtype == GOP_FLOAT64 || dtype == GOP_COMPLEX128;
    memcpy(is_double ? (void *)d : f, item, size);
    if (a->diagonal)
        memcpy((char *)a->diagonal + (size_t)i * size, is_double ? (void *)d : f, size);
    return is_double ? d[0] == 0 && d[1] == 0 : f[0] == 0 && f[1] == 0;
}

/* Whether the diagonal's sum in row i, terms [begin, end), is a zero; `found` of its terms. */
static ALWAYS_INLINE int is_zero(const csr *a, const int index64, const gop_dtype dtype,
                                 int64_t i, int64_t begin, int64_t end, int *found)
{
    double sum[2] = {-0.0, -0.0}; /* as a step's own sum begins */
    int hits = 0;
    for (int64_t p = begin; p < end; p += 4)
        for (int hit = gop_hits(a->indices, index64, p, end, i); hit; hit &= hit - 1) {
            add_item(a->data, dtype, p + __builtin_ctz((unsigned)hit), sum);
            hits++;
        }
    *found = hits;
    if (a->diagonal) keep_item(a->diagonal, dtype, i, sum);
    return sum[0] == 0.0 && sum[1] == 0.0;
}

static gop_status zero_diagonal(const char *op, int64_t row, int stored)
{
    return gop_fail(
        GOP_SINGULAR,
        "%s: the diagonal of A is %s in row %" PRId64
        ", and the step without alpha divides by it; give alpha, or reorder the rows",
        op, stored ? "zero" : "missing", row);
}

/* ---- the pass ---- */

/* Keeps the terms of the longest row so far. */
static void keep_longest(csr *a, int64_t longest)
{
    int64_t so_far = atomic_load_explicit(&a->longest, memory_order_relaxed);
    while (longest > so_far && !atomic_compare_exchange_weak(&a->longest, &so_far, longest)) {
    }
}

/* Whether one of the indices is outside [0, n): the sign of index | (n - 1 - index). */
static inline int bad_indices(const csr *a, const int index64, int64_t begin, int64_t end)
{
    if (index64) {
        const uint64_t *index = a->indices, last = (uint64_t)(a->n - 1);
        uint64_t sign = 0;
        for (int64_t p = begin; p < end; p++) sign |= index[p] | (last - index[p]);
        return (int)(sign >> 63);
    }
    const uint32_t *index = a->indices;
    const uint32_t last = a->n - 1 < INT32_MAX ? (uint32_t)(a->n - 1) : INT32_MAX;
    uint32_t sign = 0;
    for (int64_t p = begin; p < end; p++) sign |= index[p] | (last - index[p]);
    return (int)(sign >> 31);
}

/* `index64` and `dtype` are constants where this is inlined. */
static ALWAYS_INLINE int bad_rows(csr *a, const int index64, const gop_dtype dtype,
                                  int64_t begin, int64_t end)
{
    const int64_t first = gop_index_at(a->indptr, index64, begin),
                  last = gop_index_at(a->indptr, index64, end),
                  size = a->divides ? gop_dtype_size(dtype) : 0;
    if (first < 0 || last > a->stored || bad_indices(a, index64, first, last)) return 1;
    int64_t longest = 0, next = first;
    for (int64_t i = begin; i < end; i++) {
        /* Each start is read once, and checked: another thread may write to the array. */
        const int64_t here = next;
        int found;
        next = gop_index_at(a->indptr, index64, i + 1);
        const int is_few =
            !index64 && (uint64_t)(next - here) <= FEW && here + FEW <= a->stored;
        if (!is_few && (next < here || next > a->stored)) return 1;
        longest = next - here > longest ? next - here : longest;
        if (!size) continue;
        /* One item of a row is read, which no processor foresees. */
        __builtin_prefetch((const char *)a->data + here * size + AHEAD);
        const int64_t only = is_few ? only_hit(a, i, here, next - here) : -1;
        if (only >= 0 ? take_item(a, dtype, i, only)
                      : is_zero(a, index64, dtype, i, here, next, &found))
            return 1;
    }
    keep_longest(a, longest);
    return 0;
}

static void check_piece(void *argument, int64_t begin, int64_t end, int worker)
{
    csr *a = argument;
    (void)worker;
    if (atomic_load_explicit(&a->bad, memory_order_relaxed)) return;
    const int bad = a->index64                ? bad_rows(a, 1, a->dtype, begin, end)
                    : a->dtype == GOP_FLOAT64 ? bad_rows(a, 0, GOP_FLOAT64, begin, end)
                    : a->dtype == GOP_FLOAT32 ? bad_rows(a, 0, GOP_FLOAT32, begin, end)
                                              : bad_rows(a, 0, a->dtype, begin, end);
    if (bad) atomic_store_explicit(&a->bad, 1, memory_order_relaxed);
}

/* ---- what is wrong ---- */

static gop_status find_bad_start(const char *op, const csr *a)
{
    const int64_t first = gop_index_at(a->indptr, a->index64, 0);
    if (first != 0)
        return gop_fail(GOP_BAD_ARGUMENT,
                        "%s: indptr[0] of the CSR matrix A is %" PRId64 ", expected 0", op,
                        first);
    for (int64_t i = 0; i < a->n; i++) {
        const int64_t here = gop_index_at(a->indptr, a->index64, i);
        const int64_t next = gop_index_at(a->indptr, a->index64, i + 1);
        if (next < here)
            return gop_fail(GOP_BAD_ARGUMENT,
                            "%s: indptr of the CSR matrix A decreases: indptr[%" PRId64
                            "] is %" PRId64 " after %" PRId64,
                            op, i + 1, next, here);
    }
    const int64_t last = gop_index_at(a->indptr, a->index64, a->n);
    if (last == a->stored) return GOP_OK;
    return gop_fail(GOP_BAD_ARGUMENT,
                    "%s: indptr of the CSR matrix A ends at %" PRId64 ", expected %" PRId64
                    ", the length of indices and data",
                    op, last, a->stored);
}

static gop_status find_bad(const char *op, const csr *a)
{
    GOP_TRY(find_bad_start(op, a));
    for (int64_t p = 0; p < a->stored; p++) {
        const int64_t k = gop_index_at(a->indices, a->index64, p);
        if (k < 0 || k >= a->n)
            return gop_fail(GOP_BAD_ARGUMENT,
                            "%s: indices[%" PRId64 "] is %" PRId64
                            ", expected 0 <= index < %" PRId64,
                            op, p, k, a->n);
        if (p % LOOK == 0) GOP_TRY(gop_interrupted());
    }
    for (int64_t i = 0; a->divides && i < a->n; i++) {
        int found;
        const int64_t from = gop_index_at(a->indptr, a->index64, i);
        const int64_t to = gop_index_at(a->indptr, a->index64, i + 1);
        if (from < 0 || to > a->stored) continue;
        if (is_zero(a, a->index64, a->dtype, i, from, to, &found))
            return zero_diagonal(op, i, found);
    }
    return GOP_OK; /* what was wrong was mended meanwhile by another thread */
}

gop_status gop_csr_check(const char *op, const gop_array *data, const gop_array *indices,
                         const gop_array *indptr, int64_t n, void *diagonal, int64_t *longest)
{
    csr a = {.diagonal = diagonal,
             .indices = indices->data,
             .indptr = indptr->data,
             .index64 = indices->dtype == GOP_INT64,
             .n = n,
             .stored = indices->shape[0]};
    if (data) a.data = data->data, a.dtype = data->dtype, a.divides = 1;
    const int64_t terms = a.stored / (n + 1) + 8; /* of an average row */
    const int ends = gop_index_at(a.indptr, a.index64, 0) != 0 ||
                     gop_index_at(a.indptr, a.index64, n) != a.stored;
    if (ends) return find_bad(op, &a);
    GOP_TRY(gop_parallel(n, 1 + PIECE / terms, check_piece, &a));
    *longest = atomic_load(&a.longest);
    return atomic_load(&a.bad) ? find_bad(op, &a) : GOP_OK;
}

gop_status gop_diagonal_check(const char *op, const gop_array *diagonal)
{
    for (int64_t i = 0; i < diagonal->shape[0]; i++) {
        double sum[2] = {0.0, 0.0};
        add_item(diagonal->data, diagonal->dtype, i, sum);
        if (sum[0] == 0.0 && sum[1] == 0.0) return zero_diagonal(op, i, 1);
    }
    return GOP_OK;
}
