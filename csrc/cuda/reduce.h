/*
 * reduce.h - what the reduce kernels share: folds, keys, where an element is, finishing.
 *
 * As on the CPU, every reduction turns elements into accumulators and folds those; minima,
 * maxima and positions are minima of keys, signed integers in the order of the elements.
 */
#ifndef GOP_CUDA_REDUCE_H
#define GOP_CUDA_REDUCE_H

#include "cuda/device.h"

enum {
    LEAF = 2048, /* elements of a leaf of tree/v1 */
    LANES = 128,
    FLIP = 1,  /* a maximum: the minimum of complemented keys; any: of complemented truth */
    VALUE = 2, /* -0 and +0 are one value, as positions want it */
    BRIEF = 4, /* axes that brief arguments have room for */
    SLOT = 32, /* bytes of scratch for an accumulator, the largest rounded up */
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
    int op, dtype, out_dtype, twist, has_initial;
    int as_is;   /* sums and products: root o is element o of the output, and nothing more */
    int width;   /* threads that share a leaf: a power of two, at most 32 */
    int by_leaf; /* neighbouring warps take one leaf of several outputs, not the leaves of one
                  */
    int grouped; /* outputs may be stored in groups of up to 16 bytes */
};
template <typename G> struct reduce_args_of : reduce_operands {
    G g;
};
typedef reduce_args_of<gop_reduction> reduce_args;

/* gop_reduction for few axes and no mask: the more bytes of arguments, the more often a kernel
 * begins 0.9 µs late (of 400 one in four, of 200 few), and 2 KB take 0.2 µs always. */
struct reduce_axes {
    int kept, reduced;
    int64_t outputs, count;
    int64_t extent[BRIEF], in[BRIEF], out[BRIEF];
};
typedef reduce_args_of<reduce_axes> reduce_brief;

/* A reduction of one dtype as the rows of the ladder do it. NULL: the row does not take it. */
struct reduce_launchers {
    gop_launch tree, vectorized, few, shorter, columns, thin;
    int accumulator; /* bytes */
};

/* By topic and dtype of the input. */
extern const reduce_launchers reduce_sum_of[GOP_NDTYPES]; /* and means of floats */
extern const reduce_launchers reduce_prod_of[GOP_NDTYPES];
extern const reduce_launchers reduce_square_of[GOP_NDTYPES];  /* sums of squares */
extern const reduce_launchers reduce_mean_of[GOP_NDTYPES];    /* means of integers */
extern const reduce_launchers reduce_extreme_of[GOP_NDTYPES]; /* min, max */
extern const reduce_launchers
    reduce_position_of[GOP_NDTYPES]; /* argmin, argmax; complex min, max */
extern const reduce_launchers reduce_truth_of[GOP_NDTYPES]; /* any, all */

/* The elements that r.where lets into each output, to r.counts. */
gop_status reduce_count(gop_ctx *ctx, const reduce_args *r);

/* The arguments of a task; a mean with a mask enqueues the counting of the mask. */
gop_status reduce_prepare(gop_ctx *ctx, const gop_task *task, reduce_args *r);

/* The same of a task that has BRIEF axes at most. */
gop_status reduce_prepare_brief(gop_ctx *ctx, const gop_task *task, reduce_brief *r);

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
/* A factor of exactly 1 + 0i changes nothing, infinities and signs of zero included: so it
 * does not matter where a product is padded. */
