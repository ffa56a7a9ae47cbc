/*
 * request.c - parsing ends: a call whose arguments are read gets its arrays, its device and its
 * result, and is run (gop_run of core/road/parts.c).
 *
 * What users call has been read by arguments.c and reduction.c; what Python's own functions ask
 * of the core is given as it is (gop_request_given). Code of the caller's may run until the
 * arrays are read, which is why that comes last; `is_read` says whether what was read still
 * holds.
 */
#include "core/arrays/cast.h"
#include "core/host/memory.h"
#include "core/ops/reduce.h"
#include "python/python.h"

void gop_request_begin(gop_request *r)
{
    r->name = NULL;
    r->count = 0;
    r->call.ntunables = 0;
    r->call.nout = 1;
    r->options.kernel = NULL;
    r->options.made = r->options.fits = 0;
    r->params = r->axes = r->initial = r->precision = NULL;
    r->device = r->tunables = r->out = r->target = r->finish = NULL;
    r->spreads = 0;
    r->on_device = r->lent = 0;
    r->is_given = r->is_strict = r->is_scalar = r->is_elementwise = r->is_lines = 0;
    r->is_read = 1; /* as there are none */
    r->nkept = 0;
    r->nasked = 0;
}

void gop_request_end(gop_request *r)
{
    for (int i = 0; i < r->nasked; i++) Py_XDECREF(r->foreign[i].owner);
    for (int i = 0; i < r->nkept; i++) Py_DECREF(r->kept[i]);
    r->nkept = 0;
}

PyObject *gop_keep(gop_request *r, PyObject *owned)
{
    if (owned && r->nkept < GOP_KEPT) return r->kept[r->nkept++] = owned;
    if (owned) PyErr_SetString(PyExc_SystemError, "a request keeps too much");
    Py_XDECREF(owned);
    return NULL;
}

int gop_add_input(gop_request *r, PyObject *object)
{
    r->inputs[r->count] = object;
    r->as[r->count] = -1;
    r->call.nin = r->count + 1;
    r->is_read = 0;
    return r->count++;
}

/* ---- arrays ---- */

/* NumPy's arrays, or device arrays, of one shape that lie without gaps in one order: whatever
 * their axes, an elementwise operation may read each as a line. */
typedef struct layout {
    int order; /* NumPy's flags for C and Fortran order; 0: there are gaps */
    int ndim;
    const npy_intp *shape;
} layout;

static layout layout_of(PyObject *object)
{
    enum { C = NPY_ARRAY_C_CONTIGUOUS, F = NPY_ARRAY_F_CONTIGUOUS };
    if (Py_TYPE(object) == &PyArray_Type) {
        PyArrayObject *a = (PyArrayObject *)object;
        return (layout){PyArray_FLAGS(a) & (C | F), PyArray_NDIM(a), PyArray_DIMS(a)};
    }
    const gop_array *a = gop_is_device_array(object) ? gop_buffer_array(object) : NULL;
    if (!a || !gop_is_c_order(a)) return (layout){0, 0, NULL};
    return (layout){C, a->ndim, (const npy_intp *)a->shape};
}

/* The orders in which all of them lie, of those of `first`. */
static int common_order(const layout *first, PyObject *const *objects, int count)
{
    int order = first->order;
    for (int i = 0; i < count && order; i++) {
        const layout one = layout_of(objects[i]);
        if (one.ndim != first->ndim) return 0;
        order &= one.order;
        for (int d = 0; d < one.ndim; d++)
            if (one.shape[d] != first->shape[d]) return 0;
    }
    return order;
}

static int read_line(PyObject *object, gop_array *line)
{
    const gop_array *device = NULL;
    if (Py_TYPE(object) == &PyArray_Type) {
        PyArrayObject *array = (PyArrayObject *)object;
        if (!gop_plain_dtype(PyArray_DESCR(array), &line->dtype)) return 0;
        line->data = PyArray_DATA(array);
        line->where = (gop_device){GOP_CPU, 0};
        line->shape[0] = PyArray_SIZE(array);
    } else {
        device = gop_buffer_array(object);
        line->dtype = device->dtype;
        line->data = device->data;
        line->where = device->where;
        line->shape[0] = gop_array_size(device);
    }
    line->stored = 0;
    line->ndim = 1;
    line->strides[0] = gop_dtype_size(line->dtype);
    return 1;
}

/* Of the same kind, on the same device and of the same dtype. */
static int is_alike(const gop_request *r, PyObject *object, const gop_array *line)
{
    const gop_array *first = &r->call.in[0];
    return Py_TYPE(object) == Py_TYPE(r->inputs[0]) && line->dtype == first->dtype &&
           line->where.backend == first->where.backend &&
           line->where.ordinal == first->where.ordinal;
}

