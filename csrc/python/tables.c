/*
 * tables.c - tells Python of ladders, devices, threads and levels, and changes settings.
 */
#include "core/choice.h"
#include "core/host/memory.h"
#include "cpu/runtime/levels.h"
#include "core/ops/reduce.h"
#include "python/python.h"

/* Appends an object, whose reference it takes; NULL means that making it failed. */
static int append(PyObject *list, PyObject *made)
{
    const int status = made ? PyList_Append(list, made) : -1;
    Py_XDECREF(made);
    return status;
}

/* The dtypes that the row takes, a tuple. */
static PyObject *dtypes_of(const gop_row *row)
{
    PyObject *list = PyList_New(0), *names = NULL;
    int made = list != NULL;
    for (int d = 0; d < GOP_NDTYPES && made; d++)
        if (gop_row_takes(row, (gop_dtype)d))
            made = append(list, PyUnicode_FromString(gop_dtype_name((gop_dtype)d))) == 0;
    if (made) names = PyList_AsTuple(list);
    Py_XDECREF(list);
    return names;
}

/* {name: the values it may have} */
static PyObject *tunables_of(const gop_row *row)
{
    PyObject *dict = PyDict_New();
    for (int t = 0; dict && t < GOP_MAX_TUNABLES && row->tunables[t].name; t++) {
        PyObject *values = gop_shape_tuple(row->tunables[t].count, row->tunables[t].values);
        if (!values || PyDict_SetItemString(dict, row->tunables[t].name, values) < 0)
            Py_CLEAR(dict);
        Py_XDECREF(values);
    }
    return dict;
}

/* Whether a row may be chosen: the ladder's choice says so. */
static int is_production(const gop_ladder *ladder, const gop_row *row)
{
    const gop_choice *choice = ladder->choice;
    if (row->role != GOP_CONFORMING) return 0;
    for (int c = 0; c < choice->count; c++)
        if (choice->candidates[c].row == row) return 1;
    return 0;
}

static const char *role_of(const gop_ladder *ladder, const gop_row *row)
{
    static const char *const roles[] = {"lesson", "teaching", "yardstick", "candidate"};
    return is_production(ladder, row) ? "production" : roles[row->role];
}

/* Lessons come first, then production rows, then yardsticks. */
static int section_of(const gop_ladder *ladder, const gop_row *row)
{
    if (row->role == GOP_YARDSTICK) return 2;
    return row->role == GOP_CANDIDATE || is_production(ladder, row);
}

static PyObject *row_dict(const gop_ladder *ladder, const gop_row *row)
{
    PyObject *dtypes = dtypes_of(row), *tunables = dtypes ? tunables_of(row) : NULL;
    PyObject *dict = NULL;
    if (tunables)
        dict = Py_BuildValue("{s:s,s:s,s:s,s:z,s:z,s:O,s:O}", "name", row->name, "note",
                             row->note, "role", role_of(ladder, row), "caveat", row->caveat,
                             "lecture", row->lecture, "dtypes", dtypes, "tunables", tunables);
    Py_XDECREF(dtypes);
    Py_XDECREF(tunables);
    return dict;
}

static PyObject *ladder(PyObject *module, PyObject *arguments)
{
    const char *op_name, *backend_name;
    gop_op op;
    const gop_backend *backend;
    if (!PyArg_ParseTuple(arguments, "ss:ladder", &op_name, &backend_name) ||
        gop_read_op(op_name, &op) < 0 || !(backend = gop_backend_of(backend_name)))
        return NULL;
    const gop_ladder *rows = backend->ladder(op);
    PyObject *list = PyList_New(0);
    for (int section = 0; section < 3; section++)
        for (int i = 0; list && i < rows->count; i++)
            if (section_of(rows, rows->rows[i]) == section &&
                append(list, row_dict(rows, rows->rows[i])) < 0)
                Py_CLEAR(list);
    return list;
}

/* set_tuned(op, backend, device, kernel, tunables) -> bool */
static PyObject *set_tuned(PyObject *module, PyObject *arguments)
{
    const char *op, *name, *device, *kernel;
    PyObject *tunables;
    const gop_backend *backend;
    gop_call call = {.ntunables = 0};
    if (!PyArg_ParseTuple(arguments, "ssssO!:set_tuned", &op, &name, &device, &kernel,
                          &PyDict_Type, &tunables) ||
        gop_read_op(op, &call.op) < 0 || gop_read_tunables(tunables, &call) < 0 ||
        !(backend = gop_backend_of(name)))
        return NULL;
    return PyBool_FromLong(gop_set_tuned(backend, device, kernel, &call));
}

static PyObject *devices(PyObject *module, PyObject *argument)
{
    const char *name = PyUnicode_AsUTF8AndSize(argument, NULL);
    const gop_backend *const backend = name ? gop_backend_of(name) : NULL;
    int count = 0;
    if (!backend || gop_done(backend->count(&count)) < 0) return NULL;
    PyObject *list = PyList_New(0);
    for (int i = 0; list && i < count; i++) {
        gop_device_info info;
        if (backend->info(i, &info) != GOP_OK) {
            Py_DECREF(list);
            return gop_raise();
        }
        PyObject *device = Py_BuildValue(
            "{s:s,s:i,s:i,s:i,s:i,s:i,s:L,s:L,s:L,s:L,s:s}", "name", info.name, "major",
            info.major, "minor", info.minor, "processors", info.processors,
            "max_threads_per_block", info.max_threads_per_block, "warp", info.warp,
            "shared_per_block", (long long)info.shared_per_block, "memory",
            (long long)info.memory, "memory_free", (long long)info.memory_free, "l2",
            (long long)info.l2, "detail", info.detail);
        if (append(list, device) < 0) Py_CLEAR(list);
    }
    return list;
}

