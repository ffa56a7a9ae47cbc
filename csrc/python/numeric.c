/*
 * numeric.c - what Python's own functions compute by the core: common dtypes and casts, norms,
 * and exact sums that they hold as their numbers, as states of exact/v1.
 */
#include "core/arrays/cast.h"
#include "core/arrays/norms.h"
#include "core/arrays/array.h"
#include "core/exact.h"
#include "core/host/memory.h"
#include "core/host/threads.h"
#include "core/road/road.h"
#include "python/python.h"

/* ---- dtypes ---- */

/* promote(dtypes, weak) */
static PyObject *promote(PyObject *module, PyObject *arguments)
{
    PyObject *given;
    const char *weak;
    if (!PyArg_ParseTuple(arguments, "O!s:promote", &PyTuple_Type, &given, &weak)) return NULL;
    const Py_ssize_t count = PyTuple_Size(given);
    gop_dtype dtypes[GOP_MAX_INPUTS];
    if (count < 1 || count > GOP_MAX_INPUTS)
        return PyErr_Format(PyExc_ValueError, "promote: expected 1 to %d dtypes",
                            GOP_MAX_INPUTS);
    for (Py_ssize_t i = 0; i < count; i++)
        if (gop_read_dtype(PyTuple_GetItem(given, i), &dtypes[i]) < 0) return NULL;
    gop_dtype common = gop_promote_all(dtypes, (int)count);
    if (*weak) common = gop_promote_weak(common, *weak);
    return (PyObject *)gop_descr(common);
}

/* casts(from, to) -> bool: whether the core casts arrays so by itself. */
static PyObject *casts(PyObject *module, PyObject *arguments)
{
    PyObject *given, *wanted;
    gop_dtype from, to;
    if (!PyArg_ParseTuple(arguments, "OO:casts", &given, &wanted)) return NULL;
    const int known = gop_read_dtype(given, &from) == 0 && gop_read_dtype(wanted, &to) == 0;
    PyErr_Clear();
    return PyBool_FromLong(known && gop_can_cast(from, to));
}

/* copy(to, from): host arrays of one shape. */
static PyObject *copy(PyObject *module, PyObject *arguments)
{
    PyObject *into, *of;
    gop_array to, from;
    gop_call call;
    gop_status status;
    const gop_run_options options = {.device = {GOP_CPU, 0}};
    if (!PyArg_ParseTuple(arguments, "OO:copy", &into, &of)) return NULL;
    if (gop_read_array(into, &to, 1) < 0 || gop_read_array(of, &from, 0) < 0) return NULL;
    if (!gop_can_cast(from.dtype, to.dtype))
        return PyErr_Format(PyExc_TypeError, "an array of %s is not cast to %s",
                            gop_dtype_name(from.dtype), gop_dtype_name(to.dtype));
    if (to.stored) gop_read_as(&to, from.dtype);
    else gop_read_as(&from, to.dtype);
    gop_copy_call(&from, &to, &call);
    Py_BEGIN_ALLOW_THREADS;
    status = gop_run(&call, &options);
    Py_END_ALLOW_THREADS;
    if (status != GOP_OK) return gop_raise();
    Py_RETURN_NONE;
}

/* float_environment(None or what an earlier call gave) -> what was in force */
static PyObject *float_environment(PyObject *module, PyObject *restore)
{
    const unsigned word = restore == Py_None ? 0 : (unsigned)PyLong_AsUnsignedLong(restore);
    if (PyErr_Occurred()) return NULL;
    return PyLong_FromUnsignedLong(gop_float_environment(restore == Py_None ? NULL : &word));
}

/* ---- numbers ---- */

