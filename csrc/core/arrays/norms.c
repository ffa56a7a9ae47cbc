/*
 * norms.c - 2-norms of columns on the host: the sums of leaves on all threads.
 */
#include "core/arrays/norms.h"

#include <math.h>

#include "core/arrays/leaf_norms.h"
#include "core/numerics.h"

enum { GRAIN = 32 /* leaves of a piece */, SIDE = 8 };

typedef struct norm_job {
    gop_leaf_sums sums;
    const gop_columns *v;
    int64_t side; /* columns that are read together */
    /* These change from sum to sum. */
    int64_t first, columns;
    double scale;
    int largest; /* 1: the largest part of each leaf, 0: its sum of squares */
} norm_job;

static int parts_of(gop_dtype dtype)
{
    return gop_dtype_kind(dtype) == 'c' ? 2 : 1;
}

/* Adds the squares of items to as many lanes. Choices are constants here, for the compiler. */
static inline void add_squares(const void *data, const int single, const int parts,
                               double scale, int64_t items, double *restrict lane)
{
    const float *restrict narrow = data;
    const double *restrict wide = data;
#define PART(i) (single ? (double)narrow[i] : wide[i] * scale)
    for (int64_t l = 0; l < items; l++)
        lane[l] += parts == 1 ? PART(l) * PART(l)
                              : PART(2 * l) * PART(2 * l) + PART(2 * l + 1) * PART(2 * l + 1);
#undef PART
}

static void add_largest(const void *data, int single, int64_t parts, double *largest)
{
    for (int64_t l = 0; l < parts; l++) {
        const double part = fabs(single ? ((const float *)data)[l] : ((const double *)data)[l]);
        if (part > *largest) *largest = part;
    }
}

/* `items` neighbours from item `at` on, each to its lane, or the largest of all to the first.
 */
static void add_items(const norm_job *job, int64_t at, int64_t items, double *lane)
{
    const gop_dtype dtype = job->v->dtype;
    const int parts = parts_of(dtype);
    const int single = dtype == GOP_FLOAT32 || dtype == GOP_COMPLEX64;
    const void *const data = (const char *)job->v->data + at * gop_dtype_size(dtype);
    if (job->largest) add_largest(data, single, items * parts, lane);
    else if (single && parts == 1) add_squares(data, 1, 1, 1.0, items, lane);
    else if (single) add_squares(data, 1, 2, 1.0, items, lane);
    else if (parts == 1) add_squares(data, 0, 1, job->scale, items, lane);
    else add_squares(data, 0, 2, job->scale, items, lane);
}

/* Computes a leaf of `width` neighbouring columns from c on: a lane has an item of each. */
static void leaf_of(const norm_job *job, int64_t c, int64_t width, int64_t begin, int64_t end,
                    double *leaf)
{
    const gop_columns *const v = job->v;
    double lane[LANES * SIDE];
    const int64_t run = v->row == width ? LANES : 1; /* rows that follow each other */
    for (int64_t l = 0; l < LANES * width; l++) lane[l] = job->largest ? 0.0 : -0.0;
    for (int64_t i = begin; i < end; i += LANES)
        for (int64_t r = 0, m = end - i < LANES ? end - i : LANES; r < m; r += run)
            add_items(job, (i + r) * v->row + c * v->col, (m < run ? m : run) * width,
                      lane + (job->largest ? 0 : r * width));
    for (int64_t d = LANES / 2 * width; d >= width && !job->largest; d /= 2)
        for (int64_t l = 0; l < d; l++) lane[l] += lane[l + d];
    for (int64_t l = 0; l < width; l++) leaf[l * job->sums.leaves] = lane[l];
}

static void leaves_of(void *argument, int64_t begin, int64_t end, int worker)
{
    const norm_job *job = argument;
    (void)worker;
    for (int64_t at = begin; at < end; at++) {
        const int64_t leaves = job->sums.leaves;
        const int64_t leaf = at % leaves, i = leaf * LEAF, n = job->v->n;
        const int64_t c = at / leaves * job->side;
        const int64_t width = job->columns - c < job->side ? job->columns - c : job->side;
        leaf_of(job, job->first + c, width, i, n - i < LEAF ? n : i + LEAF,
                job->sums.leaf + c * leaves + leaf);
    }
}

static gop_status sum_leaves(const gop_leaf_sums *sums, int64_t first, int64_t columns,
                             double scale, int is_largest)
{
    norm_job job = *(const norm_job *)sums;
    job.first = first;
    job.columns = columns;
    job.scale = scale;
    job.largest = is_largest;
    if (columns == 1) job.side = 1;
    const int64_t sides = (columns + job.side - 1) / job.side;
    return gop_parallel(sums->leaves * sides, 1 + GRAIN / job.side, leaves_of, &job);
}

gop_status gop_column_norms(const gop_columns *v, double *work, double *norms)
{
    const int64_t side = v->k < 2 || v->col != 1 ? 1 : v->k < SIDE ? v->k : SIDE;
    const int is_double = gop_dtype_size(v->dtype) / parts_of(v->dtype) == 8;
    const norm_job job = {
        .sums = {(v->n + LEAF - 1) / LEAF, v->k, is_double, work, sum_leaves},
        .v = v,
        .side = side,
    };
    return gop_norms_of_leaves(&job.sums, norms);
}
