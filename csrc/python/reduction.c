/*
 * reduction.c - parsing: reads what users pass to a reduction into a request.
 */
#include "core/ops/reduce.h"
#include "python/python.h"

/* reduce() takes the operation as an argument; the other functions have its name. */
static int read_operation(gop_request *r, const gop_signature *s, PyObject *op)
{
    gop_reduce_params *const p = &r->call.params.reduce;
    p->op = s->reduction < 0 ? GOP_SUM : (gop_reduce_op)s->reduction;
    if (s->reduction >= 0) return 0;
    r->name = "sum";
    if (!op) return 0;
    op = gop_ask(r, GOP_ASK_reduction_word, "(O)", op);
    const char *word = op ? PyUnicode_AsUTF8AndSize(op, NULL) : NULL;
    if (!word || !gop_reduction_find(word, &p->op)) return -1;
    r->name = gop_reduction_name(p->op);
    return 0;
}

/* Reads True or False; Python reads any other object. */
static int read_flag(gop_request *r, PyObject *value, int question)
{
    if (!value || value == Py_False) return 0;
    if (question == GOP_ASK_read_keepdims && value == Py_True) return 1;
    value = gop_ask(r, question, "(sO)", r->name, value);
    return value ? PyObject_IsTrue(value) : -1;
}

/* The dtypes of the elements, of the core's result and of the caller's result. */
typedef struct dtypes {
    gop_dtype have, result, to;
} dtypes;

static int is_numeric(gop_reduce_op op)
{
    return op == GOP_SUM || op == GOP_PROD || op == GOP_MIN || op == GOP_MAX || op == GOP_MEAN;
}

/* Whether `out` does not change the dtype in which elements are read. */
static int is_plain_out(gop_request *r, const dtypes *d)
{
    gop_array target;
    if (!r->out || !is_numeric(r->call.params.reduce.op)) return 1;
    const int known = gop_look_at_target(r, &target);
    return known < 0 ? -1
                     : known && !target.stored && target.dtype == d->have &&
                           !strchr("biu", gop_dtype_kind(d->have));
}

/* Finds the dtypes of results, and has the elements read in another one if need be. */
static int read_dtypes(gop_request *r, PyObject *dtype, dtypes *d)
{
    const gop_reduce_op op = r->call.params.reduce.op;
    gop_dtype first;
    d->to = d->result = gop_reduction_dtype(op, d->have);
    const int plain = dtype ? 0 : is_plain_out(r, d);
    if (plain) return plain < 0 ? -1 : 0;
    if (r->out && gop_wrap_out(r) < 0) return -1;
    PyObject *found = gop_ask(r, GOP_ASK_read_dtypes, "(sNOO)", r->name, gop_descr(d->have),
                              dtype ? dtype : Py_None, r->out ? r->target : Py_None);
    if (!found || found == Py_None) return found ? 0 : -1;
    if (gop_read_dtype(PyTuple_GetItem(found, 0), &first) < 0 ||
        gop_read_dtype(PyTuple_GetItem(found, 1), &d->to) < 0)
        return -1;
    d->result = gop_reduction_dtype(op, first);
    return gop_read_input_as(r, 0, first);
}

/* Adds the mask as one more input. */
static int read_mask(gop_request *r, PyObject *where)
{
    gop_reduce_params *const p = &r->call.params.reduce;
    p->has_where = 0;
    if (!where || where == Py_True) return 0;
    const int plain = gop_plain_array(where, &r->call.in[1]); /* of whatever dtype */
    if (!plain) where = gop_ask(r, GOP_ASK_mask, "(sO)", r->name, where);
    if (!where || where == Py_None) return where ? 0 : -1;
    const int were_read = r->is_read && plain;
    gop_add_input(r, where);
    r->is_read = were_read;
    p->has_where = 1;
    return 0;
}

