/*
 * fold.h - what the kernels of tree/v1 share: arguments, folds, and accumulators that meet.
 *
 * As on the CPU, every reduction turns elements into accumulators and folds those; minima,
 * maxima and positions are minima of keys, signed integers in the order of the elements. The
 * kernels are templates over a map M of maps.h: its element type T, its fold F, and
 * of(x, k, key_flags), the accumulator of element x at position k.
 */
#ifndef GOP_CUDA_REDUCE_FOLD_H
#define GOP_CUDA_REDUCE_FOLD_H

#include "cuda/divisor.h"

enum {
    LEAF = 2048, /* elements of a leaf of tree/v1 */
    LANES = 128,
    FLIP = 1,     /* a maximum: the minimum of complemented keys; any: of complemented truth */
    VALUE = 2,    /* -0 and +0 are one value, as positions want it */
    UNSIGNED = 4, /* whole numbers, which are read as signed ones */
    BRIEF = 4,    /* axes that brief arguments have room for */
    LINED = 6,    /* and those for elements in lines */
    TEAMS = 8,    /* warps of a block, or leaves of one with a thread a lane */
    FEW = 1024,   /* leaves too few to fill a device with a warp each */
    SLOT = 32,    /* bytes of scratch for an accumulator, the largest rounded up */
    CHUNK = 32 * 32 /* leaves that a warp folds at once */
};

/* What a kernel is told beside the geometry. */
struct reduce_operands {
    const void *a;
    const uint8_t *where; /* or NULL */
    void *out;
    const int64_t *counts; /* of a mean with a mask: elements that count, by output; or NULL */
    void *partial;         /* leaves by output, when there are several */
    int64_t leaves;        /* to an output; at least 1 */
    gop_scalar initial;
    int op, dtype, out_dtype, key_flags, has_initial;
    int dense;   /* output o is item o of the memory */
    int as_is;   /* dense sums and products: root o is stored, and nothing more */
    int width;   /* threads that share a leaf: a power of two, at most 32 */
    int by_leaf; /* neighbouring warps take one leaf of several outputs, not the leaves of one
                  */
    int grouped; /* outputs may be stored in groups of up to 16 bytes */
    float zero;  /* added to a root without initial: +0.0, so that no sum is -0.0; -0.0, which
                    changes nothing, to a product */
};
template <typename G> struct reduce_args_of : reduce_operands {
    G g;
};
typedef reduce_args_of<gop_reduction> reduce_args;

/* gop_reduction for few axes and no mask: the more bytes of arguments, the more often a kernel
 * begins 0.9 µs late (of 400 one in four, of 200 few), and 2 KB take 0.2 µs always. */
template <int N> struct reduce_axes {
    int kept, reduced;
    int64_t outputs, count;
    int64_t extent[N], in[N], out[N];
};
typedef reduce_args_of<reduce_axes<BRIEF>> reduce_brief;

/* The same where each output's elements lie in lines: what divides by the extents, the last
 * one's in groups that are loaded at once. */
struct reduce_lines : reduce_axes<LINED> {
    divisor by[LINED];
};
typedef reduce_args_of<reduce_lines> reduce_lined;

/* ---- folds: the accumulator, its identity and its operator ---- */

GOP_DEVICE float add(float a, float b)
{
    return a + b;
}
GOP_DEVICE double add(double a, double b)
{
    return a + b;
}
GOP_DEVICE uint64_t add(uint64_t a, uint64_t b)
{
    return a + b;
}
template <typename P> GOP_DEVICE complex<P> add(complex<P> a, complex<P> b)
{
    return {a.re + b.re, a.im + b.im};
}

GOP_DEVICE float multiply(float a, float b)
{
    return a * b;
}
GOP_DEVICE double multiply(double a, double b)
{
    return a * b;
}
GOP_DEVICE uint64_t multiply(uint64_t a, uint64_t b)
{
    return a * b;
}
/* A factor of 1 + 0i or 1 - 0i changes nothing, infinities included, and 1 + 0i no sign of a
 * zero either: so it does not matter where a product is padded. */
template <typename P> GOP_DEVICE complex<P> multiply(complex<P> a, complex<P> b)
{
    const bool one = a.re == 1 && a.im == 0;
    if (b.re == 1 && b.im == 0) return one ? complex<P>{1, -(-a.im - b.im)} : a;
    if (one) return b;
    return {a.re * b.re + (-a.im) * b.im, a.re * b.im + a.im * b.re};
}

template <typename R> struct constant {
    static GOP_DEVICE R zero() { return R(-0.0); } /* x + -0.0 is x, even for x = -0.0 */
    static GOP_DEVICE R one() { return 1; }
};
template <typename P> struct constant<complex<P>> {
    static GOP_DEVICE complex<P> zero() { return {P(-0.0), P(-0.0)}; }
    static GOP_DEVICE complex<P> one() { return {1, 0}; }
};

