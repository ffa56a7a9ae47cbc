/*
 * params.c - reading the parameters of a call from a dict; the Python layer has checked types.
 */
#include "core/ops/reduce.h"
#include "python/python.h"

int gop_read_op(const char *name, gop_op *op)
{
    for (int i = 0; i < GOP_NOPS; i++)
        if (strcmp(gop_descriptor_of((gop_op)i)->name, name) == 0) {
            *op = (gop_op)i;
            return 0;
        }
    PyErr_Format(PyExc_ValueError, "there is no operation '%s'", name);
    return -1;
}

/* A new reference, as reading one value may run code that changes the dict; NULL when the key
 * is missing or None. */
static PyObject *item(PyObject *params, int key)
{
    PyObject *value = params ? PyDict_GetItem(params, gop_words[key]) : NULL;
    if (value == Py_None) value = NULL;
    Py_XINCREF(value);
    return value;
}

static int read_int(PyObject *params, int key, int64_t *out)
{
    PyObject *value = item(params, key);
    *out = value ? PyLong_AsLongLong(value) : 0;
    Py_XDECREF(value);
    return *out == -1 && PyErr_Occurred() ? -1 : 0;
}

static int read_flag(PyObject *params, int key, int *out)
{
    PyObject *value = item(params, key);
    *out = value ? PyObject_IsTrue(value) : 0;
    Py_XDECREF(value);
    return *out < 0 ? -1 : 0;
}

/* An axis too large for 64 bits is out of bounds for every array: clamped, so that core says
 * so. */
static int64_t clamp_axis(PyObject *value)
{
    int overflow = 0;
    const int64_t axis = PyLong_AsLongLongAndOverflow(value, &overflow);
    return overflow ? (overflow > 0 ? INT64_MAX : INT64_MIN) : axis;
}

int gop_read_axes(PyObject *value, const char *op, gop_axes *axes)
{
    const Py_ssize_t count = PyTuple_Size(value);
    if (count < 0) return -1;
    if (count > GOP_MAX_NDIM) {
        PyErr_Format(PyExc_ValueError, "%s: %zd axes are given, expected at most %d", op, count,
                     GOP_MAX_NDIM);
        return -1;
    }
    axes->count = (int)count;
    for (int i = 0; i < axes->count; i++) {
        axes->axis[i] = clamp_axis(PyTuple_GetItem(value, i));
        if (axes->axis[i] == -1 && PyErr_Occurred()) return -1;
    }
    return 0;
}

static int read_axes(PyObject *params, const char *op, gop_axes *axes)
{
    PyObject *value = item(params, GOP_WORD_axes);
    axes->given = value != NULL;
    axes->count = 0;
    const int status = value ? gop_read_axes(value, op, axes) : 0;
    Py_XDECREF(value);
    return status;
}

/* A Python or NumPy number as the widest form of the dtype's kind. */
static int read_scalar(PyObject *value, gop_dtype dtype, gop_scalar *out)
{
    const char kind = gop_dtype_kind(dtype);
    memset(out, 0, sizeof *out);
    if (kind == 'c') {
        PyObject *number =
            PyObject_CallFunctionObjArgs((PyObject *)&PyComplex_Type, value, NULL);
        if (!number) return -1;
        out->f[0] = PyComplex_RealAsDouble(number);
        out->f[1] = PyComplex_ImagAsDouble(number);
        Py_DECREF(number);
    } else if (kind == 'f') {
        PyObject *number = PyNumber_Float(value);
        if (!number) return -1;
        out->f[0] = PyFloat_AsDouble(number);
        Py_DECREF(number);
    } else {
        PyObject *number = PyNumber_Long(value);
        if (!number) return -1;
        if (kind == 'u') out->u = PyLong_AsUnsignedLongLong(number);
        else out->i = PyLong_AsLongLong(number);
        Py_DECREF(number);
    }
    return PyErr_Occurred() ? -1 : 0;
}

/* 1 for a number that is given and read, 0 for none, -1 with an exception. */
static int read_number(PyObject *params, int key, gop_dtype dtype, gop_scalar *out)
{
    PyObject *value = item(params, key);
    const int status = value ? read_scalar(value, dtype, out) : 0;
    const int given = value != NULL;
    Py_XDECREF(value);
    return status < 0 ? -1 : given;
}

/* The word is Python's own, of _core.reductions() or "sumsq". */
static int find_reduction(PyObject *word, gop_reduce_op *op)
{
    const char *name = word ? PyUnicode_AsUTF8AndSize(word, NULL) : "sum";
    if (!name) return -1;
    if (gop_reduction_find(name, op)) return 0;
    PyErr_Format(PyExc_ValueError, "reduce: there is no op '%s'", name);
    return -1;
}

