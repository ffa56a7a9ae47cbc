/*
 * module.c - gpuops._core: the typed door from Python to the road.
 */
#define GOP_IMPORTS_NUMPY
#include <pthread.h>

#include "core/arrays/norms.h"
#include "core/choice.h"
#include "core/host/memory.h"
#include "core/ops/reduce.h"
#include "cpu/runtime/levels.h"
#include "python/python.h"

/* ---- a call, read from Python's arguments ---- */

enum { ARGUMENTS = 7 }; /* op, inputs, params, out, device, kernel, tunables */

static int read_inputs(PyObject *inputs, gop_call *call)
{
    for (int i = 0; i < (int)PyTuple_Size(inputs); i++)
        if (gop_read_array(PyTuple_GetItem(inputs, i), &call->in[i], 0) < 0) return -1;
    return 0;
}

static int read_kernel(PyObject *kernel, gop_run_options *options)
{
    options->made = 0;
    options->kernel = kernel == Py_None ? NULL : PyUnicode_AsUTF8AndSize(kernel, NULL);
    return kernel == Py_None || options->kernel ? 0 : -1;
}

/* A pair is the package's own word for a device. */
static PyObject *device_named(PyObject *device)
{
    if (!PyTuple_CheckExact(device)) return gop_look_up_place(device);
    Py_INCREF(device);
    return device;
}

/* Arrays, parameters and device: what may run code comes between two readings of the arrays. */
static int read_whole_call(PyObject *inputs, PyObject *params, PyObject *device, gop_request *r)
{
    PyObject *named = device_named(device);
    int status = named ? read_inputs(inputs, &r->call) : -1;
    r->on_device = 0;
    for (int i = 0; i < r->call.nin; i++)
        if (gop_buffer_array(PyTuple_GetItem(inputs, i))) r->on_device |= 1u << i;
    if (status == 0) status = gop_read_params(params, &r->call);
    if (status == 0) status = gop_choose_place(r, named, device != Py_None);
    if (status >= 0) status = read_inputs(inputs, &r->call);
    Py_XDECREF(named);
    return status;
}

static int read_op(const char *name, PyObject *inputs, gop_call *call)
{
    if (!name || gop_read_op(name, &call->op) < 0) return -1;
    const Py_ssize_t count = PyTuple_Size(inputs);
    if (count < 0) return -1;
    if (count < 1 || count > GOP_MAX_INPUTS) {
        PyErr_Format(PyExc_TypeError, "%s: %zd inputs, expected 1 to %d", name, count,
                     GOP_MAX_INPUTS);
        return -1;
    }
    call->nin = (int)count;
    return 0;
}

static int read_request(PyObject *const *arguments, Py_ssize_t count, gop_request *r)
{
    if (count < ARGUMENTS) {
        PyErr_SetString(PyExc_TypeError,
                        "expected op, inputs, params, out, device, kernel, tunables");
        return -1;
    }
    if (read_op(PyUnicode_AsUTF8AndSize(arguments[0], NULL), arguments[1], &r->call) < 0 ||
        read_kernel(arguments[5], &r->options) < 0 ||
        gop_read_tunables(arguments[6], &r->call) < 0 ||
        read_whole_call(arguments[1], arguments[2], arguments[4], r) < 0)
        return -1;
    r->like = NULL;
    r->out = arguments[3] == Py_None ? NULL : arguments[3];
    return r->out ? gop_read_array(r->out, &r->call.out[0], 1) : 0;
}

int gop_infer_output(gop_request *r)
{
    gop_array inferred[GOP_MAX_OUTPUTS];
    gop_array *const out = &r->call.out[0], *const to = r->call.nout == 1 ? out : inferred;
    if (gop_infer_outputs(&r->call, to) != GOP_OK) return gop_raise(), -1;
    if (to != out) gop_array_assign(out, to);
    out->where = r->options.device;
    gop_lay_out(&r->call, out);
    return 0;
}

PyObject *gop_make_output(gop_request *r)
{
    if (r->out) {
        Py_INCREF(r->out);
        return r->out;
    }
    if (gop_infer_output(r) < 0) return NULL;
    r->options.made = r->call.nout == 1;
    gop_array *out = &r->call.out[0];
    const char *name = gop_call_name(&r->call);
    if (r->on_device) return gop_buffer_new(name, out, r->options.device);
    PyObject *made = r->like ? gop_new_like(out, r->like) : gop_new_ndarray(out);
    if (made || !PyErr_ExceptionMatches(PyExc_MemoryError)) return made;
    PyErr_Clear(); /* NumPy's sentence names neither the operation nor what is free */
    gop_no_memory(name, (size_t)gop_array_bytes(out));
    return gop_raise();
}

