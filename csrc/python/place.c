/*
 * place.c - finds the device of a call, in the order that the head of gpuops/devices.py states,
 * and the library whose array the result becomes.
 */
#include "python/python.h"

/* Members of devices.py and arrays.py. */
static PyObject *defaults, *get_default_device, *places, *device_class, *locate, *automatic,
    *at;
static PyObject *let_go, *give_back;
static PyObject *cpu_place; /* what "cpu" names, which never changes */

/* The (backend, ordinal) of what names a device; None for None and "auto". Words without code
 * of their own are looked up; about others it asks Python. */
static PyObject *look_up(PyObject *word)
{
    PyObject *place = NULL;
    if (word == gop_words[GOP_WORD_cpu]) place = cpu_place;
    else if (PyUnicode_CheckExact(word) || (PyObject *)Py_TYPE(word) == device_class)
        place = PyDict_GetItemWithError(places, word);
    else if (word == Py_None) place = word;
    if (!place && !PyErr_Occurred()) return PyObject_CallFunctionObjArgs(locate, word, NULL);
    Py_XINCREF(place);
    return place;
}

/* The package itself names a device by a pair. */
PyObject *gop_named_place(gop_request *r)
{
    PyObject *word = r->device ? r->device : Py_None;
    if (word != Py_None && word != gop_words[GOP_WORD_cpu]) gop_code_ran(r);
    if (!PyTuple_CheckExact(word)) return look_up(word);
    Py_INCREF(word);
    return word;
}

