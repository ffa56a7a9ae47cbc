/*
 * request.c - parsing ends: a call whose arguments are read gets its arrays, its device and its
 * result. Then gop_run of core/road/parts.c runs it.
 *
 * arguments.c and reduction.c have read what users call. Python's own functions give operands
 * and parameters as the core takes them (gop_request_given).
 */
#include "core/arrays/cast.h"
#include "core/host/memory.h"
#include "python/python.h"

/* ---- a call as Python's own functions give it ---- */

int gop_request_given(gop_request *r, PyObject *op, PyObject *inputs, PyObject *params)
{
    r->name = PyUnicode_AsUTF8AndSize(op, NULL);
    if (!r->name || gop_read_op(r->name, &r->call.op) < 0) return -1;
    const Py_ssize_t count = PyTuple_Size(inputs);
    if (count < 0) return -1;
    if (count < 1 || count > GOP_MAX_INPUTS) {
        PyErr_Format(PyExc_TypeError, "%s: %zd inputs, expected 1 to %d", r->name, count,
                     GOP_MAX_INPUTS);
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) gop_add_input(r, PyTuple_GetItem(inputs, i));
    r->params = params;
    r->is_given = 1;
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

int gop_request_settle(gop_request *r)
{
    r->call.ntunables = 0;
    if (r->tunables && gop_read_tunables(r->tunables, &r->call) < 0) return -1;
    PyObject *named = gop_named_place(r);
    int status = named ? gop_read_inputs(r) : -1;
    r->call.nin = r->count;
    if (status == 0) status = read_late_params(r);
    if (status == 0) status = gop_choose_place(r, named);
    if (status > 0 || (status == 0 && r->params && r->params != Py_None)) {
        gop_code_ran(r);
        status = gop_read_inputs(r);
    }
    Py_XDECREF(named);
    return status < 0 ? -1 : 0;
}

/* ---- results ---- */

static PyObject *new_buffer(const gop_request *r, gop_array *out)
{
    gop_array whole; /* has the shape that was read as a line */
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
    PyErr_Clear(); /* NumPy's sentence names neither the operation nor the free memory */
    gop_no_memory(name, (size_t)gop_array_bytes(out));
    return gop_raise();
}

/* Whether the call ends before another thread could take the interpreter. */
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

/* Reads the output. Kernels write it in the result's dtype, which may be cast on the way. */
static int read_target(gop_request *r, int dtype)
{
    gop_array *const out = &r->call.out[0];
    if (r->options.fits) return 0; /* it was read when it was compared */
    if (gop_is_out_lent(r) && gop_read_foreign(r->target, &r->foreign[GOP_OUT], out)) return 0;
    if (gop_wrap_out(r) < 0 || gop_read_array(r->target, out, 1) < 0) return -1;
    if (dtype >= 0 && (int)out->dtype != dtype) gop_read_as(out, (gop_dtype)dtype);
    return 0;
}

/* Returns the caller's `out`, once its array `target` has the result. */
static PyObject *given_out(gop_request *r, PyObject *target)
{
    Py_INCREF(target);
    PyObject *given = gop_give(r, target, 0);
    if (!given) return NULL;
    Py_DECREF(given);
    Py_INCREF(r->out);
    return r->out;
}

/* `dtype` is the result's, or -1 if it has to be that of `out`. */
static PyObject *run_into(gop_request *r, int dtype)
{
    if (gop_request_settle(r) < 0) return NULL;
    do {
        if (gop_read_inputs(r) < 0 || read_target(r, dtype) < 0) return NULL;
    } while (!r->is_read);
    if (run(r) < 0) return NULL;
    return given_out(r, r->target);
}

/* Makes the result in an array of its own; Python then casts or repeats it into `out`. */
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

/* Whether a result is repeated over `out`, as NumPy's ufuncs do. A matmul's is not repeated
 * along the axes of its matrices. */
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
