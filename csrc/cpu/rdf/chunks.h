/*
 * chunks.h - one point with many: distances and bins of 128 pairs in vector registers, then
 * their increments.
 *
 * The increments cannot be vectorized, because their addresses depend on data. An increment of
 * a counter waits for the one before of the same counter, so consecutive pairs go to different
 * copies of the histogram.
 */
#ifdef D

/* Computes r2 from one point to each point of a chunk, without branches, so that it is
 * vectorized. */
static ALWAYS_INLINE void FN(squares)(const T *restrict x, const T *restrict y,
                                      const T *restrict z, int count, const T a[3],
                                      const FN(space) *restrict s, int space, T *restrict r2)
{
    for (int j = 0; j < count; j++)
        r2[j] = FN(square)(a[0] - x[j], a[1] - y[j], a[2] - z[j], s, space);
}

/*
 * Finds the bins of a chunk by the guess of core/ops/rdf.c: x is the position among the edges
 * to within slack. Adding `magic` rounds it to the nearest edge, an integer in the low bits.
 * Outside the edges the bin is `bins`, which is never read. Returns 1 if some x is within slack
 * of an edge; then the thresholds must decide.
 */
static ALWAYS_INLINE int FN(guess)(const T *restrict r2, int count, T first, T last,
                                   const guess *g, int32_t *restrict bin)
{
    const float magic = 0x1.8p23f, scale = g->scale, shift = g->shift, slack = g->slack;
    const int32_t bins = g->bins;
    int32_t doubtful = 0;
    for (int j = 0; j < count; j++) {
        const int32_t inside = (r2[j] >= first) & (r2[j] < last);
        const float r = sqrtf((float)(inside ? r2[j] : first));
        const float x = r * scale + shift;
        const float edge = (x + magic) - magic;
        const float past = x - edge;
        const int32_t k = (int32_t)edge - (past < 0);
        doubtful |= inside & ((past < 0 ? -past : past) <= slack);
        bin[j] = inside ? k : bins;
    }
    return doubtful;
}

/* Makes every bin of a chunk exact. */
static void FN(settle)(const T *r2, int count, const T *t, int32_t bins, int32_t *bin)
{
    for (int j = 0; j < count; j++) {
        int32_t k = bin[j];
        if (!(r2[j] >= t[0] && r2[j] < t[bins])) continue;
        k = k < 0 ? 0 : k >= bins ? bins - 1 : k;
        while (r2[j] < t[k]) k--;
        while (r2[j] >= t[k + 1]) k++;
        bin[j] = k;
    }
}

/*
 * Counts the pairs of point a with other points. The arrays are padded to a multiple of `room`,
 * so that vectors are full; 1: not padded. `types` are those of the other points; a has type
 * `type`, and `histogram` starts with the pair of types (0, 0).
 */
static ALWAYS_INLINE void FN(count_row)(const bin_search *q, const T a[3], const T *x,
                                        const T *y, const T *z, int count, int room,
                                        const FN(space) * s, int space, int type,
                                        const int32_t *types, int64_t *histogram)
{
    const T *t = q->thresholds;
    const int32_t bins = q->guess.bins;
    const int64_t copy = q->copy;
    const int mask = q->copy_mask;
    T r2[CHUNK];
    int32_t bin[CHUNK];
    for (int first = 0; first < count; first += CHUNK) {
        const int length = count - first < CHUNK ? count - first : CHUNK;
        const int width = (length + room - 1) / room * room;
        FN(squares)(x + first, y + first, z + first, width, a, s, space, r2);
        if (q->uniform) {
            if (FN(guess)(r2, width, t[0], t[bins], &q->guess, bin))
                FN(settle)(r2, length, t, bins, bin);
        } else {
            for (int j = 0; j < length; j++) {
                const int64_t k = FN(bin_of)(r2[j], t, bins);
                bin[j] = k < 0 ? bins : (int32_t)k;
            }
        }
        /* Consecutive pairs go to different copies, so that an increment does not wait for the
         * one before. */
        if (types)
            for (int j = 0; j < length; j++)
                histogram[(j & mask) * copy +
                          row_of(type, types[first + j], q->types) * (bins + 1) + bin[j]]++;
        else
            for (int j = 0; j < length; j++) histogram[(j & mask) * copy + bin[j]]++;
    }
}

#elif !defined(GOP_CPU_RDF_CHUNKS_H)
#define GOP_CPU_RDF_CHUNKS_H

#include "cpu/rdf/pair.h"

enum { CHUNK = 128 }; /* distances between the two passes */

/* The guess of core/ops/rdf.c, as floats. */
typedef struct guess {
    float scale, shift, slack;
    int32_t bins;
} guess;

/* How a bin is found, and where its counters are. */
typedef struct bin_search {
    const void *thresholds;
    guess guess;
    int uniform, types;
    int copy_mask; /* copies of the histogram, a power of two, minus 1 */
    int64_t copy;  /* counters of a copy */
} bin_search;

#define GOP_TPL "cpu/rdf/chunks.h"
#include "cpu/rdf/each_float.inc"

#endif