static PyObject *ops(PyObject *module, PyObject *unused)
{
    PyObject *dict = PyDict_New();
    for (int i = 0; dict && i < GOP_NOPS; i++) {
        const gop_descriptor *op = gop_descriptor_of((gop_op)i);
        PyObject *stem = PyUnicode_FromString(op->stem);
        if (!stem || PyDict_SetItemString(dict, op->name, stem) < 0) Py_CLEAR(dict);
        Py_XDECREF(stem);
    }
    return dict;
}

static PyObject *reductions(PyObject *module, PyObject *unused)
{
    PyObject *list = PyList_New(0);
    for (int op = 0; list && op < GOP_SUMSQ; op++)
        if (append(list, PyUnicode_FromString(gop_reduction_name((gop_reduce_op)op))) < 0)
            Py_CLEAR(list);
    return list;
}

static PyObject *load_backend(PyObject *module, PyObject *arguments)
{
    const char *name, *path;
    if (!PyArg_ParseTuple(arguments, "ss:load_backend", &name, &path)) return NULL;
    if (gop_backend_load(name, path) != GOP_OK) return gop_raise();
    Py_RETURN_NONE;
}

/* Starts counting on a backend. Or stops, and returns what was counted as JSON. */
static PyObject *profile(PyObject *module, PyObject *arguments)
{
    const char *name;
    int start;
    const gop_backend *backend;
    if (!PyArg_ParseTuple(arguments, "sp:profile", &name, &start) ||
        !(backend = gop_backend_of(name)))
        return NULL;
    if (!backend->profile)
        return PyErr_Format(PyExc_ValueError, "the backend '%s' does not count what kernels do",
                            name);
    const char *text = backend->profile(start);
    return PyUnicode_FromString(text ? text : "[]");
}

/* ---- settings ---- */

static PyObject *threads(PyObject *module, PyObject *unused)
{
    return PyLong_FromLong(gop_threads());
}

static PyObject *set_threads(PyObject *module, PyObject *argument)
{
    const long count = argument == Py_None ? 0 : PyLong_AsLong(argument);
    if (PyErr_Occurred()) return NULL;
    if (count < 0 || count > 256 || (argument != Py_None && count == 0))
        return PyErr_Format(PyExc_ValueError,
                            "set_threads: %ld threads, expected 1 to 256 or None", count);
    gop_threads_set((int)count);
    Py_RETURN_NONE;
}

static PyObject *cpu_level(PyObject *module, PyObject *unused)
{
    gop_level level = GOP_BASELINE;
    if (gop_level_get(&level) != GOP_OK) return gop_raise();
    return PyUnicode_FromString(gop_level_names[level]);
}

static PyObject *set_cpu_level(PyObject *module, PyObject *argument)
{
    const char *name = argument == Py_None ? NULL : PyUnicode_AsUTF8AndSize(argument, NULL);
    if (PyErr_Occurred()) return NULL;
    if (gop_level_set(name) != GOP_OK) return gop_raise();
    Py_RETURN_NONE;
}

static PyObject *cpu_levels(PyObject *module, PyObject *unused)
{
    PyObject *list = PyList_New(0);
    for (int l = 0; list && l < GOP_NLEVELS; l++) {
        if (!gop_level_supported((gop_level)l)) continue;
        if (append(list, PyUnicode_FromString(gop_level_names[l])) < 0) Py_CLEAR(list);
    }
    return list;
}

static PyObject *set_fault(PyObject *module, PyObject *argument)
{
    const char *spec = argument == Py_None ? NULL : PyUnicode_AsUTF8AndSize(argument, NULL);
    if (PyErr_Occurred()) return NULL;
    gop_fault_set(spec);
    Py_RETURN_NONE;
}

PyMethodDef gop_table_functions[] = {
    {"ladder", ladder, METH_VARARGS,
     "ladder(op, backend) -> a dict for each row: lessons, production, yardsticks"},
    {"set_tuned", set_tuned, METH_VARARGS,
     "set_tuned(op, backend, device, kernel, tunables) -> whether there are such"},
    {"devices", devices, METH_O, "devices(backend) -> a dict for each device"},
    {"ops", ops, METH_NOARGS, "ops() -> the names of the operations, each with its stem"},
    {"reductions", reductions, METH_NOARGS, "reductions() -> what reduce can do, by name"},
    {"load_backend", load_backend, METH_VARARGS, "load_backend(name, path)"},
    {"profile", profile, METH_VARARGS, "profile(backend, start) -> JSON, once stopped"},
    {"threads", threads, METH_NOARGS, "threads() -> how many CPU threads are used"},
    {"set_threads", set_threads, METH_O, "set_threads(count or None)"},
    {"cpu_level", cpu_level, METH_NOARGS, "cpu_level() -> the instruction-set level in use"},
    {"set_cpu_level", set_cpu_level, METH_O, "set_cpu_level(name or None)"},
    {"cpu_levels", cpu_levels, METH_NOARGS, "cpu_levels() -> the levels this processor has"},
    {"register_bfloat16", gop_register_bfloat16, METH_O, "register_bfloat16(dtype)"},
    {"set_fault", set_fault, METH_O, "set_fault('site:n[:forever]' or None): for tests"},
    {NULL, NULL, 0, NULL}};
