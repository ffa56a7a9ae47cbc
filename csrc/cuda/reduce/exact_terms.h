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
    int64_t parts, piece; /* of an output; elements of one */
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

/* A thread's elements k, k + step, ... before `end` of one output: N neighbours each. */
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
    int64_t k, end, step;
    int64_t apart; /* of elements a step apart */
    int64_t taken; /* by the mask */

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
        k += LOADS * step;
        if (HOW != ANYWHERE) a += LOADS * apart;
    }
};

/* Moves NaN and infinities to `special`, replaces them by 0, and adds all terms to the words.
 */
template <typename K, int TERMS>
GOP_DEVICE void add_terms(uint64_t *own, typename K::term (&x)[TERMS], int &special)
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
    for (int i = 0; i < TERMS; i++) K::add(own, x[i]);
}

/* Adds a thread's own elements; the next loads are in flight while the last terms are added.
 * The words of a short sum have room for all carries, so these are resolved once, at the end.
 */
template <typename K, int HOW, typename G> GOP_DEVICE void
sum_own(exact_reader<K, HOW, G> &from, uint64_t *own, int &special, bool is_brief)
{
    typedef exact_reader<K, HOW, G> R;
    typename R::term x[R::TERMS], next[R::TERMS];
    int left = OFTEN; /* terms until the words are carried */
    if (from.k + (R::LOADS - 1) * from.step < from.end) {
        from.template read<true>(x);
#pragma unroll 1
        while (from.k + (2 * R::LOADS - 1) * from.step < from.end) {
            from.template read<true>(next);
            add_terms<K>(own, x, special);
            from.template read<true>(x);
            add_terms<K>(own, next, special);
            left -= 2 * R::TERMS;
            if (left >= 2 * R::TERMS) continue;
            K::carry(own);
            left = OFTEN;
        }
        add_terms<K>(own, x, special);
    }
#pragma unroll 1
    while (from.k < from.end) { /* twice at most */
        from.template read<false>(x);
        add_terms<K>(own, x, special);
    }
    if (!is_brief) K::carry(own);
}

#endif
