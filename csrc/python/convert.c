/*
 * convert.c - converts between Python's objects and core's: failures, dtypes, devices, shapes.
 */
#include <stdarg.h>

#include "python/python.h"

PyObject *gop_import(const char *module, const char *name)
{
    PyObject *const from = PyImport_ImportModule(module);
    PyObject *const member = from ? PyObject_GetAttrString(from, name) : NULL;
    Py_XDECREF(from);
    return member;
}

/* ---- failures ---- */

static const struct {
    gop_status code;
    const char *module, *name;
} exceptions[] = {
    {GOP_BAD_ARGUMENT, "builtins", "ValueError"},
    {GOP_BAD_TYPE, "builtins", "TypeError"},
    {GOP_BAD_AXIS, "numpy.exceptions", "AxisError"},
    {GOP_BAD_BUFFER, "builtins", "BufferError"},
    {GOP_OVERFLOW, "builtins", "OverflowError"},
    {GOP_SINGULAR, "numpy.linalg", "LinAlgError"},
    {GOP_REFUSED, "gpuops.errors", "KernelRefusedError"},
    {GOP_NO_MEMORY, "builtins", "MemoryError"},
    {GOP_NO_DEVICE_MEMORY, "gpuops.errors", "DeviceMemoryError"},
    {GOP_DEVICE_UNAVAILABLE, "gpuops.errors", "DeviceUnavailableError"},
    {GOP_DEVICE_UNSUPPORTED, "gpuops.errors", "UnsupportedDeviceError"},
    {GOP_DEVICE_FAILED, "gpuops.errors", "DeviceError"},
    {GOP_DEVICE_LOST, "gpuops.errors", "DeviceLostError"},
    {GOP_NOT_COMPILED, "gpuops.errors", "CompileError"},
    {GOP_INTERNAL, "gpuops.errors", "Error"}, /* and any other code */
};

static PyObject *raise_failure(const gop_error *error)
{
    size_t e = 0;
    while (exceptions[e].code != error->code && exceptions[e].code != GOP_INTERNAL) e++;
    PyObject *type = gop_import(exceptions[e].module, exceptions[e].name);
    PyObject *message =
        PyUnicode_DecodeUTF8(error->message, (Py_ssize_t)strlen(error->message), "replace");
    PyObject *arguments = type && message ? PyTuple_Pack(1, message) : NULL;
    PyObject *facts = NULL, *exception = NULL;
    if (error->code == GOP_NO_DEVICE_MEMORY)
        facts = Py_BuildValue("{s:L,s:L,s:L}", "requested", (long long)error->requested, "free",
                              (long long)error->free, "total", (long long)error->total);
    else if (error->code >= GOP_DEVICE_UNAVAILABLE && error->code <= GOP_DEVICE_LOST)
        facts =
            Py_BuildValue("{s:i,s:s}", "code", error->native_code, "name", error->native_name);
    if (arguments && !PyErr_Occurred()) exception = PyObject_Call(type, arguments, facts);
    if (exception) PyErr_SetObject(type, exception);
    Py_XDECREF(type);
    Py_XDECREF(message);
    Py_XDECREF(arguments);
    Py_XDECREF(facts);
    Py_XDECREF(exception);
    return NULL;
}

/* The exception that a signal handler raised, with a note on what it left behind. */
static PyObject *raise_interrupted(void)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    PyObject *done =
        PyObject_CallMethod(value, "add_note", "s",
                            "gpuops stopped in the middle of its work: an array given as out "
                            "may be written in part");
    if (!done) PyErr_Clear(); /* the exception matters more than its note */
    Py_XDECREF(done);
    PyErr_Restore(type, value, trace);
    return NULL;
}

PyObject *gop_raise(void)
{
    const gop_error error =
        *gop_error_get(); /* importing below may run code that fails again */
    if (error.code == GOP_INTERRUPTED && PyErr_Occurred()) return raise_interrupted();
    return raise_failure(&error);
}

int gop_refuse(PyObject *exception, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    PyErr_FormatV(exception, format, list);
    va_end(list);
    return -1;
}

/* ---- dtypes ---- */

/* ml_dtypes' own, or two bytes in its place. The GIL guards it. */
static PyArray_Descr *bfloat16_descr;

PyObject *gop_register_bfloat16(PyObject *module, PyObject *dtype)
{
    PyArray_Descr *descr;
    if (!PyArray_DescrConverter(dtype, &descr)) return NULL;
    if (descr->kind != 'V' || PyDataType_ELSIZE(descr) != 2) {
        PyErr_Format(PyExc_TypeError, "dtype %R is not bfloat16", descr);
        Py_DECREF(descr);
        return NULL;
    }
    Py_XDECREF((PyObject *)bfloat16_descr);
    bfloat16_descr = descr;
    Py_RETURN_NONE;
}

