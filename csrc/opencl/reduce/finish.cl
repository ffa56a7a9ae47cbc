/*
 * finish.cl - where elements lie, what a root becomes, and the kernel that folds what parts of
 * an output have left.
 */
#ifndef FINISH_CL
#define FINISH_CL

#include "opencl/reduce/map.cl"

#define AXES 24

/* gop_reduction (core/arrays/geometry.h) of few axes: the kept ones first; strides in elements.
 */
struct shape {
    long kept, reduced, outputs, count;
    long extent[AXES], in[AXES], where[AXES], out[AXES];
};

/* gop_cl_reduce_work (opencl/reduce/plan.h). */
struct work {
    long leaves, nodes; /* of an output; a node is 2^node_leaves leaves */
    long each;          /* of whatever a work-item takes several */
    long counts;        /* where the numbers of elements are that count; in longs of scratch */
    ulong initial[2];   /* bits: of the accumulator, or of an extreme the element's */
    int node_leaves, turns, flags, has_where, has_initial, is_mean;
    int team, by_rows; /* of tree */
};

#define OPERANDS                                                                               \
    __global OUT *out, long out_at, __global const BASE *a, long a_at,                         \
        __global const uchar *where, long where_at, __global uchar *scratch, long scratch_at
#define ARGUMENTS out, out_at, a, a_at, where, where_at, scratch, scratch_at
#define PARTIAL ((__global ONE *)(scratch + scratch_at * 16))

/* ---- places ---- */

struct at {
    long in, where, out;
};

/* Of item i, in C order of axes [first, last). */
static struct at place(const struct shape *g, long first, long last, long number)
{
    struct at at = {0, 0, 0};
    INDEX i = (INDEX)number;
#pragma unroll 1
    for (int d = (int)last - 1; d >= first; d--) {
        const INDEX extent = (INDEX)g->extent[d], above = d == first ? 0 : i / extent;
        const long x = (long)(i - above * extent);
        i = above;
        at.in += x * g->in[d];
        at.where += x * g->where[d];
        at.out += x * g->out[d];
    }
    return at;
}

/* Of the k-th element of an output. */
static struct at element(const struct shape *g, long k)
{
    return place(g, g->kept, g->kept + g->reduced, k);
}

/* ---- from a root to an output ---- */

#if LANES == 1
#define FIRST(v) (v)
#else
#define FIRST(v) ((v).s0)
#endif

/* A number of its bits: OF_BITS(float, word). */
#define BITS_char(word) (char)(word)
#define BITS_short(word) (short)(word)
#define BITS_int(word) (int)(word)
#define BITS_long(word) (long)(word)
#define BITS_uchar(word) (uchar)(word)
#define BITS_ushort(word) (ushort)(word)
#define BITS_uint(word) (uint)(word)
#define BITS_ulong(word) (word)
#define BITS_float(word) as_float((uint)(word))
#define BITS_double(word) as_double(word)
#define OF_BITS(type, word) JOIN(BITS_, type)(word)

#if defined(TOTAL) && !defined(WHOLE)
/* Correctly rounded; OpenCL's own division of float32 need not be, and compilers make it of
 * this one of double where the build does not ask for it (gop_cl_quotients). */
