/*
 * front.c - parsing begins: the array operations and reductions that users call.
 *
 * Each has an entry point below and a line in the table `signatures`. Its arguments, their
 * order and its documentation come from the def of its name in gpuops/ops.py or reductions.py.
 * Here a call is bound to these arguments; arguments.c or reduction.c reads them, and request.c
 * runs the call.
 */
#include "core/host/threads.h"
#include "core/ops/reduce.h"
#include "python/python.h"

enum {
    ADD,
    MULTIPLY_ADD,
    FMA,
    MATMUL,
    TRANSPOSE,
    REDUCE,
    SUM,
    PROD,
    MIN,
    MAX,
    MEAN,
    ANY,
    ALL,
    ARGMIN,
    ARGMAX,
    FUNCTIONS
};

static gop_signature signatures[FUNCTIONS]; /* below */

/* ---- binding ---- */

static int find_word(const gop_signature *s, PyObject *said)
{
    for (int i = 0; i < s->count; i++)
        if (gop_words[s->words[i]] == said) return s->words[i];
    for (int i = 0; i < s->count; i++) /* an equal string that is not interned */
        if (PyUnicode_Compare(gop_words[s->words[i]], said) == 0) return s->words[i];
    return -1;
}

/* Finds the value of each argument, or NULL. Returns 0 if the call does not fit the def. */
static int bind(const gop_signature *s, PyObject *const *arguments, Py_ssize_t count,
                PyObject *said, PyObject *values[GOP_NARGUMENTS])
{
    const Py_ssize_t nsaid = said ? PyTuple_Size(said) : 0;
    if (count > s->positional) return 0;
    memset(values, 0, GOP_NARGUMENTS * sizeof *values);
    for (Py_ssize_t i = 0; i < count; i++) {
        if (arguments[i] == Py_Ellipsis) return 0; /* as in NumPy, out=... is a keyword only */
        values[s->words[i]] = arguments[i];
    }
    for (Py_ssize_t k = 0; k < nsaid; k++) {
        const int word = find_word(s, PyTuple_GetItem(said, k));
        if (word < 0 || values[word]) return 0;
        values[word] = arguments[count + k];
    }
    for (int i = 0; i < s->required; i++)
        if (!values[s->words[i]]) return 0;
    return 1;
}

/* Raises what is wrong with a call that does not fit: Python knows its own grammar. */
static void refuse(const gop_signature *s, PyObject *const *arguments, Py_ssize_t count,
                   PyObject *said)
{
    PyObject *places = gop_pack_tuple(arguments, count), *words = PyDict_New();
    int made = places && words;
    for (Py_ssize_t k = 0; said && k < PyTuple_Size(said) && made; k++)
        made = PyDict_SetItem(words, PyTuple_GetItem(said, k), arguments[count + k]) == 0;
    if (made) Py_XDECREF(gop_ask(NULL, GOP_ASK_REFUSE, "(OOO)", s->function, places, words));
    Py_XDECREF(places);
    Py_XDECREF(words);
}

static int read_call(gop_request *r, const gop_signature *s, PyObject *const *arguments,
                     Py_ssize_t count, PyObject *said)
{
    PyObject *values[GOP_NARGUMENTS];
    if (bind(s, arguments, count, said, values)) {
        r->name = s->name;
        r->call.op = s->op;
        return s->read(r, s, values);
    }
    if (!PyErr_Occurred()) refuse(s, arguments, count, said);
    return -1;
}

static PyObject *call(int function, PyObject *const *arguments, Py_ssize_t count,
                      PyObject *said)
{
    gop_request r;
    const unsigned environment = gop_float_environment(NULL);
    gop_request_begin(&r);
    const int status = read_call(&r, &signatures[function], arguments, count, said);
    PyObject *result = status == 0 ? gop_request_run(&r) : NULL;
    gop_request_end(&r);
    gop_float_environment(&environment);
    return result;
}

/* ---- entry points ---- */

PyObject *gop_py_add(PyObject *module, PyObject *const *arguments, Py_ssize_t count,
                     PyObject *said)
{
    return call(ADD, arguments, count, said);
}

PyObject *gop_py_multiply_add(PyObject *module, PyObject *const *arguments, Py_ssize_t count,
                              PyObject *said)
{
    return call(MULTIPLY_ADD, arguments, count, said);
}

PyObject *gop_py_fma(PyObject *module, PyObject *const *arguments, Py_ssize_t count,
                     PyObject *said)
{
    return call(FMA, arguments, count, said);
}

