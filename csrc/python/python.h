/*
 * python.h - what the files of this folder share; the only folder that includes Python.h.
 */
#ifndef GOP_PYTHON_H
#define GOP_PYTHON_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdlib.h>
#include <string.h>
#define PY_ARRAY_UNIQUE_SYMBOL gpuops_numpy
#ifndef GOP_IMPORTS_NUMPY
#define NO_IMPORT_ARRAY
#endif
#include <numpy/arrayobject.h>

#include "core/arrays/order.h"
#include "core/core.h"

/* ---- module.c ---- */

/* A call as Python's arguments say it. */
typedef struct gop_request {
    gop_call call;
    gop_run_options options;
    PyObject *out;       /* borrowed; NULL: to be made */
    int common;          /* the dtype that quick() casts operands to, or -1 */
    PyArrayObject *like; /* borrowed: the inputs are read as lines, and the output is to have
                            this one's shape; or NULL */
    unsigned
        on_device; /* bits of the inputs that are device arrays: a made output is one too */
} gop_request;

/* Sets dtype, shape, strides and place of an output that is to be made; -1 with an exception.
 */
int gop_infer_output(gop_request *r);
/* Infers the output and makes it; a new reference, also to an output that was given. */
PyObject *gop_make_output(gop_request *r);

/* ---- place.c ---- */

int gop_place_ready(void);
extern PyMethodDef gop_place_functions[];  /* setup */
int gop_is_device_array(PyObject *object); /* of the class gpuops.DeviceArray itself */
/* The (backend, ordinal) of what names a device, a new reference; None for None and "auto". May
 * run code of the caller's. */
PyObject *gop_look_up_place(PyObject *word);
/* Sets the device of a call whose arrays are read: the named one, or else where its device
 * arrays lie, or unless something was said the default, or what fits. 1 where Python was asked
 * and the arrays are to be read anew, -1 with an exception. */
int gop_choose_place(gop_request *r, PyObject *named, int said);
PyObject *gop_device_array(PyObject *buffer, PyObject *kind); /* a new gpuops.DeviceArray */
/* A result in memory of the allocator of the operands' library; NULL where there is none. */
PyObject *gop_make_theirs(gop_request *r, PyObject *inputs);
/* Hands the operands' memory back to their libraries, whose work comes after ours from here on,
 * and gives the result to the first of them, unless it is theirs. */
PyObject *gop_give(const gop_request *r, PyObject *inputs, PyObject *made, int is_theirs);
/* The result as the caller gets it: an array of the library of that name, or of our own for
 * None. Takes the reference to what gop_make_output() made. */
PyObject *gop_give_result(const gop_request *r, PyObject *made, PyObject *kind);

/* ---- quick.c ---- */

int gop_quick_ready(void);
extern PyMethodDef gop_quick_functions[]; /* quick */
extern PyObject *gop_op_words[GOP_NOPS];  /* their names, interned */
/* What quick() takes; its operands come after these. */
enum {
    GOP_QUICK_OP,
    GOP_QUICK_PARAMS,
    GOP_QUICK_OUT,
    GOP_QUICK_DEVICE,
    GOP_QUICK_KERNEL,
    GOP_QUICK_TUNABLES,
    GOP_QUICK_OPTIONS,
};
/* The result, an exception, or NotImplemented: the call is one for Python. Of a reduction the
 * parameters may be read already; else NULL. */
PyObject *gop_quick(PyObject *const *arguments, Py_ssize_t operands,
                    const gop_reduce_params *reduce);

/* ---- promote.c ---- */

/* Whether they are NumPy's arrays, one at least, and Python's numbers, not all of one dtype. */
int gop_are_mixed(PyObject *const *inputs, int count);
/* Finds the common dtype of such inputs and makes arrays of it of the numbers: what is made is
 * in `made` too, a new reference. 0, perhaps with an exception, where that is Python's to do.
 */
int gop_make_common(PyObject **inputs, int count, PyObject **made, int *common);
extern PyMethodDef gop_promote_functions[]; /* promote */

/* ---- front.c ---- */

int gop_front_ready(void);
extern PyMethodDef gop_front_functions[]; /* front */

/* ---- exact.c ---- */

extern PyMethodDef gop_exact_functions[]; /* exact_round */

/* ---- foreign.c ---- */

typedef enum gop_library { GOP_NO_LIBRARY, GOP_CUPY, GOP_TORCH } gop_library;

/* An array of these libraries, between being asked and being read. */
typedef struct gop_foreign {
    gop_library library;
    const void *api; /* PyTorch's table of functions */
    PyObject *owner; /* what keeps CuPy's memory, or NULL; the asker's to let go */
    gop_array array; /* CuPy's */
} gop_foreign;

int gop_foreign_ready(void);
PyObject *gop_library_word(gop_library library); /* borrowed: "cupy" */
/* 1 for a plain array of these libraries, operand i of a call whose operands before it were
 * asked; foreign[i].owner is NULL. Runs code of the object's, and so comes before any array's
 * memory is looked at; may leave an exception. */
