/*
 * leaf.h - folds a leaf of contiguous elements to its root, with a warp or with fewer threads,
 * 16 bytes a load.
 */
#ifndef GOP_CUDA_REDUCE_LEAF_H
#define GOP_CUDA_REDUCE_LEAF_H

#include "cuda/reduce/items.h"

/* Adds the elements of v, whose first is number `at` of the leaf, to a thread's state. */
template <typename M, typename V> GOP_DEVICE void
add_neighbours(typename gather_of<M>::acc &to, const V &v, int at, int key_flags)
{
    typedef gather_of<M> G;
    if constexpr (__is_base_of(gather_packed, G) && sizeof v % 4 == 0) {
        uint32_t word[sizeof v / 4];
        __builtin_memcpy(word, &v, sizeof v);
#pragma unroll
        for (uint32_t w : word) G::add_word(to, w, key_flags);
    } else if constexpr (__is_base_of(gather_parts, G) && sizeof v % 4 == 0) {
        enum { PER_WORD = 4 / sizeof v.at[0] };
        uint32_t word[sizeof v / 4];
        __builtin_memcpy(word, &v, sizeof v);
#pragma unroll
        for (int i = 0; i < (int)(sizeof v / sizeof v.at[0]); i++)
            G::add_part(to, word[i / PER_WORD], i % PER_WORD, at + i, key_flags);
    } else {
#pragma unroll
        for (int i = 0; i < (int)(sizeof v / sizeof v.at[0]); i++)
            G::add(to, v.at[i], at + i, key_flags);
    }
}

/* Folds a full leaf with a warp if the order is free: each thread folds its own elements
 * first. */
template <typename M> GOP_DEVICE typename M::F::acc
gathered_leaf(const typename M::T *leaf, int64_t k0, int t, int key_flags)
{
    typedef gather_of<M> G;
    typedef vec128<typename M::T> V;
    enum { LOADS = LEAF / 32 / V::N };
    typename G::acc acc = G::none();
#pragma unroll(LOADS < 8 ? LOADS : 8)
    for (int j = 0; j < LOADS; j++) {
        const int at = (j * 32 + t) * V::N;
        add_neighbours<M>(acc, load128(leaf + at), at, key_flags);
    }
    typename M::F::acc root = G::root(acc, k0, key_flags);
    for (int d = 16; d > 0; d /= 2) root = M::F::fold(root, shuffle_down(root, d, 32));
    return root;
}

/* Folds a full leaf with a warp in the order of tree/v1. Thread t owns N neighbouring lanes in
 * each of 4 / N pieces of 32 N lanes, so a warp owns all 128. They fold piece by piece, then
 * across threads, then within a thread: distances 64, 32, .., 1 in this order. AHEAD: rounds
 * of loads in flight. */
template <typename M>
GOP_DEVICE typename M::F::acc ordered_leaf(const typename M::T *leaf, int t, int key_flags)
{
    typedef typename M::F F;
    typedef lanes_of<typename M::T> V;
    enum { N = V::N, PIECES = 4 / N, AHEAD = (sizeof(V) < 16 ? 16 : 8) / PIECES };
    typename F::acc acc[PIECES * N];
#pragma unroll
    for (int i = 0; i < PIECES * N; i++) acc[i] = F::none();
#pragma unroll(AHEAD)
    for (int j = 0; j < LEAF; j += LANES)
#pragma unroll
        for (int p = 0; p < PIECES; p++) {
            const V v = load_group<V>(leaf + j + (p * 32 + t) * N);
#pragma unroll
            for (int i = 0; i < N; i++)
                acc[p * N + i] = F::fold(acc[p * N + i], M::of(v.at[i], 0, key_flags));
        }
    fold_own<F, PIECES * N, N>(acc);
    for (int d = 16; d > 0; d /= 2)
#pragma unroll
        for (int i = 0; i < N; i++) acc[i] = F::fold(acc[i], shuffle_down(acc[i], d, 32));
    fold_own<F, N>(acc);
    return acc[0];
}