PyObject *gop_py_matmul(PyObject *module, PyObject *const *arguments, Py_ssize_t count,
                        PyObject *said)
{
    return call(MATMUL, arguments, count, said);
}

PyObject *gop_py_transpose(PyObject *module, PyObject *const *arguments, Py_ssize_t count,
                           PyObject *said)
{
    return call(TRANSPOSE, arguments, count, said);
}

PyObject *gop_py_reduce(PyObject *module, PyObject *const *arguments, Py_ssize_t count,
                        PyObject *said)
{
    return call(REDUCE, arguments, count, said);
}

PyObject *gop_py_sum(PyObject *module, PyObject *const *arguments, Py_ssize_t count,
                     PyObject *said)
{
    return call(SUM, arguments, count, said);
}

PyObject *gop_py_prod(PyObject *module, PyObject *const *arguments, Py_ssize_t count,
                      PyObject *said)
{
    return call(PROD, arguments, count, said);
}

PyObject *gop_py_min(PyObject *module, PyObject *const *arguments, Py_ssize_t count,
                     PyObject *said)
{
    return call(MIN, arguments, count, said);
}

PyObject *gop_py_max(PyObject *module, PyObject *const *arguments, Py_ssize_t count,
                     PyObject *said)
{
    return call(MAX, arguments, count, said);
}

PyObject *gop_py_mean(PyObject *module, PyObject *const *arguments, Py_ssize_t count,
                      PyObject *said)
{
    return call(MEAN, arguments, count, said);
}

PyObject *gop_py_any(PyObject *module, PyObject *const *arguments, Py_ssize_t count,
                     PyObject *said)
{
    return call(ANY, arguments, count, said);
}

PyObject *gop_py_all(PyObject *module, PyObject *const *arguments, Py_ssize_t count,
                     PyObject *said)
{
    return call(ALL, arguments, count, said);
}

PyObject *gop_py_argmin(PyObject *module, PyObject *const *arguments, Py_ssize_t count,
                        PyObject *said)
{
    return call(ARGMIN, arguments, count, said);
}

PyObject *gop_py_argmax(PyObject *module, PyObject *const *arguments, Py_ssize_t count,
                        PyObject *said)
{
    return call(ARGMAX, arguments, count, said);
}

/* ---- the table, and what it reads from each def ---- */

#define NUMBERS "biufc" /* kinds of dtypes, as in NumPy */

static gop_signature signatures[FUNCTIONS] = {
    [ADD] = {"add", gop_py_add, 2, NUMBERS, gop_read_elementwise},
    [MULTIPLY_ADD] = {"multiply_add", gop_py_multiply_add, 3, NUMBERS, gop_read_elementwise},
    [FMA] = {"fma", gop_py_fma, 3, "biuf", gop_read_elementwise, .least = GOP_FLOAT64},
    [MATMUL] = {"matmul", gop_py_matmul, 2, NUMBERS, gop_read_matmul},
    [TRANSPOSE] = {"transpose", gop_py_transpose, 1, "any", gop_read_transpose},
    [REDUCE] = {"reduce", gop_py_reduce, 1, NUMBERS, gop_read_reduction},
    [SUM] = {"sum", gop_py_sum, 1, NUMBERS, gop_read_reduction},
    [PROD] = {"prod", gop_py_prod, 1, NUMBERS, gop_read_reduction},
    [MIN] = {"min", gop_py_min, 1, NUMBERS, gop_read_reduction},
    [MAX] = {"max", gop_py_max, 1, NUMBERS, gop_read_reduction},
    [MEAN] = {"mean", gop_py_mean, 1, NUMBERS, gop_read_reduction},
    [ANY] = {"any", gop_py_any, 1, NUMBERS, gop_read_reduction},
    [ALL] = {"all", gop_py_all, 1, NUMBERS, gop_read_reduction},
    [ARGMIN] = {"argmin", gop_py_argmin, 1, NUMBERS, gop_read_reduction},
    [ARGMAX] = {"argmax", gop_py_argmax, 1, NUMBERS, gop_read_reduction},
};

/* The function of that name, or -1 with an exception. */
static int find_function(PyObject *name)
{
    for (int f = 0; f < FUNCTIONS; f++)
        if (PyUnicode_CompareWithASCIIString(name, signatures[f].name) == 0) return f;
    PyErr_Format(PyExc_ValueError, "there is no function %R", name);
    return -1;
}

