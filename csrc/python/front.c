/*
 * front.c - parsing: the array operations and reductions that users call, and their arguments.
 *
 * Each function has an entry point and a line in the table gop_signatures. Its arguments, their
 * order and its documentation come from the def of its name in gpuops/ops.py or reductions.py.
 * Here a call is bound to these arguments and each is read into a request; request.c runs it.
 *
 * Plain arrays, numbers and words are read here (a reduction's in reduction.c). About any other
 * object it asks Python (gpuops/_call/arguments.py), one argument at a time. The answer is an
 * array, a tuple or an exception. The order in which arguments are read decides which error is
 * reported first.
 */
#include <math.h>

#include "core/arrays/cast.h"
#include "core/arrays/array.h"
#include "core/host/threads.h"
#include "core/ops/reduce.h"
#include "python/python.h"

/* ---- operands ---- */

/* The kind of a number of Python's own, which takes the dtype of arrays beside it; or 0. */
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

static int takes(const gop_signature *s, gop_dtype dtype)
{
    return s->dtypes >> dtype & 1;
}

/* Finds out whether operand i or `out` is a plain array of another library on its default
 * stream, which needs no wrapper. The object's code may run. */
static int ask_library(gop_request *r, PyObject *object, int i)
{
    const gop_backend *cuda;
    if (Py_TYPE(object) == &PyArray_Type || gop_is_device_array(object)) return 0;
    if (kind_of_number(object)) return 0;
    while (r->nasked <= i) { /* gop_ask_foreign looks at those before */
        r->foreign[r->nasked].library = GOP_NO_LIBRARY;
        r->foreign[r->nasked++].owner = NULL;
    }
    if (gop_ask_foreign(object, r->foreign, i) && gop_backend_get(GOP_CUDA, &cuda) == GOP_OK)
        r->lent |= 1u << i;
    if (gop_is_critical()) return -1;
    PyErr_Clear();
    return 0;
}

int gop_ask_libraries(gop_request *r, PyObject *const *operands, int count)
{
    for (int i = 0; i < count; i++)
        if (ask_library(r, operands[i], i) < 0) return -1;
    return r->out ? ask_library(r, r->out, GOP_OUT) : 0;
}

/* Reads a device array of ours, or one of another library that has not changed since. */
static int read_on_device(gop_request *r, PyObject *object, int i)
{
    gop_array *const array = &r->call.in[i];
    if (gop_is_device_array(object))
        return gop_array_assign(array, gop_buffer_array(object)), 1;
    if (!gop_is_lent(r, i)) return 0;
    if (gop_read_foreign(object, &r->foreign[i], array)) return 1;
    if (!gop_is_critical()) PyErr_Clear();
    r->lent &= ~(1u << i);
    return 0;
}

static int is_whole(gop_dtype dtype)
{
    return strchr("biu", gop_dtype_kind(dtype)) != NULL;
}

/* Reads operand i. It has to be of a dtype that the function takes. */
static int read_operand(gop_request *r, const gop_signature *s, int i)
{
    gop_array *const in = &r->call.in[i];
    const int is_host = gop_plain_array(r->inputs[i], in);
    if (is_host || read_on_device(r, r->inputs[i], i)) {
        if (!is_host) r->on_device |= 1u << i;
        if (takes(s, in->dtype)) return 0;
    }
    if (PyErr_Occurred()) return -1;
    r->lent &= ~(1u << i);
    r->inputs[i] = gop_ask(r, GOP_ASK_convert, "(sOOs)", r->name, gop_words[GOP_WORD_a + i],
                           r->inputs[i], s->kinds);
    if (!r->inputs[i]) return -1;
    if (*s->kinds != 'a' || gop_buffer_array(r->inputs[i]))
        return gop_read_array(r->inputs[i], in, 0);
    in->ndim = PyArray_NDIM((PyArrayObject *)r->inputs[i]); /* of any dtype */
    return 0;
}

int gop_read_first(gop_request *r, const gop_signature *s, PyObject *a)
{
    if (gop_ask_libraries(r, &a, 1) < 0) return -1;
    gop_add_input(r, a);
    r->is_read = 1;
    return read_operand(r, s, 0);
}

