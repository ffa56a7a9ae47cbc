/*
 * convert.c - converts between Python's objects and core's: arrays, dtypes, devices, failures.
 */
#define GOP_IMPORTS_NUMPY
#include "core/arrays/order.h"
#include "python/python.h"

int gop_numpy_ready(void)
{
    return PyArray_ImportNumPyAPI();
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
    {GOP_INTERNAL, "gpuops.errors", "Error"},
};

static PyObject *exception_of(gop_status code, const gop_error *error)
{
    const char *module_name = "gpuops.errors", *name = "Error";
    for (size_t i = 0; i < sizeof exceptions / sizeof *exceptions; i++) {
        if (exceptions[i].code != code) continue;
        module_name = exceptions[i].module;
        name = exceptions[i].name;
    }
    PyObject *module = PyImport_ImportModule(module_name);
    PyObject *type = module ? PyObject_GetAttrString(module, name) : NULL;
    PyObject *message =
        PyUnicode_DecodeUTF8(error->message, (Py_ssize_t)strlen(error->message), "replace");
    PyObject *arguments = type && message ? PyTuple_Pack(1, message) : NULL;
    PyObject *facts = NULL, *exception = NULL;
    if (code == GOP_NO_DEVICE_MEMORY)
        facts = Py_BuildValue("{s:L,s:L,s:L}", "requested", (long long)error->requested, "free",
                              (long long)error->free, "total", (long long)error->total);
    else if (code >= GOP_DEVICE_UNAVAILABLE && code <= GOP_DEVICE_LOST)
        facts =
            Py_BuildValue("{s:i,s:s}", "code", error->native_code, "name", error->native_name);
    if (arguments && !PyErr_Occurred()) exception = PyObject_Call(type, arguments, facts);
    Py_XDECREF(module);
    Py_XDECREF(message);
    Py_XDECREF(arguments);
    Py_XDECREF(facts);
    if (exception) PyErr_SetObject(type, exception);
    Py_XDECREF(type);
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
    return exception_of(error.code, &error);
}

/* ---- dtypes ---- */

/* ml_dtypes' own, or two bytes in its place. The GIL guards it. */
static PyArray_Descr *bfloat16_descr;

int gop_set_bfloat16(PyObject *dtype)
{
    PyArray_Descr *descr;
    if (!PyArray_DescrConverter(dtype, &descr)) return -1;
    if (descr->kind != 'V' || PyDataType_ELSIZE(descr) != 2) {
        PyErr_Format(PyExc_TypeError, "dtype %R is not bfloat16", descr);
        Py_DECREF(descr);
        return -1;
    }
    Py_XDECREF((PyObject *)bfloat16_descr);
    bfloat16_descr = descr;
    return 0;
}

static const int numbers[] = {
    NPY_BOOL,  NPY_INT8,    NPY_INT16,   NPY_INT32,     NPY_INT64,
    NPY_UINT8, NPY_UINT16,  NPY_UINT32,  NPY_UINT64,    NPY_FLOAT16,
    -1,        NPY_FLOAT32, NPY_FLOAT64, NPY_COMPLEX64, NPY_COMPLEX128};