template <typename R> struct is_ordered {
    enum { value = 1 };
};
template <> struct is_ordered<uint64_t> { /* any order gives the same bits */
    enum { value = 0 };
};

template <typename R> struct sum_fold {
    typedef R acc;
    enum { ORDERED = is_ordered<R>::value };
    static GOP_DEVICE R none() { return constant<R>::zero(); }
    static GOP_DEVICE R fold(R a, R b) { return add(a, b); }
};

template <typename R> struct prod_fold {
    typedef R acc;
    enum { ORDERED = is_ordered<R>::value };
    static GOP_DEVICE R none() { return constant<R>::one(); }
    static GOP_DEVICE R fold(R a, R b) { return multiply(a, b); }
};

struct key128 {
    int64_t high;
    uint64_t low;
};
GOP_DEVICE bool operator<(key128 a, key128 b)
{
    return a.high != b.high ? a.high < b.high : a.low < b.low;
}
GOP_DEVICE bool operator==(key128 a, key128 b)
{
    return a.high == b.high && a.low == b.low;
}

template <typename K> struct most;
template <> struct most<int32_t> {
    static GOP_DEVICE int32_t key() { return INT32_MAX; }
};
template <> struct most<int64_t> {
    static GOP_DEVICE int64_t key() { return INT64_MAX; }
};
template <> struct most<key128> {
    static GOP_DEVICE key128 key() { return {INT64_MAX, UINT64_MAX}; }
};

template <typename K> struct min_fold {
    typedef K acc;
    enum { ORDERED = 0 };
    static GOP_DEVICE K none() { return most<K>::key(); }
    static GOP_DEVICE K fold(K a, K b) { return b < a ? b : a; }
};

/* The least key, and the first position that has it. */
template <typename K> struct best {
    K key;
    int64_t k; /* INT64_MAX: none */
};
template <typename K> struct best_fold {
    typedef best<K> acc;
    enum { ORDERED = 0 };
    static GOP_DEVICE acc none() { return {most<K>::key(), INT64_MAX}; }
    static GOP_DEVICE acc fold(acc a, acc b)
    {
        return b.key < a.key || (b.key == a.key && b.k < a.k) ? b : a;
    }
};

/* ---- what a thread makes of its own elements, one after another ----
 * Where order does not matter that may be less than an accumulator of the fold. A map that has
 * something simpler says so: `at` is the element's distance from position k0, and grows. */

template <typename M> struct gather_of {
    typedef typename M::F::acc acc;
    static GOP_DEVICE acc none() { return M::F::none(); }
    static GOP_DEVICE void add(acc &to, typename M::T x, int, int key_flags)
    {
        to = M::F::fold(to, M::of(x, 0, key_flags));
    }
    static GOP_DEVICE acc root(acc from, int64_t, int) { return from; }
};

/* ---- where an element is ---- */

struct reduce_place {
    int64_t in, where, out; /* offsets, in elements */
};

GOP_DEVICE int64_t mask_stride(const gop_reduction &g, int d)
{
    return g.where[d];
}
template <int N> GOP_DEVICE int64_t mask_stride(const reduce_axes<N> &, int)
{
    return 0;
}

/* Of item i, in C order of axes [first, last). */
template <typename G>
GOP_DEVICE reduce_place place_of(const G &g, int first, int last, int64_t i)
{
    reduce_place at = {0, 0, 0};
#pragma unroll 1
    for (int d = last - 1; d >= first; d--) {
        const int64_t extent = g.extent[d];
        const int64_t above = d == first ? 0 : i / extent;
        const int64_t x = i - above * extent;
        i = above;
        at.in += x * g.in[d];
        at.where += x * mask_stride(g, d);
        at.out += x * g.out[d];
    }
    return at;
}

/* Of item i of axes first to last, in the array alone and by products. */
GOP_DEVICE int64_t axes_at(const int64_t *in, const divisor *by, int first, int last,
                           uint32_t i)
{
    int64_t at = 0;
#pragma unroll 1
    for (int d = last; d > first; d--) {
        const uint32_t above = quotient(i, by[d]);
        at += (int64_t)(i - above * by[d].d) * in[d];
        i = above;
    }
    return at + (int64_t)i * in[first];
}

/* ---- N neighbours, read at once ---- */

template <typename T, int N_> struct alignas(sizeof(T) * N_) group_of {
    enum { N = N_ };
    T at[N];
};
template <int BYTES> struct group_word;
template <> struct group_word<1> {
    typedef unsigned char type;
};
template <> struct group_word<2> {
    typedef unsigned short type;
};
template <> struct group_word<4> {
    typedef unsigned type;
};
template <> struct group_word<8> {
    typedef uint2 type;
};
template <> struct group_word<16> {
    typedef uint4 type;
};

