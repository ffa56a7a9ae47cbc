/*
 * stream.h - streaming (non-temporal) stores.
 *
 * A store to a cache line that no cache holds reads the line from memory first, only to
 * overwrite it. Streaming stores of whole lines do not. So an output that is larger than the
 * caches costs half the traffic, and does not evict other data.
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
    STREAM_BUFFER = 1024, /* bytes of a buffer that is streamed while it is in the L1 cache */
    HUGE_PAGE = 1 << 21,  /* pages of fresh memory of HUGE_FROM bytes or more */
    HUGE_FROM = 1 << 22,
};

/* Whether to use streaming stores for an output of `bytes` bytes: from half the last-level
 * cache on. */
int gop_streams(int64_t bytes);

/* Whether memory is large and was never written. The kernel zeroes a page at its first write
 * and leaves it in the caches, so stores right after that need no streaming. */
int gop_is_fresh(const void *memory, int64_t bytes);

/* Makes all threads populate the pages of fresh memory, each page by one thread. No byte
 * changes. */
gop_status gop_populate(void *memory, int64_t bytes);

/* Streams whole cache lines to an aligned address. */
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

/* Copies any bytes: whole lines are streamed, partial lines are stored. */
static inline void stream_copy(void *to, const void *from, size_t bytes)
{
    size_t head = -(uintptr_t)to % LINE;
    if (head > bytes) head = bytes;
    const size_t lines = (bytes - head) / LINE * LINE, tail = bytes - head - lines;
    if (head) memcpy(to, from, head);
    stream_lines((char *)to + head, (const char *)from + head, lines);
    if (tail) memcpy((char *)to + head + lines, (const char *)from + head + lines, tail);
}

/* Makes streamed bytes visible to other threads. */
static inline void stream_end(void)
{
#if defined(__SSE2__)
    _mm_sfence();
#endif
}

#endif
