/*
 * python.h - what the files of this folder share; the only folder that includes Python.h.
 *
 * A function that returns int returns -1 with an exception, and one that returns an object
 * NULL. The object is a new reference unless its comment says "borrowed".
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

#include "core/arrays/array.h"
#include "core/core.h"

/* ---- ask.c: interned strings, since making one for each look-up would cost more ---- */

/* The arguments of the public functions, then keys of parameters, and attributes of other
 * libraries' arrays. gop_words[GOP_WORD_axis] is "axis". */
/* clang-format off */
#define GOP_ARGUMENTS(X)                                                                       \
    X(a) X(b) X(c) X(axes) X(axis) X(device) X(dtype) X(exact) X(initial) X(keepdims)          \
    X(kernel) X(op) X(out) X(params) X(precision) X(where)
#define GOP_OTHER_WORDS(X)                                                                     \
    X(csr) X(n) X(columns) X(checked) X(longest) X(alpha) X(omega) X(residual) X(diagonal)     \
    X(grid) X(bc) X(points2) X(ntypes) X(box) X(boxes) X(rtol) X(atol) X(dtol) X(steps)        \
    X(check_every) X(first) X(residuals)                                                       \
    X(cpu) X(cupy) X(torch) X(shape) X(strides) X(data) X(mem) X(ptr) X(device_id)             \
    X(_c_contiguous) X(requires_grad) X(is_conj) X(is_neg)
/* clang-format on */
#define X(word) GOP_WORD_##word,
enum { GOP_ARGUMENTS(X) GOP_NARGUMENTS };
enum { GOP_LAST_ARGUMENT = GOP_NARGUMENTS - 1, GOP_OTHER_WORDS(X) GOP_NWORDS };
#undef X
extern PyObject *gop_words[GOP_NWORDS];
int gop_words_ready(void);

/* ---- foreign.c: arrays of CuPy and PyTorch ---- */

typedef enum gop_library { GOP_NO_LIBRARY, GOP_CUPY, GOP_TORCH } gop_library;

/* What gop_ask_foreign found and gop_read_foreign reads. */
typedef struct gop_foreign {
    gop_library library;
    const void *api; /* PyTorch's table of functions */
    PyObject *owner; /* keeps CuPy's memory alive, or NULL; whoever asked releases it */
    gop_array array; /* CuPy's */
} gop_foreign;

PyObject *gop_library_word(gop_library library); /* borrowed: "cupy" */
/* Returns 1 if operand i is a plain array of these libraries. The operands before it have been
 * asked, and foreign[i].owner is NULL. This may run code of the object's, so it comes before
 * any array's memory is read. It may leave an exception. */
int gop_ask_foreign(PyObject *object, gop_foreign *foreign, int i);
/* Reads such an array without running Python; 0 if it has changed since. */
int gop_read_foreign(PyObject *object, const gop_foreign *foreign, gop_array *array);
/* Makes an array of that library in memory of its own allocator, with the array's dtype, shape,
 * strides (without gaps) and place, and sets data. NULL if the library has none to give, with
 * an exception only for Ctrl-C. May run the caller's code. */
PyObject *gop_make_foreign(const gop_foreign *foreign, gop_array *array);
/* The same by the library's word. The library has to work on the default stream. */
PyObject *gop_make_of_kind(PyObject *kind, gop_array *array);
/* Returns 1 if a library's current stream on a device is the default one, and 0 if it is not or
 * that is not known, perhaps with an exception. */
int gop_foreign_follows(PyObject *kind, int ordinal);
extern PyMethodDef gop_foreign_functions[]; /* foreign */

/* ---- a request: a call on its way from Python's arguments to the core ---- */

/* The last of the foreign arrays is `out`; the others are operands of public functions. */
enum { GOP_OUT = 3, GOP_FOREIGN, GOP_KEPT = 48 };

