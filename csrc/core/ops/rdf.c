/*
 * rdf.c - what rdf accepts and returns, and the thresholds that make its bins exact.
 *
 * The definition: bin k counts the pairs with edges[k] <= r < edges[k+1], r the correctly
 * rounded square root of r2 = (dx*dx + dy*dy) + dz*dz in the points' dtype. The root is
 * monotone, so per edge there is a smallest r2 whose root reaches it: kernels compare r2 with
 * these thresholds alone, and take neither roots nor divisions to be exact.
 */
#include <math.h>
#include <stdio.h>

#include "core/core.h"
#include "core/ops/rdf.h"
#include "core/ops/rdf_points.h"

static gop_status infer_points(const char *name, const gop_array *points)
{
    char text[256];
    if (points->dtype != GOP_FLOAT32 && points->dtype != GOP_FLOAT64)
        return gop_fail(GOP_BAD_TYPE, "rdf: %s must be float32 or float64, not %s", name,
                        gop_dtype_name(points->dtype));
    if (points->ndim < 2 || points->ndim > 3 || points->shape[points->ndim - 1] != 3)
        return gop_fail(GOP_BAD_ARGUMENT,
                        "rdf: %s must have shape (n, 3) or (frames, n, 3), not %s", name,
                        gop_shape_text(text, points->ndim, points->shape));
    int64_t size;
    return gop_shape_size("rdf", points->ndim, points->shape, &size);
}

static gop_status infer_types(const char *name, const gop_array *types, int64_t n)
{
    char text[256];
    if (types->dtype != GOP_INT32)
        return gop_fail(GOP_BAD_TYPE, "rdf: %s must be int32, not %s", name,
                        gop_dtype_name(types->dtype));
    if (types->ndim != 1 || types->shape[0] != n)
        return gop_fail(GOP_BAD_ARGUMENT, "rdf: %s must have shape (%lld,), not %s", name,
                        (long long)n, gop_shape_text(text, types->ndim, types->shape));
    return GOP_OK;
}

/* The cell as the kernels see it: rounded to the dtype. */
static double rounded_limit(gop_dtype dtype, double value)
{
    return dtype == GOP_FLOAT32 ? (double)(float)value : value;
}

static gop_status infer_box(const double *box, gop_dtype dtype)
{
    static const char *const names[9] = {"ax", "ay", "az", "bx", "by", "bz", "cx", "cy", "cz"};
    for (int i = 0; i < 9; i++) {
        const double value = rounded_limit(dtype, box[i]);
        if (!isfinite(value))
            return gop_fail(GOP_BAD_ARGUMENT, "rdf: the box has %s = %g in %s", names[i], value,
                            gop_dtype_name(dtype));
        if (i % 4 == 0 && !(value > 0))
            return gop_fail(GOP_BAD_ARGUMENT,
                            "rdf: the box is singular: %s = %g in %s, expected more than 0",
                            names[i], value, gop_dtype_name(dtype));
        if ((i == 1 || i == 2 || i == 5) && value != 0)
            return gop_fail(GOP_BAD_ARGUMENT,
                            "rdf: the rows of the box must be lower triangular, but %s = %g",
                            names[i], value);
    }
    return GOP_OK;
}

static gop_status infer_boxes(const gop_call *call, const gop_array *boxes, int64_t frames)
{
    char text[256];
    if (boxes->dtype != GOP_FLOAT64 || boxes->ndim != 2 || boxes->shape[0] != frames ||
        boxes->shape[1] != 9 || !gop_array_on_host(boxes) || boxes->strides[1] != 8 ||
        boxes->strides[0] != 72)
        return gop_fail(GOP_BAD_ARGUMENT,
                        "rdf: boxes must be float64 rows (%lld, 9) on the host, not %s",
                        (long long)frames, gop_shape_text(text, boxes->ndim, boxes->shape));
    for (int64_t i = 0; i < frames; i++)
        GOP_TRY(infer_box((const double *)boxes->data + 9 * i, call->in[0].dtype));
    return GOP_OK;
}