template <typename P> GOP_DEVICE complex<P> multiply(complex<P> a, complex<P> b)
{
    if (a.re == 1 && a.im == 0) return b;
    if (b.re == 1 && b.im == 0) return a;
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

/* The accumulator of sums and products: whole numbers modulo 2^64 whatever their sign. */
template <typename T> struct sum_of {
    typedef uint64_t type;
};
template <> struct sum_of<float16> {
    typedef float type;
};
template <> struct sum_of<bfloat16> {
    typedef float type;
};
template <> struct sum_of<float> {
    typedef float type;
};
template <> struct sum_of<double> {
    typedef double type;
};
template <typename P> struct sum_of<complex<P>> {
    typedef complex<P> type;
};

template <typename T> GOP_DEVICE typename sum_of<T>::type widen(T x)
{
    return (typename sum_of<T>::type)x; /* signed numbers extend their sign */
}
GOP_DEVICE float widen(float16 x)
{
    return load(x);
}
GOP_DEVICE float widen(bfloat16 x)
{
    return load(x);
}
GOP_DEVICE uint64_t widen(boolean x)
{
    return x.byte != 0;
}

/* ---- keys; a NaN comes first whatever the twist ---- */

GOP_DEVICE int32_t flip(int32_t key, int twist)
{
    return key ^ -(twist & FLIP);
}
GOP_DEVICE int64_t flip(int64_t key, int twist)
{
    return key ^ -(int64_t)(twist & FLIP);
}

GOP_DEVICE int32_t key_of(boolean x, int twist)
{
    return flip(x.byte != 0, twist);
}
GOP_DEVICE int32_t key_of(int8_t x, int twist)
{
    return flip((int32_t)x, twist);
}
GOP_DEVICE int32_t key_of(int16_t x, int twist)
{
    return flip((int32_t)x, twist);
}
GOP_DEVICE int32_t key_of(int32_t x, int twist)
{
    return flip(x, twist);
}
GOP_DEVICE int64_t key_of(int64_t x, int twist)
{
    return flip(x, twist);
}
GOP_DEVICE int32_t key_of(uint8_t x, int twist)
{
    return flip((int32_t)x, twist);
}
GOP_DEVICE int32_t key_of(uint16_t x, int twist)
{
    return flip((int32_t)x, twist);
}
GOP_DEVICE int32_t key_of(uint32_t x, int twist)
{
    return flip((int32_t)(x ^ 0x80000000u), twist);
}
GOP_DEVICE int64_t key_of(uint64_t x, int twist)
{
    return flip((int64_t)(x ^ 1ull << 63), twist);
}
GOP_DEVICE int32_t key_of(float x, int twist)
{
    const uint32_t bits = gop_float_to_bits(twist & VALUE ? x + 0.0f : x); /* -0 + 0 is +0 */
    const int32_t key = (int32_t)(bits ^ (bits >> 31 ? 0x7fffffffu : 0u));
    return x != x ? INT32_MIN : flip(key, twist);
}
GOP_DEVICE int32_t key_of(float16 x, int twist)
{
    return key_of(load(x), twist);
}
GOP_DEVICE int32_t key_of(bfloat16 x, int twist)
{
    return key_of(load(x), twist);
}
GOP_DEVICE int64_t key_of(double x, int twist)
{
    const double y = twist & VALUE ? x + 0.0 : x;
    uint64_t bits;
    __builtin_memcpy(&bits, &y, 8);
    const int64_t key = (int64_t)(bits ^ (bits >> 63 ? 0x7fffffffffffffffu : 0u));
    return x != x ? INT64_MIN : flip(key, twist);
}
/* Complex numbers by real part, then imaginary part; a NaN in either makes a NaN. */
GOP_DEVICE int64_t key_of(complex64 x, int twist)
{
    if (x.re != x.re || x.im != x.im) return INT64_MIN;
    const uint32_t im = (uint32_t)key_of(x.im, twist | VALUE) ^ 0x80000000u;
    return (int64_t)((uint64_t)(uint32_t)key_of(x.re, twist | VALUE) << 32 | im);
}
GOP_DEVICE key128 key_of(complex128 x, int twist)
{
    if (x.re != x.re || x.im != x.im) return {INT64_MIN, 0};
    return {key_of(x.re, twist | VALUE),
            (uint64_t)key_of(x.im, twist | VALUE) ^ 0x8000000000000000u};
}

/* ---- what a thread makes of its own elements, one after another ----
 * Where order does not matter that may be less than an accumulator of the fold. A map that has
 * something simpler says so: `at` is the element's distance from position k0, and grows. */

template <typename M> struct gather_of {
    typedef typename M::F::acc acc;
    static GOP_DEVICE acc none() { return M::F::none(); }
    static GOP_DEVICE void add(acc &to, typename M::T x, int, int twist)
    {
        to = M::F::fold(to, M::turn(x, 0, twist));
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
GOP_DEVICE int64_t mask_stride(const reduce_axes &, int)
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

#endif