static PyObject *core_run(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    gop_request r;
    gop_status status;
    (void)module;
    if (read_request(arguments, count, &r) < 0) return NULL;
    PyObject *theirs = gop_make_theirs(&r, arguments[1]);
    if (!theirs && PyErr_Occurred()) return NULL;
    PyObject *out = theirs ? theirs : gop_make_output(&r);
    if (!out) return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = gop_run(&r.call, &r.options);
    Py_END_ALLOW_THREADS;
    if (status == GOP_OK) return gop_give(&r, arguments[1], out, theirs != NULL);
    Py_DECREF(out);
    return gop_raise();
}

static PyObject *core_plan(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    gop_request r;
    gop_explanation p;
    gop_device_info like; /* a GPU that is not there, as the last argument says it */
    const int imagined = count > ARGUMENTS;
    int weighed = GOP_MAX_CANDIDATES;
    (void)module;
    if (imagined && gop_read_like(arguments[ARGUMENTS], &like) < 0) return NULL;
    if (read_request(arguments, count, &r) < 0) return NULL;
    if (!r.out) {
        gop_array inferred[GOP_MAX_OUTPUTS];
        if (gop_infer_outputs(&r.call, inferred) != GOP_OK) return gop_raise();
        gop_array_assign(&r.call.out[0], &inferred[0]);
        r.call.out[0].data = NULL; /* nothing is run, so no memory is needed to plan */
        r.call.out[0].where = r.on_device ? r.options.device : (gop_device){GOP_CPU, 0};
        gop_lay_out(&r.call, &r.call.out[0]);
    }
    gop_status status;
    gop_weighed *const list = PyMem_Malloc(GOP_MAX_CANDIDATES * sizeof *list);
    if (!list) return PyErr_NoMemory();
    Py_BEGIN_ALLOW_THREADS;
    status = gop_explain(&r.call, &r.options, imagined ? &like : NULL, &p, list, &weighed);
    Py_END_ALLOW_THREADS;
    PyObject *candidates = status == GOP_OK ? gop_weighed_tuple(list, weighed) : NULL;
    PyMem_Free(list);
    if (status != GOP_OK) return gop_raise();
    return candidates ? gop_plan_dict(&r, &p, candidates) : NULL;
}

static PyObject *core_infer(PyObject *module, PyObject *arguments)
{
    PyObject *inputs, *params = Py_None;
    const char *name;
    gop_call call;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "sO!|O:infer", &name, &PyTuple_Type, &inputs, &params) ||
        read_op(name, inputs, &call) < 0 || read_inputs(inputs, &call) < 0 ||
        gop_read_params(params, &call) < 0)
        return NULL;
    if (gop_infer(&call) != GOP_OK) return gop_raise();
    return Py_BuildValue("NN", gop_descr(call.out[0].dtype),
                         gop_shape_tuple(call.out[0].ndim, call.out[0].shape));
}

/* choose(op, inputs, params, device, kernel) */
static PyObject *core_choose(PyObject *module, PyObject *arguments)
{
    PyObject *inputs, *params, *device, *kernel;
    const char *name;
    gop_request r;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "sO!OOO:choose", &name, &PyTuple_Type, &inputs, &params,
                          &device, &kernel) ||
        read_op(name, inputs, &r.call) < 0 || read_kernel(kernel, &r.options) < 0 ||
        read_whole_call(inputs, params, device, &r) < 0)
        return NULL;
    return gop_device_pair(r.options.device);
}

/* What can be said of a call without a device: also what is read from its data. */
static PyObject *core_check(PyObject *module, PyObject *arguments)
{
    PyObject *inputs, *params = Py_None;
    const char *name;
    gop_call call;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "sO!|O:check", &name, &PyTuple_Type, &inputs, &params) ||
        read_op(name, inputs, &call) < 0 || read_inputs(inputs, &call) < 0 ||
        gop_read_params(params, &call) < 0)
        return NULL;
    gop_status status;
    int64_t longest = 0;
    Py_BEGIN_ALLOW_THREADS;
    status = gop_infer(&call);
    if (status == GOP_OK) status = gop_check(&call, &longest);
    Py_END_ALLOW_THREADS;
    if (status != GOP_OK) return gop_raise();
    return PyLong_FromLongLong(longest);
}