/* All objects are borrowed, except for `kept`. */
typedef struct gop_request {
    gop_call call;
    /* Arrays of NumPy, device arrays, arrays of other libraries, or pairs of an array and the
     * dtype that it is read in. */
    PyObject *inputs[GOP_MAX_INPUTS];
    int as[GOP_MAX_INPUTS]; /* the dtype that kernels get, or -1: the array's own */
    gop_foreign foreign[GOP_FOREIGN];
    PyObject *kept[GOP_KEPT];
    gop_run_options options;
    /* What stands below is 0 until it is read. */
    const char *name; /* the function that was called */
    int count;        /* operands */
    int nasked;       /* how many of the foreign arrays were asked */
    int nkept;
    unsigned lent;      /* bits of the foreign arrays that another library lends */
    unsigned on_device; /* bits of the operands that are device arrays, as the result is then */
    PyObject *precision; /* the word, to be read once the device is known; or NULL */
    PyObject *params; /* of a call that Python's own functions give: a dict or None; or NULL */
    PyObject *tunables; /* a dict of integers, or NULL */
    PyObject *device;   /* names it, or NULL */
    PyObject *place;  /* the (backend, ordinal) that it names, or None; once it is looked up */
    PyObject *out;    /* the caller's, or NULL */
    PyObject *target; /* `out` as an array, once it is read */
    PyObject *final;  /* the dtype that a result of the host is cast to at last, or NULL */
    PyObject *finish; /* makes the caller's result from the core's, or NULL */
    int is_read;      /* the arrays are read, and no code of the caller's ran since */
    int is_scalar;    /* a result without axes becomes a number */
    int is_elementwise; /* operands of one layout may be read as lines */
    int is_lines;       /* and they are: the result gets the shape of the first */
    int spreads;        /* the result may be repeated over a larger `out` */
} gop_request;

/* ---- operands.c: arrays of NumPy, and the arrays of a request ---- */

/* Reads an ndarray or a Buffer, or a pair of one and the dtype that kernels get. */
int gop_read_array(PyObject *object, gop_array *array, int writable);
/* Returns 1 for an ndarray, of that very class, of a plain dtype. */
int gop_plain_array(PyObject *object, gop_array *array);
/* Sets the dtype that kernels get; in memory the elements stay as they are. */
void gop_read_as(gop_array *array, gop_dtype dtype);
/* Makes an uninitialised ndarray with the array's dtype, shape and strides (without gaps), and
 * sets data. */
PyObject *gop_new_ndarray(gop_array *array);
int gop_add_input(gop_request *r, PyObject *object); /* returns its number */
/* Whether another library lends input i, or `out`. */
int gop_is_lent(const gop_request *r, int i);
int gop_is_out_lent(const gop_request *r);
/* The word for the library of input i, borrowed; None for memory of our own. */
PyObject *gop_library_of(const gop_request *r, int i);
int gop_first_lent(const gop_request *r); /* the first input that has such a word, or -1 */
int gop_same_place(gop_device a, gop_device b);
/* The caller's code may have run, so what was read of arrays may no longer hold. */
void gop_code_ran(gop_request *r);
/* Reads elementwise operands of one layout, each as a line; 0 if they have several. */
int gop_read_lines(gop_request *r);
int gop_read_inputs(gop_request *r);
/* Makes a DeviceArray of another library's array, for Python. */
int gop_wrap_input(gop_request *r, int i);
int gop_read_out(gop_request *r);
int gop_wrap_out(gop_request *r);
/* Reads the target as an array; 0 if the core does not have its dtype. */
int gop_look_at_target(gop_request *r, gop_array *array);
/* Sets dtype, shape, strides and place of an output that is to be made. */
int gop_infer_output(gop_request *r);

/* ---- request.c: from a parsed request to its result ---- */

int gop_request_ready(void);
void gop_request_begin(gop_request *r);
void gop_request_end(gop_request *r);
/* Reads the parameters of a given call, once its arrays are read. */
int gop_read_late(gop_request *r);
/* Reads arrays and parameters and finds the device. Afterwards only the output is missing. */
int gop_request_settle(gop_request *r);
PyObject *gop_make_output(gop_request *r);
PyObject *gop_request_run(gop_request *r);
/* Reads all that a run would, also what it would write, for a plan. */
int gop_request_aim(gop_request *r);

/* ---- call.c ---- */

