/*
 * stencil.h - a stencil on a grid, without a matrix: a run of points at a time.
 *
 * The points of a run have their neighbours at the same distances. So each term is one stream
 * out of x, and the sums are vectors. A line of the grid is three runs, because its two ends
 * have other neighbours.
 */
#ifdef D

/* Sums `count` terms per point, folded as a row of that length. The count is a constant. */
static ALWAYS_INLINE void FN(stencil_sums)(const int count, const int varies,
                                           const T *const *coefficient, const T *const *item,
                                           int64_t length, T *restrict sum)
{
    const T *a[MOST_TERMS], *x[MOST_TERMS];
    for (int t = 0; t < count; t++) a[t] = coefficient[t], x[t] = item[t];
    for (int64_t r = 0; r < length; r++) {
#define LANE(l) FN(multiply_add)(a[l][varies ? r : 0], x[l][r], NEGATIVE_ZERO)
        sum[r] = FOLD_LANES(count);
#undef LANE
    }
}

static ALWAYS_INLINE void FN(stencil_counted)(int count, const int varies, const T *const *a,
                                              const T *const *x, int64_t length, T *sum)
{
    switch (count) {
#define CASE(count)                                                                            \
    case count:                                                                                \
        FN(stencil_sums)(count, varies, a, x, length, sum);                                    \
        break;
        CASE(1)
        CASE(2)
        CASE(3)
        CASE(4)
        CASE(5)
        CASE(6)
        CASE(7)
#undef CASE
    }
}

/* Computes points [i, i + length), at most BATCH, which have their neighbours at the same
 * distances. */
static void FN(stencil_run)(const FN(system) * s, int64_t i, int64_t length,
                            const neighbours *near)
{
    const int varies = s->g.a_col != 0;
    const T *a[MOST_TERMS], *x[MOST_TERMS];
    T sum[BATCH], diagonal[BATCH];
    for (int64_t r = 0; r < length; r++) diagonal[r] = NEGATIVE_ZERO;
    for (int t = 0; t < near->count; t++) {
        a[t] = s->a + near->term[t] * s->g.a_row + i * s->g.a_col;
        if (near->distance[t] == 0 && !s->has_alpha)
            for (int64_t r = 0; r < length; r++)
                diagonal[r] = FN(plus)(diagonal[r], a[t][r * s->g.a_col]);
    }
    for (int64_t c = 0; c < s->g.k; c++) {
        for (int t = 0; t < near->count; t++)
            x[t] = s->columns + c * s->column + i + near->distance[t];
        if (varies) FN(stencil_counted)(near->count, 1, a, x, length, sum);
        else FN(stencil_counted)(near->count, 0, a, x, length, sum);
        FN(update_rows)(s, i, length, c, sum, diagonal);
    }
}

/* Computes a run for all columns, which are interleaved. With constant coefficients a run is
 * one vector, otherwise each point is. */
static void FN(stencil_flat_run)(const FN(system) * s, int64_t i, int64_t length,
                                 const neighbours *near)
{
    const int varies = s->g.a_col != 0;
    const int64_t k = s->g.k, points = varies ? 1 : BATCH / k;
    FN(system) flat = *s;
    flat.g.f_row = flat.g.x_row = flat.g.out_row = flat.g.residual_row = 1;
    for (const int64_t end = i + length; i < end; i += points) {
        const int64_t items = gop_smaller(points, end - i) * k;
        const T *a[MOST_TERMS], *x[MOST_TERMS];
        T sum[BATCH], diagonal[BATCH], d = NEGATIVE_ZERO;
        for (int t = 0; t < near->count; t++) {
            a[t] = s->a + near->term[t] * s->g.a_row + i * s->g.a_col;
            x[t] = s->x + (i + near->distance[t]) * k;
            if (near->distance[t] == 0) d = FN(plus)(d, *a[t]);
        }
        for (int64_t r = 0; r < items; r++) diagonal[r] = d;
        FN(stencil_counted)(near->count, 0, a, x, items, sum);
        FN(update_rows)(&flat, i * k, items, 0, sum, diagonal);
    }
}

static void FN(stencil_rows)(void *argument, int64_t begin, int64_t end, int worker)
{
    const FN(system) *s = argument;
    const gop_lattice *grid = &s->grid;
    const int64_t line = grid->extent[grid->axes - 1];
    const int is_flat = goes_flat(&s->g, s->residual != NULL);
    (void)worker;
    for (int64_t i = begin; i < end;) {
        neighbours near;
        const int64_t at = i % line; /* position in its line */
        int64_t length = at == 0 || at == line - 1 ? 1 : line - 1 - at;
        length = gop_smaller(gop_smaller(length, BATCH), end - i);
        find_neighbours(grid, i, &near);
        if (is_flat) FN(stencil_flat_run)(s, i, length, &near);
        else FN(stencil_run)(s, i, length, &near);
        i += length;
    }
}

#elif !defined(GOP_CPU_JACOBI_STEP_STENCIL_H)
#define GOP_CPU_JACOBI_STEP_STENCIL_H

#include "cpu/jacobi_step/csr.h"

enum { MOST_TERMS = 2 * GOP_MAX_LATTICE + 1 };

/* Whether the columns are interleaved in every operand, and a point's fit in a batch. */
static inline int goes_flat(const gop_jacobi *g, int has_residual)
{
    const int64_t k = g->k;
    return k > 1 && k <= BATCH && g->f_row == k && g->f_col == 1 && g->x_row == k &&
           g->x_col == 1 && g->out_row == k && g->out_col == 1 &&
           (!has_residual || (g->residual_row == k && g->residual_col == 1));
}

/* The terms of a point, in stored order: the coefficient, and the distance to its item of x. */
typedef struct neighbours {
    int count;
    int term[MOST_TERMS];
    int64_t distance[MOST_TERMS];
} neighbours;

/* Adds the neighbour of coordinate `at`, one step down (-1) or up (1) an axis of stride
 * `stride`, if there is one. */
static inline void add_neighbour(neighbours *near, int bc, int term, int step, int64_t at,
                                 int64_t extent, int64_t stride)
{
    int64_t distance = step * stride;
    if (at + step < 0 || at + step >= extent) {
        if (bc == GOP_DIRICHLET) return;
        distance = bc == GOP_PERIODIC ? -step * (extent - 1) * stride : 0;
    }
    near->term[near->count] = term;
    near->distance[near->count++] = distance;
}

/* Finds the neighbours in the order of the matrix's columns: down the axes, first to last, the
 * point itself, then up the axes in reverse. */
static inline void find_neighbours(const gop_lattice *grid, int64_t i, neighbours *near)
{
    int64_t at[GOP_MAX_LATTICE], stride[GOP_MAX_LATTICE];
    const int axes = grid->axes;
    int64_t apart = 1;
    gop_unravel(i, axes, grid->extent, at);
    for (int d = axes - 1; d >= 0; d--) {
        stride[d] = apart;
        apart *= grid->extent[d];
    }
    near->count = 0;
    for (int d = 0; d < axes; d++)
        add_neighbour(near, grid->bc, d, -1, at[d], grid->extent[d], stride[d]);
    near->term[near->count] = axes;
    near->distance[near->count++] = 0;
    for (int d = axes - 1; d >= 0; d--)
        add_neighbour(near, grid->bc, 2 * axes - d, 1, at[d], grid->extent[d], stride[d]);
}

#define GOP_TPL "cpu/jacobi_step/stencil.h"
#include "cpu/jacobi_step/each_inexact.inc"

#endif