int gop_read_initial(PyObject *initial, gop_call *call)
{
    call->params.reduce.has_initial = 1;
    /* It has the kind of the output, which infer alone knows. */
    gop_call probe = *call;
    if (gop_infer(&probe) != GOP_OK) return gop_raise(), -1;
    return read_scalar(initial, probe.out[0].dtype, &call->params.reduce.initial);
}

static int read_transpose(PyObject *params, gop_call *call)
{
    return read_axes(params, "transpose", &call->params.transpose.axes);
}

static int read_reduce(PyObject *params, gop_call *call)
{
    gop_reduce_params *p = &call->params.reduce;
    PyObject *word = item(params, GOP_WORD_op);
    const int found = find_reduction(word, &p->op);
    Py_XDECREF(word);
    if (found < 0 || read_axes(params, "reduce", &p->axes) < 0 ||
        read_flag(params, GOP_WORD_keepdims, &p->keepdims) < 0 ||
        read_flag(params, GOP_WORD_where, &p->has_where) < 0)
        return -1;
    int64_t exact;
    if (read_int(params, GOP_WORD_exact, &exact) < 0) return -1;
    p->exact = exact < 0 || exact > GOP_EXACT_SUMS ? GOP_EXACT_NOT : (gop_exactness)exact;
    PyObject *initial = item(params, GOP_WORD_initial);
    p->has_initial = 0;
    const int status = initial ? gop_read_initial(initial, call) : 0;
    Py_XDECREF(initial);
    return status;
}

/* An input that is no operand, after those that are; *at is its number, or 0. */
static int read_input(PyObject *params, int key, gop_call *call, int *at)
{
    PyObject *array = item(params, key);
    *at = array && call->nin < GOP_MAX_INPUTS ? call->nin++ : 0;
    const int status = *at ? gop_read_array(array, &call->in[*at], 0) : 0;
    Py_XDECREF(array);
    return status;
}

/* The second output, where it is given. */
static int read_second(PyObject *params, int key, gop_call *call)
{
    PyObject *array = item(params, key);
    if (!array) return 0;
    call->nout = 2;
    const int status = gop_read_array(array, &call->out[1], 1); /* no code after this */
    Py_DECREF(array);
    return status;
}

static int read_grid(PyObject *params, gop_lattice *grid)
{
    int64_t bc;
    gop_axes extents = {.count = 0};
    PyObject *value = item(params, GOP_WORD_grid);
    int status = value ? gop_read_axes(value, "jacobi_step", &extents) : 0;
    Py_XDECREF(value);
    if (status == 0) status = read_int(params, GOP_WORD_bc, &bc);
    if (status < 0) return -1;
    grid->axes = extents.count; /* infer refuses more than there is room for */
    grid->bc = bc < 0 || bc > GOP_NEUMANN ? -1 : (int)bc;
    for (int d = 0; d < extents.count && d < GOP_MAX_LATTICE; d++)
        grid->extent[d] = extents.axis[d];
    return 0;
}

static int read_jacobi_step(PyObject *params, gop_call *call)
{
    gop_jacobi_step_params *p = &call->params.jacobi_step;
    if (read_grid(params, &p->grid) < 0) return -1;
    if (read_flag(params, GOP_WORD_csr, &p->csr) < 0 ||
        read_int(params, GOP_WORD_n, &p->n) < 0 ||
        read_int(params, GOP_WORD_columns, &p->columns) < 0 ||
        read_flag(params, GOP_WORD_checked, &p->checked) < 0 ||
        read_int(params, GOP_WORD_longest, &p->longest) < 0 ||
        read_input(params, GOP_WORD_diagonal, call, &p->diagonal) < 0)
        return -1;
    memset(&p->alpha, 0, sizeof p->alpha);
    memset(&p->omega, 0, sizeof p->omega);
    p->omega.f[0] = 1.0;
    p->has_alpha = read_number(params, GOP_WORD_alpha, GOP_COMPLEX128, &p->alpha);
    if (p->has_alpha < 0 || read_number(params, GOP_WORD_omega, GOP_COMPLEX128, &p->omega) < 0)
        return -1;
    return read_second(params, GOP_WORD_residual, call);
}

