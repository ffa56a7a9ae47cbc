/*
 * chunked.cl - reduce for CPU devices: a chunk of the array a work-item, in vectors.
 *
 * A vector is ITEMS elements side by side, as many as make an accumulator of 64 bytes: the
 * processor's registers. Where the elements of an output are neighbours, a vector has some of
 * its lanes; where outputs are, as in sums of columns, it has some outputs. No local memory,
 * which on a CPU is memory like any other.
 */
#include "opencl/reduce/finish.cl"
#if defined(FEW)
#define BLOCK_ROWS FEW
#include "opencl/block.cl"
#endif

#define GROUPS (TREE_LANES / ITEMS) /* vectors of the lanes of a leaf */
#define TOGETHER (GROUPS < 4 ? GROUPS : 4)

/* Code that few elements reach stays short: it is compiled when it is first called. */
#define SELDOM _Pragma("unroll 1")

#define LOAD_OF(i, p) LOAD(0, (p) + (i)*PARTS)

/* What some elements make, of which a mask or an end hides those that are not shown. */
static R made_of(V number, const uchar *shown, long k, const struct work *w)
{
    R all = of(number, k, w->flags);
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
    uchar shown[ITEMS];
    if (m == ITEMS && !w->has_where)
        return of(apart == 1 ? LOAD(0, a) : gather(a, apart, ITEMS), k, w->flags);
    SELDOM for (int i = 0; i < ITEMS; i++)
        shown[i] = i < m && (!w->has_where || where[i * where_apart]);
    return made_of(gather(a, apart, m), shown, k, w);
}

/* ---- rows: the elements of an output are neighbours ---- */

/* Elements from the k-th on that lie in one line. */
static int in_line(const struct shape *g, long k, int n)
{
    const INDEX line = g->reduced ? (INDEX)g->axes.extent[g->kept + g->reduced - 1] : 1;
    return (int)min((long)(line - (INDEX)k % line), (long)n);
}

#if defined(BEST)
#if !defined(COMPLEX)
/* The best of n neighbours if it is better than what came before them. Both loops are of a kind
 * that compilers make vectors of: the least key, and of blocks the first that has it. */
static ONE first_least(ONE before, __global const BASE *a, long k, int n, const struct work *w)
{
    enum { BLOCK = 64 };
    best b = {MOST, k};
    for (int i = 0; i < n; i++) b.key = min(b.key, key_of(a[i], w->flags));
    if (b.key >= before.key && before.k != LONG_MAX) return before;
    for (int found = 0; n >= BLOCK; n -= BLOCK, a += BLOCK, b.k += BLOCK) {
        for (int i = 0; i < BLOCK; i++) found |= key_of(a[i], w->flags) == b.key;
        if (found) break;
    }
    while (key_of(*a, w->flags) != b.key) a++, b.k++;
    return b;
}
#endif

