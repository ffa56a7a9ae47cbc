/*
 * params.c - reads the parameters of a call from a dict, whose types Python has checked.
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
    return gop_refuse(PyExc_ValueError, "there is no operation '%s'", name);
}

/* Parameters are read one after the other, and once one has raised an exception no more are:
 * gop_read_params looks for it at the end. A new reference, as reading one value may run code
 * that changes the dict; NULL where the key is missing or None. */
static PyObject *item(PyObject *params, int word)
{
    if (!params || PyErr_Occurred()) return NULL;
    PyObject *value = PyDict_GetItem(params, gop_words[word]);
    if (value == Py_None) value = NULL;
    Py_XINCREF(value);
    return value;
}

static int64_t integer(PyObject *params, int word)
{
    PyObject *value = item(params, word);
    const int64_t number = value ? PyLong_AsLongLong(value) : 0;
    Py_XDECREF(value);
    return number;
}

static int flag(PyObject *params, int word)
{
    PyObject *value = item(params, word);
    const int is = value ? PyObject_IsTrue(value) : 0;
    Py_XDECREF(value);
    return is;
}

/* An axis that needs more than 64 bits is out of bounds for every array. It is clamped, so that
 * core refuses it. */
static int64_t clamp_axis(PyObject *value)
{
    int overflow = 0;
    const int64_t axis = PyLong_AsLongLongAndOverflow(value, &overflow);
    return overflow ? (overflow > 0 ? INT64_MAX : INT64_MIN) : axis;
}

int gop_read_axes(PyObject *value, const gop_call *call, gop_axes *axes)
{
    const Py_ssize_t count = value == Py_None ? 0 : PyTuple_Size(value);
    axes->given = value != Py_None;
    if (count < 0) return -1;
    if (count > GOP_MAX_NDIM)
        return gop_refuse(PyExc_ValueError, "%s: %zd axes are given, expected at most %d",
                          gop_descriptor_of(call->op)->name, count, GOP_MAX_NDIM);
    axes->count = (int)count;
    for (int i = 0; i < axes->count; i++) {
        axes->axis[i] = clamp_axis(PyTuple_GetItem(value, i));
        if (axes->axis[i] == -1 && PyErr_Occurred()) return -1;
    }
    return 0;
}

static void read_axes(PyObject *params, int word, const gop_call *call, gop_axes *axes)
{
    PyObject *value = item(params, word);
    if (!PyErr_Occurred()) gop_read_axes(value ? value : Py_None, call, axes);
    Py_XDECREF(value);
}

/* Reads a number of Python or NumPy as the widest dtype of that kind. */
static int read_scalar(PyObject *value, gop_dtype dtype, gop_scalar *out)
{
    const char kind = gop_dtype_kind(dtype);
    memset(out, 0, sizeof *out);
    PyObject *const as_complex = (PyObject *)&PyComplex_Type;
    PyObject *number = kind == 'c'   ? PyObject_CallFunctionObjArgs(as_complex, value, NULL)
                       : kind == 'f' ? PyNumber_Float(value)
                                     : PyNumber_Long(value);
    if (!number) return -1;
    if (kind == 'c') {
        out->f[0] = PyComplex_RealAsDouble(number);
        out->f[1] = PyComplex_ImagAsDouble(number);
    } else if (kind == 'f') out->f[0] = PyFloat_AsDouble(number);
    else if (kind == 'u') out->u = PyLong_AsUnsignedLongLong(number);
    else out->i = PyLong_AsLongLong(number);
    Py_DECREF(number);
    return PyErr_Occurred() ? -1 : 0;
}

/* Whether the number is given. */
static int read_number(PyObject *params, int word, gop_dtype dtype, gop_scalar *out)
{
    PyObject *value = item(params, word);
    if (value) read_scalar(value, dtype, out);
    Py_XDECREF(value);
    return value != NULL;
}

static double real(PyObject *params, int word, double otherwise)
{
    gop_scalar number = {.f = {otherwise}};
    read_number(params, word, GOP_FLOAT64, &number);
    return number.f[0];
}

