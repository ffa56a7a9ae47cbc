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

/* ---- ask.c: strings of Python's, made once: one made for each look-up would cost more ---- */

/* The words of the public functions, keys of parameters, and what other libraries' arrays have.
 * GOP_WORD_axis is the number of "axis". */
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

/* ---- foreign.c ---- */

typedef enum gop_library { GOP_NO_LIBRARY, GOP_CUPY, GOP_TORCH } gop_library;

/* An array of these libraries, between being asked and being read. */
typedef struct gop_foreign {
    gop_library library;
    const void *api; /* PyTorch's table of functions */
    PyObject *owner; /* what keeps CuPy's memory, or NULL; the asker's to let go */
    gop_array array; /* CuPy's */
} gop_foreign;

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

/* ---- request.c: a call on its way from Python's arguments to the core ---- */

/* Arrays of other libraries: operands of the public functions, and a result that is given. */
enum { GOP_OUT = 3, GOP_FOREIGN, GOP_KEPT = 48 };

typedef struct gop_request {
    gop_call call;
    gop_run_options options;
    const char *name; /* of the function that was called */
    int count;        /* operands */
    /* Borrowed, as all objects here that are not in `kept`: NumPy's arrays, device arrays,
     * arrays of other libraries, or pairs of an array and the dtype that it is read in. */
    PyObject *inputs[GOP_MAX_INPUTS];
    int as[GOP_MAX_INPUTS];           /* the dtype that kernels are to have it in, or -1 */
    gop_foreign foreign[GOP_FOREIGN]; /* those of other libraries */
    int nasked;                       /* how many were asked, or are none */
    unsigned lent;                    /* bits of those that are */
    unsigned on_device; /* bits of the operands that are device arrays: then results are too */
    /* Read once the device is known: a dict with all parameters of a given call; of others what
     * is wrong, or cannot be read without the result's dtype. Or NULL. */
    PyObject *params, *axes, *initial, *precision;
    gop_axes *late_axes; /* where `axes` go */
    PyObject *device;    /* what names it, or NULL */
    PyObject *tunables;  /* a dict of integers, or NULL */
    PyObject *out;       /* what the caller gave for the result, or NULL */
    PyObject *target;    /* the same as an array, once it is read */
    PyObject *finish;    /* what makes the caller's result of the core's, or NULL */
    int is_given;        /* by a function of Python, with `params` */
    int is_strict;       /* `out` is an array that fits, or the call is refused */
    int is_read;         /* the arrays, since code of the caller's may have run */
    int is_scalar;       /* a result of no axes is a number */
    int is_elementwise;  /* operands of one layout may be read as lines */
    int is_lines;        /* and are: what is made for the result has the shape of the first */
    int spreads;         /* `out` may be larger: 1; 2: but not along the matrices' axes */
    int nkept;
    PyObject *kept[GOP_KEPT];
} gop_request;

static inline int gop_is_lent(const gop_request *r, int i)
{
    return i < GOP_OUT && (r->lent >> i & 1);
}

static inline int gop_is_out_lent(const gop_request *r)
{
    return r->lent >> GOP_OUT & 1;
}

/* Code of the caller's may have run: what was read of arrays may hold no more. */
static inline void gop_code_ran(gop_request *r)
{
    r->is_read = r->options.fits = 0;
}

/* ---- operands.c ---- */

void gop_request_begin(gop_request *r);
void gop_request_end(gop_request *r);
int gop_add_input(gop_request *r, PyObject *object); /* its number */
/* Elementwise operands that lie alike, each as a line; 0 where they do not. */
int gop_read_lines(gop_request *r);
int gop_read_inputs(gop_request *r);
/* Makes a DeviceArray of another library's array, for Python. */
int gop_wrap_input(gop_request *r, int i);
int gop_read_out(gop_request *r);
int gop_wrap_out(gop_request *r);
/* What the target is as an array; 0 for one of a dtype that the core has not, -1 with an
 * exception. */
int gop_look_at_target(gop_request *r, gop_array *array);
/* Sets dtype, shape, strides and place of an output that is to be made; -1 with an exception.
 */
int gop_infer_output(gop_request *r);

/* ---- request.c ---- */