int gop_call_ready(PyObject *module);
/* Makes a Call, whose request is still to be read. It keeps `given` alive. */
PyObject *gop_call_new(PyObject *given, gop_request **request);
extern PyMethodDef gop_call_functions[]; /* run */

/* ---- front.c: the functions that users call ---- */

typedef struct gop_signature {
    const char *name;
    PyObject *(*entry)(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);
    int operands;
    const char *kinds; /* of the dtypes that it takes, or "any" */
    /* Reads the arguments' values, which are NULL where the caller gave none. */
    int (*read)(gop_request *r, const struct gop_signature *s, PyObject *const *values);
    gop_dtype least; /* integers are promoted to at least this dtype; 0: they are not */
    uint32_t dtypes; /* bits of those kinds */
    gop_op op;
    int reduction; /* a gop_reduce_op, or -1 */
    /* From its def: how many arguments may be positional, how many are required, all in order.
     */
    int positional, required;
    unsigned taken; /* bits of the words below */
    unsigned char words[GOP_NARGUMENTS];
    PyObject *function;
} gop_signature;

/* Asks which operands, and whether `out`, are another library's. It comes before the first is
 * read, so that each is read only once. */
int gop_ask_libraries(gop_request *r, PyObject *const *operands, int count);
/* Adds and reads the first operand. It has to be of a dtype that the function takes. */
int gop_read_first(gop_request *r, const gop_signature *s, PyObject *a);
/* Has an operand read in another dtype. */
int gop_read_input_as(gop_request *r, int i, gop_dtype dtype);
/* Reads axes of the first operand. `several`: they may be any sequence. */
int gop_read_axes_of(gop_request *r, PyObject *value, int several, gop_axes *axes);
/* The axes as Python takes them, borrowed. */
PyObject *gop_axes_tuple(gop_request *r, const gop_axes *axes);
/* Reads kernel, params and device. */
int gop_read_how(gop_request *r, PyObject *const *values);
/* The value of an argument, borrowed; NULL: none was given, or None. */
static inline PyObject *gop_given(PyObject *value)
{
    return value == Py_None ? NULL : value;
}
/* The same of `out`, where `...` is none. */
static inline PyObject *gop_out_of(PyObject *value)
{
    return value == Py_Ellipsis ? NULL : gop_given(value);
}
extern PyMethodDef gop_front_functions[]; /* front, call_of */

/* ---- reduction.c ---- */

int gop_read_reduction(gop_request *r, const gop_signature *s, PyObject *const *values);

/* ---- ask.c: what Python is asked about one argument ---- */

/* The functions of gpuops/_call/arguments.py, each of which answers a question. */
/* clang-format off */
#define GOP_QUESTIONS(X)                                                                       \
    X(as_words) X(cast) X(convert) X(dtype_of_numbers) X(exactness) X(initial) X(kernel_name)  \
    X(mask) X(number) X(output) X(parse) X(read_axes) X(read_dtypes) X(read_keepdims)          \
    X(read_tunables) X(reduction_word) X(refuse) X(refuse_dtype) X(store) X(store_check)       \
    X(warn_of_empty)
/* clang-format on */
#define X(function) GOP_ASK_##function,
enum { GOP_QUESTIONS(X) GOP_NQUESTIONS };
#undef X
/* Members of devices.py and arrays.py. */
#define GOP_MEMBERS_OF_DEVICES(X) X(defaults) X(places) X(Device) X(locate) X(automatic) X(at)
#define GOP_MEMBERS_OF_ARRAYS(X) X(DeviceArray) X(let_go) X(give_back)
#define X(member) GOP_OF_##member,
enum { GOP_MEMBERS_OF_DEVICES(X) GOP_MEMBERS_OF_ARRAYS(X) GOP_NMEMBERS };
#undef X
extern PyObject *gop_members[GOP_NMEMBERS];
PyObject *gop_pack_tuple(PyObject *const *items, Py_ssize_t count);
/* Keeps an object, whose reference it takes, as long as the request lives. Borrowed. */
PyObject *gop_keep(gop_request *r, PyObject *owned);
/* The answer to a question. It is borrowed, as the request keeps it, and the request's arrays
 * have to be read anew. Without a request it is a new reference. */