int gop_read_initial(PyObject *initial, gop_dtype dtype, gop_reduce_params *params)
{
    params->has_initial = 1;
    return read_scalar(initial, dtype, &params->initial);
}

static void read_transpose(PyObject *params, gop_call *call)
{
    read_axes(params, GOP_WORD_axes, call, &call->params.transpose.axes);
}

/* The word comes from Python's own code: one of _core.reductions(), or "sumsq". */
static void read_operation(PyObject *params, gop_reduce_op *op)
{
    PyObject *word = item(params, GOP_WORD_op);
    const char *name = word ? PyUnicode_AsUTF8AndSize(word, NULL) : "sum";
    if (name && !gop_reduction_find(name, op))
        PyErr_Format(PyExc_ValueError, "reduce: there is no op '%s'", name);
    Py_XDECREF(word);
}

static void read_reduce(PyObject *params, gop_call *call)
{
    gop_reduce_params *p = &call->params.reduce;
    read_operation(params, &p->op);
    read_axes(params, GOP_WORD_axes, call, &p->axes);
    p->keepdims = flag(params, GOP_WORD_keepdims);
    p->has_where = flag(params, GOP_WORD_where);
    const int64_t exact = integer(params, GOP_WORD_exact);
    p->exact = exact < 0 || exact > GOP_EXACT_SUMS ? GOP_EXACT_NOT : (gop_exactness)exact;
    PyObject *initial = item(params, GOP_WORD_initial);
    p->has_initial = initial != NULL;
    if (initial) { /* only infer knows the result's kind, in which it is read */
        gop_call probe = *call;
        if (gop_done(gop_infer(&probe)) == 0) gop_read_initial(initial, probe.out[0].dtype, p);
    }
    Py_XDECREF(initial);
}

/* Adds an input that is no operand; returns its number, or 0 if there is none. */
static int read_input(PyObject *params, int word, gop_call *call)
{
    PyObject *array = item(params, word);
    const int at = array && call->nin < GOP_MAX_INPUTS ? call->nin++ : 0;
    if (at) gop_read_array(array, &call->in[at], 0);
    Py_XDECREF(array);
    return at;
}

/* Reads the second output, if it is given. */
static void read_second(PyObject *params, int word, gop_call *call)
{
    PyObject *array = item(params, word);
    if (!array) return;
    call->nout = 2;
    gop_read_array(array, &call->out[1], 1); /* nothing after this runs the caller's code */
    Py_DECREF(array);
}

static void read_grid(PyObject *params, const gop_call *call, gop_lattice *grid)
{
    gop_axes extents = {.count = 0};
    read_axes(params, GOP_WORD_grid, call, &extents);
    const int64_t bc = integer(params, GOP_WORD_bc);
    grid->axes = extents.count; /* infer refuses more than there is room for */
    grid->bc = bc < 0 || bc > GOP_NEUMANN ? -1 : (int)bc;
    for (int d = 0; d < extents.count && d < GOP_MAX_LATTICE; d++)
        grid->extent[d] = extents.axis[d];
}

static void read_jacobi_step(PyObject *params, gop_call *call)
{
    gop_jacobi_step_params *p = &call->params.jacobi_step;
    read_grid(params, call, &p->grid);
    p->csr = flag(params, GOP_WORD_csr);
    p->n = integer(params, GOP_WORD_n);
    p->columns = integer(params, GOP_WORD_columns);
    p->checked = flag(params, GOP_WORD_checked);
    p->longest = integer(params, GOP_WORD_longest);
    p->diagonal = read_input(params, GOP_WORD_diagonal, call);
    p->alpha = (gop_scalar){.f = {0}};
    p->omega = (gop_scalar){.f = {1.0}};
    p->has_alpha = read_number(params, GOP_WORD_alpha, GOP_COMPLEX128, &p->alpha);
    read_number(params, GOP_WORD_omega, GOP_COMPLEX128, &p->omega);
    read_second(params, GOP_WORD_residual, call);
}