/* The order is free: `least` is the best of the leaves before. */
static ONE leaf(__global const BASE *a, __global const uchar *where, const struct shape *g,
                const struct work *w, long k, int n, ONE least)
{
    const int inner = (int)(g->kept + g->reduced) - 1;
    const long apart = g->reduced ? IN_OF(g)[inner] : 0;
    const long where_apart = g->reduced ? WHERE_OF(g)[inner] : 0;
    for (int i = 0; i < n;) {
        const struct at at = element(g, k + i);
        const int run = in_line(g, k + i, n - i);
#if !defined(COMPLEX)
        if (apart == 1 && !w->has_where) {
            least = first_least(least, a + at.in, k + i, run, w);
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
    return made_of(LOAD(0, number), shown, k, w);
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

enum { NARROW = 16 }; /* outputs of a narrow array, at most */

/* A whole leaf of lines without gaps: lanes and outputs are neighbours, read in order. */
static void narrow_leaf(ONE *root, __global const BASE *a, int line, const struct work *w)
{
    R lane[GROUPS * NARROW];
    ONE *const number = (ONE *)lane;
    for (int v = 0; v < GROUPS * line; v++, a += LANES) lane[v] = of(LOAD(0, a), 0, w->flags);
    for (int row = 1; row < LEAF / TREE_LANES; row++)
        for (int v = 0; v < GROUPS * line; v++, a += LANES)
            lane[v] = fold(lane[v], of(LOAD(0, a), 0, w->flags));
    for (int d = TREE_LANES / 2 * line; d >= line; d /= 2)
        for (int i = 0; i < d; i++) number[i] = fold_one(number[i], number[i + d]);
    for (int i = 0; i < line; i++) root[i] = number[i];
}

static ONE leaf(__global const BASE *a, __global const uchar *where, const struct shape *g,
                const struct work *w, long k, int n)
{
    const int inner = (int)(g->kept + g->reduced) - 1;
    const long apart = g->reduced ? IN_OF(g)[inner] : 0;
    const long where_apart = g->reduced ? WHERE_OF(g)[inner] : 0;
    const int used = min((n + ITEMS - 1) / ITEMS, GROUPS);
    R lane[GROUPS];
    if (n == LEAF && apart == 1 && !w->has_where && in_line(g, k, n) == LEAF) {
        ONE root;
        narrow_leaf(&root, a + element(g, k).in * PARTS, 1, w);
        return root;
    }
    for (int i = 0; i < n; i += ITEMS) { /* vector by vector, each of one line or more */
        R sum = none();
        const int v = i / ITEMS % GROUPS, m = min(ITEMS, n - i);
        if (in_line(g, k + i, m) == m) {
            const struct at at = element(g, k + i);
            sum = fetch(a + at.in * PARTS, where + at.where, apart, where_apart, m, k + i, w);
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
        const struct at at = output(&g, o);
#if !defined(BEST)
        ONE leaves[40];
#endif
        ONE root = none_one();
        for (long l = 0; l < count; l++) {
            const long k = (begin + l) * LEAF;
            const int n = (int)min((long)LEAF, g.count - k);
            __global const BASE *const from = a + (a_at + at.in) * PARTS;
#if defined(BEST)
            root = leaf(from, where + where_at + at.where, &g, &w, k, n, root);
        }
#else
            push(leaves, l, leaf(from, where + where_at + at.where, &g, &w, k, n));
        }
        if (count > 0) root = root_of(leaves, count);
#endif
        if (w.nodes > 1) PARTIAL[i] = root;
        else finish(ARGUMENTS, &g, &w, at, o, root);
    }
}

/* ---- columns: outputs are neighbours, STRIP vectors of them a work-item ---- */

#define ACROSS (STRIP * ITEMS)

#if defined(BEST)
/* Of elements [k, end): the order is free, so rows are read one after the other. */
static void columns(R *root, __global const BASE *a, __global const uchar *where,
                    const struct shape *g, const struct work *w, long k, long end, int m)
{
    const int inner = (int)g->kept - 1;
    const long apart = IN_OF(g)[inner], where_apart = WHERE_OF(g)[inner];
#if !defined(COMPLEX)
    if (k < end && apart == 1 && !w->has_where) {
        ACC key[ACROSS];
        int row[ACROSS];
        __global const BASE *p = a + element(g, k).in;
        for (int x = 0; x < m; x++) key[x] = key_of(p[x], w->flags), row[x] = 0;
        for (int i = 1; i < end - k; i++) {
            p = a + element(g, k + i).in;
            for (int x = 0; x < m; x++) {
                const ACC other = key_of(p[x], w->flags);
                row[x] = other < key[x] ? i : row[x];
                key[x] = min(key[x], other);
            }
        }
        for (int x = 0; x < m; x++) root[x].key = key[x], root[x].k = k + row[x];
        return;
    }
#endif
    for (int x = 0; x < m; x++) root[x] = none_one();
    for (; k < end; k++) {
        const struct at at = element(g, k);
        for (int x = 0; x < m; x++)
            if (!w->has_where || where[at.where + x * where_apart])
                root[x] = fold_one(root[x], of(LOAD(at.in + x * apart, a), k, w->flags));
    }
}
#else
enum { LEVELS = 14, OF_LANES = 7 }; /* of a node: of lanes, and of its leaves */

/* Lane l of the leaf that begins at the k-th element, of `vectors` vectors. */
static void add_lane(R *strip, __global const BASE *a, __global const uchar *where,
                     const struct shape *g, const struct work *w, long k, int m)
{
    const int inner = (int)g->kept - 1;
    const long apart = IN_OF(g)[inner], where_apart = WHERE_OF(g)[inner];
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

#if defined(FEW)
/* Outputs of FEW elements that lie one after the other: a block of them is transposed, so that
 * vectors are outputs side by side; an element is a lane. */
static R turned(__global const BASE *a, const struct work *w)
{
    V line[FEW];
    R lane[FEW];
#pragma unroll
    for (int v = 0; v < FEW; v++) line[v] = LOAD(v, a);
    transpose_block(line);
#pragma unroll
    for (int v = 0; v < FEW; v++) lane[v] = of(line[v], 0, w->flags);
#pragma unroll
    for (int d = FEW / 2; d > 0; d /= 2)
#pragma unroll
        for (int v = 0; v < d; v++) lane[v] = fold(lane[v], lane[v + d]);
    return lane[0];
}
#endif

/* Of elements [k, end), in the order of tree/v1. */
static void columns(R *strip, __global const BASE *a, __global const uchar *where,
                    const struct shape *g, const struct work *w, long k, long end, int m)
{
    const int vectors = (m + ITEMS - 1) / ITEMS;
    const long line = g->axes.extent[g->kept - 1];
    const long lanes = (end - k + LEAF - 1) / LEAF * w->turns;
    const int is_narrow = line <= NARROW && g->reduced == 1 && IN_OF(g)[g->kept - 1] == 1 &&
                          IN_OF(g)[g->kept] == line && !w->has_where;
    R waiting[LEVELS][STRIP];
#if defined(FEW)
    if (m % ITEMS == 0) {
        for (int v = 0; v < vectors; v++) strip[v] = turned(a + v * ITEMS * FEW, w);
        return;
    }
#endif
    for (int v = 0; v < vectors; v++) strip[v] = none();
    for (long number = 0; number < lanes; number++) {
        /* In bit-reversed order: lanes that fold first come one after the other. */
        long first = k + number / w->turns * LEAF, n = number;
        int level = 0;
        for (int bit = 1, lane = w->turns / 2; lane; bit *= 2, lane /= 2)
            first += number & bit ? lane : 0;
        if (is_narrow && first + LEAF <= end) {
            narrow_leaf((ONE *)strip, a + first * line * PARTS, m, w);
            number += TREE_LANES - 1;
            n = number >> OF_LANES;
            level = OF_LANES;
        } else add_lane(strip, a, where, g, w, first, m);
        for (; n & 1; n >>= 1, level++)
            for (int v = 0; v < vectors; v++) strip[v] = fold(waiting[level][v], strip[v]);
        for (int v = 0; v < vectors; v++) waiting[level][v] = strip[v];
    }
    for (long n = lanes, level = 0, found = 0; n; n >>= 1, level++) {
        if (!(n & 1)) continue;
        for (int v = 0; v < vectors; v++)
            strip[v] = found ? fold(waiting[level][v], strip[v]) : waiting[level][v];
        found = 1;
    }
}
#endif

__kernel void reduce_chunked_columns_kernel(OPERANDS, const struct shape g, const struct work w)
{
    const long inner = g.kept - 1, line = g.axes.extent[inner];
    const long strips = (line + ACROSS - 1) / ACROSS, lines = g.outputs / line;
    const long first = (long)get_global_id(0) * w.each, all = lines * strips * w.nodes;
    struct work plain = w; /* constants, with which compilers make vectors of outputs */
    plain.has_initial = plain.is_mean = 0;
    const int is_plain = w.nodes == 1 && !w.has_initial && !w.is_mean && OUT_OF(&g)[inner] == 1;
    for (long i = first; i < min(first + w.each, all); i++) {
        const long node = i / (lines * strips), o = i / strips % lines;
        const long begin = i % strips * ACROSS, k = (node << w.node_leaves) * LEAF;
        const int m = (int)min((long)ACROSS, line - begin);
        const struct at at = at_of(&g, 0, (int)inner, o);
        const long of_line = at.in + begin * IN_OF(&g)[inner], output = o * line + begin;
        R strip[STRIP];
        const ONE *root = (const ONE *)strip;
        columns(strip, a + (a_at + of_line) * PARTS,
                where + where_at + at.where + begin * WHERE_OF(&g)[inner], &g, &w, k,
                min(k + ((long)LEAF << w.node_leaves), g.count), m);
        for (int x = 0; is_plain && x < m; x++) {
            const struct at to = {of_line + x * IN_OF(&g)[inner], 0, at.out + begin + x};
            finish(ARGUMENTS, &g, &plain, to, output + x, root[x]);
        }
        for (int x = 0; !is_plain && x < m; x++) {
            const struct at to = {of_line + x * IN_OF(&g)[inner], 0,
                                  at.out + (begin + x) * OUT_OF(&g)[inner]};
            if (w.nodes > 1) PARTIAL[(output + x) * w.nodes + node] = root[x];
            else finish(ARGUMENTS, &g, &w, to, output + x, root[x]);
        }
    }
}
