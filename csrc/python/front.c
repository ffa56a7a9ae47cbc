/*
 * front.c - the public functions of one result and few words, called without a Python frame.
 *
 * A call that has its operands in their places and, beyond them, only out, device, kernel and
 * params goes to the quick way at once. Every other call, and every one that the quick way
 * leaves, goes to the Python function that stands behind.
 */
#include "core/ops/reduce.h"
#include "python/python.h"

static PyObject *functions[GOP_NOPS]; /* that stand behind */

/* The words that a call may say, by the place of each among quick()'s options. */
static const char *const words[GOP_QUICK_OPTIONS] = {[GOP_QUICK_OUT] = "out",
                                                     [GOP_QUICK_DEVICE] = "device",
                                                     [GOP_QUICK_KERNEL] = "kernel",
                                                     [GOP_QUICK_TUNABLES] = "params"};
static PyObject *interned[GOP_QUICK_OPTIONS], *axes_word;

/* 1 for a call that is put as quick() has it: the operands, then `out` where it may stand as
 * the last, then words. */
static int read_words(PyObject *options[], int operands, int out_last,
                      PyObject *const *arguments, Py_ssize_t count, PyObject *said)
{
    if (count < operands || count > operands + out_last) return 0;
    for (int o = GOP_QUICK_PARAMS; o < GOP_QUICK_OPTIONS; o++) options[o] = Py_None;
    if (count > operands) options[GOP_QUICK_OUT] = arguments[operands];
    for (int i = 0; i < operands; i++) options[GOP_QUICK_OPTIONS + i] = arguments[i];
    const Py_ssize_t nsaid = said ? PyTuple_Size(said) : 0;
    for (Py_ssize_t k = 0; k < nsaid; k++) {
        PyObject *word = PyTuple_GetItem(said, k);
        int o = count > operands ? GOP_QUICK_DEVICE : GOP_QUICK_OUT;
        while (o < GOP_QUICK_OPTIONS && interned[o] != word) o++;
        if (o == GOP_QUICK_OPTIONS) return 0;
        options[o] = arguments[count + k];
    }
    return 1;
}

static PyObject *call_behind(PyObject *function, PyObject *const *arguments, Py_ssize_t count,
                             PyObject *said)
{
    PyObject *result = NULL, *places = PyTuple_New(count), *keywords = PyDict_New();
    int made = places && keywords;
    for (Py_ssize_t i = 0; i < count && made; i++) {
        Py_INCREF(arguments[i]);
        PyTuple_SetItem(places, i, arguments[i]);
    }
    for (Py_ssize_t k = 0; said && k < PyTuple_Size(said) && made; k++)
        made = PyDict_SetItem(keywords, PyTuple_GetItem(said, k), arguments[count + k]) == 0;
    if (made) result = PyObject_Call(function, places, keywords);
    Py_XDECREF(places);
    Py_XDECREF(keywords);
    return result;
}

static int is_whole_numbers(PyObject *tuple)
{
    int whole = 1;
    for (Py_ssize_t i = 0; whole && i < PyTuple_Size(tuple); i++)
        whole = PyLong_CheckExact(PyTuple_GetItem(tuple, i));
    return whole;
}

/* transpose's parameters, a new dict, if its axes are whole numbers in a tuple or a list. */
static PyObject *params_of(PyObject *axes)
{
    PyObject *tuple = NULL, *params = NULL;
    if (PyTuple_CheckExact(axes)) Py_INCREF(tuple = axes);
    else if (PyList_CheckExact(axes)) tuple = PyList_AsTuple(axes);
    if (tuple && is_whole_numbers(tuple)) params = PyDict_New();
    if (params && PyDict_SetItem(params, axes_word, tuple) < 0) Py_CLEAR(params);
    Py_XDECREF(tuple);
    return params;
}

/* transpose(a, axes, ...) or transpose(a, ..., axes=...): the same without them goes the quick
 * way, and errors are said by the function behind. */
static PyObject *call_with_axes(PyObject *const *arguments, Py_ssize_t count, PyObject *said)
{
    enum { MOST = GOP_QUICK_OPTIONS };
    PyObject *options[GOP_QUICK_OPTIONS + GOP_MAX_INPUTS] = {gop_op_words[GOP_OP_transpose]};
    PyObject *rest[1 + MOST], *words_left = NULL, *axes = NULL, *result = NULL;
    const Py_ssize_t nsaid = said ? PyTuple_Size(said) : 0;
    if (count < 1 || count > 2 || nsaid > MOST) return NULL;
    rest[0] = arguments[0];
    Py_ssize_t left = 0, place = -1;
    if (count == 2) axes = arguments[1];
    for (Py_ssize_t k = 0; k < nsaid; k++) {
        if (PyTuple_GetItem(said, k) == axes_word && !axes) {
            axes = arguments[count + k];
            place = k;
        } else rest[1 + left++] = arguments[count + k];
    }
    PyObject *params = axes ? params_of(axes) : NULL;
    if (!params) return NULL;
    words_left = PyTuple_New(left);
    for (Py_ssize_t k = 0, to = 0; words_left && k < nsaid; k++) {
        if (k == place) continue;
        PyObject *word = PyTuple_GetItem(said, k);
        Py_INCREF(word);
        PyTuple_SetItem(words_left, to++, word);
    }
    if (words_left && read_words(options, 1, 0, rest, 1, words_left)) {
        options[GOP_QUICK_PARAMS] = params;
        result = gop_quick(options, 1, NULL);
        if (result == Py_NotImplemented) Py_CLEAR(result);
    }
    Py_XDECREF(words_left);
    Py_DECREF(params);
    return result;
}

