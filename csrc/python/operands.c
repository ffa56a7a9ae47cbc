/*
 * operands.c - parsing: arrays of NumPy and device arrays, and those of a request, which are
 * its inputs, `out` and the result.
 *
 * Reading them runs none of the caller's code. If such code may have run since, what was read
 * may no longer hold: `is_read` is 0, and they are read anew.
 */
#include "core/arrays/cast.h"
#include "python/python.h"

/* ---- an array ---- */

static void read_layout(PyArrayObject *ndarray, gop_array *array)
{
    array->data = PyArray_DATA(ndarray);
    array->stored = 0;
    array->ndim = PyArray_NDIM(ndarray);
    array->where = (gop_device){GOP_CPU, 0};
    for (int d = 0; d < array->ndim; d++) {
        array->shape[d] = PyArray_DIM(ndarray, d);
        array->strides[d] = PyArray_STRIDE(ndarray, d);
    }
}

void gop_read_as(gop_array *array, gop_dtype dtype)
{
    if (!array->stored && array->dtype != dtype) array->stored = 1 + (int)array->dtype;
    array->dtype = dtype;
}

static int read_ndarray(PyObject *object, gop_array *array)
{
    if (!PyArray_Check(object))
        return gop_refuse(PyExc_TypeError, "expected a numpy.ndarray or a Buffer, got %s",
                          Py_TYPE(object) == &PyType_Type ? "a type" : "another object");
    PyArrayObject *ndarray = (PyArrayObject *)object;
    if (gop_read_dtype((PyObject *)PyArray_DESCR(ndarray), &array->dtype) < 0) return -1;
    read_layout(ndarray, array);
    if (!PyArray_ISNOTSWAPPED(ndarray)) array->stored = (1 + (int)array->dtype) | GOP_SWAPPED;
    return 0;
}

int gop_plain_array(PyObject *object, gop_array *array)
{
    if (Py_TYPE(object) != &PyArray_Type) return 0;
    PyArrayObject *ndarray = (PyArrayObject *)object;
    if (!gop_plain_dtype(PyArray_DESCR(ndarray), &array->dtype)) return 0;
    read_layout(ndarray, array);
    return 1;
}

/* (array, dtype) */
static int read_pair(PyObject *pair, gop_array *array, int writable)
{
    gop_dtype dtype;
    if (gop_read_array(PyTuple_GetItem(pair, 0), array, writable) < 0 ||
        gop_read_dtype(PyTuple_GetItem(pair, 1), &dtype) < 0)
        return -1;
    const gop_dtype from = writable ? dtype : array->dtype,
                    to = writable ? array->dtype : dtype;
    if (gop_can_cast(from, to) && gop_array_on_host(array)) return gop_read_as(array, dtype), 0;
    return gop_refuse(PyExc_TypeError, "an array of %s is not cast to %s", gop_dtype_name(from),
                      gop_dtype_name(to));
}

int gop_read_array(PyObject *object, gop_array *array, int writable)
{
    if (PyTuple_CheckExact(object) && PyTuple_Size(object) == 2)
        return read_pair(object, array, writable);
    const gop_array *device = gop_buffer_array(object);
    const int readonly =
        device ? gop_buffer_readonly(object)
               : PyArray_Check(object) && !PyArray_ISWRITEABLE((PyArrayObject *)object);
    if (writable && readonly) return gop_refuse(PyExc_ValueError, "output array is read-only");
    if (!device) return read_ndarray(object, array);
    gop_array_assign(array, device);
    return 0;
}

/* ---- arrays of one layout, read as lines ---- */

/* Arrays of one shape that lie without gaps in one order. An elementwise operation may read
 * each as a line, whatever their axes. */
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