PyArray_Descr *gop_descr(gop_dtype dtype)
{
    if (dtype != GOP_BFLOAT16) return PyArray_DescrFromType(numbers[dtype]);
    if (!bfloat16_descr) {
        PyObject *module = PyImport_ImportModule("gpuops._call.dtypes");
        PyObject *done = module ? PyObject_CallMethod(module, "meet_bfloat16", NULL) : NULL;
        Py_XDECREF(module);
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
    if (gop_plain_dtype(descr, out)) return 0;
    const int64_t size = PyDataType_ELSIZE(descr);
    if (bfloat16_descr && descr->type_num == bfloat16_descr->type_num &&
        descr->type_num != NPY_VOID) {
        *out = GOP_BFLOAT16;
        return 0;
    }
    if (descr->type_num < NPY_NTYPES_LEGACY && descr->type_num != NPY_LONGDOUBLE &&
        descr->type_num != NPY_CLONGDOUBLE)
        for (int d = 0; d < GOP_NDTYPES; d++) {
            const char kind = gop_dtype_kind((gop_dtype)d);
            if (d == GOP_BFLOAT16 || kind != descr->kind) continue;
            if (gop_dtype_size((gop_dtype)d) != size) continue;
            *out = (gop_dtype)d;
            return 0;
        }
    PyErr_Format(PyExc_TypeError, "dtype %R is not one that gpuops computes with", descr);
    return -1;
}

int gop_read_dtype(PyObject *dtype, gop_dtype *out)
{
    PyArray_Descr *descr;
    if (!PyArray_DescrConverter(dtype, &descr)) return -1;
    const int status = dtype_of(descr, out);
    Py_DECREF(descr);
    return status;
}

/* ---- arrays ---- */

static void read_layout(PyArrayObject *ndarray, gop_array *array)
{
    array->data = PyArray_DATA(ndarray);
    array->stored = 0;
    array->ndim = PyArray_NDIM(ndarray);
    array->where = (gop_device){GOP_CPU, 0};
    for (int d = 0; d < array->ndim; d++) {
        array->shape[d] = PyArray_DIM(ndarray, d);
        array->strides[d] = PyArray_STRIDE(ndarray, d);
    }
}

void gop_read_as(gop_array *array, gop_dtype dtype)
{
    if (!array->stored && array->dtype != dtype) array->stored = 1 + (int)array->dtype;
    array->dtype = dtype;
}

int gop_read_ndarray(PyObject *object, gop_array *array, int writable)
{
    if (!PyArray_Check(object)) {
        PyErr_Format(PyExc_TypeError, "expected a numpy.ndarray or a Buffer, got %s",
                     Py_TYPE(object) == &PyType_Type ? "a type" : "another object");
        return -1;
    }
    PyArrayObject *ndarray = (PyArrayObject *)object;
    if (writable && !PyArray_ISWRITEABLE(ndarray)) {
        PyErr_SetString(PyExc_ValueError, "output array is read-only");
        return -1;
    }
    if (dtype_of(PyArray_DESCR(ndarray), &array->dtype) < 0) return -1;
    read_layout(ndarray, array);
    if (!PyArray_ISNOTSWAPPED(ndarray)) array->stored = (1 + (int)array->dtype) | GOP_SWAPPED;
    return 0;
}

int gop_check_reach(const char *what, const gop_array *array)
{
    int64_t low = (int64_t)(uintptr_t)array->data, high = low, span;
    int leaves = low < 0;
    if (gop_array_size(array) == 0) return 0;
    for (int d = 0; d < array->ndim; d++) {
        int64_t *end = array->strides[d] < 0 ? &low : &high;
        leaves |= __builtin_mul_overflow(array->shape[d] - 1, array->strides[d], &span);
        leaves |= __builtin_add_overflow(*end, span, end);
    }
    leaves |= low < 0 || __builtin_add_overflow(high, gop_dtype_size(array->dtype), &high);
    if (!leaves) return 0;
    PyErr_Format(PyExc_BufferError, "%s: the strides reach beyond all memory", what);
    return -1;
}

int gop_plain_array(PyObject *object, gop_array *array)
{
    if (Py_TYPE(object) != &PyArray_Type) return 0;
    PyArrayObject *ndarray = (PyArrayObject *)object;
    if (!gop_plain_dtype(PyArray_DESCR(ndarray), &array->dtype)) return 0;
    read_layout(ndarray, array);
    return 1;
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

PyObject *gop_new_ndarray(gop_array *array)
{
    npy_intp shape[GOP_MAX_NDIM], strides[GOP_MAX_NDIM];
    PyArray_Descr *descr = gop_descr(array->dtype);
    if (!descr) return NULL;
    if (descr->type_num == NPY_VOID) {
        Py_DECREF((PyObject *)descr);
        PyErr_SetString(PyExc_TypeError,
                        "NumPy has no bfloat16 of its own: install ml_dtypes, or take the "
                        "array by DLPack");
        return NULL;
    }
    const int in_order = gop_is_c_order(array);
    for (int d = 0; d < array->ndim; d++) {
        shape[d] = (npy_intp)array->shape[d];
        strides[d] = (npy_intp)array->strides[d];
    }
    PyObject *ndarray = PyArray_NewFromDescr(&PyArray_Type, descr, array->ndim, shape,
                                             in_order ? NULL : strides, NULL, 0, NULL);
    if (!ndarray) return NULL;
    array->data = PyArray_DATA((PyArrayObject *)ndarray);
    array->where = (gop_device){GOP_CPU, 0};
    return ndarray;
}

PyObject *gop_new_like(gop_array *line, PyArrayObject *like)
{
    PyArray_Descr *descr = PyArray_DESCR(like);
    Py_INCREF((PyObject *)descr);
    PyObject *ndarray =
        PyArray_NewFromDescr(&PyArray_Type, descr, PyArray_NDIM(like), PyArray_DIMS(like), NULL,
                             NULL, !PyArray_IS_C_CONTIGUOUS(like), NULL);
    if (!ndarray) return NULL;
    gop_array_c_order(line);
    line->data = PyArray_DATA((PyArrayObject *)ndarray);
    line->where = (gop_device){GOP_CPU, 0};
    return ndarray;
}

/* ---- devices ---- */

int gop_read_backend(const char *name, gop_backend_id *id)
{
    if (gop_backend_find(name, id)) return 0;
    PyErr_Format(PyExc_ValueError,
                 "there is no backend '%s', expected cpu, cuda, sim or opencl", name);
    return -1;
}

int gop_read_device(PyObject *pair, gop_device *device)
{
    if (!PyTuple_Check(pair) || PyTuple_Size(pair) != 2) {
        PyErr_SetString(PyExc_TypeError, "device is (backend, ordinal)");
        return -1;
    }
    const char *name = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(pair, 0), NULL);
    const int ordinal = name ? (int)PyLong_AsLong(PyTuple_GetItem(pair, 1)) : 0;
    if (PyErr_Occurred()) return -1;
    device->ordinal = ordinal;
    return gop_read_backend(name, &device->backend);
}

PyObject *gop_device_pair(gop_device device)
{
    return Py_BuildValue("(si)", gop_backend_name(device.backend), device.ordinal);
}
