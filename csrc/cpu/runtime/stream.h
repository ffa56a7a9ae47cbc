/*
 * stream.h - writing past the caches.
 *
 * A store into a line that no cache holds reads that line from memory first, only to overwrite
 * it. Streaming stores of whole lines do not: an output that no cache could keep costs half the
 * traffic, and leaves there what other work needs.
 */
#ifndef GOP_CPU_STREAM_H
#define GOP_CPU_STREAM_H

#include <stdint.h>
#include <string.h>

#include "core/core.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

enum {
    LINE = 64,            /* bytes of a cache line */
    STREAM_BUFFER = 1024, /* bytes computed before they are streamed: still on their way to the
                             first-level cache */
    HUGE_PAGE = 1 << 21,  /* fresh memory comes in pages of this size from HUGE_FROM bytes on */
    HUGE_FROM = 1 << 22,
};

/* Whether an output of `bytes` bytes is written past the caches: from half the last-level cache
 * on. */
int gop_streams(int64_t bytes);

/* Large memory that was never written. The system clears its pages when they first are, and
 * leaves them in the caches: what is written there at once is not streamed. */
int gop_is_fresh(const void *memory, int64_t bytes);

/* Has the pages of fresh memory cleared by all threads, no page by two; no byte changes. */
gop_status gop_populate(void *memory, int64_t bytes);

/* Whole lines, to an address that begins one. */
static inline void stream_lines(char *to, const char *from, size_t bytes)
{
#if defined(__AVX512F__)
    for (size_t i = 0; i < bytes; i += 64)
        _mm512_stream_si512((void *)(to + i), _mm512_loadu_si512((const void *)(from + i)));
#elif defined(__AVX__)
    for (size_t i = 0; i < bytes; i += 32)
        _mm256_stream_si256((void *)(to + i), _mm256_loadu_si256((const void *)(from + i)));
#elif defined(__SSE2__)
    for (size_t i = 0; i < bytes; i += 16)
        _mm_stream_si128((void *)(to + i), _mm_loadu_si128((const void *)(from + i)));
#else
    memcpy(to, from, bytes);
#endif
}

/* Any bytes: the whole lines among them are streamed, a part of a line is stored as ever. */
static inline void stream_copy(void *to, const void *from, size_t bytes)
{
    size_t head = -(uintptr_t)to % LINE;
    if (head > bytes) head = bytes;
    const size_t lines = (bytes - head) / LINE * LINE, tail = bytes - head - lines;
    if (head) memcpy(to, from, head);
    stream_lines((char *)to + head, (const char *)from + head, lines);
    if (tail) memcpy((char *)to + head + lines, (const char *)from + head + lines, tail);
}

/* Streamed bytes are seen by every thread after this. */
static inline void stream_end(void)
{
#if defined(__SSE2__)
    _mm_sfence();
#endif
}

#endif
