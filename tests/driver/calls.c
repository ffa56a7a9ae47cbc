/*
 * calls.c - the calls that the driver makes, per op: shapes around the kernels' tiles.
 */
#include <string.h>

#include "driver.h"

typedef struct shape {
    int ndim;
    int64_t at[4];
} shape;

static const shape shapes[] = {
    {0, {0}},       {1, {0}},           {1, {1}},        {1, {33}},       {1, {4099}},
    {2, {1, 7}},    {2, {31, 33}},      {2, {64, 129}},  {2, {257, 2}},   {3, {3, 0, 5}},
    {3, {5, 6, 7}}, {4, {2, 3, 33, 4}}, {2, {160, 272}}, {2, {203, 269}}, {3, {131, 75, 4}},
};
enum { NSHAPES = sizeof shapes / sizeof *shapes };

static gop_array make(gop_dtype dtype, int how, const shape *s)
{
    return make_array(dtype, (layout)how, s->ndim, s->at);
}

/* ---- add, multiply_add, fma ---- */

static void elementwise(gop_op op, int operands, int floats_alone)
{
    for (int dtype = 0; dtype < GOP_NDTYPES; dtype++) {
        if (floats_alone && gop_dtype_kind((gop_dtype)dtype) != 'f') continue;
        for (int s = 0; s < NSHAPES; s++) {
            gop_call call = new_call(op);
            for (int i = 0; i < operands; i++)
                give(&call, make((gop_dtype)dtype, (s + i + dtype) % NLAYOUTS, &shapes[s]));
            run_call(&call, 1);
        }
        gop_call call = new_call(op); /* a column and a row */
        const shape column = {2, {37, 1}}, row = {1, {41}};
        for (int i = 0; i < operands; i++)
            give(&call, make((gop_dtype)dtype, i, i % 2 ? &row : &column));
        run_call(&call, 1);
    }
}

void calls_of_add(void)
{
    elementwise(GOP_OP_add, 2, 0);
}
void calls_of_multiply_add(void)
{
    elementwise(GOP_OP_multiply_add, 3, 0);
}
void calls_of_fma(void)
{
    elementwise(GOP_OP_fma, 3, 1);
}

/* ---- transpose ---- */

/* 0: reversed, 1: each axis one place on, 2: the first two change places. */
static void choose_axes(gop_axes *axes, int ndim, int which)
{
    axes->given = which > 0;
    axes->count = ndim;
    for (int d = 0; d < ndim; d++) axes->axis[d] = which == 1 ? (d + 1) % ndim : d;
    if (which < 2 || ndim < 2) return;
    axes->axis[0] = 1;
    axes->axis[1] = 0;
}

void calls_of_transpose(void)
{
    for (int dtype = 0; dtype < GOP_NDTYPES; dtype++)
        for (int s = 0; s < NSHAPES; s++)
            for (int how = 0; how < NLAYOUTS; how++) {
                gop_call call = new_call(GOP_OP_transpose);
                give(&call, make((gop_dtype)dtype, how, &shapes[s]));
                choose_axes(&call.params.transpose.axes, shapes[s].ndim, how % 3);
                run_call(&call, 1);
            }
    /* Whole tiles, twice: with the kernels' own tunables, and with others. */
    static const shape tiles = {2, {160, 272}};
    for (int dtype = 0; dtype < GOP_NDTYPES; dtype++)
        for (int turn = 0; turn < 2; turn++) {
            gop_call call = new_call(GOP_OP_transpose);
            give(&call, make((gop_dtype)dtype, PLAIN, &tiles));
            run_call(&call, 1);
        }
    /* Long rows and neighbours: 16 bytes of every row, in two blocks, of every item. */
    static const shape thin[] = {{2, {3, 4112}}, {2, {4112, 3}}};
    for (int dtype = 0; dtype < GOP_NDTYPES; dtype++)
        for (int turn = 0; turn < 2; turn++) {
            gop_call call = new_call(GOP_OP_transpose);
            give(&call, make((gop_dtype)dtype, PLAIN, &thin[turn]));
            run_call(&call, 1);
        }
    /* Pixels of three items, in whole tiles and parts of them. */
    static const shape image = {3, {132, 68, 3}};
    for (int dtype = 0; dtype < GOP_NDTYPES; dtype++) {
        gop_call call = new_call(GOP_OP_transpose);
        give(&call, make((gop_dtype)dtype, PLAIN, &image));
        choose_axes(&call.params.transpose.axes, 3, 2);
        run_call(&call, 1);
    }
}

