/*
 * rows.cl - jacobi_step, a few rows a work-item: one of a GPU's, a chunk of them on a CPU.
 *
 * A short row is in registers: its terms are the first lanes of one leaf, so its sum is a
 * product a term and a fold of as many lanes. Of a longer one the lanes of a leaf are an array;
 * where a dense row and x are contiguous (VECTORS, of WIDTH numbers) they are vectors.
 */
#include "opencl/jacobi_step/system.cl"

/* A row of `count` terms, a constant: what is not there is left out. No array and no loop, of
 * which compilers make memory. The diagonal is found on the way. */
#define LANE(l, count) l < (count) ? term(o, s, row, l, c, diagonal) : NOTHING
#define CASE(count)                                                                            \
    case count: {                                                                              \
        const T l0 = LANE(0, count), l1 = LANE(1, count), l2 = LANE(2, count);                 \
        const T l3 = LANE(3, count), l4 = LANE(4, count), l5 = LANE(5, count);                 \
        const T l6 = LANE(6, count), l7 = LANE(7, count);                                      \
        const T even = ADD(ADD(l0, l4, 4, count), ADD(l2, l6, 6, count), 2, count);            \
        const T odd = ADD(ADD(l1, l5, 5, count), ADD(l3, l7, 7, count), 3, count);             \
        return ADD(even, odd, 1, count);                                                       \
    }
#define ADD(a, b, l, count) ((l) < (count) ? a + b : a)

static T term(const struct operands o, const struct system s, const struct row row, long p,
              long c, T *diagonal)
{
    const T a = element(o, s, row, p);
    const long k = column(o, s, row, p);
    if (k == row.i) *diagonal += a;
    return multiply_add(a, o.x[k * s.x_row + c * s.x_col], NOTHING);
}

#if defined(VECTORS)
#define VECTOR JOIN(BASE, WIDTH)
#define VECTOR_LOAD JOIN(vload, WIDTH)

/* A leaf of m terms, a half of its lanes at a time: these are registers. */
static T leaf_of(__global const T *a, __global const T *x, int m)
{
    enum { HALF = WIDE / 2 / WIDTH };
    T lane[WIDE];
    for (int from = 0; from < WIDE; from += WIDE / 2) {
        VECTOR sum[HALF];
        int p = from;
        for (int v = 0; v < HALF; v++) sum[v] = NOTHING;
        for (; p + WIDE / 2 <= m; p += WIDE)
#pragma unroll
            for (int v = 0; v < HALF; v++)
                sum[v] = fma(VECTOR_LOAD(v, a + p), VECTOR_LOAD(v, x + p), sum[v]);
        for (int v = 0; v < HALF; v++) JOIN(vstore, WIDTH)(sum[v], v, lane + from);
        for (int l = 0; p + l < m && l < WIDE / 2; l++)
            lane[from + l] = fma(a[p + l], x[p + l], lane[from + l]);
    }
    for (int d = WIDE / 2; d > 0; d /= 2)
        for (int l = 0; l < d; l++) lane[l] += lane[l + d];
    return lane[0];
}
#endif

static T leaf(const struct operands o, const struct system s, const struct row row, long begin,
              long end, long c)
{
#if defined(VECTORS)
    return leaf_of(o.a + row.i * s.a_row + begin, o.x + c * s.x_col + begin,
                   (int)(end - begin));
#else
    T lane[WIDE];
    int width = 1; /* lanes that are in use, of which those without a term are NOTHING */
    while (width < WIDE && width < end - begin) width *= 2;
    for (int l = 0; l < width; l++) lane[l] = NOTHING;
    for (long first = begin; first < end; first += WIDE)
        for (int l = 0; l < min((long)WIDE, end - first); l++)
            lane[l] = add_term(o, s, row, first + l, c, lane[l]);
    for (int d = width / 2; d > 0; d /= 2)
        for (int l = 0; l < d; l++) lane[l] += lane[l + d];
    return lane[0];
#endif
}

