/*
 * chunked.cl - reduce for CPU devices: a chunk of the array a work-item, in vectors.
 *
 * A vector is ITEMS elements side by side, as many as make an accumulator of 64 bytes: the
 * processor's registers. Where the elements of an output are neighbours, a vector has some of
 * its lanes; where outputs are, as in sums of columns (COLUMNS), it has some outputs. A build
 * has one of the two kernels, since drivers take seconds for all that is in a source.
 */
#include "opencl/reduce/finish.cl"
#if defined(FEW)
#define BLOCK_ROWS FEW
#include "opencl/block.cl"
#endif

#define GROUPS (TREE_LANES / ITEMS) /* vectors of the lanes of a leaf */

/* Code that few elements reach stays short: it is compiled when it is first called. */
#define SELDOM _Pragma("unroll 1")

/* What m elements make, of which a mask or an end hides some. The k-th one is the first. */
static R made_of(__global const BASE *a, __global const uchar *where, const struct at *at,
                 int m, long k, const struct work *w)
{
    BASE number[LANES];
    SELDOM for (int i = 0; i < LANES; i++)
        number[i] = a[at[i / PARTS < m ? i / PARTS : 0].in * PARTS + i % PARTS];
    const R nothing = none();
    R all = of(LOAD(0, number), k, w->flags);
    SELDOM for (int i = 0; i < ITEMS; i++)
        if (i >= m || (w->has_where && !where[at[i].where]))
            ((ONE *)&all)[i] = ((const ONE *)&nothing)[i];
    return all;
}

enum { NARROW = 16 }; /* outputs of a narrow array, at most */

/* Lanes of `line` outputs, which are neighbours, fold to as many roots. */
static void fold_lanes(ONE *root, ONE *lane, int line)
{
    for (int d = TREE_LANES / 2 * line; d >= line; d /= 2)
        for (int i = 0; i < d; i++) lane[i] = fold_one(lane[i], lane[i + d]);
    for (int i = 0; i < line; i++) root[i] = lane[i];
}

/* A whole leaf of lines without gaps: lanes and outputs are neighbours, read in order. */
static void narrow_leaf(ONE *root, __global const BASE *a, int line, const struct work *w)
{
    R lane[GROUPS * NARROW];
    for (int v = 0; v < GROUPS * line; v++, a += LANES) lane[v] = of(LOAD(0, a), 0, w->flags);
    for (int row = 1; row < LEAF / TREE_LANES; row++)
        for (int v = 0; v < GROUPS * line; v++, a += LANES)
            lane[v] = fold(lane[v], of(LOAD(0, a), 0, w->flags));
    fold_lanes(root, (ONE *)lane, line);
}

#if !defined(COLUMNS)
/* ---- rows: the elements of an output are neighbours ---- */

/* Whether n elements from the k-th on lie one after the other, and all count. */
static int are_plain(const struct shape *g, const struct work *w, long k, int n)
{
    const int inner = (int)(g->kept + g->reduced) - 1;
    if (w->has_where || !g->reduced || IN_OF(g)[inner] != 1) return 0;
    const INDEX line = (INDEX)g->axes.extent[inner];
    return (long)(line - (INDEX)k % line) >= n;
}

/* The m elements from the k-th on. */
static R fetch(__global const BASE *a, __global const uchar *where, const struct shape *g,
               int m, long k, const struct work *w)
{
    struct at at[ITEMS];
    SELDOM for (int i = 0; i < ITEMS; i++) at[i] = element(g, k + (i < m ? i : 0));
    return made_of(a, where, at, m, k, w);
}

#if defined(BEST)
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

/* The order is free: `least` is the best of the leaves before, or better. */
static ONE leaf(__global const BASE *a, __global const uchar *where, const struct shape *g,
                const struct work *w, long k, int n, ONE least)
{
    if (PARTS == 1 && are_plain(g, w, k, n))
        return first_least(least, a + element(g, k).in, k, n, w);
    for (int i = 0; i < n; i++) least = fold_one(least, fetch(a, where, g, 1, k + i, w));
    return least;
}
#else
/* In the order of tree/v1, whatever came before. */
static ONE leaf(__global const BASE *a, __global const uchar *where, const struct shape *g,
                const struct work *w, long k, int n, ONE before)
{
    ONE root;
    R lane[GROUPS];
    const int is_plain = are_plain(g, w, k, n);
    __global const BASE *const from = a + (is_plain ? element(g, k).in * PARTS : 0);
    if (is_plain && n == LEAF) {
        narrow_leaf(&root, from, 1, w);
        return root;
    }
    for (int v = 0; v < GROUPS; v++) lane[v] = none();
    for (int i = 0, v = 0; i < n; i += ITEMS, v = (v + 1) % GROUPS)
        lane[v] = fold(lane[v], is_plain && i + ITEMS <= n
                                    ? of(LOAD(0, from + i * PARTS), 0, w->flags)
                                    : fetch(a, where, g, min(ITEMS, n - i), k + i, w));
    fold_lanes(&root, (ONE *)lane, 1);
    return root;
}
#endif