/* Operands and parameters as the core takes them. */
int gop_request_given(gop_request *r, PyObject *op, PyObject *inputs, PyObject *params);
/* Tunables, device, arrays and parameters: from here on only the output is missing. */
int gop_request_settle(gop_request *r);
PyObject *gop_make_output(gop_request *r);
PyObject *gop_request_run(gop_request *r);

/* ---- timed.c ---- */

PyObject *gop_request_plan(gop_request *r, const gop_device_info *like);
PyObject *gop_request_time(gop_request *r, PyObject *warmup, PyObject *repeat, PyObject *cold);

/* ---- call.c ---- */

int gop_call_ready(PyObject *module);
PyObject *gop_call_new(PyObject *given); /* a Call that is to be read; keeps `given` */
gop_request *gop_call_request(PyObject *call);

/* ---- place.c ---- */

int gop_place_ready(void);
extern PyMethodDef gop_place_functions[]; /* setup */
int gop_is_plain_place(PyObject *word);   /* looking it up runs no code */
/* The (backend, ordinal) of what names a device, a new reference; None for None and "auto". May
 * run code of the caller's. */
PyObject *gop_look_up_place(PyObject *word);
/* Sets the device of a call whose arrays are read: the named one, or else where its device
 * arrays lie, or unless something was said the default, or what fits. 1 where Python was asked
 * and the arrays are to be read anew, -1 with an exception. */
int gop_choose_place(gop_request *r, PyObject *named, int said);
/* A result in memory of the allocator of the operands' library; NULL where there is none. */
PyObject *gop_make_theirs(gop_request *r);
/* Hands the operands' memory back to their libraries, whose work comes after ours from here on,
 * and gives a result that was made to the first of them, unless it is theirs. Takes the
 * reference to the result. */
PyObject *gop_give(const gop_request *r, PyObject *made, int is_theirs);
/* A dict of facts whose device is gpuops.Device from here on; takes the reference. */
PyObject *gop_with_device(PyObject *facts);

/* ---- front.c: the functions that users call ---- */

typedef struct gop_signature {
    const char *name;
    PyObject *(*entry)(PyObject *module, PyObject *const *arguments, Py_ssize_t count,
                       PyObject *said);
    int operands;
    const char *kinds; /* of the dtypes that it takes, or "any" */
    /* Reads the words' values, NULL for what was not said; -1 with an exception. */
    int (*read)(gop_request *r, const struct gop_signature *s, PyObject *const *values);
    gop_dtype least; /* takes part in the promotion of integers; 0: none does */
    uint32_t dtypes; /* bits of those kinds */
    gop_op op;
    int reduction; /* a gop_reduce_op, or -1 */
    /* From its def: the words in their order, how many may be said by their places, and how
     * many have to be said. */
    int count, positional, required;
    unsigned char words[GOP_NARGUMENTS];
    PyObject *function;
} gop_signature;

extern PyMethodDef gop_front_functions[]; /* front, call_of */

/* ---- arguments.c: one argument after the other ---- */

int gop_read_elementwise(gop_request *r, const gop_signature *s, PyObject *const *values);
int gop_read_matmul(gop_request *r, const gop_signature *s, PyObject *const *values);
int gop_read_transpose(gop_request *r, const gop_signature *s, PyObject *const *values);
/* Adds the first operand, of the dtypes that the function takes, after `out` was asked whose it
 * is. */
int gop_read_first(gop_request *r, const gop_signature *s, PyObject *a, PyObject *out);
int gop_read_input_as(gop_request *r, int i, int word, gop_dtype dtype);
/* Axes beside the first operand; `several` may stand in any sequence. */
int gop_read_axes_of(gop_request *r, PyObject *value, int several, gop_axes *axes);
int gop_read_how(gop_request *r, PyObject *kernel, PyObject *tunables, PyObject *device);
PyObject *gop_out_of(PyObject *value); /* NULL for None and `...` */
int gop_ask_out(gop_request *r);       /* whose it is, of a call that is given */

/* ---- reduction.c ---- */

int gop_read_reduction(gop_request *r, const gop_signature *s, PyObject *const *values);

/* ---- ask.c: what Python is asked about one argument ---- */