static int read_initial(gop_request *r, PyObject *initial, const dtypes *d)
{
    gop_reduce_params *const p = &r->call.params.reduce;
    p->has_initial = 0;
    if (!initial) return 0;
    PyObject *axes = gop_axes_tuple(r, &p->axes);
    if (!axes || gop_wrap_input(r, 0) < 0) return -1;
    initial = gop_ask(r, GOP_ASK_initial, "(sONNOOi)", r->name, initial, gop_descr(d->to),
                      gop_descr(d->result), r->inputs[0], axes, p->has_where);
    if (!initial) return -1;
    return initial == Py_None ? 0 : gop_read_initial(initial, d->result, p);
}

/* A mean of no elements is NaN, and NumPy warns of it. */
static int warn_of_empty(gop_request *r)
{
    const gop_reduce_params *const p = &r->call.params.reduce;
    if (p->op != GOP_MEAN) return 0;
    if (!p->has_where && gop_array_size(&r->call.in[0]) != 0) return 0;
    PyObject *axes = gop_axes_tuple(r, &p->axes);
    if (!axes || gop_wrap_input(r, 0) < 0) return -1;
    return gop_ask(r, GOP_ASK_warn_of_empty, "(OOO)", r->inputs[0], axes,
                   p->has_where ? r->inputs[1] : Py_None)
               ? 0
               : -1;
}

/* Refuses an `out` that the caller's result cannot be cast to. */
static int check_out(gop_request *r, const dtypes *d)
{
    gop_array target;
    if (!r->out) return 0;
    const int known = gop_look_at_target(r, &target);
    if (known < 0) return -1;
    if (known && !target.stored && target.dtype == d->to) return 0;
    if (gop_wrap_out(r) < 0) return -1;
    return gop_ask(r, GOP_ASK_store_check, "(sNO)", r->name, gop_descr(d->to), r->target) ? 0
                                                                                          : -1;
}

/* NumPy casts a result of the host to the caller's dtype. A device array is never cast. */
static int read_final(gop_request *r, const dtypes *d)
{
    if (d->to == d->result) return 0;
    r->final = gop_keep(r, (PyObject *)gop_descr(d->to));
    if (!r->final) return -1;
    if (!gop_is_lent(r, 0) && !gop_is_device_array(r->inputs[0])) return 0;
    PyArray_Descr *own = gop_descr(gop_reduction_dtype(r->call.params.reduce.op, d->have));
    if (own)
        PyErr_Format(PyExc_TypeError,
                     "%s: a device array's %s is %S, not %S: cast the result by its astype()",
                     r->name, r->name, own, r->final);
    Py_XDECREF((PyObject *)own);
    return -1;
}

int gop_read_reduction(gop_request *r, const gop_signature *s, PyObject *const *values)
{
    gop_reduce_params *const p = &r->call.params.reduce;
    dtypes d;
    if (read_operation(r, s, values[GOP_WORD_op]) < 0) return -1;
    const int exact = read_flag(r, values[GOP_WORD_exact], GOP_ASK_exactness);
    r->out = gop_out_of(values[GOP_WORD_out]);
    if (exact < 0 || gop_read_first(r, s, values[GOP_WORD_a]) < 0) return -1;
    d.have = r->call.in[0].dtype;
    if (gop_read_axes_of(r, values[GOP_WORD_axis], 0, &p->axes) < 0) return -1;
    p->keepdims = read_flag(r, values[GOP_WORD_keepdims], GOP_ASK_read_keepdims);
    if (p->keepdims < 0 || (r->out && gop_read_out(r) < 0)) return -1;
    if (read_dtypes(r, gop_given(values[GOP_WORD_dtype]), &d) < 0 ||
        read_mask(r, values[GOP_WORD_where]) < 0 ||
        read_initial(r, values[GOP_WORD_initial], &d) < 0)
        return -1;
    p->exact = exact && !(p->op == GOP_SUM && strchr("iu", gop_dtype_kind(d.result)))
                   ? GOP_EXACT_ROUNDED
                   : GOP_EXACT_NOT;
    if (warn_of_empty(r) < 0 || check_out(r, &d) < 0) return -1;
    r->is_scalar = !gop_given(values[GOP_WORD_out]); /* but for out=... */
    return gop_read_how(r, values) < 0 || read_final(r, &d) < 0 ? -1 : 0;
}
