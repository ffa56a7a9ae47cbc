/*
 * exact.c - rounds exact sums that Python holds as their numbers, as states of exact/v1.
 */
#include "core/exact.h"
#include "python/python.h"

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
    if (!is_lines(&numbers, &out) || k != gop_exact_numbers(terms)) {
        PyErr_SetString(PyExc_ValueError, "exact_round: takes lines of exact sums");
        return NULL;
    }
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

PyMethodDef gop_exact_functions[] = {
    {"exact_round", exact_round, METH_VARARGS, "exact_round(numbers, mean, out): rounds sums"},
    {NULL, NULL, 0, NULL}};