static gop_status rdf_infer(const gop_call *call, gop_array *counts)
{
    const gop_rdf_params *params = &call->params.rdf;
    const gop_rdf_operands at = gop_rdf_operands_of(params);
    const gop_array *points = &call->in[0], *edges = &call->in[1];
    char text[256];
    if (params->ntypes < 0)
        return gop_fail(GOP_BAD_ARGUMENT, "rdf: ntypes must not be negative, not %d",
                        params->ntypes);
    if (call->nin != at.count)
        return gop_fail(GOP_BAD_ARGUMENT, "rdf: expected %d operands, not %d", at.count,
                        call->nin);
    GOP_TRY(infer_points("points", points));
    if (edges->dtype != GOP_FLOAT64)
        return gop_fail(GOP_BAD_TYPE, "rdf: edges must be float64, not %s",
                        gop_dtype_name(edges->dtype));
    if (edges->ndim != 1 || edges->shape[0] < 2)
        return gop_fail(GOP_BAD_ARGUMENT, "rdf: edges must be at least 2 numbers, not %s",
                        gop_shape_text(text, edges->ndim, edges->shape));
    if (at.points2 > 0) {
        const gop_array *points2 = &call->in[at.points2];
        GOP_TRY(infer_points("points2", points2));
        if (points2->dtype != points->dtype)
            return gop_fail(GOP_BAD_TYPE, "rdf: points2 must be %s like points, not %s",
                            gop_dtype_name(points->dtype), gop_dtype_name(points2->dtype));
    }
    const int64_t frames = gop_rdf_frames(call);
    if (at.points2 > 0 && call->in[at.points2].ndim == 3 &&
        call->in[at.points2].shape[0] != frames)
        return gop_fail(GOP_BAD_ARGUMENT, "rdf: points have %lld frames, points2 %lld",
                        (long long)frames, (long long)call->in[at.points2].shape[0]);
    if (at.types > 0) GOP_TRY(infer_types("types", &call->in[at.types], gop_rdf_count(points)));
    if (at.types2 > 0)
        GOP_TRY(
            infer_types("types2", &call->in[at.types2], gop_rdf_count(&call->in[at.points2])));
    if (params->has_box) GOP_TRY(infer_box(params->box, points->dtype));
    if (at.boxes > 0) GOP_TRY(infer_boxes(call, &call->in[at.boxes], frames));

    const int64_t bins = edges->shape[0] - 1, types = params->ntypes;
    const int64_t rows = types > 0 ? types * (types + 1) / 2 : 1;
    if (rows > INT32_MAX / bins || (frames > 0 && rows > INT64_MAX / 8 / bins / frames))
        return gop_fail(GOP_OVERFLOW,
                        "rdf: %lld bins for each of %lld pairs of types are more than 2^31 "
                        "counters",
                        (long long)bins, (long long)rows);
    counts->dtype = GOP_INT64;
    counts->ndim = 2;
    counts->shape[0] = frames * rows;
    counts->shape[1] = bins;
    return GOP_OK;
}

/* ---- checks that need the data ---- */

static gop_status check_edges(const gop_array *array, gop_arena *arena, double *last)
{
    gop_array host;
    GOP_TRY(gop_arena_host(arena, array, &host));
    const double *edges = host.data;
    const int64_t bins = host.shape[0] - 1;
    for (int64_t k = 0; k <= bins; k++) {
        if (!isfinite(edges[k]))
            return gop_fail(GOP_BAD_ARGUMENT,
                            "rdf: edges must be finite, but edges[%lld] is %g", (long long)k,
                            edges[k]);
        if (edges[k] < 0)
            return gop_fail(GOP_BAD_ARGUMENT,
                            "rdf: edges must not be negative, but edges[%lld] is %.17g",
                            (long long)k, edges[k]);
        if (k > 0 && !(edges[k] > edges[k - 1]))
            return gop_fail(GOP_BAD_ARGUMENT,
                            "rdf: edges must increase, but edges[%lld] = %.17g follows %.17g",
                            (long long)k, edges[k], edges[k - 1]);
    }
    *last = edges[bins];
    return GOP_OK;
}

