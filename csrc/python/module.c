/*
 * module.c - the module gpuops._core, through which Python calls the core.
 */
#define GOP_IMPORTS_NUMPY
#include <pthread.h>

#include "core/choice.h"
#include "core/host/memory.h"
#include "cpu/runtime/levels.h"
#include "python/python.h"

/* ---- the module ---- */

static unsigned long main_thread; /* Python's, the only one that runs signal handlers */

static void main_thread_after_fork(void)
{
    main_thread = PyThread_get_thread_ident(); /* the child has only this one */
}

static int find_main_thread(void)
{
    PyObject *find = gop_import("threading", "main_thread");
    PyObject *thread = find ? PyObject_CallNoArgs(find) : NULL;
    PyObject *ident = thread ? PyObject_GetAttrString(thread, "ident") : NULL;
    if (ident) main_thread = PyLong_AsUnsignedLong(ident);
    Py_XDECREF(find);
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

/* ---- what backends keep from process to process: gpuops/_compile/cache.py ---- */

/* The function's answer. Takes the reference to `made`. */
static PyObject *ask_cache(const char *function, const char *key, PyObject *made)
{
    PyObject *ask = gop_import("gpuops._compile.cache", function);
    PyObject *stamp = PyUnicode_DecodeUTF8(key, (Py_ssize_t)strlen(key), "replace");
    PyObject *answer =
        ask && stamp ? PyObject_CallFunctionObjArgs(ask, stamp, made, NULL) : NULL;
    Py_XDECREF(ask);
    Py_XDECREF(stamp);
    Py_XDECREF(made);
    return answer;
}

/* Whatever else fails, Python has ignored. */
static gop_status answered(PyObject *answer, PyGILState_STATE state)
{
    const gop_status status = answer ? GOP_OK : gop_fail(GOP_INTERRUPTED, "interrupted");
    Py_XDECREF(answer);
    PyGILState_Release(state);
    return status;
}

static gop_status recall(const char *key, void **made, size_t *bytes)
{
    const PyGILState_STATE state = PyGILState_Ensure();
    PyObject *const found = ask_cache("recall", key, NULL);
    char *content;
    Py_ssize_t count;
    if (found && found != Py_None && PyBytes_AsStringAndSize(found, &content, &count) == 0 &&
        (*made = gop_alloc((size_t)count))) {
        memcpy(*made, content, (size_t)count);
        *bytes = (size_t)count;
    }
    return answered(found, state);
}

static gop_status keep(const char *key, const void *made, size_t bytes)
{
    const PyGILState_STATE state = PyGILState_Ensure();
    PyObject *const copy = PyBytes_FromStringAndSize(made, (Py_ssize_t)bytes);
    return answered(copy ? ask_cache("keep", key, copy) : NULL, state);
}

static int module_exec(PyObject *module)
{
    /* Its static memory serves one interpreter. The slot that says so came with Python 3.12. */
    if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0)
        return gop_refuse(PyExc_ImportError,
                          "gpuops: cannot be imported in a subinterpreter, only "
                          "in the main interpreter of a process");
    if (gop_levels_check() != GOP_OK)
        return gop_refuse(PyExc_ImportError, "%s", gop_error_get()->message);
    if (PyArray_ImportNumPyAPI() < 0 || gop_words_ready() < 0 || gop_buffer_ready(module) < 0 ||
        find_main_thread() < 0 || gop_request_ready() < 0 || gop_call_ready(module) < 0)
        return -1;
    PyMethodDef *const functions[] = {
        gop_call_functions, gop_buffer_functions, gop_table_functions,   gop_module_functions,
        gop_ask_functions,  gop_front_functions,  gop_numeric_functions, gop_foreign_functions};
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (PyModule_AddFunctions(module, functions[i]) < 0) return -1;
    gop_interrupt_hook = signals_pending;
    gop_recall_hook = recall;
    gop_keep_hook = keep;
    gop_fault_set(getenv("GPUOPS_FAULT"));
    return 0;
}

/* There is no Py_mod_gil: what is filled after the import relies on the GIL. */
PyMODINIT_FUNC PyInit__core(void)
{
    static PyModuleDef_Slot slots[] = {{Py_mod_exec, module_exec}, {0, NULL}};
    static PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "gpuops._core",
                                     .m_doc = "The C core of gpuops; use the package gpuops.",
                                     .m_slots = slots};
    return PyModuleDef_Init(&definition);
}
