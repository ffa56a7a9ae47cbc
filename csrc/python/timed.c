/*
 * timed.c - a request planned, and timed: what explain, ladder and benchmark tell.
 */
#include "core/choice.h"
#include "core/host/memory.h"
#include "python/python.h"

/* Nothing is run, so no memory is needed. */
static int imagine_output(gop_request *r)
{
    gop_array inferred[GOP_MAX_OUTPUTS];
    if (gop_infer_outputs(&r->call, inferred) != GOP_OK) return gop_raise(), -1;
    gop_array_assign(&r->call.out[0], &inferred[0]);
    r->call.out[0].data = NULL;
    r->call.out[0].where = r->on_device ? r->options.device : (gop_device){GOP_CPU, 0};
    gop_lay_out(&r->call, &r->call.out[0]);
    return 0;
}

PyObject *gop_request_plan(gop_request *r, const gop_device_info *like)
{
    gop_explanation p;
    int weighed = GOP_MAX_CANDIDATES;
    if (gop_request_settle(r) < 0 || imagine_output(r) < 0) return NULL;
    gop_status status;
    gop_weighed *const list = PyMem_Malloc(GOP_MAX_CANDIDATES * sizeof *list);
    if (!list) return PyErr_NoMemory();
    Py_BEGIN_ALLOW_THREADS;
    status = gop_explain(&r->call, &r->options, like, &p, list, &weighed);
    Py_END_ALLOW_THREADS;
    PyObject *candidates = status == GOP_OK ? gop_weighed_tuple(list, weighed) : NULL;
    PyMem_Free(list);
    if (status != GOP_OK) return gop_raise();
    return candidates ? gop_plan_dict(r, &p, candidates) : NULL;
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

PyObject *gop_request_time(gop_request *r, PyObject *warmup, PyObject *repeat, PyObject *cold)
{
    if (gop_request_settle(r) < 0) return NULL;
    if (r->is_strict && r->out && gop_read_array(r->out, &r->call.out[0], 1) < 0) return NULL;
    const long n_warmup = PyLong_AsLong(warmup), n_repeat = PyLong_AsLong(repeat);
    const int is_cold = PyObject_IsTrue(cold);
    if (PyErr_Occurred()) return NULL;
    if (n_warmup < 0 || n_repeat < 1 || n_repeat > 1000000 || n_warmup > 1000000) {
        PyErr_Format(PyExc_ValueError,
                     "time: n_warmup is %ld and n_repeat %ld, expected 0 to "
                     "1000000 and 1 to 1000000",
                     n_warmup, n_repeat);
        return NULL;
    }
    PyObject *made = r->is_strict && r->out ? NULL : gop_make_output(r), *result = NULL;
    if (!made && PyErr_Occurred()) return NULL;
    gop_explanation p;
    gop_status status = GOP_OK;
    gop_times *times = gop_alloc((size_t)n_repeat * sizeof *times);
    if (!times) {
        PyErr_NoMemory();
    } else {
        Py_BEGIN_ALLOW_THREADS;
        status =
            gop_time(&r->call, &r->options, (int)n_warmup, (int)n_repeat, is_cold, times, &p);
        Py_END_ALLOW_THREADS;
        result = status == GOP_OK ? gop_plan_dict(r, &p, PyTuple_New(0)) : gop_raise();
    }
    if (result && add_times(result, times, n_repeat) < 0) Py_CLEAR(result);
    gop_release(times);
    Py_XDECREF(made);
    return result;
}