/* The sum of a row, and its diagonal. */
static T sum_of(const struct operands o, const struct system s, const struct row row, long c,
                T *diagonal)
{
    *diagonal = NOTHING;
#if !defined(VECTORS)
    switch (row.count) {
        CASE(1)
        CASE(2)
        CASE(3)
#if AXES != 1
        CASE(4)
        CASE(5)
#endif
#if AXES != 1 && AXES != 2
        CASE(6)
        CASE(7)
#endif
#if !AXES
        CASE(8)
#endif
    }
#endif
    T root = 0;
#if !AXES
    T node[LEVELS];
    long leaves = 0;
    for (long begin = 0; begin < row.count; begin += LEAF)
        PUSH(node, leaves, leaf(o, s, row, begin, min(begin + LEAF, row.count), c));
    ROOT(root, node, leaves);
    *diagonal = diagonal_of(o, s, row);
#endif
    return root;
}

/* How many rows from row i on have the same terms: those of a line's inside. */
static long alike(const struct system s, long i)
{
#if AXES
    const long length = s.extent[AXES - 1], at = i % length;
    return at == 0 ? 1 : max(1L, length - 1 - at);
#else
    return 1;
#endif
}

#if defined(COLUMNS)
/* Of a dense matrix whose columns are contiguous the sums of SIDE rows from row i on: what is a
 * number above is a vector here, with an element for each row. */
enum { SIDE = 16 };
#define ROWS JOIN(BASE, 16)

static ROWS leaf_of_columns(__global const T *a, long apart, __global const T *x, long step,
                            long m)
{
    ROWS lane[WIDE];
    for (int l = 0; l < WIDE; l++) lane[l] = NOTHING;
    for (long p = 0; p < m; p++)
        lane[p % WIDE] = fma(vload16(0, a + p * apart), (ROWS)x[p * step], lane[p % WIDE]);
    for (int d = WIDE / 2; d > 0; d /= 2)
        for (int l = 0; l < d; l++) lane[l] += lane[l + d];
    return lane[0];
}

static void step_of_columns(const struct operands o, const struct system s, T factor, long i,
                            long c)
{
    ROWS node[LEVELS], root;
    T sum[SIDE];
    struct row row = {i, 0, s.n};
    long leaves = 0;
    for (long p = 0; p < s.n; p += LEAF)
        PUSH_OF(ROWS, node, leaves,
                leaf_of_columns(o.a + i + p * s.a_col, s.a_col,
                                o.x + p * s.x_row + c * s.x_col, s.x_row,
                                min((long)LEAF, s.n - p)));
    ROOT(root, node, leaves);
    vstore16(root, 0, sum);
    for (; row.i < i + SIDE; row.i++)
        update(o, s, factor, row.i, c, sum[row.i - i], diagonal_of(o, s, row));
}
#endif

__kernel void jacobi_step_rows_kernel(SYSTEM)
{
    const struct operands o = OPERANDS;
    struct system own = s;
#if defined(PLAIN) /* one column, all contiguous: constants */
    own.x_row = own.f_row = own.out_row = own.residual_row = own.k = 1;
#endif
#if defined(VECTORS)
    own.a_col = 1;
#endif
    struct row row;
    const long first = s.first + (long)get_global_id(0) * s.each;
    const long last = min(first + s.each, s.last);
    long begin = first;
#if defined(COLUMNS)
    for (; begin + SIDE <= last; begin += SIDE)
        for (long c = 0; c < own.k; c++) step_of_columns(o, own, factor, begin, c);
#endif
    for (long i = begin, end = begin; i < last; i++) {
        if (i >= end) {
            find_row(o, own, i, &row);
            end = i + alike(own, i);
        }
        row.i = i;
        for (long c = 0; c < own.k; c++) {
            T diagonal;
            const T sum = sum_of(o, own, row, c, &diagonal);
            update(o, own, factor, i, c, sum, diagonal);
        }
    }
}
