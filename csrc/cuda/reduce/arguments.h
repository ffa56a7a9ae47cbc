/*
 * arguments.h - the arguments of tree/v1's kernels, and how these find and read elements.
 */
#ifndef GOP_CUDA_REDUCE_ARGUMENTS_H
#define GOP_CUDA_REDUCE_ARGUMENTS_H

#include "core/numerics.h"
#include "cuda/common/fast_divisor.h"
#include "cuda/common/item_size.h"

enum {
    FLIP = 1,     /* a maximum: the minimum of complemented keys; any: of complemented truth */
    VALUE = 2,    /* -0 and +0 are one value, as positions want it */
    UNSIGNED = 4, /* unsigned integers */
    TRUTH = 8,    /* a byte of theirs is true unless it is 0 */
    SIZES = 16,   /* bits of floats without their signs, for any and all */
    PAIRED = 32,  /* two of them in 64 bits */
    BRIEF = 4,    /* axes that brief arguments have room for */
    LINED = 6,    /* and those for elements in lines */
    AXES = 8,     /* that do not merge, at most */
    TEAMS = 8,    /* warps of a block, or leaves of one with a thread a lane */
    FEW = 1024,   /* with fewer leaves, a warp each does not fill the device */
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
    int as_is;   /* dense sums and products: root o is stored as it is */
    int width;   /* threads that share a leaf: a power of two, at most 32 */
    int by_leaf; /* neighbouring warps take the same leaf of several outputs, not the leaves of
                    one */
    int grouped; /* outputs may be stored in groups of up to 16 bytes */
    uint32_t
        coded;  /* XORed with an integer it gives its code; for eight bytes, the upper half */
    float zero; /* added to a root without initial: +0.0 to a sum, so that none is -0.0; -0.0,
                   which changes nothing, to a product */
};
template <typename G> struct reduce_args_of : reduce_operands {
    G g;
};
typedef reduce_args_of<gop_reduction> reduce_args;

/* gop_reduction for few axes and no mask. Long arguments delay a launch: of 400 bytes by 0.9 µs
 * in one of four launches, of 200 rarely; 2 KB always cost 0.2 µs. */
template <int N> struct reduce_axes {
    int kept, reduced;
    int64_t outputs, count;
    int64_t extent[N], in[N], out[N];
};
typedef reduce_args_of<reduce_axes<BRIEF>> reduce_brief;

/* The same for elements in lines: divisors of the extents; the last extent counts groups that
 * are loaded at once. */
struct reduce_lines : reduce_axes<LINED> {
    fast_divisor by[LINED];
};
typedef reduce_args_of<reduce_lines> reduce_lined;

/* The same for AXES axes and a mask. */
struct placed_axes : reduce_axes<AXES> {
    int64_t where[AXES];
    fast_divisor by[AXES];
};
typedef reduce_args_of<placed_axes> reduce_placed;

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

/* The offsets of item i, in C order of axes [first, last). */
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

/* The offset of item i of axes first to last in the array only, with multiplications for
 * divisions. */
GOP_DEVICE int64_t axes_at(const int64_t *in, const fast_divisor *by, int first, int last,
                           uint32_t i)
{
    int64_t at = 0;
#pragma unroll 1
    for (int d = last; d > first; d--) at += (int64_t)take_index(i, by[d]) * in[d];
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

/* Items shorter than a register are loaded without a condition: past the end another item is
 * read in place of the missing one. Conditional, these loads are up to half as fast. */
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

/* ---- of a call ---- */

/* The arguments with the addresses. */
template <typename G>
static reduce_args_of<G> reduce_addressed(const gop_task *task, reduce_args_of<G> r)
{
    r.a = task->in[0].data;
    r.where = nullptr;
    r.out = task->out[0].data;
    r.counts = nullptr;
    r.partial = task->scratch;
    return r;
}

static inline int64_t item_of(const gop_task *task)
{
    return item_size(task->in[0].dtype);
}

#endif
