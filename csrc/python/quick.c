/*
 * quick.c - the common call at once: plain arrays of one dtype, no kernel named.
 *
 * For arrays of few elements Python's own road (gpuops/_road.py) takes longer than the work.
 * This one takes the calls that need none of its decisions and gives the same result or the
 * same error; for every other call it says NotImplemented, and Python's road begins from the
 * start.
 */
#include "python/python.h"

static PyObject *device_array;   /* the class gpuops.DeviceArray, of Handles */
static PyObject *default_device; /* gpuops.get_default_device */
static PyObject *defaults;       /* gpuops.devices.defaults: empty, there is nothing to ask */
static PyObject *give_back;      /* gpuops.arrays.give_back */
static PyObject *places; /* names of devices in use, and Devices: to (backend, ordinal) */
static int probes;       /* under way, in any thread */

PyObject *gop_op_words[GOP_NOPS];

/* An operand, or out. */
typedef struct operand {
    PyObject *owner;     /* what keeps an array of a library */
    gop_library library; /* whose array it is */
    int on_device, readonly;
} operand;

/* The result for a DeviceArray of another library's memory would have to go there. */
static int read_device_array(PyObject *object, gop_array *array, operand *o)
{
    PyObject *buffer = gop_handle_buffer(object);
    if (gop_buffer_borrowed(buffer)) return 0;
    gop_array_assign(array, gop_buffer_array(buffer));
    o->on_device = 1;
    return 1;
}

/* 1 for an array that needs no conversion. */
static int read_operand(PyObject *object, gop_array *array, operand *o)
{
    const gop_backend *cuda;
    *o = (operand){NULL, GOP_NO_LIBRARY, 0, 0};
    if (gop_plain_array(object, array)) {
        o->readonly = !PyArray_ISWRITEABLE((PyArrayObject *)object);
        return 1;
    }
    if ((PyObject *)Py_TYPE(object) == device_array) return read_device_array(object, array, o);
    o->library = gop_read_foreign(object, array, &o->owner);
    o->on_device = o->library != GOP_NO_LIBRARY;
    return o->on_device && gop_backend_get(GOP_CUDA, &cuda) == GOP_OK;
}

/* Whether the operation takes the dtype as it is. */
static int takes(gop_op op, gop_dtype dtype)
{
    return op != GOP_OP_fma || gop_dtype_kind(dtype) == 'f';
}

/* The device of the call, by the order that gpuops/devices.py states; 0 where Python decides.
 */
static int find_device(gop_request *r, PyObject *device)
{
    const gop_array *first = &r->call.in[0];
    PyObject *asked = NULL;
    if (device == Py_None && r->on_device) {
        for (int i = 0; i < r->call.nin; i++)
            if (r->call.in[i].where.backend != first->where.backend ||
                r->call.in[i].where.ordinal != first->where.ordinal)
                return 0;
        r->options.device = first->where;
        return 1;
    }
    if (device == Py_None && PyDict_Size(defaults) > 0)
        device = asked = PyObject_CallNoArgs(default_device);
    int found = 0;
    if (device == Py_None) { /* a fixed rule, for operations of little work */
        r->options.device = (gop_device){GOP_CPU, 0};
        found = r->call.op != GOP_OP_matmul;
    } else if (device) {
        PyObject *place = PyDict_GetItemWithError(places, device);
        found = place && gop_read_device(place, &r->options.device) == 0;
    }
    Py_XDECREF(asked);
    return found;
}

static int read_out(gop_request *r, PyObject *out, operand *o)
{
    r->out = out == Py_None ? NULL : out;
    return !r->out || (read_operand(out, &r->call.out[0], o) && !o->readonly);
}

/* The result as the caller gets it, an array of the first library among the operands'; takes
 * the reference to `made`. */
static PyObject *finish(const gop_request *r, const operand *operands, PyObject *made)
{
    static const char *const kinds[] = {NULL, "cupy", "torch"};
    PyObject *result = made;
    if (r->out) return made;
    if (r->on_device) {
        gop_library library = GOP_NO_LIBRARY;
        for (int i = r->call.nin - 1; i >= 0; i--)
            if (operands[i].library != GOP_NO_LIBRARY) library = operands[i].library;
        result = library == GOP_NO_LIBRARY
                     ? gop_handle_new((PyTypeObject *)device_array, made, Py_None)
                     : PyObject_CallFunction(give_back, "Os", made, kinds[library]);
        Py_DECREF(made);
    } else if (r->call.op != GOP_OP_transpose) {
        result = PyArray_Return((PyArrayObject *)made); /* 0-d: a scalar */
    }
    return result;
}

