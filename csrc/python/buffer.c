/*
 * buffer.c - device arrays. A Buffer is memory of a device, owned or borrowed; a Handle is a
 * Buffer and the library that its memory came from. gpuops.DeviceArray is a Handle, so that
 * device arrays are made and read without asking Python.
 */
#include "core/arrays/cast.h"
#include "core/host/memory.h"
#include "core/road/road.h"
#include "python/dlpack.h"
#include "python/python.h"

#include <structmember.h>

typedef struct buffer {
    PyObject_HEAD gop_array array;
    void *memory;    /* owned, to be given back to the device; NULL when borrowed */
    size_t bytes;    /* of it, as were asked for */
    PyObject *owner; /* keeps borrowed memory alive */
    int readonly;
    int shared; /* streams other than the default one may use the memory until it is freed */
} buffer;

static PyTypeObject *buffer_type;

typedef struct handle {
    PyObject_HEAD PyObject *buffer;
    PyObject *kind; /* "cupy", ...; None for memory of our own */
} handle;

static PyTypeObject *handle_type;

/* The Buffer of a Handle; any other object is returned as it is. */
static PyObject *handle_buffer(PyObject *object)
{
    const int is_handle =
        gop_is_device_array(object) || PyObject_TypeCheck(object, handle_type);
    return is_handle ? ((handle *)object)->buffer : object;
}

const gop_array *gop_buffer_array(PyObject *object)
{
    object = handle_buffer(object);
    return Py_TYPE(object) == buffer_type ? &((buffer *)object)->array : NULL;
}

int gop_buffer_readonly(PyObject *object)
{
    return ((buffer *)handle_buffer(object))->readonly;
}

/* ---- Buffer ---- */

static buffer *buffer_make(const gop_array *array)
{
    buffer *b = PyObject_New(buffer, buffer_type);
    if (!b) return NULL;
    gop_array_assign(&b->array, array);
    b->memory = NULL;
    b->owner = NULL;
    b->readonly = 0;
    b->shared = 0;
    return b;
}

int gop_check_reach(const char *what, const gop_array *array)
{
    int64_t low = (int64_t)(uintptr_t)array->data, high = low, span;
    int leaves = low < 0;
    if (gop_array_size(array) == 0) return 0;
    for (int d = 0; d < array->ndim; d++) {
        int64_t *end = array->strides[d] < 0 ? &low : &high;
        leaves |= __builtin_mul_overflow(array->shape[d] - 1, array->strides[d], &span);
        leaves |= __builtin_add_overflow(*end, span, end);
    }
    leaves |= low < 0 || __builtin_add_overflow(high, gop_dtype_size(array->dtype), &high);
    if (!leaves) return 0;
    return gop_refuse(PyExc_BufferError, "%s: the strides reach beyond all memory", what);
}

int gop_check_whose(gop_array *array)
{
    gop_ctx *ctx;
    if (array->where.backend != GOP_CUDA || gop_array_size(array) == 0) return 0;
    gop_status status = gop_context_of(array->where, &ctx);
    if (status == GOP_OK) status = ctx->backend->whose(array->data, &array->where.ordinal);
    return gop_done(status);
}

/* Gets the context, whose work then goes to the stream of device arrays. A signal's handler may
 * ask for it, whatever call is under way. */
static gop_status enter_default(gop_device device, gop_ctx **ctx, void **before)
{
    GOP_TRY(gop_context_of(device, ctx));
    *before = gop_use_stream(*ctx, GOP_DEFAULT_STREAM);
    return GOP_OK;
}

PyObject *gop_buffer_new(const char *op, gop_array *array, gop_device device)
{
    gop_ctx *ctx;
    void *before = NULL;
    buffer *b = buffer_make(array);
    if (!b) return NULL;
    const int64_t bytes = gop_array_bytes(array);
    b->bytes = bytes > 0 ? (size_t)bytes : 1;
    gop_status status = enter_default(device, &ctx, &before);
    if (status == GOP_OK) {
        status = ctx->backend->alloc(ctx, b->bytes, &b->memory);
        gop_use_stream(ctx, before);
    }
    if (status != GOP_OK) {
        Py_DECREF(b);
        gop_named(op, status);
        return gop_raise();
    }
    b->array.data = array->data = b->memory;
    b->array.where = array->where = device;
    return (PyObject *)b;
}