/* Kernels and transfers cast the host's arrays; Python casts, or refuses, all others. */
int gop_read_input_as(gop_request *r, int i, gop_dtype dtype)
{
    const gop_array *const in = &r->call.in[i];
    if (in->dtype == dtype) return 0;
    r->is_read = 0;
    r->as[i] = (int)dtype;
    if (gop_array_on_host(in) && !gop_buffer_array(r->inputs[i]) &&
        gop_can_cast(in->dtype, dtype))
        return 0;
    if (gop_wrap_input(r, i) < 0) return -1;
    r->inputs[i] = gop_ask(r, GOP_ASK_cast, "(sOON)", r->name, gop_words[GOP_WORD_a + i],
                           r->inputs[i], gop_descr(dtype));
    return r->inputs[i] ? 0 : -1;
}

/* Whether no float dtype can overflow. NumPy warns of overflows, and Python's code does not. */
static int is_moderate(PyObject *number)
{
    enum { MOST = 60000 };
    const double real = PyComplex_RealAsDouble(number), imag = PyComplex_ImagAsDouble(number);
    return !PyErr_Occurred() && fabs(real) < MOST && fabs(imag) < MOST;
}

/* Makes an array of a number. */
static int read_number(gop_request *r, int i, PyObject *number, gop_dtype dtype)
{
    const char kind = gop_dtype_kind(dtype);
    PyObject *made = NULL;
    r->is_read = 0;
    if (dtype != GOP_BFLOAT16 && ((kind != 'f' && kind != 'c') || is_moderate(number)))
        made = PyArray_FromAny(number, gop_descr(dtype), 0, 0, 0, NULL);
    if (made) return (r->inputs[i] = gop_keep(r, made)) ? 0 : -1;
    if (gop_is_critical()) return -1;
    PyErr_Clear();
    r->inputs[i] = gop_ask(r, GOP_ASK_number, "(sOON)", r->name, gop_words[GOP_WORD_a + i],
                           number, gop_descr(dtype));
    return r->inputs[i] ? 0 : -1;
}

/* The dtype of numbers that have no array beside them. */
static int dtype_of_numbers(gop_request *r, const gop_signature *s, PyObject *const *values,
                            gop_dtype *dtype)
{
    PyObject *numbers = gop_pack_tuple(values, s->operands);
    PyObject *found = gop_ask(r, GOP_ASK_dtype_of_numbers, "(sOsN)", r->name,
                              gop_words[GOP_WORD_a + s->operands - 1], s->kinds, numbers);
    return found ? gop_read_dtype(found, dtype) : -1;
}

/* Reads operands of several dtypes, and numbers, in their common dtype. */
static int promote(gop_request *r, const gop_signature *s, PyObject *const *values)
{
    gop_dtype dtypes[GOP_MAX_INPUTS], common;
    char kinds[GOP_MAX_INPUTS], weak = 0;
    int arrays = 0, mixed = 0;
    if (gop_ask_libraries(r, values, s->operands) < 0) return -1;
    r->is_read = 1;
    r->is_lines = r->options.fits = r->options.made = 0;
    for (int i = 0; i < s->operands; i++) {
        weak = stronger(weak, kinds[i] = kind_of_number(values[i]));
        if (kinds[i]) continue;
        if (read_operand(r, s, i) < 0) return -1;
        dtypes[arrays++] = r->call.in[i].dtype;
        mixed |= dtypes[arrays - 1] != dtypes[0];
    }
    common = arrays ? dtypes[0] : GOP_FLOAT64;
    if (!arrays && dtype_of_numbers(r, s, values, &common) < 0) return -1;
    if (mixed) common = gop_promote_all(dtypes, arrays);
    if (weak && arrays) common = gop_promote_weak(common, weak);
    if (s->least && is_whole(common)) common = s->least;
    if (!mixed && !weak && common == dtypes[0]) return 0;
    if (!takes(s, common))
        return gop_ask(r, GOP_ASK_refuse_dtype, "(sONs)", r->name,
                       gop_words[GOP_WORD_a + s->operands - 1], gop_descr(common), s->kinds)
                   ? 0
                   : -1;
    for (int i = 0; i < s->operands; i++) {
        const int status =
            kinds[i] ? read_number(r, i, values[i], common) : gop_read_input_as(r, i, common);
        if (status < 0) return -1;
    }
    return 0;
}

/* ---- where and how ---- */

