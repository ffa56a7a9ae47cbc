/*
 * rdf_points.c - the checks of rdf's points and labels, and the bounds of the points.
 *
 * Points on a device stay there: two reductions give the least and the largest coordinates of
 * each frame, which are finite only if all are.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/host/memory.h"
#include "core/ops/rdf.h"
#include "core/ops/rdf_points.h"

gop_rdf_operands gop_rdf_operands_of(const gop_rdf_params *params)
{
    gop_rdf_operands at = {-1, -1, -1, -1, 2};
    if (params->has_points2) at.points2 = at.count++;
    if (params->ntypes > 0) {
        at.types = at.count++;
        if (params->has_points2) at.types2 = at.count++;
    }
    if (params->has_box > 1) at.boxes = at.count++;
    return at;
}

int64_t gop_rdf_frames(const gop_call *call)
{
    const int second = gop_rdf_operands_of(&call->params.rdf).points2;
    if (call->in[0].ndim == 3) return call->in[0].shape[0];
    return second > 0 && call->in[second].ndim == 3 ? call->in[second].shape[0] : 1;
}

int64_t gop_rdf_count(const gop_array *points)
{
    return points->shape[points->ndim - 2];
}

/* ---- checks ---- */

static gop_status not_finite(const char *name, const gop_array *array, int64_t at, double value)
{
    const int64_t n = 3 * gop_rdf_count(array);
    char frame[40] = "";
    if (array->ndim == 3) snprintf(frame, sizeof frame, " of frame %lld", (long long)(at / n));
    at = at % n;
    return gop_fail(GOP_BAD_ARGUMENT,
                    "rdf: coordinates must be finite, but %s[%lld, %lld]%s is %g", name,
                    (long long)(at / 3), (long long)(at % 3), frame, value);
}

/* Fails if a coordinate is not finite, with its place and value. */
static gop_status check_points(const char *name, const gop_array *array, gop_arena *arena)
{
    enum { BLOCK = 3 * 1024 }; /* coordinates */
    gop_array host;
    GOP_TRY(gop_arena_host(arena, array, &host));
    const int64_t size = gop_array_size(&host);
    const float *f = host.data;
    const double *d = host.data;
    /* x - x is 0 for a finite x and NaN otherwise. A loop that vectorizes tests a block of
     * points, and only a bad block is searched for the value. */
    for (int64_t first = 0; first < size; first += BLOCK) {
        const int64_t end = first + BLOCK < size ? first + BLOCK : size;
        int bad = 0;
        GOP_TRY(gop_interrupted());
        if (host.dtype == GOP_FLOAT32)
            for (int64_t i = first; i < end; i++) bad |= !(f[i] - f[i] == 0);
        else
            for (int64_t i = first; i < end; i++) bad |= !(d[i] - d[i] == 0);
        for (int64_t i = first; bad && i < end; i++) {
            const double value = host.dtype == GOP_FLOAT32 ? (double)f[i] : d[i];
            if (!isfinite(value)) return not_finite(name, array, i, value);
        }
    }
    return GOP_OK;
}

static gop_status check_types(const char *name, const gop_array *array, int ntypes,
                              gop_arena *arena)
{
    gop_array host;
    GOP_TRY(gop_arena_host(arena, array, &host));
    const int32_t *types = host.data;
    for (int64_t i = 0; i < host.shape[0]; i++)
        if (types[i] < 0 || types[i] >= ntypes)
            return gop_fail(GOP_BAD_ARGUMENT, "rdf: %s must be 0 to %d, but %s[%lld] is %d",
                            name, ntypes - 1, name, (long long)i, (int)types[i]);
    return GOP_OK;
}

/* Whether points stay on their device and are reduced there. */
static int stays(const gop_array *points)
{
    return !gop_array_on_host(points) && gop_array_is_item_aligned(points);
}

gop_status gop_rdf_check_points(const gop_call *call, gop_arena *arena)
{
    const gop_rdf_operands at = gop_rdf_operands_of(&call->params.rdf);
    const int ntypes = call->params.rdf.ntypes;
    if (!stays(&call->in[0])) GOP_TRY(check_points("points", &call->in[0], arena));
    if (at.points2 > 0 && !stays(&call->in[at.points2]))
        GOP_TRY(check_points("points2", &call->in[at.points2], arena));
    if (at.types > 0) GOP_TRY(check_types("types", &call->in[at.types], ntypes, arena));
    if (at.types2 > 0) GOP_TRY(check_types("types2", &call->in[at.types2], ntypes, arena));
    return GOP_OK;
}