/* An `out` that the result fits as it is, and that shares no memory with the inputs, but may be
 * one of them. Then it is as good as one that was made for the call. */
static int read_line_out(gop_request *r, const layout *first, int order)
{
    gop_array *const out = &r->call.out[0];
    if (r->target) return 0; /* it was read as an array before */
    if (!(common_order(first, &r->out, 1) & order) || !gop_is_writable(r->out)) return 0;
    if (!read_line(r->out, out) || !is_alike(r, r->out, out)) return 0;
    for (int i = 0; i < r->count; i++)
        if (out->data != r->call.in[i].data && gop_array_may_overlap(out, &r->call.in[i]))
            return 0;
    return r->options.fits = r->options.made = gop_array_is_item_aligned(out);
}

int gop_read_lines(gop_request *r)
{
    r->is_lines = r->options.fits = r->options.made = 0;
    if (!r->is_elementwise) return 0;
    const layout first = layout_of(r->inputs[0]);
    const int order = common_order(&first, r->inputs + 1, r->count - 1);
    if (!order) return 0;
    for (int i = 0; i < r->count; i++)
        if (!read_line(r->inputs[i], &r->call.in[i]) || r->as[i] >= 0 ||
            !is_alike(r, r->inputs[i], &r->call.in[i]))
            return 0;
    const int on_device = Py_TYPE(r->inputs[0]) != &PyArray_Type;
    if (r->out ? !read_line_out(r, &first, order) : on_device && gop_is_of_library(r)) return 0;
    r->on_device = on_device ? (1u << r->count) - 1 : 0;
    return r->is_lines = r->is_read = 1;
}

/* Without running code of the caller's: 1 for an array of another library that is no more what
 * it was when it was asked. */
static int read_input(gop_request *r, int i)
{
    gop_array *const array = &r->call.in[i];
    if (gop_plain_array(r->inputs[i], array)) return 0;
    if (gop_is_lent(r, i)) {
        if (!gop_read_foreign(r->inputs[i], &r->foreign[i], array)) return 1;
    } else if (gop_read_array(r->inputs[i], array, 0) < 0) return -1;
    else if (!gop_buffer_array(r->inputs[i])) return 0;
    r->on_device |= 1u << i;
    return 0;
}

int gop_wrap_input(gop_request *r, int i)
{
    if (!gop_is_lent(r, i)) return 0;
    PyObject *wrapped =
        gop_ask(r, GOP_ASK_CONVERT, "(sOO)", r->name, gop_words[GOP_WORD_A + i], r->inputs[i]);
    if (!wrapped) return -1;
    r->lent &= ~(1u << i);
    r->inputs[i] = wrapped;
    return 0;
}

int gop_read_inputs(gop_request *r)
{
    if (r->is_read || gop_read_lines(r)) return 0;
    r->on_device = 0;
    for (int i = 0; i < r->count; i++) {
        const int status = read_input(r, i);
        if (status < 0) return -1;
        if (status > 0) { /* which runs code: all are read anew */
            PyErr_Clear();
            if (gop_wrap_input(r, i) < 0) return -1;
            r->on_device = 0;
            i = -1;
            continue;
        }
        gop_array *const in = &r->call.in[i];
        if (r->as[i] >= 0 && gop_can_cast(in->dtype, (gop_dtype)r->as[i]))
            gop_read_as(in, (gop_dtype)r->as[i]);
    }
    r->is_read = 1;
    return 0;
}

/* ---- parameters and device ---- */

static int read_late_params(gop_request *r)
{
    r->call.nout = 1;
    if (r->is_given) return gop_read_params(r->params, &r->call);
    if (r->axes &&
        gop_read_axes(r->axes, gop_descriptor_of(r->call.op)->name, r->late_axes) < 0)
        return -1;
    if (r->initial && gop_read_initial(r->initial, &r->call) < 0) return -1;
    if (r->precision) return gop_read_precision(r->precision, &r->call.params.matmul.precision);
    return 0;
}

/* A pair is the package's own word for a device. */
static PyObject *device_named(gop_request *r)
{
    PyObject *word = r->device ? r->device : Py_None;
    if (!gop_is_plain_place(word)) gop_code_ran(r);
    if (!PyTuple_CheckExact(word)) return gop_look_up_place(word);
    Py_INCREF(word);
    return word;
}

