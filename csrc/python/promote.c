/*
 * promote.c - common dtypes and casts, for functions that are written in Python.
 */
#include "python/python.h"

#include "core/arrays/cast.h"
#include "core/arrays/promote.h"
#include "core/host/threads.h"
#include "core/road/road.h"

/* promote(dtypes, weak) */
static PyObject *promote(PyObject *module, PyObject *arguments)
{
    PyObject *given;
    const char *weak;
    if (!PyArg_ParseTuple(arguments, "O!s:promote", &PyTuple_Type, &given, &weak)) return NULL;
    const Py_ssize_t count = PyTuple_Size(given);
    gop_dtype dtypes[GOP_MAX_INPUTS];
    if (count < 1 || count > GOP_MAX_INPUTS) {
        PyErr_Format(PyExc_ValueError, "promote: expected 1 to %d dtypes", GOP_MAX_INPUTS);
        return NULL;
    }
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
    if (!gop_can_cast(from.dtype, to.dtype)) {
        PyErr_Format(PyExc_TypeError, "an array of %s is not cast to %s",
                     gop_dtype_name(from.dtype), gop_dtype_name(to.dtype));
        return NULL;
    }
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

PyMethodDef gop_promote_functions[] = {
    {"casts", casts, METH_VARARGS, "casts(from, to): whether the core casts arrays so"},
    {"copy", copy, METH_VARARGS, "copy(to, from): host arrays of one shape, cast on the way"},
    {"float_environment", float_environment, METH_O,
     "float_environment(None) -> the thread's, which is then the core's; or puts it back"},
    {"promote", promote, METH_VARARGS,
     "promote(dtypes, weak) -> dtype; weak is '', or 'i', 'f' or 'c' for Python's numbers"},
    {NULL, NULL, 0, NULL}};