int gop_read_how(gop_request *r, PyObject *const *values)
{
    PyObject *kernel = gop_given(values[GOP_WORD_kernel]);
    PyObject *tunables = gop_given(values[GOP_WORD_params]);
    if (kernel) {
        kernel = gop_ask(r, GOP_ASK_kernel_name, "(sO)", r->name, kernel);
        r->options.kernel = kernel ? PyUnicode_AsUTF8AndSize(kernel, NULL) : NULL;
        if (!r->options.kernel) return -1;
    }
    if (tunables) r->tunables = gop_ask(r, GOP_ASK_read_tunables, "(sO)", r->name, tunables);
    if (tunables && !r->tunables) return -1;
    r->device = gop_given(values[GOP_WORD_device]);
    if (!r->device || !PyTuple_CheckExact(r->device)) return 0;
    r->device = gop_ask(r, GOP_ASK_parse, "(O)", r->device); /* a pair is our own word */
    return r->device ? 0 : -1;
}

/* ---- operations ---- */

/* add, multiply_add, fma and matmul, which alone has a precision. Most elementwise calls have
 * arrays of one dtype and shape. */
static int read_promoted(gop_request *r, const gop_signature *s, PyObject *const *values)
{
    PyObject *const out = gop_given(values[GOP_WORD_out]);
    r->out = gop_out_of(out);
    r->is_scalar = !out; /* a result of no axes, but not for out=... */
    r->spreads = 1;
    r->call.params.matmul.precision = GOP_HIGHEST;
    r->precision = gop_given(values[GOP_WORD_precision]);
    r->is_elementwise = gop_descriptor_of(s->op)->in_place;
    for (int i = 0; i < s->operands; i++) gop_add_input(r, values[GOP_WORD_a + i]);
    const int is_same = gop_read_lines(r) && takes(s, r->call.in[0].dtype) &&
                        !(s->least && is_whole(r->call.in[0].dtype));
    if (!is_same && promote(r, s, values + GOP_WORD_a) < 0) return -1;
    return gop_read_how(r, values);
}

/* Returns 1 for an int that can be an axis. */
static int read_axis(PyObject *number, int64_t *axis)
{
    int overflow = 0;
    if (!PyLong_CheckExact(number)) return 0;
    *axis = PyLong_AsLongLongAndOverflow(number, &overflow);
    return !overflow && *axis != INT64_MIN;
}

static int read_plain_axes(PyObject *value, int several, gop_axes *axes)
{
    axes->given = value != NULL;
    axes->count = 0;
    if (!value) return 1;
    if (PyTuple_CheckExact(value)) {
        const Py_ssize_t count = PyTuple_Size(value);
        if (count > GOP_MAX_NDIM) return 0;
        while (axes->count < count) {
            PyObject *one = PyTuple_GetItem(value, axes->count);
            if (!read_axis(one, &axes->axis[axes->count++])) return 0;
        }
        return 1;
    }
    if (several && PyList_CheckExact(value)) {
        PyObject *tuple = PyList_AsTuple(value);
        const int read = tuple && read_plain_axes(tuple, 0, axes);
        Py_XDECREF(tuple);
        return read;
    }
    return read_axis(value, &axes->axis[axes->count++]);
}

int gop_read_axes_of(gop_request *r, PyObject *value, int several, gop_axes *axes)
{
    const int ndim = r->call.in[0].ndim;
    value = gop_given(value);
    const int is_scalar = ndim == 0 && value && PyTuple_CheckExact(value);
    if (read_plain_axes(value, several, axes) && !(is_scalar && axes->count && !several))
        return 0;
    if (PyErr_Occurred()) return -1;
    PyObject *tuple = gop_ask(r, GOP_ASK_read_axes, "(sOii)", r->name, value, ndim, several);
    return tuple ? gop_read_axes(tuple, &r->call, axes) : -1;
}

PyObject *gop_axes_tuple(gop_request *r, const gop_axes *axes)
{
    return axes->given ? gop_keep(r, gop_shape_tuple(axes->count, axes->axis)) : Py_None;
}