static void read_jacobi(PyObject *params, gop_call *call)
{
    gop_jacobi_params *p = &call->params.jacobi;
    read_jacobi_step(params, call);
    p->steps = integer(params, GOP_WORD_steps);
    p->check_every = integer(params, GOP_WORD_check_every);
    p->first = read_input(params, GOP_WORD_first, call);
    p->rtol = real(params, GOP_WORD_rtol, 0.0);
    p->atol = real(params, GOP_WORD_atol, 0.0);
    p->dtol = real(params, GOP_WORD_dtol, 1.0);
    read_second(params, GOP_WORD_residuals, call);
}

static void read_rdf(PyObject *params, gop_call *call)
{
    gop_rdf_params *p = &call->params.rdf;
    p->has_points2 = flag(params, GOP_WORD_points2);
    const int boxes = flag(params, GOP_WORD_boxes);
    const int64_t ntypes = integer(params, GOP_WORD_ntypes);
    p->ntypes = ntypes < 0 ? -1 : ntypes < INT32_MAX ? (int)ntypes : INT32_MAX;
    PyObject *box = item(params, GOP_WORD_box);
    p->has_box = boxes ? 2 : box != NULL;
    for (int i = 0; box && i < 9 && !PyErr_Occurred(); i++) {
        PyObject *number = PyTuple_GetItem(box, i);
        p->box[i] = number ? PyFloat_AsDouble(number) : 0;
    }
    Py_XDECREF(box);
}

int gop_read_precision(PyObject *value, gop_precision *precision)
{
    if (!PyUnicode_Check(value))
        return gop_refuse(
            PyExc_TypeError,
            "matmul: precision is %R, expected None or one of the words 'highest', "
            "'fast', 'tf32' and 'bf16'",
            value);
    for (int p = 0; p < GOP_NPRECISION; p++) {
        if (PyUnicode_CompareWithASCIIString(value, gop_precision_name((gop_precision)p)) != 0)
            continue;
        *precision = (gop_precision)p;
        return 0;
    }
    return gop_refuse(
        PyExc_ValueError,
        "matmul: precision is %R, expected None, 'highest', 'fast', 'tf32' or 'bf16'", value);
}

/* None means the highest precision. */
static void read_matmul(PyObject *params, gop_call *call)
{
    PyObject *word = item(params, GOP_WORD_precision);
    call->params.matmul.precision = GOP_HIGHEST;
    if (word) gop_read_precision(word, &call->params.matmul.precision);
    Py_XDECREF(word);
}

/* The operations that have parameters, by their names in ops.def. */
static const struct {
    const char *op;
    void (*read)(PyObject *params, gop_call *call);
} readers[] = {{"transpose", read_transpose}, {"reduce", read_reduce},
               {"matmul", read_matmul},       {"jacobi_step", read_jacobi_step},
               {"jacobi", read_jacobi},       {"rdf", read_rdf}};

int gop_read_params(PyObject *params, gop_call *call)
{
    const char *const op = gop_descriptor_of(call->op)->name;
    call->nout = 1;
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++)
        if (strcmp(readers[i].op, op) == 0)
            readers[i].read(params == Py_None ? NULL : params, call);
    return PyErr_Occurred() ? -1 : 0;
}

int gop_read_tunables(PyObject *tunables, gop_call *call)
{
    call->ntunables = 0;
    if (!tunables || tunables == Py_None) return 0;
    Py_ssize_t position = 0;
    PyObject *key, *value;
    if (PyDict_Size(tunables) < 0) return -1;
    if (PyDict_Size(tunables) > GOP_MAX_TUNABLES)
        return gop_refuse(PyExc_ValueError, "%s: %zd tunables are given, expected at most %d",
                          gop_call_name(call), PyDict_Size(tunables), GOP_MAX_TUNABLES);
    while (PyDict_Next(tunables, &position, &key, &value)) {
        gop_tunable_value *t = &call->tunables[call->ntunables++];
        if (!PyLong_Check(
                value)) { /* anything else would run code, which may change the dict */
            return gop_refuse(PyExc_TypeError, "expected tunables that are integers");
        }
        t->name = PyUnicode_AsUTF8AndSize(key, NULL);
        t->value = PyLong_AsLongLong(value);
        if (!t->name || PyErr_Occurred()) return -1;
    }
    return 0;
}
