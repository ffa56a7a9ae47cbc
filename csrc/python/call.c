/*
 * call.c - Call: a request that is not run yet, so that it can be timed, planned or repeated.
 *
 * It is made from the arguments of a public function (front.c), or, by Python's own functions,
 * from operands and parameters as the core takes them.
 */
#include "python/python.h"

#include <structmember.h>

typedef struct call {
    PyObject_HEAD PyObject *given; /* keeps alive what the request has borrowed */
    PyObject *op, *operands, *params, *device;
    gop_request request;
} call;

static PyTypeObject *call_type;

gop_request *gop_call_request(PyObject *object)
{
    return &((call *)object)->request;
}

static PyObject *new_call(PyTypeObject *class, PyObject *given)
{
    call *c = (call *)PyType_GenericAlloc(class, 0);
    if (!c) return NULL;
    Py_INCREF(c->given = given);
    gop_request_begin(&c->request);
    return (PyObject *)c;
}

PyObject *gop_call_new(PyObject *given)
{
    return new_call(call_type, given);
}

static void call_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    call *c = (call *)self;
    gop_request_end(&c->request);
    Py_XDECREF(c->given);
    Py_XDECREF(c->op);
    Py_XDECREF(c->operands);
    Py_XDECREF(c->params);
    Py_XDECREF(c->device);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* Call(op, operands, params=None, *, out, device, kernel, tunables, name, finish) */
static PyObject *call_new(PyTypeObject *class, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"op",     "operands", "params", "out",    "device",
                            "kernel", "tunables", "name",   "finish", NULL};
    PyObject *op, *operands, *params = Py_None, *out = NULL, *device = Py_None,
                             *kernel = Py_None, *tunables = Py_None, *finish = Py_None;
    const char *name = NULL;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "UO|O$OOOOzO:Call", names, &op,
                                     &operands, &params, &out, &device, &kernel, &tunables,
                                     &name, &finish))
        return NULL;
    operands = PySequence_Tuple(operands);
    PyObject *given =
        operands ? PyTuple_Pack(2, arguments, keywords ? keywords : Py_None) : NULL;
    call *c = given ? (call *)new_call(class, given) : NULL;
    Py_XDECREF(given);
    if (!c) {
        Py_XDECREF(operands);
        return NULL;
    }
    gop_request *const r = &c->request;
    c->operands = operands;
    Py_INCREF(c->op = op);
    Py_INCREF(c->params = params);
    if (gop_request_given(r, op, operands, params) == 0) {
        if (name) r->name = name;
        r->out = gop_out_of(out);
        r->finish = finish == Py_None ? NULL : finish;
        r->spreads = 0;
        if (gop_ask_out(r) == 0 && gop_read_how(r, kernel, tunables, device) == 0) {
            c->device = r->device ? r->device : Py_None;
            Py_INCREF(c->device);
            return (PyObject *)c;
        }
    }
    Py_DECREF(c);
    return NULL;
}

/* The request for another run, whose arrays are read again. */
static gop_request *anew(PyObject *self)
{
    gop_request *const r = &((call *)self)->request;
    gop_code_ran(r);
    r->options.made = 0;
    return r;
}

static PyObject *call_run(PyObject *self, PyObject *nothing)
{
    return gop_request_run(anew(self));
}

static PyObject *call_choose(PyObject *self, PyObject *nothing)
{
    gop_request *const r = anew(self);
    return gop_request_settle(r) == 0 ? gop_device_pair(r->options.device) : NULL;
}

/* plan() or plan(facts of a GPU that is not there) */
static PyObject *call_plan(PyObject *self, PyObject *arguments)
{
    PyObject *facts = NULL;
    if (!PyArg_ParseTuple(arguments, "|O:plan", &facts)) return NULL;
    return gop_with_device(gop_request_plan(anew(self), facts));
}

/* time(n_warmup, n_repeat, cold) */
static PyObject *call_time(PyObject *self, PyObject *arguments)
{
    PyObject *warmup, *repeat, *cold;
    if (!PyArg_ParseTuple(arguments, "OOO:time", &warmup, &repeat, &cold)) return NULL;
    return gop_with_device(gop_request_time(anew(self), warmup, repeat, cold));
}

int gop_call_ready(PyObject *module)
{
    static PyMemberDef members[] = {
        {"op", T_OBJECT_EX, offsetof(call, op), READONLY, NULL},
        {"operands", T_OBJECT_EX, offsetof(call, operands), READONLY, NULL},
        {"params", T_OBJECT_EX, offsetof(call, params), READONLY, NULL},
        {"device", T_OBJECT_EX, offsetof(call, device), READONLY, NULL},
        {NULL, 0, 0, 0, NULL}};
    static PyMethodDef methods[] = {
        {"run", call_run, METH_NOARGS, "run() -> the result, or out"},
        {"choose", call_choose, METH_NOARGS, "choose() -> the device that it would run on"},
        {"plan", call_plan, METH_VARARGS,
         "plan([a GPU's facts]) -> device, kernel, bytes, flops, scratch; runs nothing"},
        {"time", call_time, METH_VARARGS,
         "time(n_warmup, n_repeat, cold) -> the same, and lists of seconds"},
        {NULL, NULL, 0, NULL}};
    static PyType_Slot slots[] = {{Py_tp_new, call_new},
                                  {Py_tp_dealloc, call_free},
                                  {Py_tp_members, members},
                                  {Py_tp_methods, methods},
                                  {Py_tp_doc, "A call of the core, not run yet."},
                                  {0, NULL}};
    static PyType_Spec spec = {"gpuops._core.Call", sizeof(call), 0,
                               Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
    PyObject *type = PyType_FromSpec(&spec);
    if (!type) return -1;
    call_type = (PyTypeObject *)type;
    return PyModule_AddObjectRef(module, "Call", type);
}