/* Items of a dtype that the core lacks are moved as words, which Python makes. */
static int read_items(gop_request *r, gop_axes *axes)
{
    PyObject *array = r->inputs[0];
    if (gop_plain_array(array, &r->call.in[0]) || gop_buffer_array(array) || gop_is_lent(r, 0))
        return 0;
    PyObject *const order = gop_axes_tuple(r, axes), *const out = r->out ? r->out : Py_None;
    PyObject *words = order ? gop_ask(r, GOP_ASK_as_words, "(OOO)", array, order, out) : NULL;
    if (!words || words == Py_None) return words ? 0 : -1;
    r->inputs[0] = PyTuple_GetItem(words, 0);
    r->out = gop_given(PyTuple_GetItem(words, 2));
    r->finish = PyTuple_GetItem(words, 3);
    return gop_read_axes(PyTuple_GetItem(words, 1), &r->call, axes);
}

static int read_transpose(gop_request *r, const gop_signature *s, PyObject *const *values)
{
    gop_axes *const axes = &r->call.params.transpose.axes;
    r->out = gop_out_of(values[GOP_WORD_out]);
    if (gop_read_first(r, s, values[GOP_WORD_a]) < 0) return -1;
    if (gop_read_axes_of(r, values[GOP_WORD_axes], 1, axes) < 0) return -1;
    return gop_read_how(r, values) < 0 ? -1 : read_items(r, axes);
}

/* ---- a call: its values are bound to arguments, then read ---- */

