/*
 * gather.h - gathers strided items, or items by a table of offsets, into a contiguous row.
 */
#ifdef D /* an item of u8 u16 u32 u64 u128 */

/* Gathers n items in runs of `run` contiguous items or, if is_same, of one item repeated. A run
 * is copied in the largest words that fit in it; the last word overlaps the one before. Items
 * of 16 bytes are repeated one by one, because a load of what two stores have just written
 * stalls. */
static ALWAYS_INLINE void FN(gather_runs)(int64_t n, int64_t run, const int is_same,
                                          T *restrict to, const T *restrict a,
                                          const int32_t *restrict table)
{
    const size_t bytes = (size_t)run * sizeof(T);
#define RUNS(size)                                                                             \
    if (sizeof(T) < size && bytes >= size && !(is_same && sizeof(T) == 16)) {                  \
        enum { SAME = size / sizeof(T) > 0 ? size / sizeof(T) : 1 };                           \
        for (int64_t i = 0; i < n; i += run) {                                                 \
            T same[SAME];                                                                      \
            for (int k = 0; is_same && k < SAME; k++) same[k] = a[table[i]];                   \
            const char *const one = (const char *)(is_same ? same : a + table[i]);             \
            for (size_t k = 0; k + size < bytes; k += size)                                    \
                memcpy((char *)(to + i) + k, one + (is_same ? 0 : k), size);                   \
            const size_t last = bytes - size;                                                  \
            memcpy((char *)(to + i) + last, one + (is_same ? 0 : last), size);                 \
        }                                                                                      \
        return;                                                                                \
    }
    RUNS(32)
    RUNS(16)
    RUNS(8)
    RUNS(4)
#undef RUNS
    for (int64_t i = 0; i < n; i++) to[i] = a[table[i]];
}

/* Gathers n items that are `stride` apart. */
static void FN(pick)(int64_t n, void *line, const void *from, int64_t stride)
{
    T *restrict const to = line;
    const T *restrict const a = from;
    if (stride == 2)
        for (int64_t i = 0; i < n; i++) to[i] = a[2 * i]; /* vectorized */
    else
        for (int64_t i = 0; i < n; i++) to[i] = a[i * stride];
}

/* Gathers n items by a table. run < 0: runs of -run copies of one item. */
static void FN(gather)(int64_t n, int64_t run, void *line, const void *from,
                       const int32_t *table)
{
    if (run < 0) FN(gather_runs)(n, -run, 1, line, from, table);
    else FN(gather_runs)(n, run, 0, line, from, table);
}

#elif !defined(GOP_CPU_GATHER_H)
#define GOP_CPU_GATHER_H

#include "cpu/transpose/turn.h"

#define GOP_TPL "cpu/transpose/gather.h"
#include "cpu/transpose/each_item.inc"

static inline void pick(int64_t item, int64_t n, void *line, const void *from, int64_t stride)
{
    switch (item) {
    case 1:
        pick_u8(n, line, from, stride);
        break;
    case 2:
        pick_u16(n, line, from, stride);
        break;
    case 4:
        pick_u32(n, line, from, stride);
        break;
    case 8:
        pick_u64(n, line, from, stride);
        break;
    default:
        pick_u128(n, line, from, stride);
    }
}

static inline void gather(int64_t item, int64_t n, int64_t run, void *line, const void *from,
                          const int32_t *table)
{
    switch (item) {
    case 1:
        gather_u8(n, run, line, from, table);
        break;
    case 2:
        gather_u16(n, run, line, from, table);
        break;
    case 4:
        gather_u32(n, run, line, from, table);
        break;
    case 8:
        gather_u64(n, run, line, from, table);
        break;
    default:
        gather_u128(n, run, line, from, table);
    }
}

#endif