/* The questions, and the functions of gpuops/_call/arguments.py that answer them. */
/* clang-format off */
#define GOP_QUESTIONS(X)                                                                       \
    X(REFUSE, refuse) X(CONVERT, convert) X(NUMBER, number) X(NUMBERS, dtype_of_numbers)       \
    X(CAST, read_as) X(BAD_DTYPE, refuse_dtype) X(AXES, read_axes) X(KERNEL, kernel_name)      \
    X(TUNABLES, read_tunables) X(DEVICE, parse) X(OUT, output) X(STORE_CHECK, store_check)     \
    X(STORE, store_into) X(WORDS, as_words) X(REDUCTION, reduction_word) X(EXACT, exactness)   \
    X(KEEPDIMS, read_keepdims) X(DTYPES, read_dtypes) X(MASK, read_mask)                       \
    X(INITIAL, read_initial) X(EMPTY, warn_of_empty) X(FINAL, to_final)
/* clang-format on */
#define X(enumerator, function) GOP_ASK_##enumerator,
enum { GOP_QUESTIONS(X) GOP_NQUESTIONS };
#undef X
PyObject *gop_pack_tuple(PyObject *const *items, Py_ssize_t count); /* a new tuple */
/* Takes the reference to an object, which lives as long as the request; borrowed, or NULL. */
PyObject *gop_keep(gop_request *r, PyObject *owned);
/* The answer, borrowed: the request keeps it, and its arrays are to be read anew. Without a
 * request a new reference. NULL with an exception. */
PyObject *gop_ask(gop_request *r, int question, const char *format, ...);
int gop_is_critical(void);              /* an exception is set that is no error, as Ctrl-C */
extern PyMethodDef gop_ask_functions[]; /* setup_arguments */

/* ---- promote.c ---- */

extern PyMethodDef gop_promote_functions[]; /* casts, copy, float_environment, promote */

/* ---- exact.c ---- */

extern PyMethodDef gop_exact_functions[]; /* exact_round */

/* ---- convert.c ---- */

int gop_numpy_ready(void);
/* Raises the calling thread's failure as its Python exception; always returns NULL. */
PyObject *gop_raise(void);

int gop_read_ndarray(PyObject *object, gop_array *array, int writable);
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

int gop_read_op(const char *name, gop_op *op);
/* Reads params into call->params, and a second output if the op has one. */
int gop_read_params(PyObject *params, gop_call *call);
int gop_read_tunables(PyObject *tunables, gop_call *call);
int gop_read_axes(PyObject *tuple, const char *op, gop_axes *axes);
/* Reads `initial` of a reduction, after its operands. */
int gop_read_initial(PyObject *initial, gop_call *call);
int gop_read_precision(PyObject *word, gop_precision *precision);

/* ---- buffer.c ---- */

extern PyTypeObject *gop_buffer_type;
int gop_buffer_ready(PyObject *module);
/* The array of a Buffer, or of a Handle of one; NULL for anything else. */
const gop_array *gop_buffer_array(PyObject *object);
int gop_buffer_readonly(PyObject *buffer);
/* Reads an ndarray or a Buffer into a gop_array, or a pair of one and the dtype that kernels
 * are to have it in; 0, or -1 with an exception. */
int gop_read_array(PyObject *object, gop_array *array, int writable);
/* Device memory of the array's dtype, shape and strides, which have no gaps; sets data, where.
 */
PyObject *gop_buffer_new(const char *op, gop_array *array, gop_device device);
/* Sets the ordinal of a CUDA array to that of the GPU whose memory it is; -1 with an exception
 * if it is none's. */
int gop_check_whose(gop_array *array);
/* Reads what another library says of memory at array->data: the shape, and strides in bytes, or
 * None for C order. Its reach is checked; 0, or -1 with an exception. */
int gop_read_layout(const char *what, PyObject *shape, PyObject *strides, gop_array *array);
PyObject *gop_buffer_borrow(const gop_array *array, PyObject *owner, int readonly);
extern PyMethodDef gop_buffer_functions[]; /* upload, empty, borrow, order, wait */
/* gpuops.DeviceArray, which is a Handle; of that class itself; a new one. */
extern PyObject *gop_device_array_class;
int gop_is_device_array(PyObject *object);
PyObject *gop_device_array(PyObject *buffer, PyObject *kind);
PyObject *gop_handle_kind(PyObject *handle); /* the word for its library, or None; borrowed */

/* ---- tables.c ---- */

extern PyMethodDef gop_table_functions[];

/* ---- modules.c ---- */

extern PyMethodDef gop_module_functions[]; /* load_module, launch */

#endif