static PyObject *call(gop_op op, int operands, int out_last, PyObject *const *arguments,
                      Py_ssize_t count, PyObject *said)
{
    PyObject *options[GOP_QUICK_OPTIONS + GOP_MAX_INPUTS] = {gop_op_words[op]};
    if (op == GOP_OP_transpose && count + (said ? PyTuple_Size(said) : 0) > 1) {
        PyObject *result = call_with_axes(arguments, count, said);
        if (result) return result;
        if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_ValueError)) return NULL;
        PyErr_Clear();
    }
    if (read_words(options, operands, out_last, arguments, count, said)) {
        PyObject *result = gop_quick(options, operands, NULL);
        if (result != Py_NotImplemented) return result;
        Py_DECREF(result);
    }
    return call_behind(functions[op], arguments, count, said);
}

/* ---- reductions ---- */

static PyObject *reductions[GOP_NREDUCE]; /* the functions behind */
static PyObject *axis_word, *keepdims_word, *where_word;

/* Whether `where` alone makes the call another one: a minimum needs `initial` as well, and of a
 * mean of nothing Python warns. */
static int takes_where(gop_reduce_op op)
{
    return op == GOP_SUM || op == GOP_PROD || op == GOP_ANY || op == GOP_ALL;
}

/* 1 where it is a whole number that an axis may be. */
static int read_axis(PyObject *number, int64_t *axis)
{
    int overflow = 0;
    if (!PyLong_CheckExact(number)) return 0;
    *axis = PyLong_AsLongLongAndOverflow(number, &overflow);
    return !overflow;
}

/* Reads an axis or several, and keepdims; 0 where they are not plain ones. */
static int read_along(PyObject *axis, PyObject *keepdims, gop_reduce_params *params)
{
    gop_axes *axes = &params->axes;
    axes->given = axis && axis != Py_None;
    axes->count = 0;
    params->keepdims = keepdims == Py_True;
    if (keepdims && keepdims != Py_False && keepdims != Py_True) return 0;
    if (!axes->given) return 1;
    if (!PyTuple_CheckExact(axis)) return read_axis(axis, &axes->axis[axes->count++]);
    const Py_ssize_t count = PyTuple_Size(axis);
    if (count > GOP_MAX_NDIM) return 0;
    while (axes->count < count) {
        PyObject *one = PyTuple_GetItem(axis, axes->count);
        if (!read_axis(one, &axes->axis[axes->count++])) return 0;
    }
    return 1;
}

/* NULL without an exception where the function behind is to be called. */
static PyObject *reduce_quickly(gop_reduce_op op, PyObject *const *arguments, Py_ssize_t count,
                                PyObject *said)
{
    PyObject *options[GOP_QUICK_OPTIONS + GOP_MAX_INPUTS] = {gop_op_words[GOP_OP_reduce]};
    PyObject *axis = count == 2 ? arguments[1] : NULL, *keepdims = NULL, *where = NULL;
    gop_reduce_params params;
    const Py_ssize_t nsaid = said ? PyTuple_Size(said) : 0;
    if (count < 1 || count > 2) return NULL;
    for (int o = GOP_QUICK_PARAMS; o < GOP_QUICK_OPTIONS; o++) options[o] = Py_None;
    options[GOP_QUICK_OPTIONS] = arguments[0];
    for (Py_ssize_t k = 0; k < nsaid; k++) {
        PyObject *word = PyTuple_GetItem(said, k), *value = arguments[count + k];
        int o = GOP_QUICK_OUT;
        if (word == axis_word && !axis) axis = value;
        else if (word == keepdims_word) keepdims = value;
        else if (word == where_word && takes_where(op)) where = value;
        else {
            while (o < GOP_QUICK_OPTIONS && interned[o] != word) o++;
            if (o == GOP_QUICK_OPTIONS) return NULL;
            options[o] = value;
        }
    }
    if (!read_along(axis, keepdims, &params)) return NULL;
    params.op = op;
    params.has_where = where != NULL;
    params.has_initial = 0;
    params.exact = GOP_EXACT_NOT;
    if (where) options[GOP_QUICK_OPTIONS + 1] = where;
    PyObject *result = gop_quick(options, where ? 2 : 1, &params);
    const int whole = !params.axes.given && !params.keepdims && !where;
    if (result == Py_NotImplemented) Py_CLEAR(result);
    else if (!result && !whole && PyErr_ExceptionMatches(PyExc_ValueError))
        PyErr_Clear(); /* an axis that is none: the function behind has the words */
    return result;
}