/* ---- bounds ---- */

void gop_rdf_cell(const gop_call *call, int64_t frame, double cell[9])
{
    const gop_rdf_params *params = &call->params.rdf;
    const gop_rdf_operands at = gop_rdf_operands_of(params);
    const double *rows = params->box;
    if (at.boxes > 0) rows = (const double *)call->in[at.boxes].data + 9 * frame;
    for (int i = 0; i < 9; i++) {
        const double value = params->has_box ? rows[i] : 0;
        cell[i] = call->in[0].dtype == GOP_FLOAT32 ? (double)(float)value : value;
    }
}

static void widen_bounds(double low[3], double high[3], int k, double value)
{
    low[k] = value < low[k] ? value : low[k];
    high[k] = value > high[k] ? value : high[k];
}

/* Widens the bounds of coordinates and of fractions by a frame of points on the host. */
static gop_status bound(const gop_array *points, int64_t frame, const double *cell,
                        gop_pairs *pairs, double low[3], double high[3])
{
    const int rows = points->ndim - 2;
    const char *at = points->data;
    if (rows) at += frame * points->strides[0];
    for (int64_t i = 0; i < points->shape[rows]; i++, at += points->strides[rows]) {
        double p[3], s[3];
        if (i % GOP_HEAR == 0) GOP_TRY(gop_interrupted());
        for (int k = 0; k < 3; k++) {
            const char *value = at + k * points->strides[rows + 1];
            float narrow;
            if (points->dtype == GOP_FLOAT64) memcpy(&p[k], value, sizeof p[k]);
            else memcpy(&narrow, value, sizeof narrow), p[k] = narrow;
            widen_bounds(low, high, k, p[k]);
        }
        gop_fractions(cell, p[0], p[1], p[2], s);
        for (int k = 0; k < 3; k++) widen_bounds(pairs->low, pairs->high, k, s[k]);
    }
    return GOP_OK;
}

/* The call that reduces points to their least or largest along an axis; NULL: no memory. */
static gop_call *reduction(const gop_array *points, int which, int axis, gop_arena *arena)
{
    gop_call *const call = gop_arena_alloc(arena, sizeof *call);
    if (!call) return NULL;
    memset(call, 0, sizeof *call);
    call->op = GOP_OP_reduce;
    call->nin = call->nout = 1;
    call->params.reduce.op = which ? GOP_MAX : GOP_MIN;
    call->params.reduce.axes = (gop_axes){1, 1, {axis}};
    gop_array_assign(&call->in[0], points);
    return call;
}

extern const gop_descriptor gop_describe_reduce;

/* Runs a reduction on the points' device. The result comes to the host. */
static gop_status run_reduction(gop_call *call, gop_arena *arena, gop_array *out)
{
    GOP_TRY(gop_describe_reduce.infer(call, call->out));
    call->out[0].where = (gop_device){GOP_CPU, 0};
    gop_array_c_order(&call->out[0]);
    call->out[0].data = gop_arena_alloc(arena, (size_t)gop_array_bytes(&call->out[0]));
    if (!call->out[0].data) return GOP_NO_MEMORY;
    const gop_run_options options = {.device = call->in[0].where};
    GOP_TRY(arena->run(call, &options));
    gop_array_assign(out, &call->out[0]);
    return GOP_OK;
}

enum { COLUMNS = 1024 }; /* points to which a frame is reduced on a device */

/*
 * Reduces points on their device to the least (which 0) or largest (1) coordinates of each
 * frame. A single frame is seen as overlapping runs of about COLUMNS points, which are reduced
 * to one run; that comes to the host. (A reduction to three numbers would have only three
 * outputs, and so would occupy few of the device's threads.)
 */
static gop_status reduced(const gop_array *points, int which, gop_arena *arena, gop_array *out)
{
    gop_call *const call = reduction(points, which, points->ndim - 2, arena);
    if (!call) return GOP_NO_MEMORY;
    gop_array *const in = &call->in[0];
    if (points->ndim == 2) {
        const int64_t n = points->shape[0], runs = n > COLUMNS ? n / COLUMNS : 1;
        const int64_t apart = runs > 1 ? (n - COLUMNS) / (runs - 1) : 0;
        const int64_t shape[3] = {runs, n - (runs - 1) * apart, 3};
        const int64_t strides[3] = {apart * points->strides[0], points->strides[0],
                                    points->strides[1]};
        in->ndim = 3;
        memcpy(in->shape, shape, sizeof shape);
        memcpy(in->strides, strides, sizeof strides);
    }
    return run_reduction(call, arena, out);
}

