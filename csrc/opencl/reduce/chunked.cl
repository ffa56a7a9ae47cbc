/*
 * chunked.cl - reduce for CPU devices: a chunk of the array a work-item, in vectors.
 *
 * A vector is ITEMS elements side by side, as many as make an accumulator of 64 bytes: the
 * processor's registers. Where the elements of an output are neighbours, a vector has some of
 * its lanes; where outputs are, as in sums of columns, it has some outputs. No local memory,
 * which on a CPU is memory like any other.
 */
#include "opencl/reduce/finish.cl"

#define GROUPS (TREE_LANES / ITEMS) /* vectors of the lanes of a leaf */
#define TOGETHER (GROUPS < 4 ? GROUPS : 4)

/* Code that few elements reach stays short: it is compiled when it is first called. */
#define SELDOM _Pragma("unroll 1")

#define LOAD_OF(i, p) LOAD(0, (p) + (i)*PARTS)

/* What some elements make, of which a mask or an end hides those that are not shown. */
static R made_of(const BASE *number, const uchar *shown, long k, const struct work *w)
{
    R all = of(LOAD(0, number), k, w->flags);
#if ITEMS == 1
    return *shown ? all : none();
#else
    ACC made[RLANES], hidden[RLANES];
    JOIN(vstore, RLANES)(all, 0, made);
    JOIN(vstore, RLANES)(none(), 0, hidden);
    SELDOM for (int i = 0; i < RLANES; i++) if (!shown[i / PAIRS]) made[i] = hidden[i];
    return JOIN(vload, RLANES)(0, made);
#endif
}

/* m elements, `apart` from each other, of which the k-th is the first. */
static R fetch(__global const BASE *a, __global const uchar *where, long apart,
               long where_apart, int m, long k, const struct work *w)
{
    BASE number[LANES];
    uchar shown[ITEMS];
    if (m == ITEMS && apart == 1 && !w->has_where) return of(LOAD_OF(0, a), k, w->flags);
    SELDOM for (int i = 0; i < ITEMS; i++)
    {
        const long item = i < m ? i : 0;
        for (int part = 0; part < PARTS; part++)
            number[i * PARTS + part] = a[item * apart * PARTS + part];
        shown[i] = i < m && (!w->has_where || where[item * where_apart]);
    }
    return made_of(number, shown, k, w);
}

/* ---- rows: the elements of an output are neighbours ---- */

/* Elements from the k-th on that lie in one line. */
static int in_line(const struct shape *g, long k, int n)
{
    const INDEX line = g->reduced ? (INDEX)g->extent[g->kept + g->reduced - 1] : 1;
    return (int)min((long)(line - (INDEX)k % line), (long)n);
}

#if defined(BEST)
#if !defined(COMPLEX)
/* Of n neighbours: the least key, in a loop that compilers make vectors of, then where it is.
 */
static ONE first_least(__global const BASE *a, long k, int n, const struct work *w)
{
    best b = {MOST, k};
    for (int i = 0; i < n; i++) b.key = min(b.key, key_of(a[i], w->flags));
    while (key_of(*a, w->flags) != b.key) a++, b.k++;
    return b;
}
#endif

/* The order is free. */
static ONE leaf(__global const BASE *a, __global const uchar *where, const struct shape *g,
                const struct work *w, long k, int n)
{
    const int inner = (int)(g->kept + g->reduced) - 1;
    const long apart = g->reduced ? g->in[inner] : 0;
    const long where_apart = g->reduced ? g->where[inner] : 0;
    ONE least = none_one();
    for (int i = 0; i < n;) {
        const struct at at = element(g, k + i);
        const int run = in_line(g, k + i, n - i);
#if !defined(COMPLEX)
        if (apart == 1 && !w->has_where) {
            least = fold_one(least, first_least(a + at.in, k + i, run, w));
            i += run;
            continue;
        }
#endif
        for (int j = 0; j < run; j++, i++)
            least =
                fold_one(least, fetch(a + (at.in + j * apart) * PARTS,
                                      where + at.where + j * where_apart, 1, 1, 1, k + i, w));
    }
    return least;
}
#else
/* m elements of several lines. */
static R fetch_across(__global const BASE *a, __global const uchar *where,
                      const struct shape *g, int m, long k, const struct work *w)
{
    BASE number[LANES];
    uchar shown[ITEMS];
    SELDOM for (int i = 0; i < ITEMS; i++)
    {
        const struct at at = element(g, k + (i < m ? i : 0));
        for (int part = 0; part < PARTS; part++)
            number[i * PARTS + part] = a[at.in * PARTS + part];
        shown[i] = i < m && (!w->has_where || where[at.where]);
    }
    return made_of(number, shown, k, w);
}