/* norms(array (n,) or (n, k)) -> float64 (k,) */
static PyObject *norms(PyObject *module, PyObject *object)
{
    gop_array v, out = {.dtype = GOP_FLOAT64, .ndim = 1};
    (void)module;
    if (gop_read_array(object, &v, 0) < 0) return NULL;
    const int64_t size = gop_dtype_size(v.dtype), k = v.ndim == 2 ? v.shape[1] : 1;
    const gop_columns columns = {v.data,
                                 v.dtype,
                                 v.shape[0],
                                 k,
                                 v.strides[0] / size,
                                 v.ndim == 2 ? v.strides[1] / size : 0};
    out.shape[0] = k;
    gop_array_c_order(&out);
    PyObject *made = gop_new_ndarray(&out);
    double *work = made ? gop_alloc(8 * (size_t)gop_norms_work(columns.n, k)) : NULL;
    gop_status status = GOP_NO_MEMORY;
    if (made && !work) gop_no_memory("jacobi", 8 * (size_t)gop_norms_work(columns.n, k));
    Py_BEGIN_ALLOW_THREADS;
    if (work) status = gop_column_norms(&columns, work, out.data);
    Py_END_ALLOW_THREADS;
    gop_release(work);
    if (made && status != GOP_OK) {
        Py_CLEAR(made);
        gop_raise();
    }
    return made;
}

/* The samples of one phase, every fourth number from the first. */
static PyObject *samples(const double *first, long count)
{
    PyObject *list = PyList_New(count);
    for (long i = 0; list && i < count; i++) {
        PyObject *seconds = PyFloat_FromDouble(first[4 * i]);
        if (!seconds || PyList_SetItem(list, i, seconds) < 0) Py_CLEAR(list);
    }
    return list;
}

/* Adds a list for each phase to a plan, whose "kernel", the name of the row, moves to "name".
 */
static int add_times(PyObject *dict, const gop_times *times, long count)
{
    static const char *const phases[] = {"kernel", "upload", "download", "total"};
    _Static_assert(sizeof *times == 4 * sizeof(double), "a number for each phase");
    PyObject *name = PyMapping_GetItemString(dict, "kernel");
    int status = name ? PyDict_SetItemString(dict, "name", name) : -1;
    Py_XDECREF(name);
    for (int phase = 0; status == 0 && phase < 4; phase++) {
        PyObject *list = samples((const double *)times + phase, count);
        status = list ? PyDict_SetItemString(dict, phases[phase], list) : -1;
        Py_XDECREF(list);
    }
    return status;
}

/* time(the seven arguments of run, n_warmup, n_repeat, cold) */
static PyObject *timed(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    gop_request r;
    (void)module;
    if (count != ARGUMENTS + 3) {
        PyErr_SetString(PyExc_TypeError, "time: expected the arguments of run, then n_warmup, "
                                         "n_repeat, cold");
        return NULL;
    }
    if (read_request(arguments, count, &r) < 0) return NULL;
    const long n_warmup = PyLong_AsLong(arguments[ARGUMENTS]);
    const long n_repeat = PyLong_AsLong(arguments[ARGUMENTS + 1]);
    const int cold = PyObject_IsTrue(arguments[ARGUMENTS + 2]);
    if (PyErr_Occurred()) return NULL;
    if (n_warmup < 0 || n_repeat < 1 || n_repeat > 1000000 || n_warmup > 1000000) {
        PyErr_Format(PyExc_ValueError,
                     "time: n_warmup is %ld and n_repeat %ld, expected 0 to "
                     "1000000 and 1 to 1000000",
                     n_warmup, n_repeat);
        return NULL;
    }
    PyObject *out = gop_make_output(&r);
    if (!out) return NULL;
    gop_explanation p;
    gop_status status = GOP_OK;
    PyObject *result = NULL;
    gop_times *times = gop_alloc((size_t)n_repeat * sizeof *times);
    if (!times) {
        PyErr_NoMemory();
    } else {
        Py_BEGIN_ALLOW_THREADS;
        status = gop_time(&r.call, &r.options, (int)n_warmup, (int)n_repeat, cold, times, &p);
        Py_END_ALLOW_THREADS;
        result = status == GOP_OK ? gop_plan_dict(&r, &p, PyTuple_New(0)) : gop_raise();
    }
    if (result && add_times(result, times, n_repeat) < 0) Py_CLEAR(result);
    gop_release(times);
    Py_DECREF(out);
    return result;
}