/* The state of thread t of W, which folds every W-th group of N neighbours of a leaf, with
 * BATCH loads in flight. */
template <typename M, int N, int W, int BATCH> struct leaf_by_groups {
    typedef typename M::T T;
    typedef typename M::F F;
    typedef gather_of<M> G;
    typedef group_of<T, N> V;
    typedef typename group_word<sizeof(V)>::type
        word_t; /* separate bytes would take a register each */
    enum { PIECES = F::ORDERED ? LANES / W / N : 1, OWN = F::ORDERED ? N : 1 };
    static_assert(BATCH % PIECES == 0, "a batch begins at a thread's first lane");
    typename G::acc acc[PIECES * OWN];
    word_t word[BATCH];

    GOP_DEVICE void load(int b, const T *a) { word[b] = *reinterpret_cast<const word_t *>(a); }
    static GOP_DEVICE bool has(int group, int begin, int end)
    {
        return (unsigned)(group - begin) < (unsigned)(end - begin);
    }
    /* Adds those of the loaded groups j, j + W, .. that lie in [begin, end). */
    GOP_DEVICE void add(int j, int begin, int end, int key_flags)
    {
#pragma unroll
        for (int b = 0; b < BATCH; b++)
            if (has(j + b * W, begin, end)) {
                V v;
                __builtin_memcpy(&v, &word[b], sizeof v);
                if constexpr (F::ORDERED)
#pragma unroll
                    for (int i = 0; i < N; i++)
                        G::add(acc[b % PIECES * OWN + i], v.at[i], (j + b * W) * N + i,
                               key_flags);
                else add_neighbours<M>(acc[0], v, (j + b * W) * N, key_flags);
            }
    }
    GOP_DEVICE typename F::acc root(int64_t k0, int key_flags)
    {
        typename F::acc lane[PIECES * OWN];
#pragma unroll
        for (int i = 0; i < PIECES * OWN; i++) lane[i] = G::root(acc[i], k0, key_flags);
        fold_own<F, PIECES * OWN, OWN>(lane);
        for (int d = W / 2; d > 0; d /= 2)
#pragma unroll
            for (int i = 0; i < OWN; i++)
                lane[i] = F::fold(lane[i], shuffle_down(lane[i], d, W));
        fold_own<F, OWN>(lane);
        return lane[0];
    }
};

/* The elements of an unaligned leaf before its first whole group of N and after its last: at
 * most N together. If order does not matter, each goes to another thread; else they belong to
 * the lanes of the threads that have their groups. */
template <typename M, int N, int W> struct leaf_ends {
    typedef typename M::T T;
    typedef typename M::F F;
    typedef gather_of<M> G;
    enum { ORDERED = F::ORDERED, OWN = ORDERED ? N : (N + W - 1) / W };
    T head[OWN], tail[OWN];
    /* Positions are counted in elements from the aligned address `past` elements before the
     * leaf, which has n; t: the thread. */
    int past, n, head_end, tail_begin, t;

    GOP_DEVICE int head_at(int i) const { return ORDERED ? i : past + t + i * W; }
    GOP_DEVICE int tail_at(int i) const { return tail_begin + (ORDERED ? i : t + i * W); }
    GOP_DEVICE bool has_head(int i) const
    {
        const int at = head_at(i);
        return at >= past && at < head_end && (!ORDERED || t == 0);
    }
    GOP_DEVICE bool has_tail(int i) const
    {
        return tail_at(i) < past + n && (!ORDERED || t == tail_begin / N % W);
    }
    GOP_DEVICE void load(const T *from)
    {
#pragma unroll
        for (int i = 0; i < OWN; i++) {
            head[i] = has_head(i) ? from[head_at(i)] : T();
            tail[i] = has_tail(i) ? from[tail_at(i)] : T();
        }
    }
    GOP_DEVICE void add_head(typename G::acc *acc, int key_flags) const
    {
#pragma unroll
        for (int i = 0; i < OWN; i++)
            if (has_head(i)) G::add(acc[ORDERED ? i : 0], head[i], head_at(i), key_flags);
    }
    /* If order matters, every lane gets a fold: one of the element, all others of the
     * identity. An index known only at run time would move acc to local memory. */
    template <int PIECES> GOP_DEVICE void add_tail(typename G::acc *acc, int key_flags) const
    {
#pragma unroll
        for (int p = 0; p < PIECES; p++)
#pragma unroll
            for (int i = 0; i < OWN; i++)
                if constexpr (ORDERED) {
                    const bool own = has_tail(i) && tail_begin / N / W % PIECES == p;
                    acc[p * N + i] =
                        F::fold(acc[p * N + i], own ? M::of(tail[i], 0, key_flags) : F::none());
                } else if (has_tail(i)) G::add(acc[0], tail[i], tail_at(i), key_flags);
    }
};

