/*
 * rows.cl - jacobi_step, a few rows a work-item: one of a GPU's, a chunk of them on a CPU.
 *
 * A short row is in registers: its terms are the first lanes of one leaf, so its sum is a
 * product a term and a fold of as many lanes. Of a longer one the lanes of a leaf are an array,
 * or, where a dense row and x are contiguous, VECTORS of WIDTH. There are vectors of rows too:
 * of a stencil's that have the same terms (RUNS), of a dense matrix by columns (COLUMNS).
 */
#include "opencl/jacobi_step/system.cl"

#define VECTOR JOIN(BASE, WIDTH)
#define VECTOR_LOAD JOIN(vload, WIDTH)
#define VECTOR_STORE JOIN(vstore, WIDTH)

/* Terms begin to end of a row: a leaf. */
static T leaf(const struct operands o, const struct system s, const struct row row, long begin,
              long end, long c)
{
    T lane[TREE_LANES];
#if defined(VECTORS) /* a half of the lanes at a time: these are registers */
    enum { width = TREE_LANES, HALF = width / 2 / WIDTH };
    __global const T *const a = o.a + row.i * s.a_row + begin;
    __global const T *const x = o.x + c * s.x_col + begin;
    const int m = (int)(end - begin);
    for (int from = 0; from < TREE_LANES; from += TREE_LANES / 2) {
        VECTOR sum[HALF];
        int p = from;
        for (int v = 0; v < HALF; v++) sum[v] = NOTHING;
        for (; p + TREE_LANES / 2 <= m; p += TREE_LANES)
            UNROLLED for (int v = 0; v < HALF; v++)
                sum[v] = fma(VECTOR_LOAD(v, a + p), VECTOR_LOAD(v, x + p), sum[v]);
        for (int v = 0; v < HALF; v++) VECTOR_STORE(sum[v], v, lane + from);
        for (int l = 0; p + l < m && l < TREE_LANES / 2; l++)
            lane[from + l] = fma(a[p + l], x[p + l], lane[from + l]);
    }
#else
    int width = 1; /* lanes that are in use, of which those without a term are NOTHING */
    while (width < TREE_LANES && width < end - begin) width *= 2;
    for (int l = 0; l < width; l++) lane[l] = NOTHING;
    for (long first = begin; first < end; first += TREE_LANES)
        for (int l = 0; l < min((long)TREE_LANES, end - first); l++)
            lane[l] = add_term(o, s, row, first + l, c, lane[l]);
#endif
    for (int d = width / 2; d > 0; d /= 2)
        for (int l = 0; l < d; l++) lane[l] += lane[l + d];
    return lane[0];
}

/* Loops would have them in memory. */
#define FOLD_EIGHT(l) (((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7])))

#if defined(FEW)
/* A row of 1 to FEW terms. Loads past its end are of its last term and not used: a condition
 * for each would make some wait for others. */
static T sum_of_few(const struct operands o, const struct system s, const struct row row,
                    long c, T *diagonal)
{
    const int last = (int)row.count - 1;
    T a[FEW], lane[8];
#if defined(CSR)
    __global const INDEX *const index = o.indices + row.begin;
    __global const T *const from = o.a + row.begin;
    UINDEX k[FEW];
    UNROLLED for (int p = 0; p < FEW; p++) k[p] = (UINDEX)index[min(p, last)];
    UNROLLED for (int p = 0; p < FEW; p++) a[p] = from[min(p, last)];
    UNROLLED for (int p = 0; p < FEW; p++) k[p] = k[p] < (UINDEX)s.n ? k[p] : 0;
#else
    UINDEX k[FEW];
    UNROLLED for (int p = 0; p < FEW; p++) {
        k[p] = (UINDEX)column(o, s, row, min(p, last));
        a[p] = element(o, s, row, min(p, last));
    }
#endif
    UNROLLED for (int p = 0; p < FEW; p++) lane[p] = o.x[k[p] * s.x_row + c * s.x_col];
    UNROLLED for (int p = 0; p < 8; p++) {
        if (p < FEW && p <= last && k[p] == (UINDEX)row.i) *diagonal += a[p];
        lane[p] = p < FEW && p <= last ? multiply_add(a[p], lane[p], NOTHING) : NOTHING;
    }
    return FOLD_EIGHT(lane);
}
#endif

