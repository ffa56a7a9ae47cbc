/*
 * exact_terms.h - reduce exactly: a thread's own elements, read and added to its words.
 */
#ifndef GOP_CUDA_REDUCE_EXACT_TERMS_H
#define GOP_CUDA_REDUCE_EXACT_TERMS_H

#include "cuda/reduce/exact.h"

/* How threads share outputs: thread t has output t % near among neighbours, elements t / near %
 * along and on, and output number t / near / along beyond the neighbours. */
template <typename G> struct exact_args {
    const void *a;
    const uint8_t *where; /* or NULL */
    void *out;
    int64_t *sums; /* [output][digit or head][part], where another kernel merges them */
    G g;
    int64_t parts; /* of an output: they take turns, a batch of loads each */
    int near, along;
    int is_merged, is_mean, has_initial, whole_sums; /* whole_sums: GOP_EXACT_SUMS */
    gop_dtype dtype, out_dtype;
    int64_t apart;       /* numbers of a sum in `out` */
    uint64_t initial[2]; /* of both parts of a complex sum, the last axis that is kept */
    int is_complex;
};

/* How they are found. */
enum exact_how {
    GROUPED, /* 16 bytes of neighbours a load */
    EVEN,    /* one distance apart */
    ANYWHERE /* along any axes, and with a mask */
};

/* A thread's elements of one output, N neighbours each: LOADS of them `step` apart, from k on,
 * and so again `turn` further on, before `end`. */
template <typename K, int HOW, typename G> struct exact_reader {
    typedef typename K::T T;
    typedef typename K::term term;
    enum {
        N = HOW == GROUPED ? 16 / (int)sizeof(T) : 1,
        LOADS = HOW == GROUPED ? (int)K::LOADS
                : HOW == EVEN  ? 16
                               : 4,
        TERMS = N * LOADS
    };

    const exact_args<G> &r;
    const T *a;           /* element k, where elements are one distance apart */
    int64_t in;           /* the output's first element */
    const uint8_t *where; /* of the output */
    int64_t k, end, step, turn;
    int64_t apart, turn_apart; /* in memory */
    int64_t taken;             /* by the mask */

    /* The group i steps on, 0 beyond the last. */
    template <bool ALL> GOP_DEVICE void read_group(term *x, int i)
    {
        const bool any = ALL || k + i * step < end;
        if constexpr (HOW == GROUPED) {
            vec128<T> v = {};
            if (any) v = load128_stream(a + i * apart);
#pragma unroll
            for (int n = 0; n < N; n++) x[n] = load(v.at[n]);
        } else if constexpr (HOW == EVEN) {
            x[0] = any ? K::read(a, i * apart, 0) : term{};
        } else {
            x[0] = {};
            if (!any) return;
            const reduce_place p =
                place_of(r.g, r.g.kept, r.g.kept + r.g.reduced, k + i * step);
            const bool takes = !where || where[p.where];
            if (takes) x[0] = K::read(r.a, in + p.in, r.dtype);
            taken += where && takes;
        }
    }
    template <bool ALL> GOP_DEVICE void read(term (&x)[TERMS])
    {
#pragma unroll
        for (int i = 0; i < LOADS; i++) read_group<ALL>(x + i * N, i);
        k += turn;
        if (HOW != ANYWHERE) a += turn_apart;
    }
};

enum {
    BIN_BITS = 43,  /* from a bin's unit to the next one's: OFTEN rests of up to half a unit
                       fit in 53 bits */
    BINS_ABOVE = 11 /* binary orders above the largest term that the bins take, too */
};

/* What a thread has of its sum: words in shared memory, which of them may not be 0, and bins.
 * Bins are sums in registers of what rounding to their units leaves of each term, from the
 * first to the last; they are exact where that leaves nothing of any term, and fast. Most
 * arrays have few orders of magnitude, and need words only for what bins have in the end. */