/* Folds an unaligned leaf of n neighbours with W threads. They load aligned groups of N, and
 * single elements at both ends. A thread has other lanes than in an aligned leaf, but the same
 * ones in every group. The bits are the same, since a fold is commutative. BATCH: loads in
 * flight. */
template <typename M, int N, int W> GOP_DEVICE typename M::F::acc
leaf_anywhere(const typename M::T *a, int64_t k0, int n, int t, int key_flags)
{
    enum { BATCH = N * sizeof(typename M::T) < 16 ? 16 : 8 };
    typedef leaf_by_groups<M, N, W, BATCH> groups;
    groups own;
    const int past = (int)((uintptr_t)a / sizeof(typename M::T) % N), begin = past > 0;
    const int end = (past + n) / N > begin ? (past + n) / N : begin;
    const int after = past + n < begin * N ? past + n : begin * N;
    leaf_ends<M, N, W> ends;
    ends.past = past;
    ends.n = n;
    ends.head_end = after;
    ends.tail_begin = end * N;
    ends.t = t;
    a -= past;
    ends.load(a);
#pragma unroll
    for (auto &acc : own.acc) acc = gather_of<M>::none();
    ends.add_head(own.acc, key_flags);
#pragma unroll 1
    for (int j = t; j < end + t; j += W * BATCH) {
#pragma unroll
        for (int b = 0; b < BATCH; b++)
            if (groups::has(j + b * W, begin, end)) own.load(b, a + (j + b * W) * N);
        own.add(j, begin, end, key_flags);
    }
    ends.template add_tail<groups::PIECES>(own.acc, key_flags);
    return own.root(k0 - past, key_flags);
}

/* Folds a leaf that is short or unaligned with a warp, one element at a time. KEEP: lanes of a
 * thread. AHEAD: loads in flight. */
template <typename M> GOP_DEVICE typename M::F::acc
part_of_leaf(const typename M::T *leaf, int64_t k0, int n, int t, int key_flags)
{
    typedef typename M::F F;
    enum { KEEP = F::ORDERED ? 4 : 1, AHEAD = 8 };
    typename F::acc acc[KEEP];
#pragma unroll
    for (int i = 0; i < KEEP; i++) acc[i] = F::none();
#pragma unroll 1
    for (int j = t; j < n + t; j += 32 * AHEAD) {
        typename M::T v[AHEAD];
#pragma unroll
        for (int b = 0; b < AHEAD; b++)
            if (j + b * 32 < n) v[b] = leaf[j + b * 32];
#pragma unroll
        for (int b = 0; b < AHEAD; b++)
            if (j + b * 32 < n)
                acc[b % KEEP] = F::fold(acc[b % KEEP], M::of(v[b], k0 + j + b * 32, key_flags));
    }
    fold_own<F, KEEP>(acc);
    for (int d = 16; d > 0; d /= 2) acc[0] = F::fold(acc[0], shuffle_down(acc[0], d, 32));
    return acc[0];
}

#endif