static PyObject *run(gop_request *r, const operand *operands)
{
    gop_status status;
    PyObject *made = gop_make_output(r);
    if (!made) return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = gop_run(&r->call, &r->options);
    Py_END_ALLOW_THREADS;
    if (status == GOP_OK) return finish(r, operands, made);
    Py_DECREF(made);
    if (status == GOP_BAD_TYPE) Py_RETURN_NOTIMPLEMENTED; /* a result to be cast, perhaps */
    return gop_raise();
}

/* 1 once everything is read; 0, without an exception, where Python's road is to be taken. */
static int read_call(PyObject *const *arguments, Py_ssize_t inputs, gop_request *r,
                     operand *operands)
{
    gop_call *call = &r->call;
    if (probes || arguments[GOP_QUICK_KERNEL] != Py_None ||
        arguments[GOP_QUICK_TUNABLES] != Py_None || !device_array)
        return 0;
    int op = 0;
    while (op < GOP_NOPS && gop_op_words[op] != arguments[GOP_QUICK_OP])
        op++; /* interned: one object each */
    if (op == GOP_NOPS || inputs < 1 || inputs > 3) return 0;
    call->op = (gop_op)op;
    call->nin = (int)inputs;
    call->ntunables = 0;
    r->on_device = 0;
    for (int i = 0; i < call->nin; i++) {
        if (!read_operand(arguments[GOP_QUICK_OPTIONS + i], &call->in[i], &operands[i]))
            return 0;
        if (call->in[i].dtype != call->in[0].dtype) return 0;
        r->on_device |= operands[i].on_device;
    }
    if (!takes(call->op, call->in[0].dtype) ||
        gop_read_params(arguments[GOP_QUICK_PARAMS], call) < 0)
        return 0;
    r->options.kernel = NULL;
    return find_device(r, arguments[GOP_QUICK_DEVICE]) &&
           read_out(r, arguments[GOP_QUICK_OUT], &operands[GOP_MAX_INPUTS]);
}

PyObject *gop_quick(PyObject *const *arguments, Py_ssize_t inputs)
{
    gop_request r;
    operand operands[GOP_MAX_INPUTS + 1] = {{NULL, GOP_NO_LIBRARY, 0, 0}};
    PyObject *result;
    if (read_call(arguments, inputs, &r, operands)) {
        result = run(&r, operands);
    } else if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception)) {
        result = NULL; /* Ctrl-C */
    } else {
        PyErr_Clear(); /* Python's road says what is wrong, in its own order */
        result = Py_NotImplemented;
        Py_INCREF(result);
    }
    for (int i = 0; i <= GOP_MAX_INPUTS; i++) Py_XDECREF(operands[i].owner);
    return result;
}

static PyObject *quick(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    if (count >= GOP_QUICK_OPTIONS) return gop_quick(arguments, count - GOP_QUICK_OPTIONS);
    PyErr_SetString(PyExc_TypeError,
                    "quick: expected op, params, out, device, kernel, tunables, operands");
    return NULL;
}

/* quick_setup(DeviceArray, get_default_device, defaults, give_back, places) */
static PyObject *quick_setup(PyObject *module, PyObject *arguments)
{
    PyObject **const kept[] = {&device_array, &default_device, &defaults, &give_back, &places};
    PyObject *given[5];
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OOO!OO!:quick_setup", &given[0], &given[1], &PyDict_Type,
                          &given[2], &given[3], &PyDict_Type, &given[4]))
        return NULL;
    for (int i = 0; i < 5; i++) {
        Py_INCREF(given[i]);
        *kept[i] = given[i];
    }
    Py_RETURN_NONE;
}

/* probing(1) before a call that is timed or planned in place of being run, probing(-1) after.
 */
static PyObject *probing(PyObject *module, PyObject *argument)
{
    (void)module;
    const long change = PyLong_AsLong(argument);
    if (PyErr_Occurred()) return NULL;
    probes += (int)change;
    Py_RETURN_NONE;
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
    {"quick_setup", quick_setup, METH_VARARGS,
     "quick_setup(DeviceArray, get_default_device, defaults, give_back, {device: place})"},
    {"probing", probing, METH_O, "probing(1 or -1): while above 0, quick takes no call"},
    {NULL, NULL, 0, NULL}};
