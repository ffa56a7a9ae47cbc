/*
 * request.c - parsing ends: a call whose arguments are read gets its device and its result.
 * Then gop_run of core/road/parts.c runs it.
 *
 * front.c and reduction.c have read what users call, or call.c what Python's own functions
 * give. The device is found in the order that the head of gpuops/devices.py states.
 */
#include "core/arrays/cast.h"
#include "core/host/memory.h"
#include "python/python.h"

void gop_request_begin(gop_request *r)
{
    memset(&r->options, 0, sizeof r->options);
    memset(&r->name, 0, sizeof *r - offsetof(gop_request, name));
    r->call.ntunables = 0;
    r->call.nout = 1;
    r->is_read = 1; /* there are no arrays */
}

void gop_request_end(gop_request *r)
{
    for (int i = 0; i < r->nasked; i++) Py_XDECREF(r->foreign[i].owner);
    for (int i = 0; i < r->nkept; i++) Py_DECREF(r->kept[i]);
    r->nkept = 0;
}

/* ---- the device ---- */

static PyObject *cpu_place; /* what "cpu" names, which never changes */

/* The (backend, ordinal) of what names a device; None for None and "auto". Words without code
 * of their own are looked up; about others it asks Python. */
static PyObject *look_up(PyObject *word)
{
    PyObject *place = NULL;
    if (word == gop_words[GOP_WORD_cpu]) place = cpu_place;
    else if (PyUnicode_CheckExact(word) ||
             (PyObject *)Py_TYPE(word) == gop_members[GOP_OF_Device])
        place = PyDict_GetItemWithError(gop_members[GOP_OF_places], word);
    else if (word == Py_None || PyTuple_CheckExact(word)) place = word; /* our own */
    if (!place && !PyErr_Occurred())
        return PyObject_CallFunctionObjArgs(gop_members[GOP_OF_locate], word, NULL);
    Py_XINCREF(place);
    return place;
}

/* Finds the (backend, ordinal) of the device that a request names; None if it names none. */
static int find_place(gop_request *r)
{
    if (r->place) return 0;
    if (!r->device) r->device = Py_None;
    if (r->device != Py_None && r->device != gop_words[GOP_WORD_cpu]) gop_code_ran(r);
    r->place = gop_keep(r, look_up(r->device));
    return r->place ? 0 : -1;
}

/* Finds the one device on which all device arrays among the inputs lie. */
static int place_of_arrays(gop_request *r)
{
    const gop_array *first = NULL;
    for (int i = 0; i < r->call.nin; i++) {
        const gop_array *in = &r->call.in[i];
        if (!(r->on_device >> i & 1)) continue;
        if (!first) first = in;
        if (gop_same_place(in->where, first->where)) continue;
        PyObject *one = gop_device_object(first->where);
        PyObject *other = one ? gop_device_object(in->where) : NULL;
        if (other)
            PyErr_Format(PyExc_TypeError,
                         "%s: its arrays live on %S and on %S; bring them together with "
                         "to_device, or say device=",
                         gop_call_name(&r->call), one, other);
        Py_XDECREF(one);
        Py_XDECREF(other);
        return -1;
    }
    r->options.device = first->where;
    return 0;
}

/* Asks Python for the default device, or what fits. */
static int ask_place(gop_request *r, const gop_descriptor *op, int has_default)
{
    PyObject *word = PyObject_CallFunction(gop_members[GOP_OF_automatic], "sdzi", op->name,
                                           op->work ? op->work(&r->call) : 0.0,
                                           r->options.kernel, has_default);
    PyObject *place = word ? look_up(word) : NULL;
    const int status = place ? gop_read_device(place, &r->options.device) : -1;
    Py_XDECREF(place);
    Py_XDECREF(word);
    return status < 0 ? -1 : 1;
}

/* Sets the device of a request whose arrays are read. It is the named one, or the one where its
 * device arrays lie, or, if the caller said nothing, the default, or what fits. Returns 1 if
 * Python was asked and the arrays have to be read anew. */
static int choose_place(gop_request *r)
{
    const gop_descriptor *op = gop_descriptor_of(r->call.op);
    r->options.device = (gop_device){GOP_CPU, 0};
    if (r->place == cpu_place) return 0;
    if (r->place != Py_None) return gop_read_device(r->place, &r->options.device);
    if (r->on_device) return place_of_arrays(r);
    const int has_default =
        r->device == Py_None && PyDict_Size(gop_members[GOP_OF_defaults]) > 0;
    if (has_default || r->options.kernel || op->work) return ask_place(r, op, has_default);
    return 0; /* the bus would cost more than the work */
}