int gop_request_settle(gop_request *r)
{
    r->call.ntunables = 0;
    if (r->tunables && gop_read_tunables(r->tunables, &r->call) < 0) return -1;
    PyObject *named = device_named(r);
    int status = named ? gop_read_inputs(r) : -1;
    r->call.nin = r->count;
    if (status == 0) status = read_late_params(r);
    if (status == 0) status = gop_choose_place(r, named, r->device && r->device != Py_None);
    if (status > 0 || (status == 0 && r->params && r->params != Py_None)) {
        gop_code_ran(r);
        status = gop_read_inputs(r);
    }
    Py_XDECREF(named);
    return status < 0 ? -1 : 0;
}

/* ---- results ---- */

int gop_infer_output(gop_request *r)
{
    gop_array inferred[GOP_MAX_OUTPUTS];
    gop_array *const out = &r->call.out[0], *const to = r->call.nout == 1 ? out : inferred;
    if (gop_infer_outputs(&r->call, to) != GOP_OK) return gop_raise(), -1;
    if (to != out) gop_array_assign(out, to);
    out->where = r->options.device;
    gop_lay_out(&r->call, out);
    return 0;
}

static PyObject *new_buffer(const gop_request *r, gop_array *out)
{
    gop_array whole; /* of the shape that was read as a line */
    if (!r->is_lines) return gop_buffer_new(gop_call_name(&r->call), out, r->options.device);
    gop_array_assign(&whole, gop_buffer_array(r->inputs[0]));
    PyObject *made = gop_buffer_new(gop_call_name(&r->call), &whole, r->options.device);
    out->data = whole.data;
    out->where = r->options.device;
    return made;
}

PyObject *gop_make_output(gop_request *r)
{
    if (gop_infer_output(r) < 0) return NULL;
    r->options.made = r->options.fits = r->call.nout == 1;
    gop_array *out = &r->call.out[0];
    const char *name = gop_call_name(&r->call);
    if (r->on_device) return new_buffer(r, out);
    PyObject *made =
        r->is_lines ? gop_new_like(out, (PyArrayObject *)r->inputs[0]) : gop_new_ndarray(out);
    if (made || !PyErr_ExceptionMatches(PyExc_MemoryError)) return made;
    PyErr_Clear(); /* NumPy's sentence names neither the operation nor what is free */
    gop_no_memory(name, (size_t)gop_array_bytes(out));
    return gop_raise();
}

/* Whether the call is over before another thread could have the interpreter. */
static int is_short(const gop_request *r)
{
    enum { SHORT = 1 << 14 }; /* elements of an array: microseconds */
    if (r->options.device.backend != GOP_CPU || !gop_descriptor_of(r->call.op)->once) return 0;
    if (gop_array_size(&r->call.in[0]) > SHORT) return 0;
    return gop_array_size(&r->call.out[0]) <= SHORT;
}

static int run(gop_request *r)
{
    gop_status status;
    if (is_short(r)) {
        status = gop_run(&r->call, &r->options);
    } else {
        Py_BEGIN_ALLOW_THREADS;
        status = gop_run(&r->call, &r->options);
        Py_END_ALLOW_THREADS;
    }
    return status == GOP_OK ? 0 : (gop_raise(), -1);
}

static PyObject *finished(const gop_request *r, PyObject *result)
{
    if (!result) return NULL;
    if (r->finish) {
        PyObject *made = PyObject_CallFunctionObjArgs(r->finish, result, NULL);
        Py_DECREF(result);
        return made;
    }
    if (!r->is_scalar || Py_TYPE(result) != &PyArray_Type) return result;
    return PyArray_Return((PyArrayObject *)result); /* of no axes: a scalar */
}

static PyObject *run_into_new(gop_request *r)
{
    if (gop_request_settle(r) < 0) return NULL;
    PyObject *theirs = gop_make_theirs(r);
    if (!theirs && PyErr_Occurred()) return NULL;
    PyObject *made = theirs ? theirs : gop_make_output(r);
    if (!made) return NULL;
    if (run(r) == 0) return gop_give(r, made, theirs != NULL);
    Py_DECREF(made);
    return NULL;
}

/* The output as kernels write it, in a dtype that is cast on the way where it is not its own.
 */
static int read_target(gop_request *r, int dtype)
{
    gop_array *const out = &r->call.out[0];
    if (r->options.fits) return 0; /* it was read when it was compared */
    if (gop_is_out_lent(r) && gop_read_foreign(r->target, &r->foreign[GOP_OUT], out)) return 0;
    if (gop_wrap_out(r) < 0 || gop_read_array(r->target, out, 1) < 0) return -1;
    if (dtype >= 0 && (int)out->dtype != dtype) gop_read_as(out, (gop_dtype)dtype);
    return 0;
}