/* Finds the one device on which all device arrays among the inputs lie. */
static int place_of_arrays(gop_request *r)
{
    const gop_array *first = NULL;
    for (int i = 0; i < r->call.nin; i++) {
        const gop_array *in = &r->call.in[i];
        if (!(r->on_device >> i & 1)) continue;
        if (!first) first = in;
        if (in->where.backend == first->where.backend &&
            in->where.ordinal == first->where.ordinal)
            continue;
        PyObject *one = PyObject_CallFunction(at, "(N)", gop_device_pair(first->where));
        PyObject *other =
            one ? PyObject_CallFunction(at, "(N)", gop_device_pair(in->where)) : NULL;
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

/* Takes the reference to a word. Returns 1 if its device is read, 0 if it names none. */
static int take_word(PyObject *word, gop_device *device)
{
    PyObject *place = word ? look_up(word) : NULL;
    int found = place ? place != Py_None : -1;
    if (found > 0 && gop_read_device(place, device) < 0) found = -1;
    Py_XDECREF(place);
    Py_XDECREF(word);
    return found;
}

int gop_choose_place(gop_request *r, PyObject *named)
{
    gop_device *device = &r->options.device;
    int asked = 0;
    const gop_descriptor *op = gop_descriptor_of(r->call.op);
    if (named == cpu_place) {
        *device = (gop_device){GOP_CPU, 0};
        return 0;
    }
    if (named != Py_None) return gop_read_device(named, device);
    if (r->on_device) return place_of_arrays(r);
    const int said = r->device && r->device != Py_None; /* "auto" */
    if (!said && PyDict_Size(defaults) > 0) {
        const int found = take_word(PyObject_CallNoArgs(get_default_device), device);
        if (found) return found;
        asked = 1;
    }
    if (!r->options.kernel && !op->work) { /* the bus would cost more than the work */
        *device = (gop_device){GOP_CPU, 0};
        return asked;
    }
    PyObject *word = PyObject_CallFunction(
        automatic, "sdz", op->name, op->work ? op->work(&r->call) : 0.0, r->options.kernel);
    return take_word(word, device) > 0 ? 1 : -1;
}

static int is_borrowed(PyObject *object)
{
    return gop_is_device_array(object) && gop_handle_kind(object) != Py_None;
}

/* Compares two borrowed arrays. */
static int same_library_and_place(PyObject *a, PyObject *b)
{
    const gop_device at_a = gop_buffer_array(a)->where, at_b = gop_buffer_array(b)->where;
    return at_a.backend == at_b.backend && at_a.ordinal == at_b.ordinal &&
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
        PyErr_Clear(); /* let_go asks again, and says what is wrong */
        PyObject *pair = gop_device_pair(gop_buffer_array(operands[i])->where);
        PyObject *done =
            PyObject_CallFunction(let_go, "ON", gop_handle_kind(operands[i]), pair);
        Py_XDECREF(done);
        if (!done) return -1;
    }
    return 0;
}

/* The word for the library of input i, or None for memory of our own. */
static PyObject *library_of(const gop_request *r, int i)
{
    if (gop_is_lent(r, i)) return gop_library_word(r->foreign[i].library);
    return is_borrowed(r->inputs[i]) ? gop_handle_kind(r->inputs[i]) : Py_None;
}

/* The first input that another library lent, or -1. */
static int first_lent(const gop_request *r)
{
    for (int i = 0; r->on_device && i < r->count; i++)
        if (library_of(r, i) != Py_None) return i;
    return -1;
}

PyObject *gop_make_theirs(gop_request *r)
{
    const int i = first_lent(r);
    if (i < 0 || gop_infer_output(r) < 0) return NULL;
    gop_array *const out = &r->call.out[0];
    PyObject *theirs = gop_is_lent(r, i) ? gop_make_foreign(&r->foreign[i], out)
                                         : gop_make_of_kind(library_of(r, i), out);
    gop_code_ran(r);
    if (gop_read_inputs(r) < 0) Py_CLEAR(theirs);
    r->options.made = theirs && r->call.nout == 1;
    return theirs;
}

/* Makes the caller's result, an array of the library of that name or our own. */
static PyObject *give_back_to(PyObject *made, PyObject *kind)
{
    PyObject *result = kind == Py_None
                           ? gop_device_array(made, Py_None)
                           : PyObject_CallFunctionObjArgs(give_back, made, kind, NULL);
    Py_DECREF(made);
    return result;
}

PyObject *gop_give(const gop_request *r, PyObject *made, int is_theirs)
{
    if (!r->on_device && !(r->out && is_borrowed(made))) return made;
    PyObject *operands[GOP_MAX_INPUTS + 1];
    memcpy(operands, r->inputs, (size_t)r->count * sizeof *operands);
    operands[r->count] = is_theirs ? Py_None : made;
    if (let_all_go(operands, r->count + 1) == 0) {
        if (is_theirs || r->out || !r->on_device) return made;
        const int i = first_lent(r);
        return give_back_to(made, i < 0 ? Py_None : library_of(r, i));
    }
    Py_DECREF(made);
    return NULL;
}

static int take_member(PyObject *module, const char *name, PyObject **kept)
{
    PyObject *const before = *kept;
    *kept = PyObject_GetAttrString(module, name);
    Py_XDECREF(before);
    return *kept ? 0 : -1;
}

static PyObject *setup(PyObject *module, PyObject *arguments)
{
    PyObject *devices, *arrays;
    if (!PyArg_ParseTuple(arguments, "OO:setup", &devices, &arrays) ||
        take_member(devices, "defaults", &defaults) < 0 ||
        take_member(devices, "get_default_device", &get_default_device) < 0 ||
        take_member(devices, "places", &places) < 0 ||
        take_member(devices, "Device", &device_class) < 0 ||
        take_member(devices, "locate", &locate) < 0 ||
        take_member(devices, "automatic", &automatic) < 0 ||
        take_member(devices, "at", &at) < 0 ||
        take_member(arrays, "DeviceArray", &gop_device_array_class) < 0 ||
        take_member(arrays, "let_go", &let_go) < 0 ||
        take_member(arrays, "give_back", &give_back) < 0)
        return NULL;
    Py_RETURN_NONE;
}

PyObject *gop_with_device(PyObject *facts)
{
    PyObject *pair = facts ? PyDict_GetItemString(facts, "device") : NULL;
    PyObject *place = pair ? PyObject_CallFunctionObjArgs(at, pair, NULL) : NULL;
    if (!place || PyDict_SetItemString(facts, "device", place) < 0) Py_CLEAR(facts);
    Py_XDECREF(place);
    return facts;
}

int gop_place_ready(void)
{
    cpu_place = gop_device_pair((gop_device){GOP_CPU, 0});
    return cpu_place ? 0 : -1;
}

PyMethodDef gop_place_functions[] = {
    {"setup", setup, METH_VARARGS, "setup(gpuops.devices, gpuops.arrays): what to ask them"},
    {NULL, NULL, 0, NULL}};
