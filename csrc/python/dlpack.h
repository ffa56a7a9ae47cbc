/*
 * dlpack.h - exchanging memory by DLPack, and the layouts of it that more than one file reads.
 */
#ifndef GOP_DLPACK_H
#define GOP_DLPACK_H

#include "python/python.h"

enum { DL_CPU = 1, DL_CUDA = 2, DL_CUDA_MANAGED = 13 };

typedef struct {
    void *data;
    struct {
        int32_t type, id;
    } device;
    int32_t ndim;
    struct {
        uint8_t code, bits;
        uint16_t lanes;
    } dtype;
    int64_t *shape, *strides; /* strides in elements */
    uint64_t byte_offset;
} dl_tensor;

typedef struct dl_versioned {
    struct {
        uint32_t major, minor;
    } version;
    void *context;
    void (*deleter)(struct dl_versioned *);
    uint64_t flags;
    dl_tensor tensor;
} dl_versioned;

/* How a library's allocator says what went wrong. */
typedef void dl_complain(void *context, const char *kind, const char *message);

/* What a library's own type offers in C, since version 1.3: a tensor is read without Python and
 * without taking part in its ownership, and one of a prototype's dtype and shape is made. */
typedef struct dl_exchange_api {
    uint32_t major, minor;
    const void *previous;
    int (*allocate)(dl_tensor *prototype, dl_versioned **managed, void *context,
                    dl_complain *complain);
    void *from_object;
    int (*to_object)(dl_versioned *managed, void **object); /* takes what is managed */
    int (*read)(void *object, dl_tensor *tensor);           /* 0, or -1 with an exception */
    int (*stream)(int32_t device_type, int32_t device, void **stream); /* in use by now */
} dl_exchange_api;

/* A capsule of memory that `owner` keeps; NULL with an exception. */
PyObject *gop_dlpack_export(const gop_array *array, PyObject *owner, int readonly,
                            int versioned);
/* Reads a capsule that was not used before. What keeps its memory, a new reference, or NULL
 * with an exception. */
PyObject *gop_dlpack_import(PyObject *capsule, gop_array *array, int *readonly);
/* From here on the capsule is used, and its memory goes with `owner`. */
void gop_dlpack_take(PyObject *capsule, PyObject *owner);
/* A tensor of the array's dtype in that place. */
dl_tensor gop_dlpack_tensor(const gop_array *array, int64_t *shape, int64_t *strides);
/* 0, or -1 with an exception. */
int gop_dlpack_read(const dl_tensor *tensor, gop_array *array);

#endif
