/*
 * module.c - the module gpuops._core, through which Python calls the core.
 */
#include <pthread.h>

#include "core/choice.h"
#include "core/host/memory.h"
#include "cpu/runtime/levels.h"
#include "python/python.h"

/* ---- a call as Python's own functions give it ---- */

enum { ARGUMENTS = 7 }; /* op, inputs, params, out, device, kernel, tunables */

static int read_request(PyObject *const *arguments, Py_ssize_t count, gop_request *r)
{
    gop_request_begin(r);
    if (count < ARGUMENTS) {
        PyErr_SetString(PyExc_TypeError,
                        "expected op, inputs, params, out, device, kernel, tunables");
        return -1;
    }
    r->is_strict = 1;
    if (gop_request_given(r, arguments[0], arguments[1], arguments[2]) < 0) return -1;
    r->out = r->target = arguments[3] == Py_None ? NULL : arguments[3];
    r->device = arguments[4];
    r->tunables = arguments[6];
    if (arguments[5] == Py_None) return 0;
    r->options.kernel = PyUnicode_AsUTF8AndSize(arguments[5], NULL);
    return r->options.kernel ? 0 : -1;
}

static PyObject *core_run(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    gop_request r;
    PyObject *result = read_request(arguments, count, &r) == 0 ? gop_request_run(&r) : NULL;
    gop_request_end(&r);
    return result;
}

static PyObject *core_plan(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    gop_request r;
    PyObject *said =
        read_request(arguments, count, &r) == 0 ? gop_request_plan(&r, NULL) : NULL;
    gop_request_end(&r);
    return said;
}

/* time(the seven arguments of run, n_warmup, n_repeat, cold) */
static PyObject *core_time(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    gop_request r;
    PyObject *said = NULL;
    if (count != ARGUMENTS + 3) {
        PyErr_SetString(PyExc_TypeError, "time: expected the arguments of run, then n_warmup, "
                                         "n_repeat, cold");
        return NULL;
    }
    if (read_request(arguments, count, &r) == 0)
        said = gop_request_time(&r, arguments[ARGUMENTS], arguments[ARGUMENTS + 1],
                                arguments[ARGUMENTS + 2]);
    gop_request_end(&r);
    return said;
}

/* Operands and parameters without a device, and what is inferred of them. */
static int read_and_infer(PyObject *arguments, const char *format, gop_request *r)
{
    PyObject *op, *inputs, *params = Py_None;
    gop_request_begin(r);
    if (!PyArg_ParseTuple(arguments, format, &op, &PyTuple_Type, &inputs, &params) ||
        gop_request_given(r, op, inputs, params) < 0 || gop_read_inputs(r) < 0 ||
        gop_read_params(params, &r->call) < 0)
        return -1;
    return gop_infer(&r->call) == GOP_OK ? 0 : (gop_raise(), -1);
}

static PyObject *core_infer(PyObject *module, PyObject *arguments)
{
    gop_request r;
    const int status = read_and_infer(arguments, "OO!|O:infer", &r);
    gop_request_end(&r);
    if (status < 0) return NULL;
    return Py_BuildValue("NN", gop_descr(r.call.out[0].dtype),
                         gop_shape_tuple(r.call.out[0].ndim, r.call.out[0].shape));
}

/* Checks what can be checked without a device, also in the data. */
static PyObject *core_check(PyObject *module, PyObject *arguments)
{
    gop_request r;
    gop_status status = GOP_OK;
    int64_t longest = 0;
    const int read = read_and_infer(arguments, "OO!|O:check", &r);
    if (read == 0) {
        Py_BEGIN_ALLOW_THREADS;
        status = gop_check(&r.call, &longest);
        Py_END_ALLOW_THREADS;
    }
    gop_request_end(&r);
    if (read < 0) return NULL;
    return status == GOP_OK ? PyLong_FromLongLong(longest) : gop_raise();
}

/* ---- the module ---- */

static unsigned long main_thread; /* Python's, the only one that runs signal handlers */

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

/* Called between pieces of work, with the GIL released: 1 once a signal handler has raised.
 * Other threads never run signal handlers. They would wait for the GIL in vain, and at the
 * interpreter's end that wait would stop a daemon thread in the middle of its work. */
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
    {"time", (PyCFunction)(void (*)(void))core_time, METH_FASTCALL,
     "time(the arguments of run, n_warmup, n_repeat, cold) -> dict of lists of seconds"},
    {"infer", core_infer, METH_VARARGS, "infer(op, inputs, params) -> dtype, shape"},
    {"check", core_check, METH_VARARGS, "check(op, inputs, params): raises what a call would"},
    {NULL, NULL, 0, NULL}};

static int module_exec(PyObject *module)
{
    /* Its static memory serves one interpreter. The slot that says so came with Python 3.12. */
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
    if (gop_numpy_ready() < 0) return -1;
    if (gop_words_ready() < 0 || gop_buffer_ready(module) < 0 || find_main_thread() < 0 ||
        gop_place_ready() < 0 || gop_call_ready(module) < 0)
        return -1;
    PyMethodDef *const functions[] = {gop_buffer_functions,  gop_table_functions,
                                      gop_module_functions,  gop_ask_functions,
                                      gop_front_functions,   gop_place_functions,
                                      gop_numeric_functions, gop_foreign_functions};
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (PyModule_AddFunctions(module, functions[i]) < 0) return -1;
    gop_interrupt_hook = signals_pending;
    gop_fault_set(getenv("GPUOPS_FAULT"));
    return 0;
}

/* There is no Py_mod_gil: what is filled after the import relies on the GIL. */
PyMODINIT_FUNC PyInit__core(void)
{
    static PyModuleDef_Slot slots[] = {{Py_mod_exec, module_exec}, {0, NULL}};
    static PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "gpuops._core",
                                     .m_doc = "The C core of gpuops; use the package gpuops.",
                                     .m_methods = call_functions, .m_slots = slots};
    return PyModuleDef_Init(&definition);
}