/* The orders of `first` in which all of them lie. */
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
    if (Py_TYPE(object) == &PyArray_Type) {
        PyArrayObject *array = (PyArrayObject *)object;
        if (!gop_plain_dtype(PyArray_DESCR(array), &line->dtype)) return 0;
        line->data = PyArray_DATA(array);
        line->where = (gop_device){GOP_CPU, 0};
        line->shape[0] = PyArray_SIZE(array);
    } else {
        const gop_array *device = gop_buffer_array(object);
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

int gop_same_place(gop_device a, gop_device b)
{
    return a.backend == b.backend && a.ordinal == b.ordinal;
}

/* Whether an operand has the kind, dtype and device of the first input. */
static int is_alike(const gop_request *r, PyObject *object, const gop_array *line)
{
    const gop_array *first = &r->call.in[0];
    if (Py_TYPE(object) != Py_TYPE(r->inputs[0]) || line->dtype != first->dtype) return 0;
    return Py_TYPE(object) == &PyArray_Type || gop_same_place(line->where, first->where);
}

static int is_writable(PyObject *out)
{
    if (Py_TYPE(out) == &PyArray_Type) return PyArray_ISWRITEABLE((PyArrayObject *)out);
    return gop_is_device_array(out) && !gop_buffer_readonly(out);
}

/* Reads an `out` that the result fits as it is. It may be one of the inputs, but may not share
 * memory with them otherwise. Then it is as good as one that was made for the call. */
static int read_line_out(gop_request *r, const layout *first, int order)
{
    gop_array *const out = &r->call.out[0];
    if (r->target) return 0; /* it was read as an array before */
    if (!(common_order(first, &r->out, 1) & order) || !is_writable(r->out)) return 0;
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
        if (r->as[i] >= 0 || !read_line(r->inputs[i], &r->call.in[i]) ||
            (i > 0 && !is_alike(r, r->inputs[i], &r->call.in[i])))
            return 0;
    const int on_device = Py_TYPE(r->inputs[0]) != &PyArray_Type;
    if (r->out ? !read_line_out(r, &first, order) : on_device && gop_first_lent(r) >= 0)
        return 0;
    r->on_device = on_device ? (1u << r->count) - 1 : 0;
    return r->is_lines = r->is_read = 1;
}

/* ---- inputs ---- */

int gop_is_lent(const gop_request *r, int i)
{
    return i < GOP_OUT && (r->lent >> i & 1);
}

int gop_is_out_lent(const gop_request *r)
{
    return r->lent >> GOP_OUT & 1;
}

PyObject *gop_library_of(const gop_request *r, int i)
{
    if (gop_is_lent(r, i)) return gop_library_word(r->foreign[i].library);
    return gop_is_device_array(r->inputs[i]) ? gop_handle_kind(r->inputs[i]) : Py_None;
}

int gop_first_lent(const gop_request *r)
{
    for (int i = 0; i < r->count; i++)
        if (gop_library_of(r, i) != Py_None) return i;
    return -1;
}

void gop_code_ran(gop_request *r)
{
    r->is_read = r->options.fits = r->options.made = 0;
}

int gop_add_input(gop_request *r, PyObject *object)
{
    r->inputs[r->count] = object;
    r->as[r->count] = -1;
    r->call.nin = r->count + 1;
    r->is_read = 0;
    return r->count++;
}

/* Returns 1 if another library's array has changed since it was asked. Runs none of the
 * caller's code. */
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
        gop_ask(r, GOP_ASK_convert, "(sOO)", r->name, gop_words[GOP_WORD_a + i], r->inputs[i]);
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
        if (status > 0) { /* wrapping it runs code, so all are read anew */
            if (gop_is_critical()) return -1;
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

/* ---- out ---- */

static int ask_out(gop_request *r)
{
    PyObject *pair = gop_ask(r, GOP_ASK_output, "(sO)", r->name, r->out);
    if (!pair) return -1;
    r->out = PyTuple_GetItem(pair, 0);
    r->target = PyTuple_GetItem(pair, 1);
    return r->target ? 0 : -1;
}

/* Finds the array of NumPy, DeviceArray or array of another library that `out` is. */
int gop_read_out(gop_request *r)
{
    r->target = r->out;
    return is_writable(r->out) || gop_is_out_lent(r) ? 0 : ask_out(r);
}

/* Python gets another library's array as a DeviceArray over its memory. */
int gop_wrap_out(gop_request *r)
{
    if (!gop_is_out_lent(r)) return 0;
    r->lent &= ~(1u << GOP_OUT);
    return ask_out(r);
}

int gop_look_at_target(gop_request *r, gop_array *array)
{
    if (gop_is_out_lent(r)) {
        if (gop_read_foreign(r->target, &r->foreign[GOP_OUT], array)) return 1;
        if (gop_is_critical()) return -1;
        PyErr_Clear();
        if (gop_wrap_out(r) < 0) return -1;
    }
    const int known =
        gop_plain_array(r->target, array) || gop_read_array(r->target, array, 0) == 0;
    if (known) return 1;
    if (gop_is_critical()) return -1;
    PyErr_Clear();
    return 0;
}

/* ---- the result ---- */

int gop_infer_output(gop_request *r)
{
    gop_array inferred[GOP_MAX_OUTPUTS];
    gop_array *const out = &r->call.out[0], *const to = r->call.nout == 1 ? out : inferred;
    if (gop_done(gop_infer_outputs(&r->call, to)) < 0) return -1;
    if (to != out) gop_array_assign(out, to);
    out->data = NULL;
    out->where = r->on_device ? r->options.device : (gop_device){GOP_CPU, 0};
    gop_lay_out(&r->call, out);
    return 0;
}

PyObject *gop_new_ndarray(gop_array *array)
{
    _Static_assert(sizeof(npy_intp) == sizeof *array->shape, "NumPy counts in 64 bits, too");
    PyArray_Descr *descr = gop_descr(array->dtype);
    if (!descr) return NULL;
    if (descr->type_num == NPY_VOID) {
        Py_DECREF((PyObject *)descr);
        return PyErr_Format(PyExc_TypeError,
                            "NumPy has no bfloat16 of its own: install ml_dtypes, or take the "
                            "array by DLPack");
    }
    npy_intp *const strides = gop_is_c_order(array) ? NULL : (npy_intp *)array->strides;
    PyObject *ndarray = PyArray_NewFromDescr(&PyArray_Type, descr, array->ndim,
                                             (npy_intp *)array->shape, strides, NULL, 0, NULL);
    if (!ndarray) return NULL;
    array->data = PyArray_DATA((PyArrayObject *)ndarray);
    array->where = (gop_device){GOP_CPU, 0};
    return ndarray;
}