PyObject *gop_ask(gop_request *r, int question, const char *format, ...);
int gop_is_critical(void); /* 1 for an exception that is no error, such as Ctrl-C */
extern PyMethodDef gop_ask_functions[]; /* setup, setup_arguments */

/* ---- convert.c: failures, dtypes, devices, shapes ---- */

PyObject *gop_import(const char *module, const char *name); /* a member of a module */
/* Raises the calling thread's failure as its Python exception. Always NULL. */
PyObject *gop_raise(void);
/* 0, or -1 with the exception of that failure */
static inline int gop_done(gop_status status)
{
    if (status != GOP_OK) gop_raise();
    return status == GOP_OK ? 0 : -1;
}
/* Raises an exception, with a sentence as PyErr_Format takes it. Always -1. */
int gop_refuse(PyObject *exception, const char *format, ...);
/* Returns 1 for NumPy's own native dtypes and bfloat16. */
int gop_plain_dtype(const PyArray_Descr *descr, gop_dtype *out);
int gop_read_dtype(PyObject *dtype, gop_dtype *out); /* of anything that numpy.dtype() takes */
PyArray_Descr *gop_descr(gop_dtype dtype);
const gop_backend *gop_backend_of(const char *name);
int gop_read_device(PyObject *pair, gop_device *device); /* ("cuda", 0) */
PyObject *gop_device_pair(gop_device device);
PyObject *gop_device_object(gop_device device); /* the gpuops.Device */
PyObject *gop_shape_tuple(int ndim, const int64_t *values);
PyObject *gop_register_bfloat16(PyObject *module, PyObject *dtype); /* a function of it */

/* ---- params.c: parameters of a given call, from a dict ---- */

int gop_read_op(const char *name, gop_op *op);
/* Reads params into call->params, and a second output if the operation has one. */
int gop_read_params(PyObject *params, gop_call *call);
int gop_read_tunables(PyObject *tunables, gop_call *call);
int gop_read_axes(PyObject *tuple, const gop_call *call, gop_axes *axes); /* or None */
/* Reads `initial` of a reduction by the dtype of its result. */
int gop_read_initial(PyObject *initial, gop_dtype dtype, gop_reduce_params *params);
int gop_read_precision(PyObject *word, gop_precision *precision);

/* ---- buffer.c: device arrays ---- */

int gop_buffer_ready(PyObject *module);
/* The array of a Buffer, or of a Handle of one; NULL for any other object. */
const gop_array *gop_buffer_array(PyObject *object);
int gop_buffer_readonly(PyObject *buffer);
/* Makes device memory of the array's dtype, shape and strides (without gaps); sets data and
 * where. */
PyObject *gop_buffer_new(const char *op, gop_array *array, gop_device device);
/* Fails if addresses of its elements would not fit a pointer. */
int gop_check_reach(const char *what, const gop_array *array);
/* Sets the ordinal of a CUDA array to that of the GPU whose memory it is. */
int gop_check_whose(gop_array *array);
/* Reads what another library says of memory at array->data: its shape, and its strides in bytes
 * or None for C order. Checks its reach. */
int gop_read_layout(const char *what, PyObject *shape, PyObject *strides, gop_array *array);
PyObject *gop_buffer_borrow(const gop_array *array, PyObject *owner, int readonly);
extern PyMethodDef gop_buffer_functions[]; /* upload, empty, borrow, order, wait */
int gop_is_device_array(PyObject *object); /* 1 for a gpuops.DeviceArray, which is a Handle */
PyObject *gop_device_array(PyObject *buffer, PyObject *kind);
PyObject *gop_handle_kind(PyObject *handle); /* borrowed: its library's word, or None */

/* ---- more functions for Python ---- */

extern PyMethodDef gop_numeric_functions[]; /* casts, copy, norms, promote, ... */
extern PyMethodDef gop_table_functions[];   /* ladder, devices, threads, ... */
extern PyMethodDef gop_module_functions[];  /* load_module, launch */

#endif
