/*
 * halves.h - conversions of contiguous float16 and bfloat16. They use vector instructions
 * explicitly, because the compiler does not vectorize the conversion of one.
 */
#ifndef GOP_CPU_HALVES_H
#define GOP_CPU_HALVES_H

#include "core/arrays/half.h"

static inline void load_line_float16(float *to, const uint16_t *from, int64_t n)
{
    int64_t i = 0;
#if defined(__AVX512F__)
    for (; i + 16 <= n; i += 16) {
        const __m256i x = _mm256_loadu_si256((const __m256i *)(const void *)(from + i));
        _mm512_storeu_ps(to + i, _mm512_cvtph_ps(x));
    }
#elif defined(__F16C__)
    for (; i + 8 <= n; i += 8) {
        const __m128i x = _mm_loadu_si128((const __m128i *)(const void *)(from + i));
        _mm256_storeu_ps(to + i, _mm256_cvtph_ps(x));
    }
#endif
    for (; i < n; i++) to[i] = gop_f16_load(from[i]);
}

static inline void load_line_bfloat16(float *to, const uint16_t *from, int64_t n)
{
    for (int64_t i = 0; i < n; i++) to[i] = gop_bf16_load(from[i]);
}

static inline void store_line_float16(uint16_t *to, const float *from, int64_t n)
{
    int64_t i = 0;
#if defined(__F16C__)
    for (; i + 8 <= n; i += 8) {
        const __m128i x = _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT);
        _mm_storeu_si128((__m128i *)(void *)(to + i), x);
    }
#endif
    for (; i < n; i++) to[i] = gop_f16_store(from[i]);
}

#endif