/* ---- reduce ---- */

static void reduce_along(gop_reduce_op op, gop_dtype dtype, const shape *s, int axis, int how,
                         gop_exactness exact)
{
    const int needs_items = op == GOP_MIN || op == GOP_MAX || op >= GOP_ARGMIN;
    for (int d = 0; d < s->ndim; d++)
        if (s->at[d] == 0 && needs_items && op != GOP_SUMSQ) return;
    gop_call call = new_call(GOP_OP_reduce);
    gop_reduce_params *params = &call.params.reduce;
    params->op = op;
    params->axes.given = axis >= 0;
    params->axes.count = axis >= 0;
    params->axes.axis[0] = axis;
    params->exact = exact;
    give(&call, make(dtype, how, s));
    params->has_where = op <= GOP_PROD && how == STEPPED;
    if (params->has_where) give(&call, make(GOP_BOOL, NEGATIVE, s));
    run_call(&call, 1);
}

void calls_of_reduce(void)
{
    for (int op = 0; op < GOP_NREDUCE; op++)
        for (int dtype = 0; dtype < GOP_NDTYPES; dtype++) {
            const char kind = gop_dtype_kind((gop_dtype)dtype);
            if (op == GOP_SUMSQ && kind != 'f' && kind != 'c') continue;
            for (int s = 0; s < NSHAPES; s++)
                for (int axis = -1; axis < shapes[s].ndim; axis++)
                    reduce_along((gop_reduce_op)op, (gop_dtype)dtype, &shapes[s], axis,
                                 (s + axis + 1 + dtype) % NLAYOUTS, GOP_EXACT_NOT);
        }
    for (int dtype = 0; dtype < GOP_NDTYPES; dtype++)
        for (int s = 0; s < NSHAPES; s++)
            for (int axis = -1; axis < shapes[s].ndim; axis++)
                reduce_along(GOP_MEAN, (gop_dtype)dtype, &shapes[s], axis,
                             (s + axis + 1 + dtype) % NLAYOUTS,
                             (s + axis) % 2 ? GOP_EXACT_ROUNDED : GOP_EXACT_SUMS);
    /* Many blocks, whose results the last one folds; in rows and in columns: few, many, of few
     * elements each, and of those so many that each has a thread. */
    static const gop_dtype some[] = {GOP_INT32, GOP_FLOAT16, GOP_FLOAT32, GOP_FLOAT64};
    static const shape line = {1, {300007}};
    static const shape columns[] = {
        {2, {5000, 40}}, {2, {20, 16384}}, {2, {5, 16384}}, {2, {20, 65537}}};
    for (int d = 0; d < 4; d++)
        for (int op = 0; op < GOP_NREDUCE; op += d == 2 ? 1 : GOP_NREDUCE) {
            reduce_along((gop_reduce_op)op, some[d], &line, -1, PLAIN, GOP_EXACT_NOT);
            for (int s = 0; s < 4; s++)
                reduce_along((gop_reduce_op)op, some[d], &columns[s], 0, PLAIN, GOP_EXACT_NOT);
        }
    for (int d = 1; d < 4; d++) {
        reduce_along(GOP_SUM, some[d], &line, -1, PLAIN, GOP_EXACT_ROUNDED);
        reduce_along(GOP_SUM, some[d], &columns[0], 0, PLAIN, GOP_EXACT_ROUNDED);
        reduce_along(GOP_SUM, some[d], &columns[1], 1, STEPPED, GOP_EXACT_ROUNDED);
    }
}

/* ---- matmul ---- */

static void multiply(gop_dtype dtype, const int64_t *size, int how_a, int how_b,
                     gop_precision precision)
{
    const shape a = {2, {size[0], size[2]}};
    const shape b = {3, {2, size[2], size[1]}};
    gop_call call = new_call(GOP_OP_matmul);
    call.params.matmul.precision = precision;
    give(&call, make(dtype, how_a, &a));
    give(&call, make(dtype, how_b, &b));
    const char kind = gop_dtype_kind(dtype);
    run_call(&call, kind == 'b' || kind == 'i' || kind == 'u');
}