#if defined(INSIDE)
/* Row i of a stencil and one column, if it has all its neighbours. INSIDE is a type for numbers
 * of rows: divisions of 64 bits take several times as long. */
static int step_inside(const struct operands o, const struct system s, T factor, long i)
{
    const struct item item = item_of(o, s, i, 0);
    T lane[8], diagonal;
    long distance[MOST], apart = 1;
    INSIDE rest = (INSIDE)i;
    int all = 1;
    UNROLLED for (int d = AXES - 1; d >= 0; d--) {
        const INSIDE extent = (INSIDE)s.extent[d], outer = d ? rest / extent : 0;
        const INSIDE at = rest - outer * extent;
        all &= at > 0 && at + 1 < extent;
        distance[d] = -apart;
        distance[2 * AXES - d] = apart;
        apart *= s.extent[d];
        rest = outer;
    }
    distance[AXES] = 0;
    if (!all) return 0;
    UNROLLED for (int p = 0; p < 8; p++) {
        lane[p] = NOTHING;
        if (p >= MOST) continue;
        const T a = o.a[p * s.a_row + i * s.a_col];
        lane[p] = multiply_add(a, o.x[(i + distance[p]) * s.x_row], NOTHING);
        if (p == AXES) diagonal = NOTHING + a;
    }
    update(o, s, factor, i, 0, item, FOLD_EIGHT(lane), diagonal);
    return 1;
}
#else
#define step_inside(o, s, factor, i) 0
#endif

/* The sum of a row, and its diagonal. */
static T sum_of(const struct operands o, const struct system s, const struct row row, long c,
                T *diagonal)
{
    *diagonal = NOTHING;
#if defined(FEW)
    if (row.count > 0 && row.count <= FEW) return sum_of_few(o, s, row, c, diagonal);
#endif
    T root = 0;
#if !AXES && !defined(ALL_FEW)
    T node[LEVELS];
    long leaves = 0;
    for (long begin = 0; begin < row.count; begin += LEAF)
        push(node, leaves++, leaf(o, s, row, begin, min(begin + LEAF, row.count), c));
    root = sum_of_leaves(node, leaves);
    *diagonal = diagonal_of(o, s, row);
#endif
    return root;
}

#if defined(RUNS)
/* Rows i to i + WIDTH - 1, which have all terms and the same ones as `row`. */
static void step_of_run(const struct operands o, const struct system s, T factor,
                        const struct row row, long i)
{
    VECTOR term[MOST], diagonal = NOTHING;
    UNROLLED for (int p = 0; p < MOST; p++) {
        __global const T *const from = o.a + row.term[p] * s.a_row + i * s.a_col;
        const VECTOR a = s.a_col ? VECTOR_LOAD(0, from) : (VECTOR)(*from);
        if (row.distance[p] == 0) diagonal += a;
        term[p] = fma(a, VECTOR_LOAD(0, o.x + i + row.distance[p]), (VECTOR)NOTHING);
    }
    UNROLLED for (int d = 4; d > 0; d /= 2)
        UNROLLED for (int l = 0; l < d; l++)
            if (l + d < MOST) term[l] += term[l + d];
    const VECTOR f = VECTOR_LOAD(0, o.f + i), rest = f - term[0];
    const VECTOR change = ALPHA ? term[0] - f : QUOTIENT(WIDTH, rest, diagonal);
    VECTOR_STORE(fma((VECTOR)factor, change, VECTOR_LOAD(0, o.x + i)), 0, o.out + i);
    if (s.has_residual) VECTOR_STORE(rest, 0, o.residual + i);
}
#endif

#if defined(COLUMNS)
/* The rows from row i on, SIDE of them in each of some vectors. Lanes come in bit-reversed
 * order, so that those which fold first come one after the other. */