PyObject *gop_buffer_borrow(const gop_array *array, PyObject *owner, int readonly)
{
    buffer *b = buffer_make(array);
    if (!b) return NULL;
    Py_XINCREF(owner);
    b->owner = owner;
    b->readonly = readonly;
    return (PyObject *)b;
}

static void buffer_free(PyObject *self)
{
    buffer *b = (buffer *)self;
    gop_ctx *ctx;
    void *before = NULL;
    gop_error *const slot = gop_error_slot(), error; /* a destructor leaves no failure behind */
    const int failed = slot->code != GOP_OK;
    if (failed) error = *slot;
    if (b->memory && enter_default(b->array.where, &ctx, &before) == GOP_OK) {
        if (b->shared && ctx->backend->drain) (void)ctx->backend->drain(ctx);
        if (ctx->backend->keep) ctx->backend->keep(ctx, b->memory, b->bytes);
        else ctx->backend->release(ctx, b->memory);
        gop_use_stream(ctx, before);
    }
    if (failed) *slot = error;
    else slot->code = GOP_OK;
    if (b->owner) { /* releasing it keeps an exception as it is */
        PyObject *kind, *value, *trace;
        PyErr_Fetch(&kind, &value, &trace);
        Py_DECREF(b->owner);
        PyErr_Restore(kind, value, trace);
    }
    PyTypeObject *type = Py_TYPE(self);
    PyObject_Free(self);
    Py_DECREF(type);
}

/* Buffer.get(): a new ndarray with the elements. */
static PyObject *buffer_get(PyObject *self, PyObject *unused)
{
    const gop_array *device = &((buffer *)self)->array;
    gop_array host = *device;
    gop_ctx *ctx;
    gop_array_c_order(&host);
    PyObject *ndarray = gop_new_ndarray(&host);
    if (!ndarray) return NULL;
    gop_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = gop_context_of(device->where, &ctx);
    if (status == GOP_OK) status = gop_fetch(ctx, device, &host);
    Py_END_ALLOW_THREADS;
    if (status == GOP_OK) return ndarray;
    Py_DECREF(ndarray);
    return gop_raise();
}

static PyObject *buffer_dlpack(PyObject *self, PyObject *arguments)
{
    int versioned = 0;
    gop_ctx *ctx;
    buffer *b = (buffer *)self;
    PyObject *stream = Py_None;
    if (!PyArg_ParseTuple(arguments, "|Op:dlpack", &stream, &versioned)) return NULL;
    if (b->array.where.backend == GOP_CUDA) {
        void *then = stream == Py_None ? NULL : PyLong_AsVoidPtr(stream);
        if (PyErr_Occurred()) return NULL;
        if (then != GOP_DEFAULT_STREAM) b->shared = 1;
        gop_status status = gop_context_of(b->array.where, &ctx);
        if (status == GOP_OK && then)
            status = ctx->backend->order(ctx, GOP_DEFAULT_STREAM, then);
        if (status != GOP_OK) return gop_raise();
    }
    return gop_dlpack_export(&b->array, self, b->readonly, versioned);
}

static PyObject *get_dtype(PyObject *self, void *unused)
{
    return (PyObject *)gop_descr(((buffer *)self)->array.dtype);
}

static PyObject *get_shape(PyObject *self, void *unused)
{
    return gop_shape_tuple(((buffer *)self)->array.ndim, ((buffer *)self)->array.shape);
}

static PyObject *get_strides(PyObject *self, void *unused)
{
    return gop_shape_tuple(((buffer *)self)->array.ndim, ((buffer *)self)->array.strides);
}

