/*
 * quick.c - the common call at once: plain arrays and numbers, no kernel named.
 *
 * For arrays of few elements Python's own road (gpuops/_call/road.py) costs more than the
 * work. This one takes the calls that need none of its decisions and gives the same result or
 * the same error; for every other call it says NotImplemented, and Python's road begins from
 * the start.
 */
#include "core/arrays/cast.h"
#include "core/host/threads.h"
#include "python/python.h"

PyObject *gop_op_words[GOP_NOPS];

enum { MOST_INPUTS = 3, OUT = MOST_INPUTS, OPERANDS };
enum { SHORT = 1 << 14 }; /* elements of an array: microseconds */

/* 1 for what may be an array that needs no conversion. Code of the caller's runs here. */
static int ask(PyObject *object, gop_foreign *foreign, int i)
{
    const gop_backend *cuda;
    if (Py_TYPE(object) == &PyArray_Type || gop_is_device_array(object)) return 1;
    return gop_ask_foreign(object, foreign, i) && gop_backend_get(GOP_CUDA, &cuda) == GOP_OK;
}

typedef enum residence { NOT_TAKEN, ON_HOST, ON_DEVICE } residence;

/* Reads an array that needs no conversion, without running code of the caller's. */
static residence read_operand(PyObject *object, const gop_foreign *foreign, gop_array *array)
{
    if (gop_plain_array(object, array)) return ON_HOST;
    if (!gop_is_device_array(object))
        return foreign->library && gop_read_foreign(object, foreign, array) ? ON_DEVICE
                                                                            : NOT_TAKEN;
    if (gop_buffer_borrowed(object)) return NOT_TAKEN; /* its library is to be told */
    gop_array_assign(array, gop_buffer_array(object));
    return ON_DEVICE;
}

/* Whether the operation takes the dtype as it is. */
static int takes(int op, gop_dtype dtype)
{
    const char kind = gop_dtype_kind(dtype);
    if (op == GOP_OP_jacobi_step)
        return kind == 'c' || (kind == 'f' && gop_dtype_size(dtype) >= 4);
    return op != GOP_OP_fma || kind == 'f';
}

/* All have one dtype, but that a reduction's mask is one of booleans. */
static int fits(const gop_call *call, int i)
{
    const int masks = call->op == GOP_OP_reduce && i == 1;
    return call->in[i].dtype == (masks ? GOP_BOOL : call->in[0].dtype);
}

static int is_readonly(PyObject *object)
{
    return Py_TYPE(object) == &PyArray_Type && !PyArray_ISWRITEABLE((PyArrayObject *)object);
}

/* NumPy's arrays of one shape that lie without gaps in one order: whatever their axes, an
 * elementwise operation may read each as a line. The order that all have, or 0. */
static int common_order(PyObject *const *inputs, int count)
{
    PyArrayObject *first = (PyArrayObject *)inputs[0];
    int order = NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_F_CONTIGUOUS;
    for (int i = 0; i < count && order; i++) {
        PyArrayObject *one = (PyArrayObject *)inputs[i];
        if (Py_TYPE(inputs[i]) != &PyArray_Type || PyArray_NDIM(one) != PyArray_NDIM(first))
            return 0;
        order &= PyArray_FLAGS(one);
        for (int d = 0; d < PyArray_NDIM(first); d++)
            if (PyArray_DIM(one, d) != PyArray_DIM(first, d)) return 0;
    }
    return order;
}

static int read_lines(PyObject *const *inputs, gop_request *r)
{
    gop_call *call = &r->call;
    r->like = NULL;
    if (r->out || !gop_descriptor_of(call->op)->in_place || !common_order(inputs, call->nin))
        return 0;
    const npy_intp size = PyArray_SIZE((PyArrayObject *)inputs[0]);
    for (int i = 0; i < call->nin; i++) {
        gop_array *const line = &call->in[i];
        if (!gop_plain_dtype(PyArray_DESCR((PyArrayObject *)inputs[i]), &line->dtype)) return 0;
        line->data = PyArray_DATA((PyArrayObject *)inputs[i]);
        line->stored = 0;
        line->where = (gop_device){GOP_CPU, 0};
        line->ndim = 1;
        line->shape[0] = size;
        line->strides[0] = gop_dtype_size(line->dtype);
        if (line->dtype != call->in[0].dtype) return 0;
    }
    r->like = (PyArrayObject *)inputs[0];
    return 1;
}

