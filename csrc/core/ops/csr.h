/*
 * csr.h - checks that arrays are a valid CSR matrix.
 */
#ifndef GOP_CORE_OPS_CSR_H
#define GOP_CORE_OPS_CSR_H

#include "core/core.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

static inline int64_t gop_index_at(const void *index, int index64, int64_t p)
{
    return index64 ? ((const int64_t *)index)[p] : ((const int32_t *)index)[p];
}

/* Which of up to four terms from p on, before end, are in column i, a bit each. There is one
 * branch, which most rows take alike. */
static inline int gop_hits(const void *indices, const int index64, int64_t p, int64_t end,
                           int64_t i)
{
#if defined(__SSE2__)
    if (!index64 && p + 4 <= end) {
        const __m128i four = _mm_loadu_si128((const __m128i_u *)((const int32_t *)indices + p));
        return _mm_movemask_ps(_mm_castsi128_ps(_mm_cmpeq_epi32(four, _mm_set1_epi32((int)i))));
    }
#endif
    int hit = gop_index_at(indices, index64, p) == i;
    if (p + 4 <= end) {
        hit |= (gop_index_at(indices, index64, p + 1) == i) << 1;
        hit |= (gop_index_at(indices, index64, p + 2) == i) << 2;
        return hit | (gop_index_at(indices, index64, p + 3) == i) << 3;
    }
    if (p + 1 < end) hit |= (gop_index_at(indices, index64, p + 1) == i) << 1;
    if (p + 2 < end) hit |= (gop_index_at(indices, index64, p + 2) == i) << 2;
    return hit;
}

/* Checks a matrix in host memory. If `data` is given, its diagonal must have no zeros, and is
 * copied to `diagonal` unless that is NULL. The sentence names the first bad position or row.
 * `longest`: the terms of the longest row. */
gop_status gop_csr_check(const char *op, const gop_array *data, const gop_array *indices,
                         const gop_array *indptr, int64_t n, void *diagonal,
                         int64_t *longest) GOP_MUST_CHECK;
/* Checks that the diagonal of a dense matrix has no zeros. */
gop_status gop_diagonal_check(const char *op, const gop_array *diagonal) GOP_MUST_CHECK;

#endif