/* Item i of a contiguous array on the host. */
static double number_at(const gop_array *array, int64_t i)
{
    return array->dtype == GOP_FLOAT32 ? (double)((const float *)array->data)[i]
                                       : ((const double *)array->data)[i];
}

typedef struct bounds {
    const gop_array *points;
    gop_array least, largest; /* of points on a device */
} bounds;

/* Computes the bounds of points on a device. Fails if a coordinate is not finite. */
static gop_status bounds_of(const char *name, const gop_array *points, bounds *b,
                            gop_arena *arena)
{
    b->points = points;
    if (!stays(points) || gop_array_size(points) == 0) return GOP_OK;
    GOP_TRY(reduced(points, 0, arena, &b->least));
    GOP_TRY(reduced(points, 1, arena, &b->largest));
    for (int64_t i = 0; i < gop_array_size(&b->least); i++)
        if (!isfinite(number_at(&b->least, i)) || !isfinite(number_at(&b->largest, i)))
            return check_points(name, points, arena); /* its message says where */
    return GOP_OK;
}

/* Widens the bounds of fractions by those of coordinates: s[2] = z/cz, s[1] = (y - s[2]*cy)/by,
 * ... */
static void bound_places(const double *c, const double low[3], const double high[3],
                         gop_pairs *pairs)
{
    gop_range s[3];
    for (int k = 2; k >= 0; k--) {
        gop_range d = {low[k], high[k]};
        for (int i = 2; i > k && c; i--) {
            const gop_range shift = gop_range_times(s[i], c[3 * i + k]);
            d.low -= shift.high;
            d.high -= shift.low;
        }
        s[k] = c ? gop_range_times(d, 1 / c[4 * k]) : d;
        widen_bounds(pairs->low, pairs->high, k, s[k].low);
        widen_bounds(pairs->low, pairs->high, k, s[k].high);
    }
}

/* Widens the bounds of coordinates and of fractions by a frame, wherever its points are. */
static gop_status bound_frame(const bounds *b, int64_t frame, const double *cell,
                              gop_pairs *pairs, double low[3], double high[3])
{
    double least[3], largest[3];
    if (gop_array_size(b->points) == 0) return GOP_OK;
    if (!stays(b->points)) return bound(b->points, frame, cell, pairs, low, high);
    const int64_t size = gop_array_size(&b->least),
                  begin = b->points->ndim == 3 ? 3 * frame : 0;
    for (int k = 0; k < 3; k++) least[k] = INFINITY, largest[k] = -INFINITY;
    for (int64_t i = begin; i < (b->points->ndim == 3 ? begin + 3 : size); i++) {
        const int k = (int)(i % 3);
        widen_bounds(least, largest, k, number_at(&b->least, i));
        widen_bounds(least, largest, k, number_at(&b->largest, i));
        widen_bounds(low, high, k, least[k]);
        widen_bounds(low, high, k, largest[k]);
    }
    bound_places(cell, least, largest, pairs);
    return GOP_OK;
}

/* ---- the share of close pairs ---- */

/* Points sampled of a set: 256 of one set make 32 thousand pairs, which resolve a share of
 * 10^-4. A small set is sampled by an eighth and 32 more. */
enum { SAMPLE = 256, LEAST_SAMPLE = 32 };

typedef struct sample {
    int count;
    double at[3][SAMPLE];
} sample;

/* Samples points at equal distances in memory. If there are many, the step is odd, so that it
 * does not alias with the rows of a lattice. */
static gop_status sample_of(const gop_array *points, gop_arena *arena, sample *s)
{
    const int row = points->ndim - 2;
    const int64_t n = points->shape[row], some_of = LEAST_SAMPLE + n / 8;
    const int64_t most = some_of < SAMPLE ? some_of : SAMPLE, count = n < most ? n : most;
    const int64_t whole = n / count;
    const int64_t step = whole > 3 && whole % 2 == 0 ? whole - 1 : whole > 1 ? whole : 1;
    gop_array some = *points, there;
    some.ndim = 3; /* one layer: to reduce it is to fetch it */
    some.shape[0] = 1;
    some.shape[1] = s->count = (int)count;
    some.shape[2] = 3;
    some.strides[2] = points->strides[row + 1];
    some.strides[1] = points->strides[row] * step;
    if (stays(points)) {
        gop_call *const call = reduction(&some, 0, 0, arena);
        if (!call) return GOP_NO_MEMORY;
        GOP_TRY(run_reduction(call, arena, &there));
    } else {
        GOP_TRY(gop_arena_host(arena, &some, &there));
    }
    for (int i = 0; i < 3 * s->count; i++) s->at[i % 3][i / 3] = number_at(&there, i);
    return GOP_OK;
}

