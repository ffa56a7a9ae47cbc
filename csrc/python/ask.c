/*
 * ask.c - asks Python about a single argument that is not plain.
 */
#include <stdarg.h>

#include "python/python.h"

static PyObject *answers[GOP_NQUESTIONS]; /* the functions */
PyObject *gop_words[GOP_NWORDS], *gop_members[GOP_NMEMBERS];

int gop_words_ready(void)
{
    static const char *const words[] = {
#define X(word) #word,
        GOP_ARGUMENTS(X) GOP_OTHER_WORDS(X)
#undef X
    };
    for (int word = 0; word < GOP_NWORDS; word++)
        if (!(gop_words[word] = PyUnicode_InternFromString(words[word]))) return -1;
    return 0;
}

PyObject *gop_pack_tuple(PyObject *const *items, Py_ssize_t count)
{
    PyObject *tuple = PyTuple_New(count);
    for (Py_ssize_t i = 0; tuple && i < count; i++) {
        Py_INCREF(items[i]);
        PyTuple_SetItem(tuple, i, items[i]);
    }
    return tuple;
}

PyObject *gop_keep(gop_request *r, PyObject *owned)
{
    if (owned && r->nkept < GOP_KEPT) return r->kept[r->nkept++] = owned;
    if (owned) PyErr_SetString(PyExc_SystemError, "a request keeps too much");
    Py_XDECREF(owned);
    return NULL;
}

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

/* Takes members of a module, each in the place of the one before. */
static int take_members(PyObject *module, const char *const *names, PyObject **kept)
{
    for (; *names; names++, kept++) {
        PyObject *const before = *kept;
        if (!(*kept = PyObject_GetAttrString(module, *names))) return -1;
        Py_XDECREF(before);
    }
    return 0;
}

#define X(member) #member,
/* setup(gpuops.devices, gpuops.arrays) */
static PyObject *setup(PyObject *self, PyObject *modules)
{
    static const char *const of_devices[] = {GOP_MEMBERS_OF_DEVICES(X) NULL};
    static const char *const of_arrays[] = {GOP_MEMBERS_OF_ARRAYS(X) NULL};
    PyObject *devices, *arrays;
    if (!PyArg_ParseTuple(modules, "OO:setup", &devices, &arrays) ||
        take_members(devices, of_devices, gop_members) < 0 ||
        take_members(arrays, of_arrays, gop_members + GOP_OF_DeviceArray) < 0)
        return NULL;
    Py_RETURN_NONE;
}
#undef X

/* setup_arguments(module): whose functions answer */
static PyObject *setup_arguments(PyObject *self, PyObject *module)
{
#define X(function) #function,
    static const char *const functions[] = {GOP_QUESTIONS(X) NULL};
#undef X
    if (take_members(module, functions, answers) < 0) return NULL;
    Py_RETURN_NONE;
}

int gop_is_critical(void)
{
    return PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception); /* Ctrl-C */
}

PyMethodDef gop_ask_functions[] = {
    {"setup", setup, METH_VARARGS, "setup(gpuops.devices, gpuops.arrays): what to ask them"},
    {"setup_arguments", setup_arguments, METH_O,
     "setup_arguments(module): whose functions answer what the core asks about arguments"},
    {NULL, NULL, 0, NULL}};