void calls_of_matmul(void)
{
    static const int64_t sizes[][3] = {{1, 1, 1},      {3, 5, 0},     {0, 4, 3},
                                       {17, 33, 65},   {64, 64, 64},  {129, 1, 9},
                                       {130, 70, 131}, {17, 19, 1030}};
    static const int64_t ragged[] = {130, 70, 131};
    static const int64_t thin[][3] = {{1, 130, 70}, {130, 1, 300}, {1, 1, 700}, {5, 2000, 300}};
    for (int dtype = 0; dtype < GOP_NDTYPES; dtype++) {
        for (int s = 0; s < (int)(sizeof sizes / sizeof *sizes); s++)
            multiply((gop_dtype)dtype, sizes[s], s % NLAYOUTS, (s + 2) % NLAYOUTS, GOP_HIGHEST);
        for (int s = 0; s < (int)(sizeof thin / sizeof *thin); s++)
            multiply((gop_dtype)dtype, thin[s], PLAIN, PLAIN, GOP_HIGHEST);
        /* The lowest class, in which every kernel may run. */
        multiply((gop_dtype)dtype, ragged, PLAIN, TURNED, (gop_precision)(GOP_NPRECISION - 1));
    }
}

/* ---- jacobi_step ---- */

static gop_call jacobi_call(int csr, int64_t n, int with_alpha)
{
    gop_call call = new_call(GOP_OP_jacobi_step);
    gop_jacobi_step_params *params = &call.params.jacobi_step;
    params->csr = csr;
    params->n = params->columns = csr ? n : 0;
    params->has_alpha = with_alpha;
    params->alpha.f[0] = -0.1;
    params->omega.f[0] = 0.9;
    call.nout = 1 + with_alpha;
    return call;
}

static void give_vectors(gop_call *call, gop_dtype dtype, int64_t n, int64_t k)
{
    const shape vector = {k ? 2 : 1, {n, k}};
    give(call, make(dtype, NEGATIVE, &vector));
    give(call, make(dtype, STEPPED, &vector));
}

static int is_solved; /* by jacobi, in place of one jacobi_step */

static void run_system(gop_call *call)
{
    const gop_jacobi_step_params step = call->params.jacobi_step;
    const gop_jacobi_params solver = {
        .step = step, .rtol = 1e-3, .dtol = 1e5, .steps = 9, .check_every = call->nout};
    if (is_solved) {
        call->op = GOP_OP_jacobi;
        call->params.jacobi = solver;
    }
    run_call(call, 1);
}

static void jacobi_dense(gop_dtype dtype, int64_t n, int64_t k, int how, int with_alpha)
{
    gop_call call = jacobi_call(0, n, with_alpha);
    const shape matrix = {2, {n, n}};
    give(&call, make(dtype, how, &matrix));
    for (int64_t i = 0; i < n; i++) set_item(&call.in[0], i * n + i, 4.5);
    give_vectors(&call, dtype, n, k);
    run_system(&call);
}

/* A band of the diagonal and one entry on each side, indices as int32 or int64. */
static void jacobi_band(gop_dtype dtype, int64_t n, int64_t k, gop_dtype index, int with_alpha)
{
    gop_call call = jacobi_call(1, n, with_alpha);
    const int64_t stored = n > 0 ? 3 * n - 2 : 0;
    const shape entries = {1, {stored}}, starts = {1, {n + 1}};
    give(&call, make(dtype, PLAIN, &entries));
    give(&call, make(index, PLAIN, &entries));
    give(&call, make(index, PLAIN, &starts));
    int64_t at = 0;
    set_item(&call.in[2], 0, 0);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = i > 0 ? i - 1 : 0; j <= i + 1 && j < n; j++, at++) {
            set_item(&call.in[1], at, (double)j);
            if (j == i) set_item(&call.in[0], at, 4.5);
        }
        set_item(&call.in[2], i + 1, (double)at);
    }
    give_vectors(&call, dtype, n, k);
    run_system(&call);
}