static long number_of(PyObject *code, const char *attribute)
{
    PyObject *value = code ? PyObject_GetAttrString(code, attribute) : NULL;
    const long number = value ? PyLong_AsLong(value) : -1;
    Py_XDECREF(value);
    return number;
}

static int word_of(PyObject *name)
{
    for (int word = 0; word < GOP_NARGUMENTS; word++)
        if (PyUnicode_Compare(name, gop_words[word]) == 0) return word;
    PyErr_Format(PyExc_ValueError, "there is no word %R", name);
    return -1;
}

/* Reads the arguments of a def. Those that may be positional come first. */
static int read_words(gop_signature *s, PyObject *code)
{
    PyObject *names = code ? PyObject_GetAttrString(code, "co_varnames") : NULL;
    s->positional = (int)number_of(code, "co_argcount");
    s->count = s->positional + (int)number_of(code, "co_kwonlyargcount");
    for (int i = 0; i < s->count && !PyErr_Occurred(); i++)
        s->words[i] = word_of(PyTuple_GetItem(names, i));
    Py_XDECREF(names);
    return PyErr_Occurred() ? -1 : 0;
}

static int fill(gop_signature *s, PyObject *function)
{
    gop_reduce_op reduction;
    PyObject *code = PyObject_GetAttrString(function, "__code__");
    PyObject *defaults = PyObject_GetAttrString(function, "__defaults__");
    int status = read_words(s, code);
    if (status == 0 && defaults)
        s->required = s->positional - (defaults == Py_None ? 0 : (int)PyTuple_Size(defaults));
    for (int d = 0; d < GOP_NDTYPES; d++)
        if (*s->kinds == 'a' || strchr(s->kinds, gop_dtype_kind((gop_dtype)d)))
            s->dtypes |= UINT32_C(1) << d;
    s->reduction = gop_reduction_find(s->name, &reduction) ? (int)reduction : -1;
    if (status == 0) status = gop_read_op(s->reduction < 0 ? s->name : "reduce", &s->op);
    Py_XDECREF(code);
    Py_XDECREF(defaults);
    return status;
}

/* front(module, function, text): makes the builtin function that stands for a def. The text is
 * its signature, as builtin functions show it, and its documentation. */
static PyObject *front(PyObject *self, PyObject *arguments)
{
    static PyMethodDef methods[FUNCTIONS];
    PyObject *module, *function, *text, *made = NULL;
    if (!PyArg_ParseTuple(arguments, "OOU:front", &module, &function, &text)) return NULL;
    PyObject *name = PyObject_GetAttrString(function, "__name__");
    PyObject *of = PyObject_GetAttrString(function, "__module__");
    const char *doc = PyUnicode_AsUTF8AndSize(text, NULL);
    const int f = name && of && doc ? find_function(name) : -1;
    if (f >= 0 && fill(&signatures[f], function) == 0) {
        Py_INCREF(text); /* both live as long as the process */
        Py_INCREF(signatures[f].function = function);
        methods[f] =
            (PyMethodDef){signatures[f].name, (PyCFunction)(void (*)(void))signatures[f].entry,
                          METH_FASTCALL | METH_KEYWORDS, doc};
        made = PyCFunction_NewEx(&methods[f], module, of);
    }
    Py_XDECREF(name);
    Py_XDECREF(of);
    return made;
}

/* call_of(name, *arguments, **keywords) -> Call, not run yet */
static PyObject *call_of(PyObject *self, PyObject *const *arguments, Py_ssize_t count,
                         PyObject *said)
{
    if (count < 1 || !PyUnicode_Check(arguments[0])) {
        PyErr_SetString(PyExc_TypeError, "call_of: expected the name of a function");
        return NULL;
    }
    const int f = find_function(arguments[0]);
    if (f < 0) return NULL;
    PyObject *given = gop_pack_tuple(arguments, count + (said ? PyTuple_Size(said) : 0));
    PyObject *made = given ? gop_call_new(given) : NULL;
    const unsigned environment = gop_float_environment(NULL);
    if (made &&
        read_call(gop_call_request(made), &signatures[f], arguments + 1, count - 1, said) < 0)
        Py_CLEAR(made);
    gop_float_environment(&environment);
    Py_XDECREF(given);
    return made;
}

PyMethodDef gop_front_functions[] = {
    {"front", front, METH_VARARGS, "front(module, function, text) -> builtin function"},
    {"call_of", (PyCFunction)(void (*)(void))call_of, METH_FASTCALL | METH_KEYWORDS,
     "call_of(name, *arguments, **keywords) -> Call"},
    {NULL, NULL, 0, NULL}};