template <typename K> struct exact_own {
    typedef typename K::term term;
    uint64_t *words;
    int special;
    exact_range range;
    uint32_t limit;           /* of a term's upper half without its sign; 0: no bins yet */
    double bin[K::BINS + 1];  /* one more than there are, since no array is empty */
    double unit[K::BINS + 1]; /* 1.5 2^52 units: adding a number to this rounds it to units */

    /* Moves NaN and infinities to `special`, replaces them by 0, and adds all terms to the
     * words. */
    template <int TERMS> GOP_DEVICE void add_words(term (&x)[TERMS])
    {
        float suspect = 0;
#pragma unroll
        for (int i = 0; i < TERMS; i++) suspect = K::suspect(x[i], suspect);
        if (suspect != 0) { /* NaN too */
#pragma unroll
            for (int i = 0; i < TERMS; i++) {
                const int is = K::special(x[i]);
                special |= is;
                if (is) x[i] = {};
            }
        }
#pragma unroll
        for (int i = 0; i < TERMS; i++) K::add(words, x[i]);
    }

    /* Places the bins around the largest term. */
    template <int TERMS> GOP_DEVICE void place_bins(const term (&x)[TERMS])
    {
        enum { BIAS = 1023, LAST = 970 + BIAS, FIRST = -988 + BIAS, HALF = 0x80000 };
        uint32_t most = 0;
#pragma unroll
        for (int i = 0; i < TERMS; i++) {
            const uint32_t size = K::upper(x[i]) & 0x7fffffffu;
            most = size > most ? size : most;
        }
        int unit = (int)(most >> 20) + BINS_ABOVE - BIN_BITS;
        unit = unit > LAST ? +LAST : unit < FIRST ? +FIRST : unit;
        limit = (uint32_t)(unit + BIN_BITS) << 20;
#pragma unroll
        for (int b = 0; b < K::BINS; b++) {
            const uint32_t high = (uint32_t)(unit - b * BIN_BITS + 52) << 20 | HALF;
            const uint64_t bits = (uint64_t)high << 32;
            __builtin_memcpy(&this->unit[b], &bits, 8);
            bin[b] = 0;
        }
    }
    GOP_DEVICE void flush_bins(void)
    {
#pragma unroll
        for (int b = 0; b < K::BINS; b++)
            if (bin[b] != 0) K::add(words, bin[b], range);
        limit = 0;
    }
    /* Adds all terms to the bins or, where one does not fit, all to the words. */
    template <int TERMS> GOP_DEVICE void add_bins(const term (&x)[TERMS])
    {
        double sum[K::BINS];
        uint32_t most = 0;
        bool is_left = false;
#pragma unroll
        for (int b = 0; b < K::BINS; b++) sum[b] = bin[b];
#pragma unroll
        for (int i = 0; i < TERMS; i++) {
            const uint32_t size = K::upper(x[i]) & 0x7fffffffu;
            double rest = x[i];
#pragma unroll
            for (int b = 0; b < K::BINS; b++) {
                const double whole = rest + unit[b] - unit[b];
                sum[b] += whole;
                rest -= whole;
            }
            is_left |= rest != 0; /* of NaN and infinities, too */
            most = size > most ? size : most;
        }
        if (!is_left && most < limit) {
#pragma unroll
            for (int b = 0; b < K::BINS; b++) bin[b] = sum[b];
            return;
        }
#pragma unroll
        for (int i = 0; i < TERMS; i++) {
            const int is = K::special(x[i]);
            special |= is;
            if (!is && x[i] != 0) K::add(words, x[i], range);
        }
    }

    template <int TERMS> GOP_DEVICE void add(term (&x)[TERMS])
    {
        if constexpr (K::BINS > 0) add_bins(x);
        else add_words(x);
    }
    GOP_DEVICE void carry(void)
    {
        K::carry(words, range);
    }
};

/* Adds a thread's own elements; the next loads are in flight while the last terms are added.
 * The words of a short sum have room for all carries, which are resolved once, at the end. */
template <typename K, int HOW, typename G>
GOP_DEVICE void sum_own(exact_reader<K, HOW, G> &from, exact_own<K> &own, bool is_brief)
{
    typedef exact_reader<K, HOW, G> R;
    typename R::term x[R::TERMS], next[R::TERMS];
    int left = OFTEN; /* terms until the words are carried */
    if (from.k + (R::LOADS - 1) * from.step < from.end) {
        from.template read<true>(x);
        if constexpr (K::BINS > 0) own.place_bins(x);
#pragma unroll 1
        while (from.k + from.turn + (R::LOADS - 1) * from.step < from.end) {
            from.template read<true>(next);
            own.add(x);
            from.template read<true>(x);
            own.add(next);
            left -= 2 * R::TERMS;
            if (left >= 2 * R::TERMS) continue;
            if constexpr (K::BINS > 0) {
                own.flush_bins();
                own.place_bins(next);
            }
            own.carry();
            left = OFTEN;
        }
        own.add(x);
    }
#pragma unroll 1
    while (from.k < from.end) { /* twice at most */
        from.template read<false>(x);
        if constexpr (K::BINS > 0)
            if (own.limit == 0) own.place_bins(x);
        own.add(x);
    }
    if constexpr (K::BINS > 0)
        if (own.limit != 0) own.flush_bins();
    if (!is_brief) own.carry();
}

#endif