/* ---- parameters ---- */

int gop_read_late(gop_request *r)
{
    r->call.nin = r->count;
    r->call.nout = 1;
    if (r->params) return gop_read_params(r->params, &r->call);
    if (r->precision) return gop_read_precision(r->precision, &r->call.params.matmul.precision);
    return 0;
}

int gop_request_settle(gop_request *r)
{
    if (r->tunables && gop_read_tunables(r->tunables, &r->call) < 0) return -1;
    if (find_place(r) < 0 || gop_read_inputs(r) < 0 || gop_read_late(r) < 0) return -1;
    const int asked = choose_place(r);
    if (asked > 0 || (asked == 0 && r->params && r->params != Py_None)) {
        gop_code_ran(r);
        return gop_read_inputs(r);
    }
    return asked;
}

/* ---- the library whose array the result becomes ---- */

static int is_borrowed(PyObject *object)
{
    return gop_is_device_array(object) && gop_handle_kind(object) != Py_None;
}

/* Compares two borrowed arrays. */
static int same_library_and_place(PyObject *a, PyObject *b)
{
    const gop_device at_a = gop_buffer_array(a)->where, at_b = gop_buffer_array(b)->where;
    return gop_same_place(at_a, at_b) &&
           PyUnicode_Compare(gop_handle_kind(a), gop_handle_kind(b)) == 0;
}

/* Lets what the libraries of borrowed arrays do from here on come after our work. */
static int let_all_go(PyObject *const *operands, int count)
{
    for (int i = 0; i < count; i++) {
        int told = !is_borrowed(operands[i]) ||
                   gop_buffer_array(operands[i])->where.backend != GOP_CUDA;
        for (int j = 0; j < i && !told; j++)
            told = is_borrowed(operands[j]) && same_library_and_place(operands[i], operands[j]);
        if (told) continue;
        if (gop_foreign_follows(gop_handle_kind(operands[i]),
                                gop_buffer_array(operands[i])->where.ordinal))
            continue;
        if (gop_is_critical()) return -1;
        PyErr_Clear(); /* let_go asks again, and says what is wrong */
        PyObject *pair = gop_device_pair(gop_buffer_array(operands[i])->where);
        PyObject *done = PyObject_CallFunction(gop_members[GOP_OF_let_go], "ON",
                                               gop_handle_kind(operands[i]), pair);
        Py_XDECREF(done);
        if (!done) return -1;
    }
    return 0;
}

/* Makes a result in memory of the operands' library; NULL without an exception if it has none
 * to give. */
static PyObject *make_theirs(gop_request *r)
{
    const int i = r->on_device ? gop_first_lent(r) : -1;
    if (i < 0 || gop_infer_output(r) < 0) return NULL;
    gop_array *const out = &r->call.out[0];
    PyObject *theirs = gop_is_lent(r, i) ? gop_make_foreign(&r->foreign[i], out)
                                         : gop_make_of_kind(gop_library_of(r, i), out);
    gop_code_ran(r);
    if (PyErr_Occurred()) return NULL; /* Ctrl-C */
    if (gop_read_inputs(r) < 0) Py_CLEAR(theirs);
    r->options.made = theirs && r->call.nout == 1;
    return theirs;
}

/* Makes the caller's result, an array of the library of that name or our own. */
static PyObject *give_back_to(PyObject *made, PyObject *kind)
{
    PyObject *result =
        kind == Py_None
            ? gop_device_array(made, Py_None)
            : PyObject_CallFunctionObjArgs(gop_members[GOP_OF_give_back], made, kind, NULL);
    Py_DECREF(made);
    return result;
}

/* Hands the operands' memory back to their libraries, whose later work waits for ours. A result
 * that is not `is_theirs` goes to the first of these libraries. Takes the reference to it. */