static int read_arrays(PyObject *const *arguments, gop_request *r, const gop_foreign *foreign)
{
    gop_call *call = &r->call;
    r->on_device = 0;
    if (read_lines(arguments + GOP_QUICK_OPTIONS, r)) return 1;
    for (int i = 0; i < call->nin; i++) {
        const residence where =
            read_operand(arguments[GOP_QUICK_OPTIONS + i], &foreign[i], &call->in[i]);
        if (where == NOT_TAKEN) return 0;
        if (r->common >= 0 && gop_can_cast(call->in[i].dtype, (gop_dtype)r->common))
            gop_read_as(&call->in[i], (gop_dtype)r->common);
        if (!fits(call, i)) return 0;
        if (where == ON_DEVICE) r->on_device |= 1u << i;
    }
    return !r->out || (!is_readonly(r->out) &&
                       read_operand(r->out, &foreign[OUT], &call->out[0]) != NOT_TAKEN);
}

/* The first of the operands that is an array of another library, or NULL. */
static const gop_foreign *first_foreign(const gop_request *r, const gop_foreign *foreign)
{
    for (int i = 0; i < r->call.nin; i++)
        if (foreign[i].library != GOP_NO_LIBRARY) return &foreign[i];
    return NULL;
}

/* The result as the caller gets it, an array of the first library among the operands'; takes
 * the reference to `made`. */
static PyObject *quick_finish(const gop_request *r, const gop_foreign *foreign, PyObject *made)
{
    if (!r->out && !r->on_device && r->call.op != GOP_OP_transpose)
        return PyArray_Return((PyArrayObject *)made); /* 0-d: a scalar */
    const gop_foreign *first = first_foreign(r, foreign);
    return gop_give_result(r, made, first ? gop_library_word(first->library) : Py_None);
}

/* Whether the call is over before another thread could have the interpreter. */
static int is_short(const gop_request *r)
{
    if (r->options.device.backend != GOP_CPU || !gop_descriptor_of(r->call.op)->once) return 0;
    if (gop_array_size(&r->call.in[0]) > SHORT) return 0;
    return gop_array_size(&r->call.out[0]) <= SHORT;
}

static PyObject *quick_run(PyObject *const *arguments, gop_request *r,
                           const gop_foreign *foreign)
{
    gop_status status;
    PyObject *theirs = NULL;
    const gop_foreign *first = r->out ? NULL : first_foreign(r, foreign);
    if (first) { /* from its library's allocator a result costs no more than its own do */
        if (gop_infer_output(r) < 0) return NULL;
        theirs = gop_make_foreign(first, &r->call.out[0]);
        if (!read_arrays(arguments, r, foreign)) { /* anew: code may have run */
            Py_XDECREF(theirs);
            PyErr_Clear();
            Py_RETURN_NOTIMPLEMENTED;
        }
    }
    PyObject *made = theirs ? theirs : gop_make_output(r);
    if (!made) return NULL;
    if (is_short(r)) {
        status = gop_run(&r->call, &r->options);
    } else {
        Py_BEGIN_ALLOW_THREADS;
        status = gop_run(&r->call, &r->options);
        Py_END_ALLOW_THREADS;
    }
    if (status == GOP_OK) return theirs ? theirs : quick_finish(r, foreign, made);
    Py_DECREF(made);
    /* A result to be cast, perhaps, or to be repeated over a larger `out`. */
    if (status == GOP_BAD_TYPE || (r->out && status == GOP_BAD_ARGUMENT))
        Py_RETURN_NOTIMPLEMENTED;
    return gop_raise();
}

/* Arrays, parameters and device; where code may have run, the arrays once more. */
static int read_rest(PyObject *const *arguments, gop_request *r, const gop_foreign *foreign,
                     PyObject *named, const gop_reduce_params *reduce)
{
    PyObject *device = arguments[GOP_QUICK_DEVICE], *params = arguments[GOP_QUICK_PARAMS];
    if (!read_arrays(arguments, r, foreign) || !takes((int)r->call.op, r->call.in[0].dtype))
        return 0;
    r->call.nout = 1;
    if (reduce) r->call.params.reduce = *reduce;
    else if (gop_read_params(params, &r->call) < 0) return 0;
    if (r->call.op == GOP_OP_reduce && r->call.params.reduce.op == GOP_MEAN &&
        gop_array_size(&r->call.in[0]) == 0)
        return 0; /* Python warns of it */
    if (reduce && reduce->axes.count && r->call.in[0].ndim == 0)
        return 0; /* 0 and -1 mean a scalar, but not in a tuple: Python knows which it was */
    const int asked = gop_choose_place(r, named, device != Py_None);
    return asked >= 0 && ((params == Py_None && !asked) || read_arrays(arguments, r, foreign));
}