static PyObject *get_ptr(PyObject *self, void *unused)
{
    ((buffer *)self)->shared = 1;
    return PyLong_FromVoidPtr(((buffer *)self)->array.data);
}

static PyObject *get_device(PyObject *self, void *unused)
{
    return gop_device_pair(((buffer *)self)->array.where);
}

static PyObject *get_readonly(PyObject *self, void *unused)
{
    return PyBool_FromLong(((buffer *)self)->readonly);
}

/* ---- Handle ---- */

PyObject *gop_handle_kind(PyObject *object)
{
    return ((handle *)object)->kind;
}

static PyObject *new_handle(PyTypeObject *class, PyObject *wrapped, PyObject *kind)
{
    handle *h = (handle *)PyType_GenericAlloc(class, 0);
    if (!h) return NULL;
    Py_INCREF(wrapped);
    Py_INCREF(kind);
    h->buffer = wrapped;
    h->kind = kind;
    return (PyObject *)h;
}

int gop_is_device_array(PyObject *object)
{
    return (PyObject *)Py_TYPE(object) == gop_members[GOP_OF_DeviceArray];
}

PyObject *gop_device_array(PyObject *of, PyObject *kind)
{
    return new_handle((PyTypeObject *)gop_members[GOP_OF_DeviceArray], of, kind);
}

/* DeviceArray(buffer, kind=None) */
static PyObject *handle_new(PyTypeObject *class, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"buffer", "kind", NULL};
    PyObject *wrapped, *kind = Py_None;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O|O:DeviceArray", names, &wrapped,
                                     &kind))
        return NULL;
    if (gop_buffer_array(wrapped)) return new_handle(class, handle_buffer(wrapped), kind);
    return PyErr_Format(PyExc_TypeError,
                        "DeviceArray: make one with gpuops.to_device(a, device)");
}

