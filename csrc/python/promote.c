/*
 * promote.c - operands of several dtypes, and numbers of Python's, made arrays of one dtype.
 */
#include "python/python.h"

#include <math.h>

#include "core/arrays/promote.h"

/* The kind of a number of Python's own, which is weak beside arrays, or 0. */
static char kind_of_number(PyObject *object)
{
    return PyFloat_CheckExact(object)     ? 'f'
           : PyLong_CheckExact(object)    ? 'i'
           : PyComplex_CheckExact(object) ? 'c'
                                          : 0;
}

static char stronger(char a, char b)
{
    return a == 'c' || b == 'c' ? 'c' : a == 'f' || b == 'f' ? 'f' : a ? a : b;
}

int gop_are_mixed(PyObject *const *inputs, int count)
{
    const PyArray_Descr *first = NULL;
    int mixed = 0;
    for (int i = 0; i < count; i++) {
        if (Py_TYPE(inputs[i]) == &PyArray_Type) {
            const PyArray_Descr *const descr = PyArray_DESCR((PyArrayObject *)inputs[i]);
            if (first && descr != first) mixed = 1;
            first = descr;
        } else if (kind_of_number(inputs[i])) mixed = 1;
        else return 0;
    }
    return first && mixed;
}

/* The common dtype of arrays and numbers; 0 where an array is not plain, or none is there. */
static int common_dtype(PyObject *const *inputs, int count, gop_dtype *common)
{
    gop_dtype dtypes[GOP_MAX_INPUTS];
    int arrays = 0;
    char weak = 0;
    for (int i = 0; i < count; i++) {
        const char kind = kind_of_number(inputs[i]);
        weak = stronger(weak, kind);
        if (kind) continue;
        if (!gop_plain_dtype(PyArray_DESCR((PyArrayObject *)inputs[i]), &dtypes[arrays]))
            return 0;
        if (dtypes[arrays++] == GOP_BFLOAT16) return 0; /* ml_dtypes casts it, not NumPy */
    }
    if (arrays == 0) return 0;
    *common = gop_promote_all(dtypes, arrays);
    if (weak) *common = gop_promote_weak(*common, weak);
    return 1;
}

/* Whether a number is far from where a float of any size overflows, of which NumPy warns. */
static int is_moderate(PyObject *number)
{
    enum { MOST = 60000 };
    const double real = PyComplex_RealAsDouble(number), imag = PyComplex_ImagAsDouble(number);
    return !PyErr_Occurred() && fabs(real) < MOST && fabs(imag) < MOST;
}

/* A new array of that dtype; NULL, perhaps with an exception, where Python has to see to it. */
static PyObject *array_of_number(PyObject *number, gop_dtype dtype)
{
    const char kind = gop_dtype_kind(dtype);
    if ((kind == 'f' || kind == 'c') && !is_moderate(number)) return NULL;
    return PyArray_FromAny(number, gop_descr(dtype), 0, 0, 0, NULL);
}

/* A copy in that dtype, in the memory order of the array. */
static PyObject *cast_array(PyArrayObject *array, gop_dtype dtype)
{
    PyObject *made = PyArray_NewLikeArray(array, NPY_KEEPORDER, gop_descr(dtype), 0);
    if (made && PyArray_CopyInto((PyArrayObject *)made, array) < 0) Py_CLEAR(made);
    return made;
}

int gop_make_common(PyObject **inputs, int count, PyObject **made)
{
    gop_dtype common, own;
    if (!common_dtype(inputs, count, &common)) return 0;
    for (int i = 0; i < count; i++) {
        PyArrayObject *const array = (PyArrayObject *)inputs[i];
        if (kind_of_number(inputs[i])) made[i] = array_of_number(inputs[i], common);
        else if (gop_plain_dtype(PyArray_DESCR(array), &own) && own == common) continue;
        else made[i] = cast_array(array, common);
        if (!made[i]) return 0;
        inputs[i] = made[i];
    }
    return 1;
}

/* promote(dtypes, weak): for Python's road. */
static PyObject *promote(PyObject *module, PyObject *arguments)
{
    PyObject *given;
    const char *weak;
    (void)module;
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

PyMethodDef gop_promote_functions[] = {
    {"promote", promote, METH_VARARGS,
     "promote(dtypes, weak) -> dtype; weak is '', or 'i', 'f' or 'c' for Python's numbers"},
    {NULL, NULL, 0, NULL}};
