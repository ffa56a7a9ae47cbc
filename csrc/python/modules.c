/*
 * modules.c - kernels that are compiled while the program runs: loads a module, launches them.
 */
#include "python/python.h"

typedef struct module {
    gop_device device;
    const gop_backend *backend;
    void *loaded;
} module;

static const char CAPSULE[] = "gpuops.module";
enum { MAX_ARGUMENTS = 256 };

static void end_module(PyObject *capsule)
{
    module *m = PyCapsule_GetPointer(capsule, CAPSULE);
    m->backend->unload(m->loaded);
    free(m);
}

/* load_module(device, image). The image is bytes; Python ends them with the zero that PTX and
 * sources need. */
static PyObject *load_module(PyObject *self, PyObject *arguments)
{
    PyObject *pair;
    const char *image;
    Py_ssize_t bytes;
    gop_ctx *ctx;
    module m;
    if (!PyArg_ParseTuple(arguments, "Oy#:load_module", &pair, &image, &bytes) ||
        gop_read_device(pair, &m.device) < 0 || gop_done(gop_context_of(m.device, &ctx)) < 0)
        return NULL;
    m.backend = ctx->backend;
    if (!m.backend->load)
        return PyErr_Format(PyExc_ValueError, "%s: this backend loads no compiled kernels",
                            m.backend->name);
    gop_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = m.backend->load(ctx, image, &m.loaded);
    Py_END_ALLOW_THREADS;
    if (status != GOP_OK) return gop_raise();
    module *const kept = malloc(sizeof m);
    PyObject *capsule = kept ? PyCapsule_New(kept, CAPSULE, end_module) : PyErr_NoMemory();
    if (capsule) *kept = m;
    else {
        free(kept);
        m.backend->unload(m.loaded);
    }
    return capsule;
}

/* describe_module(module): what the backend says of it. */
static PyObject *describe_module(PyObject *self, PyObject *capsule)
{
    const module *m = PyCapsule_GetPointer(capsule, CAPSULE);
    return m ? PyUnicode_FromString(m->backend->describe(m->loaded)) : NULL;
}

/* A Buffer is passed as its address, the value of a 0-d array as it is. */
static int read_addresses(PyObject *tuple, const void *pointers[], void *addresses[],
                          size_t bytes[])
{
    const Py_ssize_t count = PyTuple_Size(tuple);
    if (count < 0) return -1;
    if (count > MAX_ARGUMENTS)
        return gop_refuse(PyExc_ValueError, "launch: %zd arguments, expected at most %d", count,
                          MAX_ARGUMENTS);
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *argument = PyTuple_GetItem(tuple, i);
        const gop_array *array = gop_buffer_array(argument);
        if (array) {
            pointers[i] = array->data;
            addresses[i] = &pointers[i];
            bytes[i] = (size_t)gop_array_bytes(array);
        } else if (PyArray_Check(argument)) {
            addresses[i] = PyArray_DATA((PyArrayObject *)argument);
            bytes[i] = (size_t)PyArray_ITEMSIZE((PyArrayObject *)argument);
        } else
            return gop_refuse(PyExc_TypeError,
                              "launch: argument %zd is no Buffer and no ndarray", i);
    }
    return 0;
}

/* launch(module, name, symbol, grid, block, shared, arguments): returns when it is done. */
static PyObject *launch_module(PyObject *self, PyObject *arguments)
{
    PyObject *capsule, *values;
    Py_ssize_t shared;
    const void *pointers[MAX_ARGUMENTS];
    void *addresses[MAX_ARGUMENTS];
    size_t bytes[MAX_ARGUMENTS];
    gop_kernel_launch l;
    gop_ctx *ctx;
    if (!PyArg_ParseTuple(arguments, "Oss(III)(III)nO!:launch", &capsule, &l.name, &l.symbol,
                          &l.grid[0], &l.grid[1], &l.grid[2], &l.block[0], &l.block[1],
                          &l.block[2], &shared, &PyTuple_Type, &values))
        return NULL;
    const module *m = PyCapsule_GetPointer(capsule, CAPSULE);
    if (!m || read_addresses(values, pointers, addresses, bytes) < 0) return NULL;
    l.shared = (size_t)shared;
    l.arguments = addresses;
    l.bytes = bytes;
    gop_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = gop_context_of(m->device, &ctx);
    if (status == GOP_OK) {
        /* Its arguments are device arrays. */
        void *const before = gop_use_stream(ctx, GOP_DEFAULT_STREAM);
        status = ctx->backend->launch(ctx, m->loaded, &l);
        if (status == GOP_OK) status = ctx->backend->sync(ctx);
        gop_use_stream(ctx, before);
    }
    Py_END_ALLOW_THREADS;
    if (status != GOP_OK) return gop_raise();
    Py_RETURN_NONE;
}

PyMethodDef gop_module_functions[] = {
    {"load_module", load_module, METH_VARARGS, "load_module(device, image) -> module"},
    {"describe_module", describe_module, METH_O, "describe_module(module) -> str"},
    {"launch", launch_module, METH_VARARGS,
     "launch(module, name, symbol, grid, block, shared, arguments); waits for its end"},
    {NULL, NULL, 0, NULL}};