__kernel void reduce_chunked_kernel(OPERANDS, const struct shape g, const struct work w)
{
    const long first = (long)get_global_id(0) * w.each, all = g.outputs * w.nodes;
    const R nothing = none();
    for (long i = first; i < min(first + w.each, all); i++) {
        const long o = i / w.nodes, begin = i % w.nodes << w.node_leaves;
        const long count = min(w.leaves - begin, 1l << w.node_leaves);
        const struct at at = output(&g, o);
        __global const BASE *const from = a + (a_at + at.in) * PARTS;
        __global const uchar *const mask = where + where_at + at.where;
        ONE leaves[40], root = *(const ONE *)&nothing;
        for (long l = 0; l < count; l++) {
            const long k = (begin + l) * LEAF;
            const int n = (int)min((long)LEAF, g.count - k);
            root = leaf(from, mask, &g, &w, k, n, root);
            push(leaves, l, root);
        }
        if (count > 0) root = root_of(leaves, count);
        if (w.nodes > 1) PARTIAL[i] = root;
        else finish(ARGUMENTS, &g, &w, at, o, root);
    }
}
#else
/* ---- columns: outputs are neighbours, STRIP vectors of them a work-item ---- */

#define ACROSS (STRIP * ITEMS)

/* The k-th element of m outputs from the x-th on of those whose elements are at `first`. */
static R fetch(__global const BASE *a, __global const uchar *where, const struct shape *g,
               struct at first, int x, int m, long k, const struct work *w)
{
    const int inner = (int)g->kept - 1;
    const long apart = IN_OF(g)[inner], where_apart = WHERE_OF(g)[inner];
    if (apart == 1 && m == ITEMS && !w->has_where)
        return of(LOAD(0, a + (first.in + x) * PARTS), k, w->flags);
    struct at at[ITEMS];
    SELDOM for (int i = 0; i < ITEMS; i++) {
        at[i].in = first.in + (x + i) * apart;
        at[i].where = first.where + (x + i) * where_apart;
    }
    return made_of(a, where, at, m, k, w);
}

#if defined(BEST)
/* Of elements [k, end): the order is free, so rows are read one after the other. */
static void columns(R *root, __global const BASE *a, __global const uchar *where,
                    const struct shape *g, const struct work *w, long k, long end, int m)
{
    if (PARTS == 1 && k < end && IN_OF(g)[g->kept - 1] == 1 && !w->has_where) {
        ACC key[ACROSS];
        int row[ACROSS];
        for (int x = 0; x < m; x++) key[x] = MOST, row[x] = 0;
        for (int i = 0; i < end - k; i++) {
            __global const BASE *const p = a + element(g, k + i).in;
            for (int x = 0; x < m; x++) {
                const ACC other = key_of(p[x], w->flags);
                row[x] = other < key[x] ? i : row[x];
                key[x] = min(key[x], other);
            }
        }
        for (int x = 0; x < m; x++) root[x].key = key[x], root[x].k = k + row[x];
        return;
    }
    for (int x = 0; x < m; x++) root[x] = none();
    for (; k < end; k++) {
        const struct at at = element(g, k);
        for (int x = 0; x < m; x++)
            root[x] = fold_one(root[x], fetch(a, where, g, at, x, 1, k, w));
    }
}
#else
enum { LEVELS = 14, OF_LANES = 7 }; /* of a node: of lanes, and of its leaves */

/* The lane that begins at the k-th element, of m outputs: a vector of them after the other, so
 * that its sum is a register. */
static void add_lane(R *strip, __global const BASE *a, __global const uchar *where,
                     const struct shape *g, const struct work *w, long k, int m)
{
    const long end = min((k / LEAF + 1) * LEAF, g->count);
    for (int x = 0; x < m; x += ITEMS) {
        R sum = none();
        for (long row = k; row < end; row += TREE_LANES)
            sum = fold(sum, fetch(a, where, g, element(g, row), x, min(ITEMS, m - x), row, w));
        strip[x / ITEMS] = sum;
    }
}

#if defined(FEW)
/* Outputs of FEW elements that lie one after the other: a block of them is transposed, so that
 * vectors are outputs side by side; an element is a lane. */
static R turned(__global const BASE *a, const struct work *w)
{
    V line[FEW];
    R lane[FEW];
    UNROLLED for (int v = 0; v < FEW; v++) line[v] = LOAD(v, a);
    transpose_block(line);
    UNROLLED for (int v = 0; v < FEW; v++) lane[v] = of(line[v], 0, w->flags);
    UNROLLED for (int d = FEW / 2; d > 0; d /= 2)
        UNROLLED for (int v = 0; v < d; v++) lane[v] = fold(lane[v], lane[v + d]);
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
    const long others = lanes & (lanes - 1); /* but the last, which `strip` still has */
    for (int level = 0; others >> level; level++)
        for (int v = 0; others >> level & 1 && v < vectors; v++)
            strip[v] = fold(waiting[level][v], strip[v]);
}
#endif

__kernel void reduce_chunked_kernel(OPERANDS, const struct shape g, const struct work w)
{
    const long inner = g.kept - 1, line = g.axes.extent[inner];
    const long strips = (line + ACROSS - 1) / ACROSS, lines = g.outputs / line;
    const long first = (long)get_global_id(0) * w.each, all = lines * strips * w.nodes;
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
        for (int x = 0; x < m; x++) {
            const struct at to = {of_line + x * IN_OF(&g)[inner], 0,
                                  at.out + (begin + x) * OUT_OF(&g)[inner]};
            if (w.nodes > 1) PARTIAL[(output + x) * w.nodes + node] = root[x];
            else finish(ARGUMENTS, &g, &w, to, output + x, root[x]);
        }
    }
}
#endif