static ONE first_of(R lanes)
{
    ONE number[ITEMS];
    JOIN(vstore, RLANES)(lanes, 0, (ACC *)number);
#pragma unroll
    for (int d = ITEMS / 2; d > 0; d /= 2)
#pragma unroll
        for (int l = 0; l < d; l++) number[l] = fold_one(number[l], number[l + d]);
    return number[0];
}

/* A whole leaf of neighbours: as many vectors at a time as there are registers. */
static void whole_leaf(R *lane, __global const BASE *a, const struct work *w)
{
    for (int first = 0; first < GROUPS; first += TOGETHER) {
        R sum[TOGETHER];
#pragma unroll
        for (int v = 0; v < TOGETHER; v++)
            sum[v] = of(LOAD_OF((first + v) * ITEMS, a), 0, w->flags);
        for (int row = 1; row < LEAF / TREE_LANES; row++) {
            __global const BASE *p = a + (row * TREE_LANES + first * ITEMS) * PARTS;
#pragma unroll
            for (int v = 0; v < TOGETHER; v++)
                sum[v] = fold(sum[v], of(LOAD_OF(v * ITEMS, p), 0, w->flags));
        }
#pragma unroll
        for (int v = 0; v < TOGETHER; v++) lane[first + v] = sum[v];
    }
}

static ONE leaf(__global const BASE *a, __global const uchar *where, const struct shape *g,
                const struct work *w, long k, int n)
{
    const int inner = (int)(g->kept + g->reduced) - 1;
    const long apart = g->reduced ? g->in[inner] : 0;
    const long where_apart = g->reduced ? g->where[inner] : 0;
    const int used = min((n + ITEMS - 1) / ITEMS, GROUPS);
    R lane[GROUPS];
    if (n == LEAF && apart == 1 && !w->has_where && in_line(g, k, n) == LEAF)
        whole_leaf(lane, a + element(g, k).in * PARTS, w);
    else
        for (int i = 0; i < n; i += ITEMS) { /* vector by vector, each of one line or more */
            R sum = none();
            const int v = i / ITEMS % GROUPS, m = min(ITEMS, n - i);
            if (in_line(g, k + i, m) == m) {
                const struct at at = element(g, k + i);
                sum =
                    fetch(a + at.in * PARTS, where + at.where, apart, where_apart, m, k + i, w);
            } else sum = fetch_across(a, where, g, m, k + i, w);
            lane[v] = i < TREE_LANES ? sum : fold(lane[v], sum);
        }
    for (int d = GROUPS / 2; d > 0; d /= 2)
        for (int v = 0; v < d && v + d < used; v++) lane[v] = fold(lane[v], lane[v + d]);
    return first_of(lane[0]);
}
#endif

__kernel void reduce_chunked_kernel(OPERANDS, const struct shape g, const struct work w)
{
    const long first = (long)get_global_id(0) * w.each, all = g.outputs * w.nodes;
    for (long i = first; i < min(first + w.each, all); i++) {
        const long o = i / w.nodes, begin = i % w.nodes << w.node_leaves;
        const long count = min(w.leaves - begin, 1l << w.node_leaves);
        const struct at at = place(&g, 0, g.kept, o);
        ONE leaves[40], root = none_one();
        for (long l = 0; l < count; l++) {
            const long k = (begin + l) * LEAF;
            push(leaves, l,
                 leaf(a + (a_at + at.in) * PARTS, where + where_at + at.where, &g, &w, k,
                      (int)min((long)LEAF, g.count - k)));
        }
        if (count > 0) root = root_of(leaves, count);
        if (w.nodes > 1) PARTIAL[i] = root;
        else finish(ARGUMENTS, &g, &w, o, root);
    }
}