int gop_ask_foreign(PyObject *object, gop_foreign *foreign, int i);
/* Reads what was asked for, without running Python. */
int gop_read_foreign(PyObject *object, const gop_foreign *foreign, gop_array *array);
/* A new array of that library in memory of its own allocator, of the array's dtype, shape and
 * strides, which have no gaps, in that place; sets data. NULL without an exception where it has
 * none to give. May run code of the caller's. */
PyObject *gop_make_foreign(const gop_foreign *foreign, gop_array *array);
/* The same by the word for the library, which has to work on the default stream. */
PyObject *gop_make_of_kind(PyObject *kind, gop_array *array);
/* Whether a library's current stream on a device is the default one; 0 where that is not known,
 * perhaps with an exception. */
int gop_foreign_follows(PyObject *kind, int ordinal);
extern PyMethodDef gop_foreign_functions[]; /* foreign */

/* ---- convert.c ---- */

/* Raises the calling thread's failure as its Python exception; always returns NULL. */
PyObject *gop_raise(void);

/* Reads an ndarray or a Buffer into a gop_array, or a pair of one and the dtype that kernels
 * are to have it in; 0, or -1 with an exception. */
int gop_read_array(PyObject *object, gop_array *array, int writable);
/* Sets the dtype that kernels have it in; in memory its elements stay as they are. */
void gop_read_as(gop_array *array, gop_dtype dtype);
/* Reads one of NumPy's own native dtypes, or bfloat16, at once; 0 for any other. */
int gop_plain_dtype(const PyArray_Descr *descr, gop_dtype *out);
/* An exact ndarray of such a dtype; 0 for anything else. */
int gop_plain_array(PyObject *object, gop_array *array);
/* -1 with an exception if addresses of its elements would not fit a pointer. */
int gop_check_reach(const char *what, const gop_array *array);
int gop_read_dtype(PyObject *dtype, gop_dtype *out);     /* of anything numpy.dtype() takes */
PyArray_Descr *gop_descr(gop_dtype dtype);               /* new reference */
int gop_read_device(PyObject *pair, gop_device *device); /* ("cuda", 0) */
PyObject *gop_device_pair(gop_device device);
/* What explain() tells of the kernels that may be chosen, and with that, whose reference it
 * takes, of the call. */
PyObject *gop_weighed_tuple(const gop_weighed *list, int count);
/* The facts of a GPU that is not there, as gpuops/_show/gpus.py has them. */
int gop_read_like(PyObject *facts, gop_device_info *info);
PyObject *gop_plan_dict(const gop_request *r, const gop_explanation *plan,
                        PyObject *candidates);
PyObject *gop_shape_tuple(int ndim, const int64_t *values);
/* A new uninitialised ndarray with the array's dtype, shape and strides, which have no gaps;
 * sets its data. */
PyObject *gop_new_ndarray(gop_array *array);
/* The same of a line, with the dtype, shape and order of `like`. */
PyObject *gop_new_like(gop_array *line, PyArrayObject *like);
int gop_set_bfloat16(PyObject *dtype);

/* ---- params.c ---- */

int gop_params_ready(void);
int gop_read_op(const char *name, gop_op *op);
/* Reads params into call->params, and a second output if the op has one. */
int gop_read_params(PyObject *params, gop_call *call);
int gop_read_tunables(PyObject *tunables, gop_call *call);

/* ---- buffer.c ---- */

extern PyTypeObject *gop_buffer_type;
int gop_buffer_ready(PyObject *module);
/* Of a Buffer, or a Handle of one; NULL for anything else. */
const gop_array *gop_buffer_array(PyObject *object);
int gop_buffer_readonly(PyObject *buffer);
int gop_buffer_borrowed(PyObject *buffer); /* memory of another library */
/* Device memory of the array's dtype, shape and strides, which have no gaps; sets data, where.
 */
PyObject *gop_buffer_new(const char *op, gop_array *array, gop_device device);
/* Sets the ordinal of a CUDA array to that of the GPU whose memory it is; -1 with an exception
 * if it is none's. */
int gop_check_whose(gop_array *array);
/* Reads what another library says of memory at array->data: the shape, and strides in bytes, or
 * None for C order. Its reach is checked; 0, or -1 with an exception. */
int gop_read_layout(const char *what, PyObject *shape, PyObject *strides, gop_array *array);
/* The context of the calling thread on a device. */
gop_status gop_context_of(gop_device device, gop_ctx **ctx);
PyObject *gop_buffer_borrow(const gop_array *array, PyObject *owner, int readonly);
extern PyMethodDef gop_buffer_functions[]; /* upload, empty, borrow, order, wait */

/* ---- handle.c ---- */

int gop_handle_ready(PyObject *module);
PyObject *gop_handle_buffer(PyObject *object); /* borrowed; what is no Handle is its own */
PyObject *gop_handle_kind(PyObject *handle);   /* borrowed */
PyObject *gop_handle_new(PyTypeObject *class, PyObject *buffer, PyObject *kind);

/* ---- tables.c ---- */

extern PyMethodDef gop_table_functions[];

/* ---- modules.c ---- */

extern PyMethodDef gop_module_functions[]; /* load_module, launch */

/* ---- dlpack.c ---- */

PyObject *gop_dlpack_export(PyObject *buffer, int versioned);
PyObject *gop_dlpack_import(PyObject *module, PyObject *capsule);

#endif
