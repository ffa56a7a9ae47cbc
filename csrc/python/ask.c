/*
 * ask.c - what Python is asked about a single argument that is not plain.
 */
#include <stdarg.h>

#include "python/python.h"

static const char *const questions[GOP_QUESTIONS] = {
    [GOP_ASK_REFUSE] = "refuse",
    [GOP_ASK_CONVERT] = "convert",
    [GOP_ASK_NUMBER] = "number",
    [GOP_ASK_NUMBERS] = "dtype_of_numbers",
    [GOP_ASK_CAST] = "read_as",
    [GOP_ASK_BAD_DTYPE] = "refuse_dtype",
    [GOP_ASK_AXES] = "read_axes",
    [GOP_ASK_KERNEL] = "kernel_name",
    [GOP_ASK_TUNABLES] = "read_tunables",
    [GOP_ASK_DEVICE] = "parse",
    [GOP_ASK_OUT] = "output",
    [GOP_ASK_STORE_CHECK] = "store_check",
    [GOP_ASK_STORE] = "store_into",
    [GOP_ASK_WORDS] = "as_words",
    [GOP_ASK_REDUCTION] = "reduction_word",
    [GOP_ASK_EXACT] = "exactness",
    [GOP_ASK_KEEPDIMS] = "read_keepdims",
    [GOP_ASK_DTYPES] = "read_dtypes",
    [GOP_ASK_MASK] = "read_mask",
    [GOP_ASK_INITIAL] = "read_initial",
    [GOP_ASK_EMPTY] = "warn_of_empty",
    [GOP_ASK_FINAL] = "to_final",
};
static PyObject *answers[GOP_QUESTIONS]; /* the functions */

PyObject *gop_ask(gop_request *r, int question, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    PyObject *arguments = Py_VaBuildValue(format, list);
    va_end(list);
    PyObject *answer = arguments ? PyObject_CallObject(answers[question], arguments) : NULL;
    Py_XDECREF(arguments);
    if (!r) return answer;
    gop_code_ran(r);
    return gop_keep(r, answer);
}

/* setup_arguments(module): whose functions answer */
static PyObject *setup_arguments(PyObject *self, PyObject *module)
{
    (void)self;
    for (int q = 0; q < GOP_QUESTIONS; q++) {
        PyObject *const before = answers[q];
        if (!(answers[q] = PyObject_GetAttrString(module, questions[q]))) return NULL;
        Py_XDECREF(before);
    }
    Py_RETURN_NONE;
}

int gop_is_critical(void)
{
    return PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception); /* Ctrl-C */
}

PyMethodDef gop_ask_functions[] = {
    {"setup_arguments", setup_arguments, METH_O,
     "setup_arguments(module): whose functions answer what the core asks about arguments"},
    {NULL, NULL, 0, NULL}};
