/*
 * norms.c - 2-norms of columns in float64, neither underflowing nor overflowing.
 *
 * The squares of float32 are exact in float64, where no sum of them overflows. Those of float64
 * may be lost: where their sum is so small or so large that any could have been, they are taken
 * once more, of items scaled by a power of two. Both sums are the tree/v1 of docs/numerics.md.
 */
#include "core/arrays/norms.h"

#include <math.h>

enum { LANES = 128, LEAF = 2048, GRAIN = 32 /* leaves of a piece */ };

typedef struct norm_job {
    const gop_columns *v;
    int64_t first, leaves; /* the column to begin with, and the leaves of each */
    double scale;
    double *work; /* a number for each leaf */
    int largest;  /* 1: the largest part of each leaf, 0: its sum of squares */
} norm_job;

static int parts_of(gop_dtype dtype)
{
    return gop_dtype_kind(dtype) == 'c' ? 2 : 1;
}

/* The parts of m items of a column from item i on, in float64 and scaled. */
static void gather_squares(const norm_job *job, int64_t c, int64_t i, int m, double *to)
{
    const gop_columns *v = job->v;
    const int parts = parts_of(v->dtype), run = v->row == 1 ? m * parts : parts;
    const int single = v->dtype == GOP_FLOAT32 || v->dtype == GOP_COMPLEX64;
    const double scale = job->scale;
    for (int l = 0; l < m * parts; l += run, i++) {
        const int64_t at = (i * v->row + c * v->col) * parts;
        const float *narrow = (const float *)v->data + (single ? at : 0);
        const double *wide = (const double *)v->data + (single ? 0 : at);
        if (single)
            for (int p = 0; p < run; p++) to[l + p] = narrow[p];
        else
            for (int p = 0; p < run; p++) to[l + p] = wide[p] * scale;
    }
}

static double leaf_of(const norm_job *job, int64_t c, int64_t begin, int64_t end)
{
    const int parts = parts_of(job->v->dtype);
    double lane[LANES], part[2 * LANES], largest = 0.0;
    for (int l = 0; l < LANES; l++) lane[l] = -0.0;
    for (int64_t i = begin; i < end; i += LANES) {
        const int m = end - i < LANES ? (int)(end - i) : LANES;
        gather_squares(job, c, i, m, part);
        if (job->largest)
            for (int l = 0; l < m * parts; l++)
                largest = fabs(part[l]) > largest ? fabs(part[l]) : largest;
        else if (parts == 1)
            for (int l = 0; l < m; l++) lane[l] += part[l] * part[l];
        else
            for (int l = 0; l < m; l++)
                lane[l] += part[2 * l] * part[2 * l] + part[2 * l + 1] * part[2 * l + 1];
    }
    if (job->largest) return largest;
    for (int d = LANES / 2; d > 0; d /= 2)
        for (int l = 0; l < d; l++) lane[l] += lane[l + d];
    return lane[0];
}

static void leaves_of(void *argument, int64_t begin, int64_t end, int worker)
{
    const norm_job *job = argument;
    (void)worker;
    for (int64_t at = begin; at < end; at++) {
        const int64_t i = at % job->leaves * LEAF, n = job->v->n;
        job->work[at] =
            leaf_of(job, job->first + at / job->leaves, i, n - i < LEAF ? n : i + LEAF);
    }
}

/* Of each of `columns` columns: its leaves fold into the first of them. The padding is -0.0,
 * which changes nothing. */
static gop_status fold_squares(const norm_job *job, int64_t columns)
{
    GOP_TRY(gop_parallel(job->leaves * columns, GRAIN, leaves_of, (void *)job));
    for (int64_t c = 0; c < columns; c++) {
        double *const leaf = job->work + c * job->leaves;
        for (int64_t w = 1; w < job->leaves; w *= 2)
            for (int64_t i = 0; i + w < job->leaves; i += 2 * w)
                leaf[i] = !job->largest           ? leaf[i] + leaf[i + w]
                          : leaf[i + w] > leaf[i] ? leaf[i + w]
                                                  : leaf[i];
    }
    return GOP_OK;
}

/* The norm of one column whose squares may have been lost. */
static gop_status scaled_norm(norm_job job, double *norm)
{
    job.largest = 1;
    GOP_TRY(fold_squares(&job, 1));
    const double largest = *norm = job.work[0];
    if (largest == 0.0 || isinf(largest)) return GOP_OK;
    int e;
    frexp(largest, &e); /* largest < 2^e */
    e = e < -1021 ? -1022 : e > 1023 ? 1022 : e - 1;
    job.largest = 0;
    job.scale = ldexp(1.0, -e);
    GOP_TRY(fold_squares(&job, 1));
    *norm = sqrt(job.work[0]) * ldexp(1.0, e);
    return GOP_OK;
}

gop_status gop_column_norms(const gop_columns *v, double *work, double *norms)
{
    norm_job job = {v, 0, (v->n + LEAF - 1) / LEAF, 1.0, work, 0};
    for (int64_t c = 0; c < v->k; c++) norms[c] = 0.0;
    if (v->n == 0 || v->k == 0) return GOP_OK;
    GOP_TRY(fold_squares(&job, v->k));
    for (int64_t c = 0; c < v->k; c++) norms[c] = work[c * job.leaves];
    for (int64_t c = 0; c < v->k; c++) {
        const double sum = norms[c];
        const int lost = sum < 0x1p-900 || sum > 0x1p1000;
        job.first = c;
        if (lost && gop_dtype_size(v->dtype) / parts_of(v->dtype) == 8)
            GOP_TRY(scaled_norm(job, &norms[c]));
        else norms[c] = sqrt(sum);
    }
    return GOP_OK;
}