static void handle_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(((handle *)self)->buffer);
    Py_XDECREF(((handle *)self)->kind);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static int handle_ready(PyObject *module)
{
    static PyMemberDef members[] = {
        {"_buffer", T_OBJECT_EX, offsetof(handle, buffer), READONLY, NULL},
        {"_kind", T_OBJECT_EX, offsetof(handle, kind), READONLY, NULL},
        {NULL, 0, 0, 0, NULL}};
    static PyType_Slot slots[] = {{Py_tp_new, handle_new},
                                  {Py_tp_dealloc, handle_free},
                                  {Py_tp_members, members},
                                  {Py_tp_doc, "A Buffer and where its memory came from."},
                                  {0, NULL}};
    static PyType_Spec spec = {"gpuops._core.Handle", sizeof(handle), 0,
                               Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
    PyObject *type = PyType_FromSpec(&spec);
    if (!type) return -1;
    handle_type = (PyTypeObject *)type;
    return PyModule_AddObjectRef(module, "Handle", type);
}

int gop_buffer_ready(PyObject *module)
{
    static PyMethodDef methods[] = {
        {"get", buffer_get, METH_NOARGS, "A new numpy.ndarray with the elements."},
        {"dlpack", buffer_dlpack, METH_VARARGS, "A DLPack capsule ordered on a stream."},
        {NULL, NULL, 0, NULL}};
    static PyGetSetDef members[] = {{"dtype", get_dtype, NULL, NULL, NULL},
                                    {"shape", get_shape, NULL, NULL, NULL},
                                    {"strides", get_strides, NULL, "In bytes.", NULL},
                                    {"ptr", get_ptr, NULL, NULL, NULL},
                                    {"device", get_device, NULL, NULL, NULL},
                                    {"readonly", get_readonly, NULL, NULL, NULL},
                                    {NULL, NULL, NULL, NULL, NULL}};
    static PyType_Slot slots[] = {{Py_tp_dealloc, buffer_free},
                                  {Py_tp_methods, methods},
                                  {Py_tp_getset, members},
                                  {Py_tp_doc, "Memory of a device."},
                                  {0, NULL}};
    static PyType_Spec spec = {"gpuops._core.Buffer", sizeof(buffer), 0,
                               Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
    buffer_type = (PyTypeObject *)PyType_FromSpec(&spec);
    if (!buffer_type || handle_ready(module) < 0) return -1;
    return PyModule_AddObjectRef(module, "Buffer", (PyObject *)buffer_type);
}

/* ---- functions of the module ---- */

static PyObject *buffer_upload(PyObject *module, PyObject *arguments)
{
    PyObject *object, *pair;
    gop_array host, array;
    gop_device device;
    gop_ctx *ctx;
    void *before = NULL;
    if (!PyArg_ParseTuple(arguments, "OO:upload", &object, &pair)) return NULL;
    if (gop_read_device(pair, &device) < 0 || gop_read_array(object, &host, 0) < 0) return NULL;
    array = host;
    array.stored = 0;
    gop_array_c_order(&array);
    PyObject *made = gop_buffer_new("to_device", &array, device);
    if (!made || gop_array_size(&array) == 0) return made;
    gop_status status;
    Py_BEGIN_ALLOW_THREADS;
    /* The device's array is C-contiguous: a host array in another order is put into it first.
     */
    gop_arena arena = {.op = "to_device", .fetch = gop_fetch_from_anywhere};
    gop_array c_order;
    status = gop_arena_host(&arena, &host, &c_order);
    if (status == GOP_OK) status = enter_default(device, &ctx, &before);
    if (status == GOP_OK) {
        status = ctx->backend->upload(ctx, &array, &c_order);
        if (status == GOP_OK) status = ctx->backend->sync(ctx);
        gop_use_stream(ctx, before);
    }
    gop_arena_free(&arena);
    Py_END_ALLOW_THREADS;
    if (status == GOP_OK) return made;
    Py_DECREF(made);
    return gop_raise();
}

/* Reads a tuple of integers; returns its length, or -1. */
static int read_tuple(PyObject *tuple, int64_t *values)
{
    const Py_ssize_t count = PyTuple_Size(tuple);
    if (count < 0) return -1;
    if (count > GOP_MAX_NDIM)
        return gop_refuse(PyExc_ValueError, "an array has %zd axes, expected at most %d", count,
                          GOP_MAX_NDIM);
    for (Py_ssize_t d = 0; d < count; d++) {
        values[d] = PyLong_AsLongLong(PyTuple_GetItem(tuple, d));
        if (PyErr_Occurred()) return -1;
    }
    return (int)count;
}

static int read_shape(const char *what, PyObject *tuple, gop_array *array)
{
    int64_t size;
    array->stored = 0;
    array->ndim = read_tuple(tuple, array->shape);
    if (array->ndim < 0) return -1;
    for (int d = 0; d < array->ndim; d++)
        if (array->shape[d] < 0)
            return gop_refuse(PyExc_ValueError, "%s: axis %d has the negative extent %lld",
                              what, d, (long long)array->shape[d]);
    return gop_done(gop_shape_size(what, array->ndim, array->shape, &size));
}

int gop_read_layout(const char *what, PyObject *shape, PyObject *strides, gop_array *array)
{
    if (read_shape(what, shape, array) < 0) return -1;
    if (strides == Py_None) gop_array_c_order(array);
    else if (read_tuple(strides, array->strides) != array->ndim) {
        if (!PyErr_Occurred())
            PyErr_Format(PyExc_ValueError, "%s: strides and shape differ in length", what);
        return -1;
    }
    if (gop_array_size(array) > 0 && !array->data)
        return gop_refuse(PyExc_ValueError, "%s: the pointer is NULL, expected memory", what);
    return gop_check_reach(what, array);
}

static PyObject *empty(PyObject *module, PyObject *arguments)
{
    PyObject *shape, *dtype, *pair;
    gop_array array;
    gop_device device;
    if (!PyArg_ParseTuple(arguments, "OOO:empty", &shape, &dtype, &pair)) return NULL;
    if (read_shape("empty", shape, &array) < 0 || gop_read_dtype(dtype, &array.dtype) < 0 ||
        gop_read_device(pair, &device) < 0)
        return NULL;
    gop_array_c_order(&array);
    return gop_buffer_new("empty", &array, device);
}

/* borrow(ptr, shape, strides or None, dtype, device, owner, readonly) */
static PyObject *borrow(PyObject *module, PyObject *arguments)
{
    PyObject *pointer, *shape, *strides, *dtype, *pair, *owner;
    int readonly;
    gop_array array;
    if (!PyArg_ParseTuple(arguments, "OOOOOOp:borrow", &pointer, &shape, &strides, &dtype,
                          &pair, &owner, &readonly))
        return NULL;
    if (gop_read_dtype(dtype, &array.dtype) < 0 || gop_read_device(pair, &array.where) < 0)
        return NULL;
    array.data = PyLong_AsVoidPtr(pointer);
    if (PyErr_Occurred() || gop_read_layout("borrow", shape, strides, &array) < 0 ||
        gop_check_whose(&array) < 0)
        return NULL;
    return gop_buffer_borrow(&array, owner, readonly);
}

static PyObject *from_dlpack(PyObject *module, PyObject *capsule)
{
    gop_array array;
    int readonly;
    PyObject *const owner = gop_dlpack_import(capsule, &array, &readonly), *made = NULL;
    if (!owner) return NULL;
    const int said = array.where.ordinal;
    if (gop_check_whose(&array) == 0) {
        if (array.where.ordinal == said) made = gop_buffer_borrow(&array, owner, readonly);
        else
            PyErr_Format(PyExc_BufferError,
                         "from_dlpack: an array of cuda:%d in the memory of cuda:%d", said,
                         array.where.ordinal);
    }
    if (made) gop_dlpack_take(capsule, owner);
    Py_DECREF(owner);
    return made;
}

/* order(device, first, then): handles of streams, 1 the default one. */
static PyObject *order(PyObject *module, PyObject *arguments)
{
    PyObject *pair, *first, *then;
    gop_device device;
    gop_ctx *ctx;
    if (!PyArg_ParseTuple(arguments, "OOO:order", &pair, &first, &then)) return NULL;
    if (gop_read_device(pair, &device) < 0) return NULL;
    void *const from = PyLong_AsVoidPtr(first), *const to = PyLong_AsVoidPtr(then);
    if (PyErr_Occurred()) return NULL;
    gop_status status = gop_context_of(device, &ctx);
    if (status == GOP_OK && ctx->backend->order) status = ctx->backend->order(ctx, from, to);
    if (status != GOP_OK) return gop_raise();
    Py_RETURN_NONE;
}

static PyObject *buffer_wait(PyObject *module, PyObject *pair)
{
    gop_device device;
    gop_ctx *ctx;
    void *before = NULL;
    if (gop_read_device(pair, &device) < 0) return NULL;
    gop_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = enter_default(device, &ctx, &before);
    if (status == GOP_OK) {
        status = ctx->backend->sync(ctx);
        gop_use_stream(ctx, before);
    }
    Py_END_ALLOW_THREADS;
    if (status != GOP_OK) return gop_raise();
    Py_RETURN_NONE;
}

PyMethodDef gop_buffer_functions[] = {
    {"upload", buffer_upload, METH_VARARGS, "upload(array, device) -> Buffer"},
    {"empty", empty, METH_VARARGS, "empty(shape, dtype, device) -> Buffer"},
    {"borrow", borrow, METH_VARARGS,
     "borrow(ptr, shape, strides or None, dtype, device, owner, readonly) -> Buffer"},
    {"order", order, METH_VARARGS,
     "order(device, first, then): what goes to the stream `then` comes after what `first` has"},
    {"wait", buffer_wait, METH_O, "wait(device): until the work on device arrays is done"},
    {"from_dlpack", from_dlpack, METH_O, "from_dlpack(capsule) -> Buffer"},
    {NULL, NULL, 0, NULL}};