/*
 * Estimates the share of pairs that are closer than r_max along all open axes. The bounds do
 * not tell it, because one point may be far from the rest. So pairs of a sample are counted.
 * The sample of points on a device costs a launch, so it needs 2^28 pairs to pay off, on the
 * host 2^18.
 */
static gop_status estimate_share(const gop_call *call, double r_max, gop_frames *f,
                                 gop_arena *arena)
{
    const int second = gop_rdf_operands_of(&call->params.rdf).points2;
    const gop_array *a = &call->in[0], *b = &call->in[second > 0 ? second : 0];
    const double all = (double)gop_rdf_count(a) * (double)gop_rdf_count(b);
    int open[3];
    for (int k = 0; k < 3; k++) open[k] = gop_axis_open(&f->pairs, k);
    if (!(open[0] || open[1] || open[2])) return GOP_OK;
    if (all < (stays(a) || stays(b) ? 0x1p28 : 0x1p18)) return GOP_OK;
    sample *const s = gop_arena_alloc(arena, 2 * sizeof *s);
    if (!s) return GOP_NO_MEMORY;
    GOP_TRY(sample_of(a, arena, &s[0]));
    if (second > 0) GOP_TRY(sample_of(b, arena, &s[1]));
    const sample *const other = &s[second > 0];
    const double *const x = other->at[0], *const y = other->at[1], *const z = other->at[2];
    double most[3];
    int64_t near = 0, met = 0;
    for (int k = 0; k < 3; k++) most[k] = open[k] ? r_max : INFINITY;
    for (int i = 0; i < s->count; i++) {
        const double at[3] = {s->at[0][i], s->at[1][i], s->at[2][i]};
        const int first = second > 0 ? 0 : i + 1;
        for (int j = first; j < other->count; j++) /* vectorizes */
            near += (int64_t)(fabs(at[0] - x[j]) < most[0]) & (fabs(at[1] - y[j]) < most[1]) &
                    (fabs(at[2] - z[j]) < most[2]);
        met += other->count - first;
    }
    f->share = met ? (double)near / (double)met : 0;
    return GOP_OK;
}

gop_status gop_rdf_survey(const gop_call *call, double r_max, gop_frames *f, gop_arena *arena)
{
    gop_pairs *const pairs = &f->pairs;
    const int second = gop_rdf_operands_of(&call->params.rdf).points2;
    const int is_float = call->in[0].dtype == GOP_FLOAT32;
    double low[3], high[3];
    bounds b[2] = {{0}};
    GOP_TRY(bounds_of("points", &call->in[0], &b[0], arena));
    if (second > 0) GOP_TRY(bounds_of("points2", &call->in[second], &b[1], arena));
    pairs->box = 0;
    for (int k = 0; k < 3; k++) {
        pairs->low[k] = low[k] = INFINITY;
        pairs->high[k] = high[k] = -INFINITY;
    }
    f->count = gop_rdf_frames(call);
    for (int64_t frame = f->count - 1; frame >= 0; frame--) {
        double *const cell = pairs->cell;
        gop_rdf_cell(call, frame, cell);
        const int skew = cell[3] != 0 || cell[6] != 0 || cell[7] != 0;
        if (call->params.rdf.has_box && pairs->box < 1 + skew) pairs->box = 1 + skew;
        for (int k = 0; k <= (second > 0); k++)
            GOP_TRY(bound_frame(&b[k], frame, call->params.rdf.has_box ? cell : NULL, pairs,
                                low, high));
    }
    pairs->bounded = 1;
    pairs->largest = 0;
    for (int k = 0; k < 3; k++) {
        f->middle[k] = low[k] <= high[k] ? low[k] / 2 + high[k] / 2 : 0;
        f->extent[k] = low[k] <= high[k] ? high[k] - low[k] : 0;
        if (low[k] <= high[k])
            pairs->largest = fmax(pairs->largest, fmax(fabs(low[k]), fabs(high[k])));
    }
    f->guess_error = f->guess_margin[0] = f->guess_margin[1] = 0;
    for (int64_t frame = f->count - 1; frame >= 0; frame--) { /* ends with the first */
        gop_rdf_cell(call, frame, pairs->cell);
        gop_guess_errors(f, is_float);
    }
    f->share = 0;
    return f->count == 1 ? estimate_share(call, r_max, f, arena) : GOP_OK;
}
