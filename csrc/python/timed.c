/*
 * timed.c - plans and times a request, for explain, ladder and benchmark.
 */
#include "core/choice.h"
#include "core/host/memory.h"
#include "python/python.h"

/* Reads the facts of a GPU that is not there, as gpuops/_show/gpus.py has them. */
static int read_like(PyObject *facts, gop_device_info *info)
{
    const char *name;
    long long memory, l2, shared;
    memset(info, 0, sizeof *info);
    if (!PyArg_ParseTuple(facts, "s(ii)iLLLdd:like", &name, &info->major, &info->minor,
                          &info->processors, &memory, &l2, &shared, &info->clock,
                          &info->bandwidth))
        return -1;
    PyOS_snprintf(info->name, sizeof info->name, "%.127s", name);
    info->max_threads_per_block = 1024; /* of every GPU since 2010 */
    info->warp = 32;
    info->memory = memory;
    info->memory_free = -1;
    info->l2 = l2;
    info->shared_per_block = shared;
    return 0;
}

/* A tuple for each kernel that could be chosen. */
static PyObject *weighed_tuple(const gop_weighed *list, int count)
{
    PyObject *all = PyTuple_New(count);
    for (int i = 0; i < count && all; i++) {
        const gop_weighed *w = &list[i];
        PyObject *one =
            Py_BuildValue("(sdzzs)", w->kernel, w->seconds, w->when, w->why, w->refusal);
        if (one) PyTuple_SetItem(all, i, one);
        else Py_CLEAR(all);
    }
    return all;
}

/* Takes the reference to the candidates. */
static PyObject *plan_dict(const gop_request *r, const gop_explanation *plan,
                           PyObject *candidates)
{
    return Py_BuildValue(
        "{s:N,s:N,s:s,s:d,s:d,s:L,s:d,s:n,s:n,s:n,s:s}", "candidates", candidates, "device",
        gop_device_pair(r->options.device), "kernel", plan->kernel, "bytes", plan->bytes,
        "sector_bytes", plan->sector_bytes, "launches", (long long)plan->launches, "flops",
        plan->flops, "upload_bytes", (Py_ssize_t)plan->upload_bytes, "download_bytes",
        (Py_ssize_t)plan->download_bytes, "scratch_bytes", (Py_ssize_t)plan->scratch_bytes,
        "precision", gop_precision_name(plan->precision));
}

/* A plan runs nothing, so its output needs no memory. */
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

PyObject *gop_request_plan(gop_request *r, PyObject *facts)
{
    gop_device_info like;
    gop_explanation p;
    int weighed = GOP_MAX_CANDIDATES;
    if (facts && read_like(facts, &like) < 0) return NULL;
    if (gop_request_settle(r) < 0 || imagine_output(r) < 0) return NULL;
    gop_status status;
    gop_weighed *const list = PyMem_Malloc(GOP_MAX_CANDIDATES * sizeof *list);
    if (!list) return PyErr_NoMemory();
    Py_BEGIN_ALLOW_THREADS;
    status = gop_explain(&r->call, &r->options, facts ? &like : NULL, &p, list, &weighed);
    Py_END_ALLOW_THREADS;
    PyObject *candidates = status == GOP_OK ? weighed_tuple(list, weighed) : NULL;
    PyMem_Free(list);
    if (status != GOP_OK) return gop_raise();
    return candidates ? plan_dict(r, &p, candidates) : NULL;
}

/* The samples of one phase: every fourth number from `first` on. */
static PyObject *samples(const double *first, long count)
{
    PyObject *list = PyList_New(count);
    for (long i = 0; list && i < count; i++) {
        PyObject *seconds = PyFloat_FromDouble(first[4 * i]);
        if (!seconds || PyList_SetItem(list, i, seconds) < 0) Py_CLEAR(list);
    }
    return list;
}

/* Adds a list for each phase to a plan. Its "kernel", the name of the row, becomes "name". */
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
        result = status == GOP_OK ? plan_dict(r, &p, PyTuple_New(0)) : gop_raise();
    }
    if (result && add_times(result, times, n_repeat) < 0) Py_CLEAR(result);
    gop_release(times);
    Py_XDECREF(made);
    return result;
}