static PyObject *give(const gop_request *r, PyObject *made, int is_theirs)
{
    if (!r->on_device && !(r->out && is_borrowed(made))) return made;
    PyObject *operands[GOP_MAX_INPUTS + 1];
    memcpy(operands, r->inputs, (size_t)r->count * sizeof *operands);
    operands[r->count] = is_theirs ? Py_None : made;
    if (let_all_go(operands, r->count + 1) == 0) {
        if (is_theirs || r->out || !r->on_device) return made;
        const int i = gop_first_lent(r);
        return give_back_to(made, i < 0 ? Py_None : gop_library_of(r, i));
    }
    Py_DECREF(made);
    return NULL;
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

/* Makes an ndarray for a line, with the dtype, shape and order of `like`. */
static PyObject *new_like(gop_array *line, PyArrayObject *like)
{
    PyArray_Descr *descr = PyArray_DESCR(like);
    Py_INCREF((PyObject *)descr);
    PyObject *ndarray =
        PyArray_NewFromDescr(&PyArray_Type, descr, PyArray_NDIM(like), PyArray_DIMS(like), NULL,
                             NULL, !PyArray_IS_C_CONTIGUOUS(like), NULL);
    if (!ndarray) return NULL;
    gop_array_c_order(line);
    line->data = PyArray_DATA((PyArrayObject *)ndarray);
    line->where = (gop_device){GOP_CPU, 0};
    return ndarray;
}

PyObject *gop_make_output(gop_request *r)
{
    if (gop_infer_output(r) < 0) return NULL;
    r->options.made = r->options.fits = r->call.nout == 1;
    gop_array *out = &r->call.out[0];
    const char *name = gop_call_name(&r->call);
    if (r->on_device) return new_buffer(r, out);
    PyObject *made =
        r->is_lines ? new_like(out, (PyArrayObject *)r->inputs[0]) : gop_new_ndarray(out);
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
    return gop_done(status);
}

/* Has Python store a result of the host in `out`, cast or repeated. Takes the reference. */
static PyObject *stored(gop_request *r, PyObject *result, int spreads)
{
    PyObject *out =
        gop_ask(r, GOP_ASK_store, "(sOONi)", r->name, r->out, r->target, result, spreads);
    Py_XINCREF(out);
    return out;
}

static PyObject *finished(gop_request *r, PyObject *result)
{
    if (result && r->final) {
        PyObject *cast = PyObject_CallMethod(result, "astype", "O", r->final);
        Py_DECREF(result);
        result = cast && r->out ? stored(r, cast, 0) : cast;
    }
    if (result && r->finish) {
        PyObject *made = PyObject_CallFunctionObjArgs(r->finish, result, NULL);
        Py_DECREF(result);
        return made;
    }
    if (!result || !r->is_scalar || Py_TYPE(result) != &PyArray_Type) return result;
    return PyArray_Return((PyArrayObject *)result); /* of no axes: a scalar */
}

static PyObject *run_into_new(gop_request *r)
{
    if (gop_request_settle(r) < 0) return NULL;
    PyObject *theirs = make_theirs(r);
    if (!theirs && PyErr_Occurred()) return NULL;
    PyObject *made = theirs ? theirs : gop_make_output(r);
    if (!made) return NULL;
    if (run(r) == 0) return give(r, made, theirs != NULL);
    Py_DECREF(made);
    return NULL;
}

/* Reads the output. Kernels write it in the result's dtype, which may be cast on the way. */
static int read_target(gop_request *r, gop_dtype dtype)
{
    gop_array *const out = &r->call.out[0];
    if (r->options.fits) return 0; /* it was read when it was compared */
    if (gop_is_out_lent(r) && gop_read_foreign(r->target, &r->foreign[GOP_OUT], out)) return 0;
    if (gop_wrap_out(r) < 0 || gop_read_array(r->target, out, 1) < 0) return -1;
    if (out->dtype != dtype) gop_read_as(out, dtype);
    return 0;
}

/* Returns the caller's `out`, once its array `target` has the result. */
static PyObject *given_out(gop_request *r, PyObject *target)
{
    Py_INCREF(target);
    PyObject *given = give(r, target, 0);
    if (!given) return NULL;
    Py_DECREF(given);
    Py_INCREF(r->out);
    return r->out;
}

/* Reads the arrays of a call whose kernels write `out`. */
static int read_with_target(gop_request *r, gop_dtype dtype)
{
    if (gop_request_settle(r) < 0) return -1;
    do {
        if (gop_read_inputs(r) < 0 || read_target(r, dtype) < 0) return -1;
    } while (!r->is_read);
    return 0;
}

static PyObject *run_into(gop_request *r, gop_dtype dtype)
{
    if (read_with_target(r, dtype) < 0 || run(r) < 0) return NULL;
    return given_out(r, r->target);
}

/* Makes the result in an array of its own; Python then casts or repeats it into `out`. */
static PyObject *run_beside(gop_request *r, int spreads)
{
    gop_array *const out = &r->call.out[0];
    PyArray_Descr *descr = gop_descr(out->dtype);
    PyObject *result =
        descr ? PyArray_Empty(out->ndim, (npy_intp *)out->shape, descr, 0) : NULL;
    if (!gop_keep(r, result) || gop_request_settle(r) < 0) return NULL;
    if (gop_read_array(result, out, 1) < 0 || run(r) < 0) return NULL;
    Py_INCREF(result);
    result = give(r, result, 0);
    return result ? stored(r, result, spreads) : NULL;
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
    if (!gop_descriptor_of(r->call.op)->in_place) /* not elementwise */
        for (int i = 0; i < r->count; i++) core += r->call.in[i].ndim > 1;
    if (more < 0) return 0;
    for (int d = 0; d < result->ndim; d++) {
        const int64_t from = result->shape[d], to = PyArray_DIM(onto, more + d);
        if (from == to) continue;
        if (from != 1 || d >= result->ndim - core) return 0;
        same = 0;
    }
    return !same;
}

/* How a result comes into `out`. */
typedef struct way {
    gop_dtype dtype; /* of the result */
    int is_beside;   /* no kernel writes `out` */
    int spreads;     /* the result is repeated over it */
} way;

static int find_way(gop_request *r, way *w)
{
    gop_array target;
    if (!r->target && gop_read_out(r) < 0) return -1;
    if (gop_read_inputs(r) < 0 || gop_read_late(r) < 0) return -1;
    if (gop_done(gop_infer(&r->call)) < 0) return -1;
    const gop_array *const result = &r->call.out[0];
    const gop_dtype dtype = w->dtype = result->dtype;
    const int known = gop_look_at_target(r, &target);
    if (known < 0) return -1;
    const int plain = known && target.dtype == dtype && !target.stored;
    r->options.fits =
        plain && r->call.nout == 1 && target.ndim == result->ndim &&
        memcmp(target.shape, result->shape, (size_t)target.ndim * sizeof *target.shape) == 0;
    const int spreads = w->spreads = !r->options.fits && is_spread(r);
    if (r->options.fits) gop_array_assign(&r->call.out[0], &target);
    if (!plain || spreads) {
        if (gop_wrap_out(r) < 0) return -1;
        PyObject *shape = spreads ? PyObject_GetAttrString(r->target, "shape")
                                  : gop_shape_tuple(result->ndim, result->shape);
        if (!shape || !gop_ask(r, GOP_ASK_store_check, "(sNON)", r->name, gop_descr(dtype),
                               r->target, shape))
            return -1;
    }
    w->is_beside = spreads || !(plain || (known && gop_can_cast(dtype, target.dtype)));
    return 0;
}

static PyObject *run_into_out(gop_request *r)
{
    way w;
    if (r->is_lines && gop_request_settle(r) < 0) return NULL;
    if (r->is_lines) return run(r) < 0 ? NULL : given_out(r, r->out);
    if (find_way(r, &w) < 0) return NULL;
    return w.is_beside ? run_beside(r, w.spreads) : run_into(r, w.dtype);
}

int gop_request_aim(gop_request *r)
{
    way w;
    gop_array *const out = &r->call.out[0];
    if (!r->out || r->final || r->is_lines) {
        if (gop_request_settle(r) < 0) return -1;
        if (!r->out || r->final) return gop_infer_output(r);
        if (r->is_lines) return 0;
    }
    if (find_way(r, &w) < 0) return -1;
    if (!w.is_beside) return read_with_target(r, w.dtype);
    if (gop_request_settle(r) < 0) return -1;
    gop_array_c_order(out);
    out->data = NULL;
    out->where = (gop_device){GOP_CPU, 0};
    return 0;
}

PyObject *gop_request_run(gop_request *r)
{
    return finished(r, r->out && !r->final ? run_into_out(r) : run_into_new(r));
}

int gop_request_ready(void)
{
    cpu_place = gop_device_pair((gop_device){GOP_CPU, 0});
    return cpu_place ? 0 : -1;
}