/* What was given for the result, once that is in `target`, the same as an array. */
static PyObject *given_out(gop_request *r, PyObject *target)
{
    Py_INCREF(target);
    PyObject *given = gop_give(r, target, 0);
    if (!given) return NULL;
    Py_DECREF(given);
    Py_INCREF(r->out);
    return r->out;
}

/* `dtype` is the result's, or -1: it has to be that of `out`. */
static PyObject *run_into(gop_request *r, int dtype)
{
    if (gop_request_settle(r) < 0) return NULL;
    do {
        if (gop_read_inputs(r) < 0 || read_target(r, dtype) < 0) return NULL;
    } while (!r->is_read);
    if (run(r) < 0) return NULL;
    return given_out(r, r->target);
}

/* The result in an array of its own, from where Python casts or repeats it into `out`. */
static PyObject *run_beside(gop_request *r, int spreads)
{
    gop_array *const out = &r->call.out[0];
    npy_intp shape[GOP_MAX_NDIM];
    for (int d = 0; d < out->ndim; d++) shape[d] = (npy_intp)out->shape[d];
    PyArray_Descr *descr = gop_descr(out->dtype);
    PyObject *result = descr ? PyArray_Empty(out->ndim, shape, descr, 0) : NULL;
    if (!gop_keep(r, result) || gop_request_settle(r) < 0) return NULL;
    if (gop_read_array(result, out, 1) < 0 || run(r) < 0) return NULL;
    Py_INCREF(result);
    result = gop_give(r, result, 0);
    if (!result) return NULL;
    PyObject *stored =
        gop_ask(r, GOP_ASK_STORE, "(sOONi)", r->name, r->out, r->target, result, spreads);
    Py_XINCREF(stored);
    return stored;
}

/* Whether a result is to be repeated over `out`, as NumPy's ufuncs do; of a matmul never along
 * the axes of the matrices themselves. */
static int is_spread(const gop_request *r)
{
    const gop_array *const result = &r->call.out[0];
    if (Py_TYPE(r->target) != &PyArray_Type || !r->spreads) return 0;
    PyArrayObject *onto = (PyArrayObject *)r->target;
    const int more = PyArray_NDIM(onto) - result->ndim;
    int core = 0, same = more == 0;
    for (int i = 0; r->spreads > 1 && i < r->count; i++) core += r->call.in[i].ndim > 1;
    if (more < 0) return 0;
    for (int d = 0; d < result->ndim; d++) {
        const int64_t from = result->shape[d], to = PyArray_DIM(onto, more + d);
        if (from == to) continue;
        if (from != 1 || d >= result->ndim - core) return 0;
        same = 0;
    }
    return !same;
}

static PyObject *run_into_out(gop_request *r)
{
    gop_array target;
    if (r->is_lines && gop_request_settle(r) < 0) return NULL;
    if (r->is_lines) return run(r) < 0 ? NULL : given_out(r, r->out);
    if (!r->target && gop_read_out(r) < 0) return NULL;
    if (gop_read_inputs(r) < 0) return NULL;
    r->call.nin = r->count;
    if (read_late_params(r) < 0) return NULL;
    if (gop_infer(&r->call) != GOP_OK) return gop_raise();
    const gop_array *const result = &r->call.out[0];
    const gop_dtype dtype = result->dtype;
    const int known = gop_look_at_target(r, &target);
    if (known < 0) return NULL;
    const int plain = known && target.dtype == dtype && !target.stored;
    const int spreads = is_spread(r);
    r->options.fits =
        plain && r->call.nout == 1 && target.ndim == result->ndim &&
        memcmp(target.shape, result->shape, (size_t)target.ndim * sizeof *target.shape) == 0;
    if (r->options.fits) gop_array_assign(&r->call.out[0], &target);
    if (!plain || spreads) {
        if (gop_wrap_out(r) < 0) return NULL;
        PyObject *shape = spreads ? PyObject_GetAttrString(r->target, "shape")
                                  : gop_shape_tuple(result->ndim, result->shape);
        if (!shape || !gop_ask(r, GOP_ASK_STORE_CHECK, "(sNON)", r->name, gop_descr(dtype),
                               r->target, shape))
            return NULL;
    }
    if (!spreads && (plain || (known && gop_can_cast(dtype, target.dtype))))
        return run_into(r, (int)dtype);
    return run_beside(r, spreads);
}

PyObject *gop_request_run(gop_request *r)
{
    if (r->is_strict && r->out) return run_into(r, -1);
    return finished(r, r->out ? run_into_out(r) : run_into_new(r));
}