static PyObject *reduce(gop_reduce_op op, PyObject *const *arguments, Py_ssize_t count,
                        PyObject *said)
{
    PyObject *result = reduce_quickly(op, arguments, count, said);
    if (result || PyErr_Occurred()) return result;
    return call_behind(reductions[op], arguments, count, said);
}

#define X(op, word)                                                                            \
    static PyObject *front_##word(PyObject *module, PyObject *const *arguments,                \
                                  Py_ssize_t count, PyObject *said)                            \
    {                                                                                          \
        (void)module;                                                                          \
        return reduce(op, arguments, count, said);                                             \
    }
GOP_REDUCTIONS(X)
#undef X

/* ---- elementwise operations, matmul and transpose ---- */

/* A function each, since what Python hands to a function of C does not say which one it is. */
/* clang-format off */
#define FRONTS(X) X(add, 2, 1) X(multiply_add, 3, 1) X(fma, 3, 1) X(matmul, 2, 1) X(transpose, 1, 0)
/* clang-format on */
#define X(op, operands, out_last)                                                              \
    static PyObject *front_##op(PyObject *module, PyObject *const *arguments,                  \
                                Py_ssize_t count, PyObject *said)                              \
    {                                                                                          \
        (void)module;                                                                          \
        return call(GOP_OP_##op, operands, out_last, arguments, count, said);                  \
    }
FRONTS(X)
#undef X

static PyMethodDef *reduction_of(const char *name, PyObject *function)
{
    static PyMethodDef methods[GOP_NREDUCE] = {
#define X(op, word)                                                                            \
    [op] = {#word, (PyCFunction)(void (*)(void))front_##word, METH_FASTCALL | METH_KEYWORDS,   \
            NULL},
        GOP_REDUCTIONS(X)
#undef X
    };
    gop_reduce_op op;
    if (!gop_reduction_find(name, &op) || !methods[op].ml_name) {
        PyErr_Format(PyExc_ValueError, "there is no reduction '%s'", name);
        return NULL;
    }
    reductions[op] = function;
    return &methods[op];
}

static PyMethodDef *operation_of(const char *name, PyObject *function)
{
    static PyMethodDef methods[GOP_NOPS] = {
#define X(op, operands, out_last)                                                              \
    [GOP_OP_##op] = {#op, (PyCFunction)(void (*)(void))front_##op,                             \
                     METH_FASTCALL | METH_KEYWORDS, NULL},
        FRONTS(X)
#undef X
    };
    gop_op op;
    if (gop_read_op(name, &op) < 0) return NULL;
    functions[op] = function;
    return &methods[op];
}

/* front(module, function, text, reduces): what to call in the function's place, a reduction's
 * or another operation's. The text is its signature, as builtin functions show it, and its
 * documentation. */
static PyObject *front(PyObject *self, PyObject *arguments)
{
    PyObject *module, *function, *text;
    int reduces;
    (void)self;
    if (!PyArg_ParseTuple(arguments, "OOUp:front", &module, &function, &text, &reduces))
        return NULL;
    PyObject *name = PyObject_GetAttrString(function, "__name__");
    const char *word = name ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
    const char *doc = PyUnicode_AsUTF8AndSize(text, NULL);
    PyObject *of = PyObject_GetAttrString(function, "__module__");
    PyObject *made = NULL;
    PyMethodDef *method = NULL;
    if (word && doc && of)
        method = reduces ? reduction_of(word, function) : operation_of(word, function);
    if (method) {
        Py_INCREF(text); /* both are kept for good */
        Py_INCREF(function);
        method->ml_doc = doc;
        made = PyCFunction_NewEx(method, module, of);
    }
    Py_XDECREF(name);
    Py_XDECREF(of);
    return made;
}

int gop_front_ready(void)
{
    if (!(axes_word = PyUnicode_InternFromString("axes")) ||
        !(axis_word = PyUnicode_InternFromString("axis")) ||
        !(keepdims_word = PyUnicode_InternFromString("keepdims")) ||
        !(where_word = PyUnicode_InternFromString("where")))
        return -1;
    for (int o = GOP_QUICK_OUT; o < GOP_QUICK_OPTIONS; o++)
        if (!(interned[o] = PyUnicode_InternFromString(words[o]))) return -1;
    return 0;
}

PyMethodDef gop_front_functions[] = {
    {"front", front, METH_VARARGS,
     "front(module, function, text, reduces) -> builtin function"},
    {NULL, NULL, 0, NULL}};