static int read_jacobi(PyObject *params, gop_call *call)
{
    gop_jacobi_params *p = &call->params.jacobi;
    gop_scalar rtol = {.f = {0}}, atol = {.f = {0}}, dtol = {.f = {1.0}};
    if (read_jacobi_step(params, call) < 0 || read_int(params, GOP_WORD_steps, &p->steps) < 0 ||
        read_int(params, GOP_WORD_check_every, &p->check_every) < 0 ||
        read_input(params, GOP_WORD_first, call, &p->first) < 0 ||
        read_number(params, GOP_WORD_rtol, GOP_FLOAT64, &rtol) < 0 ||
        read_number(params, GOP_WORD_atol, GOP_FLOAT64, &atol) < 0 ||
        read_number(params, GOP_WORD_dtol, GOP_FLOAT64, &dtol) < 0)
        return -1;
    p->rtol = rtol.f[0];
    p->atol = atol.f[0];
    p->dtol = dtol.f[0];
    return read_second(params, GOP_WORD_residuals, call);
}

static int read_box(PyObject *box, double numbers[9])
{
    for (int i = 0; i < 9; i++) {
        PyObject *value = PyTuple_GetItem(box, i);
        if (!value) return -1;
        numbers[i] = PyFloat_AsDouble(value);
        if (PyErr_Occurred()) return -1;
    }
    return 0;
}

static int read_rdf(PyObject *params, gop_call *call)
{
    gop_rdf_params *p = &call->params.rdf;
    int64_t ntypes;
    int boxes;
    if (read_flag(params, GOP_WORD_points2, &p->has_points2) < 0 ||
        read_flag(params, GOP_WORD_boxes, &boxes) < 0 ||
        read_int(params, GOP_WORD_ntypes, &ntypes) < 0)
        return -1;
    p->ntypes = ntypes < 0 ? -1 : ntypes < INT32_MAX ? (int)ntypes : INT32_MAX;
    PyObject *box = item(params, GOP_WORD_box);
    p->has_box = box != NULL;
    if (boxes) p->has_box = 2;
    const int status = box ? read_box(box, p->box) : 0;
    Py_XDECREF(box);
    return status;
}

int gop_read_precision(PyObject *value, gop_precision *precision)
{
    if (!PyUnicode_Check(value)) {
        PyErr_Format(PyExc_TypeError,
                     "matmul: precision is %R, expected None or one of the words 'highest', "
                     "'fast', 'tf32' and 'bf16'",
                     value);
        return -1;
    }
    for (int p = 0; p < GOP_NPRECISION; p++) {
        if (PyUnicode_CompareWithASCIIString(value, gop_precision_name((gop_precision)p)) != 0)
            continue;
        *precision = (gop_precision)p;
        return 0;
    }
    PyErr_Format(PyExc_ValueError,
                 "matmul: precision is %R, expected None, 'highest', 'fast', 'tf32' or 'bf16'",
                 value);
    return -1;
}

/* None is the best. */
static int read_matmul(PyObject *params, gop_call *call)
{
    gop_precision *const precision = &call->params.matmul.precision;
    PyObject *value = item(params, GOP_WORD_precision);
    *precision = GOP_HIGHEST;
    const int status = value ? gop_read_precision(value, precision) : 0;
    Py_XDECREF(value);
    return status;
}

/* Those that have any, by the names of ops.def. */
static const struct {
    const char *op;
    int (*read)(PyObject *params, gop_call *call);
} readers[] = {{"transpose", read_transpose}, {"reduce", read_reduce},
               {"matmul", read_matmul},       {"jacobi_step", read_jacobi_step},
               {"jacobi", read_jacobi},       {"rdf", read_rdf}};

int gop_read_params(PyObject *params, gop_call *call)
{
    const char *const op = gop_descriptor_of(call->op)->name;
    call->nout = 1;
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++)
        if (strcmp(readers[i].op, op) == 0)
            return readers[i].read(params == Py_None ? NULL : params, call);
    return 0;
}

int gop_read_tunables(PyObject *tunables, gop_call *call)
{
    call->ntunables = 0;
    if (!tunables || tunables == Py_None) return 0;
    Py_ssize_t position = 0;
    PyObject *key, *value;
    if (PyDict_Size(tunables) < 0) return -1;
    if (PyDict_Size(tunables) > GOP_MAX_TUNABLES) {
        PyErr_Format(PyExc_ValueError, "%s: %zd tunables are given, expected at most %d",
                     gop_descriptor_of(call->op)->name, PyDict_Size(tunables),
                     GOP_MAX_TUNABLES);
        return -1;
    }
    while (PyDict_Next(tunables, &position, &key, &value)) {
        gop_tunable_value *t = &call->tunables[call->ntunables++];
        if (!PyLong_Check(
                value)) { /* anything else would run code, which may change the dict */
            PyErr_SetString(PyExc_TypeError, "expected tunables that are integers");
            return -1;
        }
        t->name = PyUnicode_AsUTF8AndSize(key, NULL);
        t->value = PyLong_AsLongLong(value);
        if (!t->name || PyErr_Occurred()) return -1;
    }
    return 0;
}