/* On a grid of two axes, with coefficients for all points or for each. */
static void jacobi_grid(gop_dtype dtype, int64_t rows, int64_t k, int bc, int varies,
                        int with_alpha)
{
    const int64_t columns = 37, n = rows * columns;
    gop_call call = jacobi_call(0, n, with_alpha);
    call.params.jacobi_step.grid = (gop_lattice){2, bc, {rows, columns}};
    const shape coefficients = {1 + varies, {5, n}};
    give(&call, make(dtype, PLAIN, &coefficients));
    for (int64_t i = 0; i < (varies ? n : 1); i++)
        set_item(&call.in[0], 2 * (varies ? n : 1) + i, 9.5);
    give_vectors(&call, dtype, n, k);
    run_system(&call);
}

void calls_of_jacobi_step(void)
{
    static const gop_dtype dtypes[] = {GOP_FLOAT32, GOP_FLOAT64, GOP_COMPLEX64, GOP_COMPLEX128};
    static const int64_t sizes[] = {0, 1, 2, 33, 129, 300};
    for (int d = 0; d < 4; d++)
        for (int s = 0; s < 6; s++)
            for (int k = 0; k < 4; k += 3)
                for (int alpha = 0; alpha < 2; alpha++) {
                    jacobi_dense(dtypes[d], sizes[s], k, (s + k + alpha) % NLAYOUTS, alpha);
                    jacobi_band(dtypes[d], sizes[s], k, s % 2 ? GOP_INT64 : GOP_INT32, alpha);
                    if (sizes[s] > 0 && sizes[s] < 100)
                        jacobi_grid(dtypes[d], sizes[s], k, s % 3, s % 2, alpha);
                }
}

/* The solver's, on the same systems. */
void calls_of_jacobi(void)
{
    is_solved = 1;
    calls_of_jacobi_step();
    is_solved = 0;
}

/* ---- rdf ---- */

static void rdf_call(gop_dtype dtype, int64_t n, int64_t n2, int ntypes, int box)
{
    gop_call call = new_call(GOP_OP_rdf);
    gop_rdf_params *params = &call.params.rdf;
    const shape points = {2, {n, 3}}, points2 = {2, {n2, 3}}, edges = {1, {21}};
    const shape types = {1, {n}}, types2 = {1, {n2}};
    static const double cells[3][9] = {
        {0}, {2.5, 0, 0, 0, 2.5, 0, 0, 0, 2.5}, {2.5, 0, 0, 0.4, 2.5, 0, 0.3, -0.2, 2.5}};
    params->has_points2 = n2 > 0;
    params->ntypes = ntypes;
    params->has_box = box > 0;
    memcpy(params->box, cells[box], sizeof params->box);
    give(&call, make(dtype, (int)(n % NLAYOUTS), &points));
    give(&call, make(GOP_FLOAT64, PLAIN, &edges));
    for (int i = 0; i <= 20; i++) set_item(&call.in[1], i, 1.0 * i / 20);
    if (n2 > 0) give(&call, make(dtype, STEPPED, &points2));
    if (ntypes > 0) {
        give(&call, make(GOP_INT32, STEPPED, &types));
        for (int64_t i = 0; i < n; i++)
            set_item(&call.in[call.nin - 1], i, (double)(i % ntypes));
    }
    if (ntypes > 0 && n2 > 0) {
        give(&call, make(GOP_INT32, PLAIN, &types2));
        for (int64_t i = 0; i < n2; i++)
            set_item(&call.in[call.nin - 1], i, (double)(i % ntypes));
    }
    run_call(&call, 1);
}

void calls_of_rdf(void)
{
    static const int64_t sizes[] = {0, 1, 2, 63, 257, 600};
    for (int d = 0; d < 2; d++)
        for (int s = 0; s < 6; s++)
            for (int box = 0; box < 3; box++)
                for (int types = 0; types < 4; types += 3) {
                    rdf_call(d ? GOP_FLOAT64 : GOP_FLOAT32, sizes[s], 0, types, box);
                    rdf_call(d ? GOP_FLOAT64 : GOP_FLOAT32, sizes[s], 100, types, box);
                }
}
