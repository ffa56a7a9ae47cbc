/*
 * share.h - chooses how many threads of a warp share an output, by the cache lines that the
 * warp then touches.
 */
#ifndef GOP_CUDA_REDUCE_SHARE_H
#define GOP_CUDA_REDUCE_SHARE_H

#include "cuda/reduce/arguments.h"

/* The offsets of the first 32 items of axes first to last, in elements. */
static void first_places(const gop_reduction &g, int first, int last, int64_t (&at)[32])
{
    int64_t x[AXES] = {};
    at[0] = 0;
    for (int i = 1; i < 32; i++) {
        at[i] = at[i - 1];
        for (int d = last - 1; d >= first; d--) {
            at[i] += g.in[d];
            if (++x[d] < g.extent[d]) break;
            at[i] -= x[d] * g.in[d];
            x[d] = 0;
        }
    }
}

/* How many cache lines a warp touches if `wide` of its threads share an output. Lines are
 * counted in a hash table with linear probing. */
static int lines_of(const int64_t *element, const int64_t *output, int elements, int outputs,
                    int item, int wide)
{
    enum { LINE = 7, PLACES = 64 }; /* 2^LINE bytes */
    int64_t line[PLACES];
    uint64_t taken = 0;
    for (int o = 0; o < outputs && o < 32 / wide; o++)
        for (int k = 0; k < elements && k < wide; k++) {
            const int64_t mine = (element[k] + output[o]) * item >> LINE;
            int at = (int)((uint64_t)mine * 0x9e3779b97f4a7c15u >> 58);
            while (taken >> at & 1 && line[at] != mine) at = (at + 1) % PLACES;
            line[at] = mine;
            taken |= UINT64_C(1) << at;
        }
    return __builtin_popcountll(taken);
}

/* How many threads of a warp share an output, for the least cost per output: one L1 access for
 * each line touched, and the instructions; if there are many short outputs, also the work that
 * is done once for all outputs of a warp. Else all threads, or one, are tried first: if these
 * read whole lines, nothing is better. */
static int wide_of(const gop_reduction &g, int item, int lanes)
{
    enum {
        INSTRUCTIONS = 2, /* of an element, in the time of an L1 access */
        ONCE = 64,        /* the work of a warp that is done once, in the same unit */
        BYTES = 128,      /* of a cache line */
        MANY = 1 << 15,   /* outputs, from which ONCE counts, */
        SHORT = 256,      /* if they have at most this many elements */
    };
    static const int order[] = {32, 1, 16, 2, 8, 4};
    int64_t element[32], output[32];
    first_places(g, g.kept, g.kept + g.reduced, element);
    first_places(g, 0, g.kept, output);
    const int elements = g.count < 32 ? (int)g.count : 32;
    const int outputs = g.outputs < 32 ? (int)g.outputs : 32;
    const int once = g.outputs >= MANY && g.count <= SHORT ? (int)ONCE : 0;
    int best = 1;
    double least = -1;
    for (const int wide : order) {
        if (wide > lanes) continue;
        const int across = outputs < 32 / wide ? outputs : 32 / wide;
        const int lines = lines_of(element, output, elements, outputs, item, wide);
        const int64_t passes = (g.count + wide - 1) / wide;
        const double cost = (double)(passes * (lines + INSTRUCTIONS) + once) / across;
        if (least < 0 || cost < least) {
            least = cost;
            best = wide;
        }
        const bool all = across * wide == 32 && elements >= wide;
        if (once == 0 && all && lines * BYTES < 32 * item + BYTES) break;
    }
    return best;
}

#endif