/* ---- the module ---- */

static unsigned long main_thread; /* Python's: it alone runs signal handlers */

static void main_thread_after_fork(void)
{
    main_thread = PyThread_get_thread_ident(); /* the child has only this one */
}

static int find_main_thread(void)
{
    PyObject *threading = PyImport_ImportModule("threading");
    PyObject *thread = threading ? PyObject_CallMethod(threading, "main_thread", NULL) : NULL;
    PyObject *ident = thread ? PyObject_GetAttrString(thread, "ident") : NULL;
    if (ident) main_thread = PyLong_AsUnsignedLong(ident);
    Py_XDECREF(threading);
    Py_XDECREF(thread);
    Py_XDECREF(ident);
    pthread_atfork(NULL, NULL, main_thread_after_fork);
    return PyErr_Occurred() ? -1 : 0;
}

/* Asked between pieces of work, with the GIL released: 1 once a signal handler raised. Other
 * threads are never asked: none of them could be told, they would wait for the GIL in vain, and
 * at the interpreter's end that wait would end a daemon thread in the middle of its work. */
static int signals_pending(void)
{
    if (PyThread_get_thread_ident() != main_thread) return 0;
    PyGILState_STATE state = PyGILState_Ensure();
    const int raised = PyErr_CheckSignals() < 0;
    PyGILState_Release(state);
    return raised;
}

static PyMethodDef call_functions[] = {
    {"run", (PyCFunction)(void (*)(void))core_run, METH_FASTCALL,
     "run(op, inputs, params, out, device, kernel, tunables) -> out"},
    {"plan", (PyCFunction)(void (*)(void))core_plan, METH_FASTCALL,
     "plan(the arguments of run) -> dict; runs nothing"},
    {"time", (PyCFunction)(void (*)(void))timed, METH_FASTCALL,
     "time(the arguments of run, n_warmup, n_repeat, cold) -> dict of lists of seconds"},
    {"choose", core_choose, METH_VARARGS,
     "choose(op, inputs, params, device, kernel) -> device; runs nothing"},
    {"infer", core_infer, METH_VARARGS, "infer(op, inputs, params) -> dtype, shape"},
    {"check", core_check, METH_VARARGS, "check(op, inputs, params): raises what a call would"},
    {"norms", norms, METH_O, "norms(floats (n,) or (n, k)) -> 2-norms of the columns"},
    {NULL, NULL, 0, NULL}};

static int module_exec(PyObject *module)
{
    /* It has one interpreter's static memory. The slot that says so came with Python 3.12. */
    if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0) {
        PyErr_SetString(PyExc_ImportError,
                        "gpuops: cannot be imported in a subinterpreter, only "
                        "in the main interpreter of a process");
        return -1;
    }
    if (gop_levels_check() != GOP_OK) {
        PyErr_SetString(PyExc_ImportError, gop_error_get()->message);
        return -1;
    }
    if (PyArray_ImportNumPyAPI() < 0) return -1;
    if (gop_params_ready() < 0 || gop_buffer_ready(module) < 0 ||
        gop_handle_ready(module) < 0 || find_main_thread() < 0)
        return -1;
    if (gop_place_ready() < 0 || gop_quick_ready() < 0 || gop_front_ready() < 0) return -1;
    PyMethodDef *const functions[] = {
        gop_buffer_functions,  gop_table_functions,   gop_module_functions,
        gop_quick_functions,   gop_front_functions,   gop_place_functions,
        gop_promote_functions, gop_foreign_functions, gop_exact_functions};
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (PyModule_AddFunctions(module, functions[i]) < 0) return -1;
    gop_interrupt_hook = signals_pending;
    gop_fault_set(getenv("GPUOPS_FAULT"));
    return 0;
}

/* Without Py_mod_gil: what is filled after the import, marked "by the GIL", relies on it. */
PyMODINIT_FUNC PyInit__core(void)
{
    static PyModuleDef_Slot slots[] = {{Py_mod_exec, module_exec}, {0, NULL}};
    static PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "gpuops._core",
                                     .m_doc = "The C core of gpuops; use the package gpuops.",
                                     .m_methods = call_functions, .m_slots = slots};
    return PyModuleDef_Init(&definition);
}
