/*
 * dlpack.c - exchanging device memory with other libraries by DLPack capsules.
 *
 * The layouts below are the protocol's own (versions 0.8 and 1.x).
 */
#include "python/dlpack.h"

typedef struct dl_managed {
    dl_tensor tensor;
    void *context;
    void (*deleter)(struct dl_managed *);
} dl_managed;

enum { DL_INT = 0, DL_UINT = 1, DL_FLOAT = 2, DL_BFLOAT = 4, DL_COMPLEX = 5, DL_BOOL = 6 };
enum { DL_READ_ONLY = 1 };

static int code_of(gop_dtype dtype)
{
    static const int codes['u' + 1] = {
        ['b'] = DL_BOOL, ['i'] = DL_INT, ['u'] = DL_UINT, ['f'] = DL_FLOAT, ['c'] = DL_COMPLEX};
    return dtype == GOP_BFLOAT16 ? DL_BFLOAT : codes[(int)gop_dtype_kind(dtype)];
}

dl_tensor gop_dlpack_tensor(const gop_array *array, int64_t *shape, int64_t *strides)
{
    dl_tensor t = {
        .data = array->data, .ndim = array->ndim, .shape = shape, .strides = strides};
    t.device.type = array->where.backend == GOP_CUDA ? DL_CUDA : DL_CPU;
    t.device.id = array->where.backend == GOP_CUDA ? array->where.ordinal : 0;
    t.dtype.code = (uint8_t)code_of(array->dtype);
    t.dtype.bits = (uint8_t)(8 * gop_dtype_size(array->dtype));
    t.dtype.lanes = 1;
    return t;
}

/* ---- export: one block holds either struct, then shape and strides ---- */

typedef struct exported {
    union {
        dl_managed plain;
        dl_versioned versioned;
    } as;
    PyObject *owner;
    int64_t numbers[2 * GOP_MAX_NDIM];
} exported;

static void free_exported(exported *e)
{
    if (Py_IsInitialized()) { /* after the interpreter's end, nothing can be given back */
        PyGILState_STATE state = PyGILState_Ensure(); /* a library calls from any thread */
        Py_XDECREF(e->owner);
        PyGILState_Release(state);
    }
    free(e);
}

static void delete_plain(dl_managed *managed)
{
    free_exported(managed->context);
}
static void delete_versioned(dl_versioned *managed)
{
    free_exported(managed->context);
}

/* The names of capsules of either struct; of one that was consumed, and has nothing to free. */
static const char *const names[] = {"dltensor", "dltensor_versioned"};
static const char *const used[] = {"used_dltensor", "used_dltensor_versioned"};

/* Calls the deleter of what a capsule holds. */
static void capsule_free(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, names[0])) {
        dl_managed *managed = PyCapsule_GetPointer(capsule, names[0]);
        if (managed->deleter) managed->deleter(managed);
    } else if (PyCapsule_IsValid(capsule, names[1])) {
        dl_versioned *managed = PyCapsule_GetPointer(capsule, names[1]);
        if (managed->deleter) managed->deleter(managed);
    }
}

PyObject *gop_dlpack_export(const gop_array *array, PyObject *owner, int readonly,
                            int versioned)
{
    if (!gop_array_is_item_aligned(array))
        return PyErr_Format(PyExc_BufferError,
                            "dlpack: the array is not aligned to its items, and "
                            "DLPack counts strides in items");
    if (!versioned && readonly)
        return PyErr_Format(PyExc_BufferError,
                            "dlpack: the array is read-only, which DLPack tells "
                            "from version 1 on: ask with max_version=(1, 0)");
    exported *e = calloc(1, sizeof *e);
    if (!e) return PyErr_NoMemory();
    dl_tensor *t = versioned ? &e->as.versioned.tensor : &e->as.plain.tensor;
    *t = gop_dlpack_tensor(array, e->numbers, e->numbers + GOP_MAX_NDIM);
    for (int d = 0; d < array->ndim; d++) {
        t->shape[d] = array->shape[d];
        t->strides[d] = array->strides[d] / gop_dtype_size(array->dtype);
    }
    Py_INCREF(owner);
    e->owner = owner;
    if (versioned) {
        e->as.versioned.version.major = 1;
        e->as.versioned.flags = readonly ? DL_READ_ONLY : 0;
        e->as.versioned.context = e;
        e->as.versioned.deleter = delete_versioned;
    } else {
        e->as.plain.context = e;
        e->as.plain.deleter = delete_plain;
    }
    PyObject *capsule = PyCapsule_New(&e->as, names[versioned], capsule_free);
    if (!capsule) free_exported(e);
    return capsule;
}