enum { SIDE = 16, STRIP = 32, OF_COLUMNS = 24 }; /* levels: of lanes and of leaves */
#define ROWS JOIN(BASE, 16)

static void step_of_columns(const struct operands o, const struct system s, T factor, long i,
                            long c, int vectors)
{
    ROWS waiting[OF_COLUMNS][STRIP], sum[STRIP];
    const T *const number = (const T *)sum;
    struct row row = {i, 0, s.n};
    int width = 1;
    while (width < TREE_LANES && width < s.n) width *= 2;
    const long lanes = (s.n + LEAF - 1) / LEAF * width;
    for (long lane = 0; lane < lanes; lane++) {
        const long leaf = lane / width * LEAF, end = min(leaf + LEAF, s.n);
        long p = leaf, n = lane;
        int level = 0;
        for (int bit = 1, l = width / 2; l; bit *= 2, l /= 2) p += lane & bit ? l : 0;
        for (int v = 0; v < vectors; v++) sum[v] = NOTHING;
        for (; p < end; p += TREE_LANES) {
            const ROWS x = o.x[p * s.x_row + c * s.x_col];
            for (int v = 0; v < vectors; v++)
                sum[v] = fma(vload16(v, o.a + i + p * s.a_col), x, sum[v]);
        }
        for (; n & 1; n >>= 1, level++)
            for (int v = 0; v < vectors; v++) sum[v] = waiting[level][v] + sum[v];
        for (int v = 0; v < vectors; v++) waiting[level][v] = sum[v];
    }
    const long others = lanes & (lanes - 1); /* but the last, which `sum` still has */
    for (int level = 0; others >> level; level++)
        for (int v = 0; others >> level & 1 && v < vectors; v++)
            sum[v] = waiting[level][v] + sum[v];
    for (; row.i < i + vectors * SIDE; row.i++)
        update(o, s, factor, row.i, c, item_of(o, s, row.i, c), number[row.i - i],
               diagonal_of(o, s, row));
}
#endif

/* Row row.i, once it is found. */
static void step(const struct operands o, const struct system s, T factor, const struct row row)
{
    for (long c = 0; c < s.k; c++) {
        T diagonal;
        const struct item item = item_of(o, s, row.i, c);
        const T sum = sum_of(o, s, row, c, &diagonal);
        update(o, s, factor, row.i, c, item, sum, diagonal);
    }
}

__kernel void jacobi_step_rows_kernel(SYSTEM)
{
    const struct operands o = OPERANDS;
    struct system own = s;
    if (PLAIN) /* one column, all contiguous: constants */
        own.x_row = own.f_row = own.out_row = own.residual_row = own.k = 1;
#if defined(VECTORS)
    own.a_col = 1;
#endif
    struct row row;
#if defined(ALONE) /* a row a work-item */
    const long i = s.first + (long)get_global_id(0);
    if (i >= s.last || step_inside(o, own, factor, i)) return;
    find_row(o, own, i, &row);
    step(o, own, factor, row);
#else
    const long first = s.first + (long)get_global_id(0) * s.each;
    const long last = min(first + s.each, s.last);
    long begin = first;
#if defined(COLUMNS)
    for (int vectors; (vectors = (int)min((last - begin) / SIDE, (long)STRIP)) > 0;
         begin += vectors * SIDE)
        for (long c = 0; c < own.k; c++) step_of_columns(o, own, factor, begin, c, vectors);
#endif
    for (long i = begin, end = begin; i < last; i++) {
        if (step_inside(o, own, factor, i)) continue;
        if (i >= end) {
            find_row(o, own, i, &row);
            end = i + 1;
#if AXES /* the rows of a line's inside have the same terms */
            const long length = s.extent[AXES - 1], at = i % length;
            end = min(max(end, at ? i + length - 1 - at : 0), last);
#endif
        }
#if defined(RUNS)
        if (row.count == MOST && i + WIDTH <= end) {
            step_of_run(o, own, factor, row, i);
            i += WIDTH - 1;
            continue;
        }
#endif
        row.i = i;
        step(o, own, factor, row);
    }
#endif
}