/* norms(array (n,) or (n, k)) -> float64 (k,) */
static PyObject *norms(PyObject *module, PyObject *object)
{
    gop_array v, out = {.dtype = GOP_FLOAT64, .ndim = 1};
    if (gop_read_array(object, &v, 0) < 0) return NULL;
    const int64_t size = gop_dtype_size(v.dtype), k = v.ndim == 2 ? v.shape[1] : 1;
    const gop_columns columns = {v.data,
                                 v.dtype,
                                 v.shape[0],
                                 k,
                                 v.strides[0] / size,
                                 v.ndim == 2 ? v.strides[1] / size : 0};
    out.shape[0] = k;
    gop_array_c_order(&out);
    PyObject *made = gop_new_ndarray(&out);
    double *work = made ? gop_alloc(8 * (size_t)gop_norms_work(columns.n, k)) : NULL;
    gop_status status = GOP_NO_MEMORY;
    if (made && !work) gop_no_memory("jacobi", 8 * (size_t)gop_norms_work(columns.n, k));
    Py_BEGIN_ALLOW_THREADS;
    if (work) status = gop_column_norms(&columns, work, out.data);
    Py_END_ALLOW_THREADS;
    gop_release(work);
    if (made && status != GOP_OK) {
        Py_CLEAR(made);
        gop_raise();
    }
    return made;
}

static int is_lines(const gop_array *numbers, const gop_array *out)
{
    const int64_t size = gop_dtype_size(out->dtype);
    return numbers->ndim == 2 && numbers->dtype == GOP_INT64 && out->ndim == 1 &&
           numbers->shape[0] == out->shape[0] && numbers->strides[1] == 8 &&
           numbers->strides[0] == 8 * numbers->shape[1] && out->strides[0] == size;
}

/* exact_round(numbers (n, k) int64, mean, out (n,)): the sums, or means, rounded into `out`;
 * the numbers are spoilt */
static PyObject *exact_round(PyObject *module, PyObject *arguments)
{
    PyObject *given, *result;
    int mean;
    gop_array numbers, out;
    if (!PyArg_ParseTuple(arguments, "OpO:exact_round", &given, &mean, &result) ||
        gop_read_array(given, &numbers, 1) < 0 || gop_read_array(result, &out, 1) < 0)
        return NULL;
    const int64_t k = numbers.ndim == 2 ? numbers.shape[1] : 0;
    const gop_dtype terms =
        k == gop_exact_numbers(GOP_FLOAT64) ? GOP_FLOAT64 : GOP_FLOAT32; /* as wide as those */
    if (!is_lines(&numbers, &out) || k != gop_exact_numbers(terms))
        return PyErr_Format(PyExc_ValueError, "exact_round: takes lines of exact sums");
    const gop_exact_format format = gop_exact_format_of(out.dtype);
    Py_BEGIN_ALLOW_THREADS;
    for (int64_t i = 0; i < out.shape[0]; i++) {
        int64_t *const sum = (int64_t *)numbers.data + i * k;
        const gop_exact_line line = gop_exact_line_of(sum + GOP_EXACT_HEAD, 1, terms);
        const uint64_t by = mean ? (uint64_t)sum[1] : 1;
        const uint64_t bits = gop_exact_finish(sum[0], line, by, NULL, format);
        gop_exact_store((char *)out.data + i * (format.bits / 8), bits, format.bits);
    }
    Py_END_ALLOW_THREADS;
    Py_RETURN_NONE;
}

PyMethodDef gop_numeric_functions[] = {
    {"casts", casts, METH_VARARGS, "casts(from, to): whether the core casts arrays so"},
    {"copy", copy, METH_VARARGS, "copy(to, from): host arrays of one shape, cast on the way"},
    {"exact_round", exact_round, METH_VARARGS, "exact_round(numbers, mean, out): rounds sums"},
    {"float_environment", float_environment, METH_O,
     "float_environment(None) -> the thread's, which is then the core's; or puts it back"},
    {"norms", norms, METH_O, "norms(floats (n,) or (n, k)) -> 2-norms of the columns"},
    {"promote", promote, METH_VARARGS,
     "promote(dtypes, weak) -> dtype; weak is '', or 'i', 'f' or 'c' for Python's numbers"},
    {NULL, NULL, 0, NULL}};