/* 1 once everything is read; 0 where Python's road is to be taken. */
static int read_quick_call(PyObject *const *arguments, gop_op op, Py_ssize_t inputs,
                           gop_request *r, gop_foreign *foreign,
                           const gop_reduce_params *reduce)
{
    gop_call *call = &r->call;
    call->op = op;
    call->nin = (int)inputs;
    call->ntunables = 0;
    r->options.kernel = NULL;
    r->options.made = 0;
    r->out = arguments[GOP_QUICK_OUT] == Py_None ? NULL : arguments[GOP_QUICK_OUT];
    for (int i = 0; i < call->nin; i++)
        if (!ask(arguments[GOP_QUICK_OPTIONS + i], foreign, i)) return 0;
    if (r->out && !ask(r->out, foreign, OUT)) return 0;
    PyObject *named = gop_look_up_place(arguments[GOP_QUICK_DEVICE]);
    const int found = named && read_rest(arguments, r, foreign, named, reduce);
    Py_XDECREF(named);
    return found;
}

static PyObject *quick_call(PyObject *const *arguments, gop_op op, Py_ssize_t inputs,
                            const gop_reduce_params *reduce, int common)
{
    gop_request r;
    r.common = common;
    gop_foreign foreign[OPERANDS];
    PyObject *result;
    for (int i = 0; i < OPERANDS; i++) {
        foreign[i].library = GOP_NO_LIBRARY;
        foreign[i].owner = NULL;
    }
    if (read_quick_call(arguments, op, inputs, &r, foreign, reduce)) {
        result = quick_run(arguments, &r, foreign);
    } else if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception)) {
        result = NULL; /* Ctrl-C */
    } else {
        PyErr_Clear(); /* Python's road says what is wrong, in its own order */
        result = Py_NotImplemented;
        Py_INCREF(result);
    }
    for (int i = 0; i < OPERANDS; i++) Py_XDECREF(foreign[i].owner);
    return result;
}

/* The operation that the word names, if a call of so many inputs may go this way; else -1. */
static int quick_op(PyObject *const *arguments, Py_ssize_t inputs)
{
    if (arguments[GOP_QUICK_KERNEL] != Py_None || arguments[GOP_QUICK_TUNABLES] != Py_None)
        return -1;
    if (inputs < 1 || inputs > MOST_INPUTS) return -1;
    for (int op = 0; op < GOP_NOPS; op++)
        if (gop_op_words[op] == arguments[GOP_QUICK_OP]) return op; /* interned: one object */
    return -1;
}

static int promotes(int op)
{
    return op == GOP_OP_add || op == GOP_OP_multiply_add || op == GOP_OP_fma ||
           op == GOP_OP_matmul;
}

PyObject *gop_quick(PyObject *const *arguments, Py_ssize_t inputs,
                    const gop_reduce_params *reduce)
{
    PyObject *own[GOP_QUICK_OPTIONS + MOST_INPUTS], *made[MOST_INPUTS] = {NULL};
    const int op = quick_op(arguments, inputs);
    const unsigned environment = gop_float_environment(NULL);
    int taken = op >= 0, common = -1;
    if (taken && promotes(op) && gop_are_mixed(arguments + GOP_QUICK_OPTIONS, (int)inputs)) {
        memcpy(own, arguments, (size_t)(GOP_QUICK_OPTIONS + inputs) * sizeof *own);
        taken = gop_make_common(own + GOP_QUICK_OPTIONS, (int)inputs, made, &common);
        arguments = own;
    }
    PyObject *result = taken ? quick_call(arguments, (gop_op)op, inputs, reduce, common) : NULL;
    if (!taken && (!PyErr_Occurred() || PyErr_ExceptionMatches(PyExc_Exception))) {
        PyErr_Clear();
        Py_INCREF(result = Py_NotImplemented);
    }
    for (int i = 0; i < MOST_INPUTS; i++) Py_XDECREF(made[i]);
    gop_float_environment(&environment);
    return result;
}

static PyObject *quick(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    if (count >= GOP_QUICK_OPTIONS)
        return gop_quick(arguments, count - GOP_QUICK_OPTIONS, NULL);
    PyErr_SetString(PyExc_TypeError,
                    "quick: expected op, params, out, device, kernel, tunables, operands");
    return NULL;
}

int gop_quick_ready(void)
{
    for (int op = 0; op < GOP_NOPS; op++)
        if (!(gop_op_words[op] =
                  PyUnicode_InternFromString(gop_descriptor_of((gop_op)op)->name)))
            return -1;
    return gop_foreign_ready();
}

PyMethodDef gop_quick_functions[] = {
    {"quick", (PyCFunction)(void (*)(void))quick, METH_FASTCALL,
     "quick(op, params, out, device, kernel, tunables, *operands) -> result or NotImplemented"},
    {NULL, NULL, 0, NULL}};