static ACC divide(ACC sum, long n)
{
#if defined(DOUBLE)
    return (ACC)((double)sum / (double)(ACC)n);
#else
    const float count = (float)n; /* a whole number, not negative */
    const uint bits = as_uint(sum), sign = bits & 0x80000000u;
    uint mantissa = bits & 0x7fffffu;
    int exponent = (int)(bits >> 23 & 0xffu);
    if (exponent == 0xff || count == 0) return sum / count; /* nothing to round */
    if (mantissa == 0 && exponent == 0) return sum;
    if (exponent) mantissa |= 0x800000u;
    else exponent = 1;
    const int shift = (int)clz(mantissa) - 8;
    mantissa <<= shift;
    exponent -= shift + (int)(as_uint(count) >> 23) - 127; /* of the quotient, or one more */
    const ulong divisor = (as_uint(count) & 0x7fffffu) | 0x800000u;
    ulong dividend = (ulong)mantissa << 32;
    ulong quotient = dividend / divisor;
    quotient = quotient << 1 | (quotient * divisor != dividend); /* the rest is not lost */
    if (quotient >> 33 == 0) quotient <<= 1, exponent--;
    /* Now 2^33 and more: 24 bits and ten; below the normal numbers fewer. */
    int last = 10 + max(1 - exponent, 0);
    if (last > 40) return as_float(sign);
    const ulong half_way = 1ul << (last - 1), rest = quotient & ((1ul << last) - 1);
    ulong kept = quotient >> last;
    kept += rest > half_way || (rest == half_way && (kept & 1));
    return as_float(sign | (uint)(kept + ((ulong)(max(exponent, 1) - 1) << 23)));
#endif
}
#endif

/* Output o, which is where `at` says. */
static void finish(OPERANDS, const struct shape *g, const struct work *w, struct at at, long o,
                   ONE root)
{
    out += out_at + at.out;
#if defined(TRUTH)
    *out = (uchar)((root != 0) ^ (w->flags & FLIP));
#elif defined(POSITION)
    *out = root.k;
#elif defined(BEST) /* a key forgets the signs of zeros, and which part was a NaN */
    const BASE re = OF_BITS(BASE, w->initial[0]), im = OF_BITS(BASE, w->initial[1]);
    const best first = of((V)(re, im), -1, w->flags);
    if (w->has_initial && !is_less(root, first)) *out = (V)(re, im);
    else *out = LOAD(a_at + at.in + element(g, root.k).in, a);
#elif defined(EXTREME)
    const BASE initial = OF_BITS(BASE, w->initial[0]);
    WIDE(ITEMS, BASE) all = initial;
    const ACC first = FIRST(key_of(all, w->flags));
    *out = w->has_initial && first <= root ? initial : from_key(root, w->flags);
#else
    ONE start = (ONE)OF_BITS(ACC, w->initial[0]);
#if PAIRS == 2
    start.s1 = OF_BITS(ACC, w->initial[1]);
#endif
    if (w->has_initial) root = fold_one(root, start);
#if !defined(WHOLE) && !defined(PROD)
    else root += (ONE)0; /* no sum is -0.0 */
#endif
#if defined(TOTAL) && !defined(WHOLE)
    if (w->is_mean) {
        const long n =
            w->counts < 0 ? g->count : ((__global const long *)PARTIAL)[w->counts + o];
#if PAIRS == 2
        root = (ONE)(divide(root.s0, n), divide(root.s1, n));
#else
        root = divide(root, n);
#endif
    }
#endif
#if defined(HALF) || defined(BFLOAT)
#if defined(SQUARES)
    *out = root;
#else
    *out = FIRST(narrow((OF(float))root));
#endif
#else
    *out = root;
#endif
#endif
}

/* ---- from nodes to roots: a work-group an output ---- */

__kernel void reduce_root_kernel(OPERANDS, const struct shape g, const struct work w)
{
    __local ONE node[ROOT_GROUP];
    ONE waiting[40];
    const long o = (long)get_group_id(0);
    const int t = (int)get_local_id(0);
    const long first = t * w.each, count = min(w.each, w.nodes - first);
    for (long i = 0; i < count; i++) push(waiting, i, PARTIAL[o * w.nodes + first + i]);
    node[t] = count > 0 ? root_of(waiting, count) : none_one();
    for (int d = 1; d < ROOT_GROUP; d *= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (t % (2 * d) == 0 && t + d < ROOT_GROUP) node[t] = fold_one(node[t], node[t + d]);
    }
    if (t == 0) finish(ARGUMENTS, &g, &w, place(&g, 0, g.kept, o), o, node[0]);
}

#endif
