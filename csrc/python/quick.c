/*
 * quick.c - the common call at once: plain arrays of one dtype, no kernel named.
 *
 * For arrays of few elements Python's own road (gpuops/_call/road.py) takes longer than the
 * work. This one takes the calls that need none of its decisions and gives the same result or
 * the same error; for every other call it says NotImplemented, and Python's road begins from
 * the start.
 */
#include "python/python.h"

static PyObject *device_array;   /* the class gpuops.DeviceArray, of Handles */
static PyObject *default_device; /* gpuops.get_default_device */
static PyObject *defaults;       /* gpuops.devices.defaults: empty, there is nothing to ask */
static PyObject *give_back;      /* gpuops.arrays.give_back */
static PyObject *places;       /* names of devices in use, and Devices: to (backend, ordinal) */
static PyObject *device_class; /* of those Devices */
static int probes;             /* under way, in any thread */

PyObject *gop_op_words[GOP_NOPS];

enum { MOST_INPUTS = 3, OUT = MOST_INPUTS, OPERANDS };

/* 1 for what may be an array that needs no conversion. Code of the caller's runs here. */
static int ask(PyObject *object, gop_foreign *foreign)
{
    const gop_backend *cuda;
    foreign->library = GOP_NO_LIBRARY;
    if (Py_TYPE(object) == &PyArray_Type || (PyObject *)Py_TYPE(object) == device_array)
        return 1;
    return gop_ask_foreign(object, foreign) && gop_backend_get(GOP_CUDA, &cuda) == GOP_OK;
}

/* The result for a DeviceArray of another library's memory would have to go there. */
static int read_device_array(PyObject *object, gop_array *array)
{
    PyObject *buffer = gop_handle_buffer(object);
    if (gop_buffer_borrowed(buffer)) return 0;
    gop_array_assign(array, gop_buffer_array(buffer));
    return 1;
}

typedef enum side { NOT_TAKEN, ON_HOST, ON_DEVICE } side;

/* Reads an array that needs no conversion, without running code of the caller's. */
static side read_operand(PyObject *object, const gop_foreign *foreign, gop_array *array)
{
    if (gop_plain_array(object, array)) return ON_HOST;
    const int read = (PyObject *)Py_TYPE(object) == device_array
                         ? read_device_array(object, array)
                         : foreign->library && gop_read_foreign(object, foreign, array);
    return read ? ON_DEVICE : NOT_TAKEN;
}

/* Whether the operation takes the dtype as it is. */
static int takes(int op, gop_dtype dtype)
{
    return op != GOP_OP_fma || gop_dtype_kind(dtype) == 'f';
}

/* The (backend, ordinal) that the call or a default asks for, a new reference; None where
 * nothing does, NULL where Python decides. Only words without code of their own are looked up.
 */
static PyObject *ask_device(PyObject *device)
{
    PyObject *asked = NULL, *place = NULL;
    if (device == Py_None && PyDict_Size(defaults) > 0)
        device = asked = PyObject_CallNoArgs(default_device);
    if (device == Py_None) place = Py_None;
    else if (device &&
             (PyUnicode_CheckExact(device) || (PyObject *)Py_TYPE(device) == device_class))
        place = PyDict_GetItemWithError(places, device);
    Py_XINCREF(place);
    Py_XDECREF(asked);
    return place;
}

/* The device of the call, by the order that gpuops/devices.py states; 0 where Python decides.
 */
static int find_device(gop_request *r, PyObject *place, int said)
{
    const gop_array *first = &r->call.in[0];
    if (!said && r->on_device) {
        for (int i = 0; i < r->call.nin; i++)
            if (r->call.in[i].where.backend != first->where.backend ||
                r->call.in[i].where.ordinal != first->where.ordinal)
                return 0;
        r->options.device = first->where;
        return 1;
    }
    if (place != Py_None) return gop_read_device(place, &r->options.device) == 0;
    r->options.device =
        (gop_device){GOP_CPU, 0}; /* a fixed rule, for operations of little work */
    return r->call.op != GOP_OP_matmul;
}

static int is_readonly(PyObject *object)
{
    return Py_TYPE(object) == &PyArray_Type && !PyArray_ISWRITEABLE((PyArrayObject *)object);
}

static int read_arrays(PyObject *const *arguments, gop_request *r, const gop_foreign *foreign)
{
    gop_call *call = &r->call;
    int on_device = 0;
    for (int i = 0; i < call->nin; i++) {
        const side where =
            read_operand(arguments[GOP_QUICK_OPTIONS + i], &foreign[i], &call->in[i]);
        if (where == NOT_TAKEN || call->in[i].dtype != call->in[0].dtype) return 0;
        on_device |= where == ON_DEVICE;
    }
    r->on_device = on_device;
    return !r->out || (!is_readonly(r->out) &&
                       read_operand(r->out, &foreign[OUT], &call->out[0]) != NOT_TAKEN);
}