static gop_status check_limit(const gop_call *call, double r_max)
{
    const gop_rdf_params *params = &call->params.rdf;
    const int boxes = gop_rdf_operands_of(params).boxes;
    for (int64_t i = 0; params->has_box && i < (boxes > 0 ? gop_rdf_frames(call) : 1); i++) {
        const double *box =
            boxes > 0 ? (const double *)call->in[boxes].data + 9 * i : params->box;
        double height[3];
        char frame[40] = "";
        gop_box_heights(box, height);
        const double half = fmin(fmin(height[0], height[1]), height[2]) / 2;
        if (boxes > 0) snprintf(frame, sizeof frame, " of frame %lld", (long long)i);
        /* 8 ulps, of float32 where a caller's numbers were: whoever computes the half in
         * another way means the same. */
        if (!(r_max <= half * (1 + 0x1p-20)))
            return gop_fail(GOP_BAD_ARGUMENT,
                            "rdf: r_max = %.9g is more than %.9g, half the smallest distance "
                            "between opposite faces of the box%s, beyond which further images "
                            "would count: give at most that",
                            r_max, half, frame);
    }
    return GOP_OK;
}

static gop_status rdf_check(const gop_call *call, gop_arena *arena)
{
    double r_max;
    GOP_TRY(check_edges(&call->in[1], arena, &r_max));
    GOP_TRY(check_limit(call, r_max));
    return gop_rdf_check_points(call, arena);
}

/* ---- thresholds ---- */

/* The smallest v >= 0 with sqrt(v) >= edge; +inf when no number is that large. edge*edge is
 * within a few steps of it. */
static float threshold_float32(double edge)
{
    float v = (float)(edge * edge);
    while (v > 0 && (double)sqrtf(nextafterf(v, 0)) >= edge) v = nextafterf(v, 0);
    while ((double)sqrtf(v) < edge) v = nextafterf(v, INFINITY);
    return v;
}

static double threshold_float64(double edge)
{
    double v = edge * edge;
    while (v > 0 && sqrt(nextafter(v, 0)) >= edge) v = nextafter(v, 0);
    while (sqrt(v) < edge) v = nextafter(v, INFINITY);
    return v;
}

/*
 * Evenly spaced edges allow a guess: x = r*scale - origin*scale, in float, from a root good to
 * 3 ulp, is near the true position X of r among the edges. With Q = edges[bins] / width the
 * errors of the root, of the two rounded constants, of the product and of the sum stay below
 * Q * 2^-20; slack adds how far the edges are from even. With slack <= 1/4, the edge nearest
 * to x decides the bin with one comparison, and none is needed further than slack from it.
 */
static void guess_of(const double *edges, int64_t bins, gop_frames *f)
{
    gop_pairs *const pairs = &f->pairs;
    const double width = (edges[bins] - edges[0]) / (double)bins;
    double uneven = 0;
    for (int64_t k = 0; k <= bins; k++)
        uneven = fmax(uneven, fabs(edges[k] - (edges[0] + (double)k * width)) / width);
    pairs->guess_origin = edges[0];
    pairs->guess_scale = 1 / width;
    pairs->guess_slack = edges[bins] / width * 0x1p-20 + uneven;
    /* Far from float's limits, so that squares and roots of floats keep their precision. */
    pairs->uniform = pairs->guess_slack <= 0.25 && width > 1e-12 && edges[bins] < 1e18;
    f->uneven = uneven;
}

/* The same of edges that are even in log r: x = log2(r2)*scale - origin. */
static void log_guess_of(const double *edges, int64_t bins, gop_frames *f)
{
    f->first = edges[0];
    f->log_uniform = 0;
    if (!(edges[0] > 1e-18 && edges[bins] < 1e18)) return;
    const double first = log2(edges[0]), step = (log2(edges[bins]) - first) / (double)bins;
    f->log_uneven = 1e-12 * fabs(first) / step;
    for (int64_t k = 0; k <= bins; k++)
        f->log_uneven =
            fmax(f->log_uneven, fabs(log2(edges[k]) - first - (double)k * step) / step);
    f->log_scale = 1 / (2 * step);
    f->log_origin = first / step;
    f->log_uniform = f->log_uneven <= 0.0625;
}