/* Of items shorter than a register another is read in place of one that is not there: under a
 * condition these loads take up to twice as long. */
template <typename T> struct reading {
    enum { ALWAYS = sizeof(T) < 4 };
};

template <typename V, typename T> GOP_DEVICE V load_group(const T *address)
{
    typedef typename group_word<sizeof(V)>::type word_t;
    V v;
    const word_t word = *reinterpret_cast<const word_t *>(address);
    __builtin_memcpy(&v, &word, sizeof v);
    return v;
}

template <typename V, typename T> GOP_DEVICE void store_group(T *address, const V &v)
{
    typedef typename group_word<sizeof(V)>::type word_t;
    word_t word;
    __builtin_memcpy(&word, &v, sizeof v);
    *reinterpret_cast<word_t *>(address) = word;
}

/* Four neighbours, or 16 bytes of them. */
template <typename T> using lanes_of = group_of<T, sizeof(T) < 4 ? 4 : 16 / sizeof(T)>;

/* ---- accumulators of any size to other threads, 32 bits at a time ---- */

template <typename R> struct words_of {
    uint32_t at[sizeof(R) / 4];
};

template <typename R> GOP_DEVICE R shuffle_down(R value, int d, int width)
{
    words_of<R> word;
    __builtin_memcpy(&word, &value, sizeof(R));
#pragma unroll
    for (uint32_t &w : word.at) w = __shfl_down_sync(0xffffffffu, w, d, width);
    __builtin_memcpy(&value, &word, sizeof(R));
    return value;
}

template <typename R> GOP_DEVICE R shuffle_xor(R value, int d)
{
    words_of<R> word;
    __builtin_memcpy(&word, &value, sizeof(R));
#pragma unroll
    for (uint32_t &w : word.at) w = __shfl_xor_sync(0xffffffffu, w, d);
    __builtin_memcpy(&value, &word, sizeof(R));
    return value;
}

/* Folds N accumulators of a thread as i += i + N/2, i + N/4, ..: by recursion, so that every
 * index is a constant and they stay in registers. */
template <typename F, int N, typename R> GOP_DEVICE void fold_own(R *acc)
{
    if constexpr (N > 1) {
#pragma unroll
        for (int i = 0; i < N / 2; i++) acc[i] = F::fold(acc[i], acc[i + N / 2]);
        fold_own<F, N / 2>(acc);
    }
}

/* Groups of lanes in the order in which they fold, those farthest apart first: the bits of turn
 * t of so many, a power of two, from right to left. */
GOP_DEVICE int group_of_turn(int t, int turns)
{
    int group = 0;
    for (int bit = 1; bit < turns; bit *= 2) group = 2 * group + ((t & bit) != 0);
    return group;
}

/* What turn t has left meets what waits for it, or waits: in as many levels as a binary counter
 * has bits. After the last of 2^k turns `value` is that of all. */
template <typename F, int LEVELS, int N, typename R>
GOP_DEVICE void fold_turns(int t, R (*waiting)[N], R (&value)[N])
{
#pragma unroll
    for (int l = 0; l < LEVELS; l++) {
        const bool waits = !(t >> l & 1);
#pragma unroll
        for (int i = 0; i < N; i++)
            if (waits) waiting[l][i] = value[i];
            else value[i] = F::fold(waiting[l][i], value[i]);
        if (waits) break;
    }
}

/* As neighbours, which is how leaves fold. */
template <typename F, int N, typename R> GOP_DEVICE void fold_neighbours(R *v)
{
#pragma unroll
    for (int d = 1; d < N; d *= 2)
#pragma unroll
        for (int i = 0; i < N; i += 2 * d) v[i] = F::fold(v[i], v[i + d]);
}

/* The root of 2^levels neighbours, 64 at most, in thread 0 of the warp. */
template <typename F>
GOP_DEVICE typename F::acc fold_nodes(const typename F::acc *node, int levels, int t)
{
    const int pairs = (1 << levels) / 2;
    if (pairs == 0) return node[0];
    typename F::acc value = t < pairs ? F::fold(node[2 * t], node[2 * t + 1]) : F::none();
    for (int d = 1; d < pairs; d *= 2) value = F::fold(value, shuffle_down(value, d, 32));
    return value;
}

/* value[i] of registers, which have no index that varies. */
template <int N, typename R> GOP_DEVICE R pick(const R *value, int i)
{
    R mine = value[0];
#pragma unroll
    for (int b = 1; b < N; b++)
        if (b == i) mine = value[b];
    return mine;
}

#endif