/* ---- columns: outputs are neighbours, STRIP vectors of them a work-item ---- */

#define ACROSS (STRIP * ITEMS)
enum { LEVELS = 14 }; /* of a node: of lanes, and of its leaves */

/* Lane l of the leaf that begins at the k-th element, of `vectors` vectors. */
static void add_lane(R *strip, __global const BASE *a, __global const uchar *where,
                     const struct shape *g, const struct work *w, long k, int m)
{
    const int inner = (int)g->kept - 1;
    const long apart = g->in[inner], where_apart = g->where[inner];
    const long end = min((k / LEAF + 1) * LEAF, g->count);
    for (int first = 0; first < m; first += TOGETHER * ITEMS) {
        R sum[TOGETHER];
#pragma unroll
        for (int v = 0; v < TOGETHER; v++) sum[v] = none();
        for (long row = k; row < end; row += TREE_LANES) {
            const struct at at = element(g, row);
            __global const BASE *p = a + (at.in + first * apart) * PARTS;
            if (apart == 1 && !w->has_where && first + TOGETHER * ITEMS <= m) {
#pragma unroll
                for (int v = 0; v < TOGETHER; v++)
                    sum[v] = fold(sum[v], of(LOAD_OF(v * ITEMS, p), row, w->flags));
                continue;
            }
            __global const uchar *mask = where + at.where + first * where_apart;
#pragma unroll
            for (int v = 0; v < TOGETHER; v++)
                if (first + v * ITEMS < m)
                    sum[v] =
                        fold(sum[v], fetch(p + v * ITEMS * apart * PARTS,
                                           mask + v * ITEMS * where_apart, apart, where_apart,
                                           min(ITEMS, m - first - v * ITEMS), row, w));
        }
#pragma unroll
        for (int v = 0; v < TOGETHER; v++) strip[first / ITEMS + v] = sum[v];
    }
}

__kernel void reduce_chunked_columns_kernel(OPERANDS, const struct shape g, const struct work w)
{
    const long inner = g.kept - 1, line = g.extent[inner];
    const long strips = (line + ACROSS - 1) / ACROSS, lines = g.outputs / line;
    const long first = (long)get_global_id(0) * w.each, all = lines * strips * w.nodes;
    for (long i = first; i < min(first + w.each, all); i++) {
        const long node = i / (lines * strips), o = i / strips % lines;
        const long begin = i % strips * ACROSS, leaf = node << w.node_leaves;
        const long lanes = min(w.leaves - leaf, 1l << w.node_leaves) * w.turns;
        const int m = (int)min((long)ACROSS, line - begin), vectors = (m + ITEMS - 1) / ITEMS;
        const struct at at = place(&g, 0, inner, o);
        __global const BASE *from = a + (a_at + at.in + begin * g.in[inner]) * PARTS;
        __global const uchar *mask = where + where_at + at.where + begin * g.where[inner];
        R waiting[LEVELS][STRIP], strip[STRIP];
        for (int v = 0; v < vectors; v++) strip[v] = none();
        for (long number = 0; number < lanes; number++) {
            /* In bit-reversed order: lanes that fold first come one after the other. */
            long k = (leaf + number / w.turns) * LEAF;
            for (int bit = 1, lane = w.turns / 2; lane; bit *= 2, lane /= 2)
                k += number & bit ? lane : 0;
            add_lane(strip, from, mask, &g, &w, k, m);
            int level = 0;
            for (long n = number; n & 1; n >>= 1, level++)
                for (int v = 0; v < vectors; v++) strip[v] = fold(waiting[level][v], strip[v]);
            for (int v = 0; v < vectors; v++) waiting[level][v] = strip[v];
        }
        for (long n = lanes, level = 0, found = 0; n; n >>= 1, level++) {
            if (!(n & 1)) continue;
            for (int v = 0; v < vectors; v++)
                strip[v] = found ? fold(waiting[level][v], strip[v]) : waiting[level][v];
            found = 1;
        }
        const ONE *root = (const ONE *)strip;
        for (int x = 0; x < m; x++) {
            const long output = o * line + begin + x;
            if (w.nodes > 1) PARTIAL[output * w.nodes + node] = root[x];
            else finish(ARGUMENTS, &g, &w, output, root[x]);
        }
    }
}
