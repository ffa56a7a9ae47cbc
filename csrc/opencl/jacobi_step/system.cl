/*
 * system.cl - the system of jacobi_step: arithmetic of its numbers, terms of a row, the update.
 *
 * Defined by the build: what a number T is (opencl/vector.cl); CSR where A is sparse, and
 * INDEX, the type of its indices; AXES of a stencil's grid, else 0, and its BOUNDARY (0
 * dirichlet, 1 periodic, 2 neumann); ALPHA, 1 where the step has one.
 * docs/numerics.md states every rounding.
 */
#include "opencl/told.h"
#include "opencl/vector.cl"

/* ---- arithmetic; sums and differences are OpenCL's own, part by part ---- */

#if defined(COMPLEX)
#define T JOIN(BASE, 2)
static T multiply_add(T a, T b, T c)
{
    return (T)(fma(-a.y, b.y, fma(a.x, b.x, c.x)), fma(a.y, b.x, fma(a.x, b.y, c.y)));
}

/* By the larger part of b first, so that |b|^2 never overflows or underflows. */
static T divide(T a, T b)
{
    if (fabs(b.x) >= fabs(b.y)) {
        const BASE ratio = quotient(b.y, b.x), part = fma(b.y, ratio, b.x);
        return (T)(quotient(fma(a.y, ratio, a.x), part), quotient(fma(-a.x, ratio, a.y), part));
    }
    const BASE ratio = quotient(b.x, b.y), part = fma(b.x, ratio, b.y);
    return (T)(quotient(fma(a.x, ratio, a.y), part), quotient(fma(a.y, ratio, -a.x), part));
}
#else
#define T BASE
#define multiply_add(a, b, c) fma(a, b, c)
#define divide(a, b) quotient(a, b)
#endif

#define NOTHING ((T)(BASE)(-0.0f)) /* what a lane starts at: adding it changes no number */

#define UINDEX JOIN(u, INDEX) /* without a sign one comparison is enough for both ends */
#define SYSTEM                                                                                 \
    FROM(T, a), FROM(INDEX, indices), FROM(INDEX, indptr), FROM(T, f), FROM(T, x),             \
        TO(T, out), TO(T, residual), const struct system s, const T factor

struct operands {
    __global const T *a, *f, *x;
    __global const INDEX *indices, *indptr;
    __global T *out, *residual;
};
#define OPERANDS                                                                               \
    {                                                                                          \
        a + a_at, f + f_at, x + x_at, indices + indices_at, indptr + indptr_at, out + out_at,  \
            residual + residual_at                                                             \
    }

#define MOST (2 * AXES + 1)

struct row {
    long i, begin, count;
#if AXES
    int term[MOST];       /* which coefficient */
    long distance[MOST]; /* of the item of x */
#endif
};

#if AXES
/* The neighbour of coordinate `at` one step down (-1) or up an axis, if there is one. */
static void add_neighbour(struct row *row, int term, int step, long at, long extent, long apart)
{
    long distance = step * apart;
    if (at + step < 0 || at + step >= extent) {
        if (BOUNDARY == 0) return;
        distance = BOUNDARY == 1 ? -step * (extent - 1) * apart : 0;
    }
    row->term[row->count] = term;
    row->distance[row->count++] = distance;
}
#endif

/* A CSR matrix's row stays inside of its arrays: others may write there after the check. */
static void find_row(const struct operands o, const struct system s, long i, struct row *row)
{
    row->i = i;
    row->begin = 0;
    row->count = s.n;
#if defined(CSR)
    row->begin = o.indptr[i];
    row->count = o.indptr[i + 1] - row->begin;
    if (row->begin < 0 || row->count < 0 || row->begin + row->count > s.stored) row->count = 0;
#elif AXES
    long at[AXES], apart[AXES], step = 1;
    for (int d = AXES - 1; d >= 0; d--) {
        at[d] = i % s.extent[d];
        i /= s.extent[d];
        apart[d] = step;
        step *= s.extent[d];
    }
    row->count = 0;
    for (int d = 0; d < AXES; d++) add_neighbour(row, d, -1, at[d], s.extent[d], apart[d]);
    row->term[row->count] = AXES;
    row->distance[row->count++] = 0;
    for (int d = AXES - 1; d >= 0; d--)
        add_neighbour(row, 2 * AXES - d, 1, at[d], s.extent[d], apart[d]);
#endif
}

/* Term p of a row: the element of A, and its column. */
#if defined(CSR)
#define element(o, s, row, p) (o).a[(row).begin + (p)]
static long column(const struct operands o, const struct system s, const struct row row, long p)
{
    const long k = o.indices[row.begin + p];
    return (ulong)k < (ulong)s.n ? k : 0;
}
#elif AXES
#define element(o, s, row, p) (o).a[(row).term[p] * (s).a_row + (row).i * (s).a_col]
#define column(o, s, row, p) ((row).i + (row).distance[p])
#else
#define element(o, s, row, p) (o).a[(row).i * (s).a_row + (p) * (s).a_col]
#define column(o, s, row, p) (p)
#endif

/* Term p of a row times column c of x, added to a lane. */
static T add_term(const struct operands o, const struct system s, const struct row row, long p,
                  long c, T lane)
{
    return multiply_add(element(o, s, row, p),
                        o.x[column(o, s, row, p) * s.x_row + c * s.x_col], lane);
}

/* Only the step without alpha asks. Duplicates add up in stored order. */
static T diagonal_of(const struct operands o, const struct system s, const struct row row)
{
    T sum = NOTHING;
#if defined(CSR) || AXES
    for (long p = 0; !ALPHA && p < row.count; p++)
        if (column(o, s, row, p) == row.i) sum += element(o, s, row, p);
    return sum;
#else
    return ALPHA ? sum : o.a[row.i * (s.a_row + s.a_col)];
#endif
}

/* Item (i, c) of f and of x, to be asked for before anything is waited for. */
struct item {
    T f, x;
};

static struct item item_of(const struct operands o, const struct system s, long i, long c)
{
    return (struct item){o.f[i * s.f_row + c * s.f_col], o.x[i * s.x_row + c * s.x_col]};
}

/* Item (i, c) of the outputs from sum = (A x)[i, c]. */
static void update(const struct operands o, const struct system s, T factor, long i, long c,
                   const struct item item, T sum, T diagonal)
{
    const T rest = item.f - sum, change = ALPHA ? sum - item.f : divide(rest, diagonal);
    o.out[i * s.out_row + c * s.out_col] = multiply_add(factor, change, item.x);
    if (s.has_residual) o.residual[i * s.residual_row + c * s.residual_col] = rest;
}

enum { LEVELS = 48 };

#define NODE T
#define FOLD_NODES(a, b) ((a) + (b))
#include "opencl/tree.cl"

/* A row without terms is +0.0. */
static T sum_of_leaves(const T *leaf, long leaves)
{
    return leaves ? root_of(leaf, leaves) : (T)0;
}
