/*
 * finish.cl - where elements lie, and what a root becomes.
 */
#include "opencl/reduce/map.cl"

#define OPERANDS_TOLD 3
#include "opencl/axes.cl"

#define OUT_OF(g) (g)->axes.stride[0]
#define IN_OF(g) (g)->axes.stride[1]
#define WHERE_OF(g) (g)->axes.stride[2]
/* How many axes are kept, and are not: builds that know it keep them out of memory. */
#if !defined(KEPT)
#define KEPT (int)g->kept
#define REDUCED (int)g->reduced
#endif

#define OPERANDS TO(OUT, out), FROM(BASE, a), FROM(uchar, where), TO(uchar, scratch)
#define ARGUMENTS out, out_at, a, a_at, where, where_at, scratch, scratch_at
#define PARTIAL ((__global ONE *)(scratch + scratch_at * 16))

struct at {
    long in, where, out;
};

static struct at at_of(const struct shape *g, int first, int last, long number)
{
    long at[3] = {0, 0, 0};
    place(&g->axes, first, last, (INDEX)number, 3, at);
    return (struct at){at[1], at[2], at[0]};
}

/* Where output o is, and its first element. */
static struct at output(const struct shape *g, long o)
{
    return at_of(g, 0, KEPT, o);
}

/* The k-th element of an output. */
static struct at element(const struct shape *g, long k)
{
    return at_of(g, KEPT, KEPT + REDUCED, k);
}

/* A part of the initial value; no number is longer than its bits are. */
#define INITIAL(type, part) (((const type *)&w->initial[part])[0])

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
    const BASE re = INITIAL(BASE, 0), im = INITIAL(BASE, 1);
    const best first = of((V)(re, im), -1, w->flags);
    if (w->has_initial && !is_less(root, first)) *out = (V)(re, im);
    else *out = LOAD(a_at + at.in + element(g, root.k).in, a);
#elif defined(EXTREME)
    const BASE initial = INITIAL(BASE, 0);
    const KEYS first = key_of((WIDE(ITEMS, BASE))initial, w->flags);
    *out = w->has_initial && *(const ACC *)&first <= root ? initial : from_key(root, w->flags);
#else
    ONE start = (ONE)INITIAL(ACC, 0);
#if PAIRS == 2
    start.s1 = INITIAL(ACC, 1);
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
        root = (ONE)(quotient(root.s0, (ACC)n), quotient(root.s1, (ACC)n));
#else
        root = quotient(root, (ACC)n);
#endif
    }
#endif
#if (defined(HALF) || defined(BFLOAT)) && !defined(SQUARES)
    const V narrowed = narrow((OF(float))root);
    *out = *(const BASE *)&narrowed;
#else
    *out = root;
#endif
#endif
}