/* ---- import ---- */

int gop_dlpack_read(const dl_tensor *t, gop_array *array)
{
    int known = 0;
    for (int d = 0; d < GOP_NDTYPES && !known; d++) {
        array->dtype = (gop_dtype)d;
        known = t->dtype.lanes == 1 && code_of(array->dtype) == t->dtype.code &&
                8 * gop_dtype_size(array->dtype) == t->dtype.bits;
    }
    if (!known)
        return gop_refuse(
            PyExc_BufferError,
            "from_dlpack: an element of code %d, %d bits and %d lanes is not known",
            t->dtype.code, t->dtype.bits, t->dtype.lanes);
    if (t->ndim < 0 || t->ndim > GOP_MAX_NDIM)
        return gop_refuse(PyExc_BufferError, "from_dlpack: %d axes, expected at most %d",
                          t->ndim, GOP_MAX_NDIM);
    if (t->device.type != DL_CPU && t->device.type != DL_CUDA &&
        t->device.type != DL_CUDA_MANAGED)
        return gop_refuse(PyExc_BufferError,
                          "from_dlpack: device type %d, expected the CPU or CUDA",
                          t->device.type);
    const gop_backend_id backend = t->device.type == DL_CPU ? GOP_CPU : GOP_CUDA;
    array->where = (gop_device){backend, backend == GOP_CPU ? 0 : t->device.id};
    uintptr_t data = 0;
    if (t->data && __builtin_add_overflow((uintptr_t)t->data, t->byte_offset, &data))
        return gop_refuse(PyExc_BufferError,
                          "from_dlpack: the offset of %llu bytes leaves memory",
                          (unsigned long long)t->byte_offset);
    array->data = (void *)data;
    array->stored = 0;
    array->ndim = t->ndim;
    if (t->ndim > 0 && !t->shape)
        return gop_refuse(PyExc_BufferError, "from_dlpack: %d axes without a shape", t->ndim);
    for (int d = 0; d < t->ndim; d++) {
        if (t->shape[d] < 0)
            return gop_refuse(PyExc_BufferError, "from_dlpack: axis %d has the extent %lld", d,
                              (long long)t->shape[d]);
        array->shape[d] = t->shape[d];
    }
    int64_t size;
    if (gop_done(gop_shape_size("from_dlpack", array->ndim, array->shape, &size)) < 0)
        return -1;
    gop_array_c_order(array);
    for (int d = 0; t->strides && d < t->ndim; d++)
        if (__builtin_mul_overflow(t->strides[d], gop_dtype_size(array->dtype),
                                   &array->strides[d]))
            return gop_refuse(PyExc_BufferError,
                              "from_dlpack: axis %d has a stride of %lld items", d,
                              (long long)t->strides[d]);
    if (size > 0 && !array->data)
        return gop_refuse(PyExc_BufferError, "from_dlpack: the pointer is NULL");
    return gop_check_reach("from_dlpack", array);
}

PyObject *gop_dlpack_import(PyObject *capsule, gop_array *array, int *readonly)
{
    const int versioned = PyCapsule_IsValid(capsule, names[1]);
    const char *const name = names[versioned];
    void *managed =
        PyCapsule_IsValid(capsule, name) ? PyCapsule_GetPointer(capsule, name) : NULL;
    if (!managed)
        return PyErr_Format(PyExc_BufferError,
                            "from_dlpack: expected a DLPack capsule that was not used before");
    if (versioned && ((dl_versioned *)managed)->version.major != 1)
        return PyErr_Format(PyExc_BufferError, "from_dlpack: version %u of DLPack, expected 1",
                            ((dl_versioned *)managed)->version.major);
    const dl_tensor *t =
        versioned ? &((dl_versioned *)managed)->tensor : &((dl_managed *)managed)->tensor;
    if (gop_dlpack_read(t, array) < 0) return NULL;
    *readonly = versioned && (((dl_versioned *)managed)->flags & DL_READ_ONLY) != 0;
    return PyCapsule_New(managed, name, NULL);
}

/* Called once the Buffer is made. If that fails, the capsule still frees the memory. */
void gop_dlpack_take(PyObject *capsule, PyObject *owner)
{
    PyCapsule_SetName(capsule, used[PyCapsule_IsValid(capsule, names[1])]);
    PyCapsule_SetDestructor(owner, capsule_free);
}