/* The argument of that name, or -1. */
static int find_word(PyObject *name)
{
    for (int word = 0; word < GOP_NARGUMENTS; word++)
        if (gop_words[word] == name) return word;
    for (int word = 0; word < GOP_NARGUMENTS; word++) /* an equal string that is not interned */
        if (PyUnicode_Compare(gop_words[word], name) == 0) return word;
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
        const int word = find_word(PyTuple_GetItem(said, k));
        if (word < 0 || !(s->taken >> word & 1) || values[word]) return 0;
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
    if (made) Py_XDECREF(gop_ask(NULL, GOP_ASK_refuse, "(OOO)", s->function, places, words));
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

/* ---- the functions ---- */

/* A line each: the function's number, name and entry point, how many operands it takes and of
 * which kinds of dtypes, as in NumPy, what reads its arguments, and the least dtype that
 * integers become. */
#define NUMBERS "biufc"
/* clang-format off */
#define FUNCTIONS(X)                                                                           \
    X(ADD, "add", gop_py_add, 2, NUMBERS, read_promoted, 0)                                 \
    X(MULTIPLY_ADD, "multiply_add", gop_py_multiply_add, 3, NUMBERS, read_promoted, 0)      \
    X(FMA, "fma", gop_py_fma, 3, "biuf", read_promoted, GOP_FLOAT64)                        \
    X(MATMUL, "matmul", gop_py_matmul, 2, NUMBERS, read_promoted, 0)                             \
    X(TRANSPOSE, "transpose", gop_py_transpose, 1, "any", read_transpose, 0)                   \
    X(REDUCE, "reduce", gop_py_reduce, 1, NUMBERS, gop_read_reduction, 0)                      \
    X(SUM, "sum", gop_py_sum, 1, NUMBERS, gop_read_reduction, 0)                               \
    X(PROD, "prod", gop_py_prod, 1, NUMBERS, gop_read_reduction, 0)                            \
    X(MIN, "min", gop_py_min, 1, NUMBERS, gop_read_reduction, 0)                               \
    X(MAX, "max", gop_py_max, 1, NUMBERS, gop_read_reduction, 0)                               \
    X(MEAN, "mean", gop_py_mean, 1, NUMBERS, gop_read_reduction, 0)                            \
    X(ANY, "any", gop_py_any, 1, NUMBERS, gop_read_reduction, 0)                               \
    X(ALL, "all", gop_py_all, 1, NUMBERS, gop_read_reduction, 0)                               \
    X(ARGMIN, "argmin", gop_py_argmin, 1, NUMBERS, gop_read_reduction, 0)                      \
    X(ARGMAX, "argmax", gop_py_argmax, 1, NUMBERS, gop_read_reduction, 0)
/* clang-format on */
#define X(number, ...) number,
enum { FUNCTIONS(X) NFUNCTIONS };
#undef X

static gop_signature signatures[NFUNCTIONS]; /* below */

static PyObject *call(int function, PyObject *const *arguments, Py_ssize_t count,
                      PyObject *said)
{
    _Alignas(64) gop_request r; /* so its time does not depend on the interpreter's stack */
    const unsigned environment = gop_float_environment(NULL);
    gop_request_begin(&r);
    const int status = read_call(&r, &signatures[function], arguments, count, said);
    PyObject *result = status == 0 ? gop_request_run(&r) : NULL;
    gop_request_end(&r);
    gop_float_environment(&environment);
    return result;
}

/* An entry point each, so that debuggers and profilers name the function. */
#define X(number, name, entry, ...)                                                            \
    PyObject *entry(PyObject *module, PyObject *const *arguments, Py_ssize_t count,            \
                    PyObject *said)                                                            \
    {                                                                                          \
        return call(number, arguments, count, said);                                           \
    }
FUNCTIONS(X)
#undef X

static gop_signature signatures[NFUNCTIONS] = {
#define X(number, name, entry, operands, kinds, read, least)                                   \
    [number] = {name, entry, operands, kinds, read, least},
    FUNCTIONS(X)
#undef X
};

/* ---- what is made of a def ---- */

/* The function of that name, or -1 with an exception. */
static int find_function(PyObject *name)
{
    for (int f = 0; f < NFUNCTIONS; f++)
        if (PyUnicode_CompareWithASCIIString(name, signatures[f].name) == 0) return f;
    return gop_refuse(PyExc_ValueError, "there is no function %R", name);
}

static int fill(gop_signature *s, PyObject *names)
{
    gop_reduce_op reduction;
    for (int i = 0; i < PyTuple_Size(names); i++) {
        const int word = find_word(PyTuple_GetItem(names, i));
        if (word < 0) return gop_refuse(PyExc_ValueError, "%s has an unknown word", s->name);
        s->words[i] = (unsigned char)word;
        s->taken |= 1u << word;
    }
    for (int d = 0; d < GOP_NDTYPES; d++)
        if (*s->kinds == 'a' || strchr(s->kinds, gop_dtype_kind((gop_dtype)d)))
            s->dtypes |= UINT32_C(1) << d;
    s->reduction = gop_reduction_find(s->name, &reduction) ? (int)reduction : -1;
    if (PyErr_Occurred()) return -1;
    return gop_read_op(s->reduction < 0 ? s->name : "reduce", &s->op);
}

/* front(module, function, text, names, positional, required): makes the builtin function that
 * stands for a def. The text is its signature, as builtin functions show it, and its
 * documentation. The names are those of its arguments; so many of them may be positional, and
 * so many have to be given. */
static PyObject *front(PyObject *self, PyObject *arguments)
{
    static PyMethodDef methods[NFUNCTIONS];
    PyObject *module, *function, *text, *names, *made = NULL;
    int positional, required;
    if (!PyArg_ParseTuple(arguments, "OOUO!ii:front", &module, &function, &text, &PyTuple_Type,
                          &names, &positional, &required))
        return NULL;
    PyObject *name = PyObject_GetAttrString(function, "__name__");
    PyObject *of = PyObject_GetAttrString(function, "__module__");
    const char *doc = PyUnicode_AsUTF8AndSize(text, NULL);
    const int f = name && of && doc ? find_function(name) : -1;
    if (f >= 0 && fill(&signatures[f], names) == 0) {
        signatures[f].positional = positional;
        signatures[f].required = required;
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
    if (count < 1 || !PyUnicode_Check(arguments[0]))
        return PyErr_Format(PyExc_TypeError, "call_of: expected the name of a function");
    const int f = find_function(arguments[0]);
    if (f < 0) return NULL;
    PyObject *given = gop_pack_tuple(arguments, count + (said ? PyTuple_Size(said) : 0));
    gop_request *r;
    PyObject *made = gop_call_new(given, &r);
    const unsigned environment = gop_float_environment(NULL);
    if (made && read_call(r, &signatures[f], arguments + 1, count - 1, said) < 0)
        Py_CLEAR(made);
    gop_float_environment(&environment);
    Py_XDECREF(given);
    return made;
}

PyMethodDef gop_front_functions[] = {
    {"front", front, METH_VARARGS,
     "front(module, function, text, names, positional, required) -> builtin function"},
    {"call_of", (PyCFunction)(void (*)(void))call_of, METH_FASTCALL | METH_KEYWORDS,
     "call_of(name, *arguments, **keywords) -> Call"},
    {NULL, NULL, 0, NULL}};