static const int numbers[] = {
    NPY_BOOL,  NPY_INT8,    NPY_INT16,   NPY_INT32,     NPY_INT64,
    NPY_UINT8, NPY_UINT16,  NPY_UINT32,  NPY_UINT64,    NPY_FLOAT16,
    -1,        NPY_FLOAT32, NPY_FLOAT64, NPY_COMPLEX64, NPY_COMPLEX128};

PyArray_Descr *gop_descr(gop_dtype dtype)
{
    if (dtype != GOP_BFLOAT16) return PyArray_DescrFromType(numbers[dtype]);
    if (!bfloat16_descr) {
        PyObject *meet = gop_import("gpuops._call.dtypes", "meet_bfloat16");
        PyObject *done = meet ? PyObject_CallNoArgs(meet) : NULL;
        Py_XDECREF(meet);
        Py_XDECREF(done);
        if (!done) return NULL;
    }
    Py_INCREF((PyObject *)bfloat16_descr);
    return bfloat16_descr;
}

int gop_plain_dtype(const PyArray_Descr *descr, gop_dtype *out)
{
    static struct {
        const PyArray_Descr *descr; /* one object for good */
        gop_dtype dtype;
    } plain[NPY_NTYPES_LEGACY]; /* by NumPy's numbers; the GIL guards it */
    const int number = descr->type_num;
    if (!plain[NPY_BOOL].descr)
        for (int d = GOP_NDTYPES - 1; d >= 0; d--) {
            if (d == GOP_BFLOAT16) continue;
            plain[numbers[d]].dtype = (gop_dtype)d;
            plain[numbers[d]].descr = PyArray_DescrFromType(numbers[d]);
        }
    const int own = number >= 0 && number < NPY_NTYPES_LEGACY && plain[number].descr == descr;
    if (own) *out = plain[number].dtype;
    else if (bfloat16_descr && descr == bfloat16_descr) *out = GOP_BFLOAT16;
    else return 0;
    return 1;
}

static int dtype_of(PyArray_Descr *descr, gop_dtype *out)
{
    const int number = descr->type_num;
    if (gop_plain_dtype(descr, out)) return 0;
    *out = GOP_BFLOAT16; /* of another byte order, or of a module that was imported again */
    if (bfloat16_descr && number == bfloat16_descr->type_num && number != NPY_VOID) return 0;
    if (number < NPY_NTYPES_LEGACY && number != NPY_LONGDOUBLE && number != NPY_CLONGDOUBLE)
        for (int d = 0; d < GOP_NDTYPES; d++) {
            *out = (gop_dtype)d;
            if (d != GOP_BFLOAT16 && gop_dtype_kind(*out) == descr->kind &&
                gop_dtype_size(*out) == PyDataType_ELSIZE(descr))
                return 0;
        }
    return gop_refuse(PyExc_TypeError, "dtype %R is not one that gpuops computes with", descr);
}

int gop_read_dtype(PyObject *dtype, gop_dtype *out)
{
    PyArray_Descr *descr;
    if (!PyArray_DescrConverter(dtype, &descr)) return -1;
    const int status = dtype_of(descr, out);
    Py_DECREF(descr);
    return status;
}

/* ---- devices ---- */

static int read_backend(const char *name, gop_backend_id *id)
{
    if (gop_backend_find(name, id)) return 0;
    return gop_refuse(PyExc_ValueError,
                      "there is no backend '%s', expected cpu, cuda, sim or opencl", name);
}

const gop_backend *gop_backend_of(const char *name)
{
    gop_backend_id id;
    const gop_backend *backend;
    if (read_backend(name, &id) < 0 || gop_done(gop_backend_get(id, &backend)) < 0) return NULL;
    return backend;
}

int gop_read_device(PyObject *pair, gop_device *device)
{
    if (!PyTuple_Check(pair) || PyTuple_Size(pair) != 2)
        return gop_refuse(PyExc_TypeError, "device is (backend, ordinal)");
    const char *name = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(pair, 0), NULL);
    const int ordinal = name ? (int)PyLong_AsLong(PyTuple_GetItem(pair, 1)) : 0;
    if (PyErr_Occurred()) return -1;
    device->ordinal = ordinal;
    return read_backend(name, &device->backend);
}

PyObject *gop_device_pair(gop_device device)
{
    return Py_BuildValue("(si)", gop_backend_name(device.backend), device.ordinal);
}

PyObject *gop_device_object(gop_device device)
{
    return PyObject_CallFunction(gop_members[GOP_OF_at], "(N)", gop_device_pair(device));
}

PyObject *gop_shape_tuple(int ndim, const int64_t *values)
{
    PyObject *tuple = PyTuple_New(ndim);
    for (int d = 0; tuple && d < ndim; d++) {
        PyObject *value = PyLong_FromLongLong(values[d]);
        if (!value || PyTuple_SetItem(tuple, d, value) < 0) Py_CLEAR(tuple);
    }
    return tuple;
}