static gop_status prepare(gop_task *task, gop_array *in, gop_arena *arena)
{
    gop_array edges;
    GOP_TRY(gop_arena_host(arena, &task->call->in[1], &edges));
    const double *edge = edges.data;
    const int64_t count = edges.shape[0];
    const gop_dtype dtype = task->call->in[0].dtype;
    const int64_t item = gop_dtype_size(dtype);
    void *table = gop_arena_alloc(arena, (size_t)(count * item));
    if (!table) return GOP_NO_MEMORY;
    for (int64_t k = 0; k < count; k++) {
        if (dtype == GOP_FLOAT32) ((float *)table)[k] = threshold_float32(edge[k]);
        else ((double *)table)[k] = threshold_float64(edge[k]);
    }
    in[1] = edges;
    in[1].data = table;
    in[1].dtype = dtype;
    in[1].where = (gop_device){GOP_CPU, 0};
    gop_array_c_order(&in[1]);
    guess_of(edge, count - 1, GOP_FRAMES(task));
    log_guess_of(edge, count - 1, GOP_FRAMES(task));
    GOP_TRY(gop_rdf_survey(task->call, edge[count - 1], GOP_FRAMES(task), arena));
    task->geometry.pairs.last = dtype == GOP_FLOAT32 ? (double)((float *)table)[count - 1]
                                                     : ((double *)table)[count - 1];
    return GOP_OK;
}

static gop_status rdf_plan(gop_task *task)
{
    const gop_rdf_params *params = &task->call->params.rdf;
    const gop_array *points = &task->in[0];
    const gop_array *other = params->has_points2 ? &task->in[2] : points;
    const int64_t item = gop_dtype_size(points->dtype), *const strides = points->strides;
    const int rows = points->ndim - 2, rows2 = other->ndim - 2;
    gop_frames *f = GOP_FRAMES(task);
    gop_pairs *pairs = &f->pairs; /* guess, boxes and bounds are there already */
    pairs->n = points->shape[rows];
    pairs->n2 = other->shape[rows2];
    pairs->bins = task->out[0].shape[1];
    pairs->row = strides[rows] / item;
    pairs->col = strides[rows + 1] / item;
    pairs->row2 = other->strides[rows2] / item;
    pairs->col2 = other->strides[rows2 + 1] / item;
    pairs->one_set = !params->has_points2;
    pairs->types = params->ntypes;
    f->rows = f->count ? task->out[0].shape[0] / f->count : 1;
    f->frame = rows ? strides[0] / item : 0;
    f->frame2 = rows2 ? other->strides[0] / item : 0;
    return GOP_OK;
}

/* Per pair: 3 differences, 5 for r2, 1 root; a division, a product and a difference for each
 * of the box's numbers that are not 0. */
static double rdf_flops(const gop_task *task)
{
    const gop_pairs *p = &task->geometry.pairs;
    const double n = (double)p->n, n2 = (double)p->n2;
    const double pairs = p->one_set ? n * (n - 1) / 2 : n * n2;
    return (double)GOP_FRAMES(task)->count * pairs *
           (9 + (p->box == 2   ? 18
                 : p->box == 1 ? 12
                               : 0));
}

/* Pairs, of one set each twice. */
static double rdf_work(const gop_call *call)
{
    const gop_array *second = &call->in[call->params.rdf.has_points2 && call->nin > 2 ? 2 : 0];
    if (call->in[0].ndim < 2 || second->ndim < 2) return 0;
    return (double)gop_rdf_frames(call) * (double)gop_rdf_count(&call->in[0]) *
           (double)gop_rdf_count(second);
}

const gop_descriptor gop_describe_rdf = {
    .name = "rdf",
    .stem = "rdf",
    .infer = rdf_infer,
    .check = rdf_check,
    .prepare = prepare,
    .plan = rdf_plan,
    .flops = rdf_flops,
    .work = rdf_work,
    .outputs = 1,
};