/* The result as the caller gets it, an array of the first library among the operands'; takes
 * the reference to `made`. */
static PyObject *finish(const gop_request *r, const gop_foreign *foreign, PyObject *made)
{
    static const char *const kinds[] = {NULL, "cupy", "torch"};
    PyObject *result = made;
    if (r->out) return made;
    if (r->on_device) {
        gop_library library = GOP_NO_LIBRARY;
        for (int i = r->call.nin - 1; i >= 0; i--)
            if (foreign[i].library != GOP_NO_LIBRARY) library = foreign[i].library;
        result = library == GOP_NO_LIBRARY
                     ? gop_handle_new((PyTypeObject *)device_array, made, Py_None)
                     : PyObject_CallFunction(give_back, "Os", made, kinds[library]);
        Py_DECREF(made);
    } else if (r->call.op != GOP_OP_transpose) {
        result = PyArray_Return((PyArrayObject *)made); /* 0-d: a scalar */
    }
    return result;
}

static PyObject *run(gop_request *r, const gop_foreign *foreign)
{
    gop_status status;
    PyObject *made = gop_make_output(r);
    if (!made) return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = gop_run(&r->call, &r->options);
    Py_END_ALLOW_THREADS;
    if (status == GOP_OK) return finish(r, foreign, made);
    Py_DECREF(made);
    /* A result to be cast, perhaps, or to be repeated over a larger `out`. */
    if (status == GOP_BAD_TYPE || (r->out && status == GOP_BAD_ARGUMENT))
        Py_RETURN_NOTIMPLEMENTED;
    return gop_raise();
}

/* 1 once everything is read; 0, without an exception, where Python's road is to be taken. */
static int read_call(PyObject *const *arguments, Py_ssize_t inputs, gop_request *r,
                     gop_foreign *foreign)
{
    gop_call *call = &r->call;
    if (probes || arguments[GOP_QUICK_KERNEL] != Py_None ||
        arguments[GOP_QUICK_TUNABLES] != Py_None || !device_array)
        return 0;
    int op = 0;
    while (op < GOP_NOPS && gop_op_words[op] != arguments[GOP_QUICK_OP])
        op++; /* interned: one object each */
    if (op == GOP_NOPS || inputs < 1 || inputs > MOST_INPUTS) return 0;
    call->op = (gop_op)op;
    call->nin = (int)inputs;
    call->ntunables = 0;
    r->options.kernel = NULL;
    PyObject *out = arguments[GOP_QUICK_OUT], *params = arguments[GOP_QUICK_PARAMS];
    r->out = out == Py_None ? NULL : out;
    for (int i = 0; i < call->nin; i++)
        if (!ask(arguments[GOP_QUICK_OPTIONS + i], &foreign[i])) return 0;
    if (r->out && !ask(r->out, &foreign[OUT])) return 0;
    PyObject *place = ask_device(arguments[GOP_QUICK_DEVICE]);
    if (!place) return 0;
    /* Parameters are read knowing the arrays, and may run code: then the arrays are read anew.
     */
    const int said = arguments[GOP_QUICK_DEVICE] != Py_None;
    const int found = read_arrays(arguments, r, foreign) && takes(op, call->in[0].dtype) &&
                      gop_read_params(params, call) == 0 &&
                      (params == Py_None || read_arrays(arguments, r, foreign)) &&
                      find_device(r, place, said);
    Py_DECREF(place);
    return found;
}

PyObject *gop_quick(PyObject *const *arguments, Py_ssize_t inputs)
{
    gop_request r;
    gop_foreign foreign[OPERANDS];
    PyObject *result;
    for (int i = 0; i < OPERANDS; i++) foreign[i].owner = NULL;
    if (read_call(arguments, inputs, &r, foreign)) {
        result = run(&r, foreign);
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

static PyObject *quick(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    if (count >= GOP_QUICK_OPTIONS) return gop_quick(arguments, count - GOP_QUICK_OPTIONS);
    PyErr_SetString(PyExc_TypeError,
                    "quick: expected op, params, out, device, kernel, tunables, operands");
    return NULL;
}

/* quick_setup(DeviceArray, get_default_device, defaults, give_back, places, Device) */
static PyObject *quick_setup(PyObject *module, PyObject *arguments)
{
    PyObject **const kept[] = {&device_array, &default_device, &defaults,
                               &give_back,    &places,         &device_class};
    PyObject *given[6];
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OOO!OO!O:quick_setup", &given[0], &given[1], &PyDict_Type,
                          &given[2], &given[3], &PyDict_Type, &given[4], &given[5]))
        return NULL;
    for (int i = 0; i < 6; i++) {
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
     "quick_setup(DeviceArray, get_default_device, defaults, give_back, {device: place}, "
     "Device)"},
    {"probing", probing, METH_O, "probing(1 or -1): while above 0, quick takes no call"},
    {NULL, NULL, 0, NULL}};
