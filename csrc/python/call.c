/*
 * call.c - calls that Python's own functions give, with operands and parameters as the core
 * takes them: to be run, planned or timed, for explain, ladder and benchmark.
 *
 * A Call is such a request as an object. front.c makes one of the arguments of a public
 * function.
 */
#include "core/choice.h"
#include "core/host/memory.h"
#include "python/python.h"

/* ---- a request as it is given ---- */

/* Begins a request with operands and parameters as the core takes them. */
static int read_given(gop_request *r, PyObject *op, PyObject *inputs, PyObject *params,
                      PyObject *out)
{
    r->name = PyUnicode_AsUTF8AndSize(op, NULL);
    if (!r->name || gop_read_op(r->name, &r->call.op) < 0) return -1;
    const Py_ssize_t count = PyTuple_Size(inputs);
    if (count < 0) return -1;
    if (count < 1 || count > GOP_MAX_INPUTS)
        return gop_refuse(PyExc_TypeError, "%s: %zd inputs, expected 1 to %d", r->name, count,
                          GOP_MAX_INPUTS);
    for (Py_ssize_t i = 0; i < count; i++) gop_add_input(r, PyTuple_GetItem(inputs, i));
    r->params = params;
    r->out = gop_out_of(out);
    return gop_ask_libraries(r, NULL, 0);
}

/* What a Call runs, without the object, whose arguments it takes by position. */
static PyObject *core_run(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    gop_request r;
    PyObject *how[GOP_NARGUMENTS] = {NULL}, *result = NULL;
    if (count != 7)
        return PyErr_Format(PyExc_TypeError,
                            "expected op, inputs, params, out, device, kernel, tunables");
    gop_request_begin(&r);
    how[GOP_WORD_kernel] = arguments[5];
    if (read_given(&r, arguments[0], arguments[1], arguments[2], arguments[3]) == 0 &&
        gop_read_how(&r, how) == 0) {
        r.device = arguments[4]; /* may be a pair */
        r.tunables = arguments[6];
        result = gop_request_run(&r);
    }
    gop_request_end(&r);
    return result;
}

PyMethodDef gop_call_functions[] = {
    {"run", (PyCFunction)(void (*)(void))core_run, METH_FASTCALL,
     "run(op, inputs, params, out, device, kernel, tunables) -> the result, or out"},
    {NULL, NULL, 0, NULL}};

/* ---- Call ---- */

typedef struct call {
    PyObject_HEAD PyObject *given; /* keeps alive what the request has borrowed */
    gop_request request;
} call;

static PyTypeObject *call_type;

PyObject *gop_call_new(PyObject *given, gop_request **request)
{
    call *c = given ? (call *)PyType_GenericAlloc(call_type, 0) : NULL;
    if (!c) return NULL;
    Py_INCREF(c->given = given);
    gop_request_begin(*request = &c->request);
    return (PyObject *)c;
}

static void call_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    call *c = (call *)self;
    gop_request_end(&c->request);
    Py_XDECREF(c->given);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* Call(op, operands, params=None, *, out, device, kernel, tunables, name, finish) */
static PyObject *call_new(PyTypeObject *class, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"op",     "operands", "params", "out",    "device",
                            "kernel", "tunables", "name",   "finish", NULL};
    PyObject *op, *operands, *params = Py_None, *out = NULL, *finish = Py_None;
    PyObject *how[GOP_NARGUMENTS] = {NULL};
    const char *name = NULL;
    gop_request *r;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "UO|O$OOOOzO:Call", names, &op,
                                     &operands, &params, &out, &how[GOP_WORD_device],
                                     &how[GOP_WORD_kernel], &how[GOP_WORD_params], &name,
                                     &finish) ||
        !(operands = PySequence_Tuple(operands)))
        return NULL;
    PyObject *given = PyTuple_Pack(3, operands, arguments, keywords ? keywords : Py_None);
    PyObject *made = gop_call_new(given, &r);
    Py_XDECREF(given);
    Py_DECREF(operands);
    if (made && read_given(r, op, operands, params, out) == 0) {
        if (name) r->name = name;
        r->finish = finish == Py_None ? NULL : finish;
        if (gop_read_how(r, how) == 0) return made;
    }
    Py_XDECREF(made);
    return NULL;
}

/* The request for another run, whose arrays are read again. */
static gop_request *anew(PyObject *self)
{
    gop_request *const r = &((call *)self)->request;
    gop_code_ran(r);
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

/* Reads what the core can infer without a device. */
static int infer(gop_request *r)
{
    if (gop_read_inputs(r) < 0 || gop_read_late(r) < 0) return -1;
    return gop_done(gop_infer(&r->call));
}

static PyObject *call_infer(PyObject *self, PyObject *nothing)
{
    gop_request *const r = anew(self);
    if (infer(r) < 0) return NULL;
    return Py_BuildValue("NN", gop_descr(r->call.out[0].dtype),
                         gop_shape_tuple(r->call.out[0].ndim, r->call.out[0].shape));
}

/* Checks what can be checked without a device, also in the data. */
static PyObject *call_check(PyObject *self, PyObject *nothing)
{
    gop_request *const r = anew(self);
    int64_t longest = 0;
    gop_status status;
    if (infer(r) < 0) return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = gop_check(&r->call, &longest);
    Py_END_ALLOW_THREADS;
    return status == GOP_OK ? PyLong_FromLongLong(longest) : gop_raise();
}

/* ---- plans and times ---- */

/* Reads the facts of a GPU that is not there, as gpuops/_show/gpus.py has them. */
static int read_like(PyObject *facts, gop_device_info *info)
{
    const char *name;
    long long memory, l2, shared;
    memset(info, 0, sizeof *info);
    if (!PyArg_ParseTuple(facts, "s(ii)iLLLdd:like", &name, &info->major, &info->minor,
                          &info->processors, &memory, &l2, &shared, &info->clock,
                          &info->bandwidth))
        return -1;
    PyOS_snprintf(info->name, sizeof info->name, "%.127s", name);
    info->max_threads_per_block = 1024; /* of every GPU since 2010 */
    info->warp = 32;
    info->memory = memory;
    info->memory_free = -1;
    info->l2 = l2;
    info->shared_per_block = shared;
    return 0;
}

/* A tuple for each kernel that could be chosen. */
static PyObject *weighed_tuple(const gop_weighed *list, int count)
{
    PyObject *all = PyTuple_New(count);
    for (int i = 0; i < count && all; i++) {
        const gop_weighed *w = &list[i];
        PyObject *one =
            Py_BuildValue("(sdzzs)", w->kernel, w->seconds, w->when, w->why, w->refusal);
        if (one) PyTuple_SetItem(all, i, one);
        else Py_CLEAR(all);
    }
    return all;
}

/* The name of the row goes to `name`. Takes the reference to the candidates. */
static PyObject *plan_dict(const gop_request *r, const gop_explanation *plan, const char *name,
                           PyObject *candidates)
{
    return Py_BuildValue(
        "{s:N,s:N,s:s,s:d,s:d,s:L,s:d,s:n,s:n,s:n,s:s}", "candidates", candidates, "device",
        gop_device_object(r->options.device), name, plan->kernel, "bytes", plan->bytes,
        "sector_bytes", plan->sector_bytes, "launches", (long long)plan->launches, "flops",
        plan->flops, "upload_bytes", (Py_ssize_t)plan->upload_bytes, "download_bytes",
        (Py_ssize_t)plan->download_bytes, "scratch_bytes", (Py_ssize_t)plan->scratch_bytes,
        "precision", gop_precision_name(plan->precision));
}

/* plan() or plan(facts of a GPU that is not there). It runs nothing, so that a new output needs
 * no memory. */
static PyObject *call_plan(PyObject *self, PyObject *arguments)
{
    PyObject *facts = NULL;
    gop_request *const r = anew(self);
    gop_device_info like;
    gop_explanation p;
    int weighed = GOP_MAX_CANDIDATES;
    if (!PyArg_ParseTuple(arguments, "|O:plan", &facts)) return NULL;
    if (facts && read_like(facts, &like) < 0) return NULL;
    if (gop_request_aim(r) < 0) return NULL;
    gop_status status;
    gop_weighed *const list = PyMem_Malloc(GOP_MAX_CANDIDATES * sizeof *list);
    if (!list) return PyErr_NoMemory();
    Py_BEGIN_ALLOW_THREADS;
    status = gop_explain(&r->call, &r->options, facts ? &like : NULL, &p, list, &weighed);
    Py_END_ALLOW_THREADS;
    PyObject *candidates = status == GOP_OK ? weighed_tuple(list, weighed) : NULL;
    PyMem_Free(list);
    if (status != GOP_OK) return gop_raise();
    return candidates ? plan_dict(r, &p, "kernel", candidates) : NULL;
}

/* Adds a list for each phase to a plan. */
static int add_times(PyObject *dict, PyArrayObject *times)
{
    static const char *const phases[] = {"kernel", "upload", "download", "total"};
    PyObject *turned = PyArray_Transpose(times, NULL);
    PyObject *lists = turned ? PyObject_CallMethod(turned, "tolist", NULL) : NULL;
    int status = lists ? 0 : -1;
    for (int phase = 0; status == 0 && phase < 4; phase++)
        status = PyDict_SetItemString(dict, phases[phase], PyList_GetItem(lists, phase));
    Py_XDECREF(turned);
    Py_XDECREF(lists);
    return status;
}

/* time(n_warmup, n_repeat, cold): the result goes to memory that is made for it; or `into` an
 * array, which is a fourth argument. */
static PyObject *call_time(PyObject *self, PyObject *arguments)
{
    int n_warmup, n_repeat, cold;
    PyObject *into = NULL;
    gop_request *const r = anew(self);
    if (!PyArg_ParseTuple(arguments, "iip|O:time", &n_warmup, &n_repeat, &cold, &into))
        return NULL;
    if (gop_request_settle(r) < 0) return NULL;
    if (into && gop_read_array(into, &r->call.out[0], 1) < 0) return NULL;
    if (n_warmup < 0 || n_repeat < 1 || n_repeat > 1000000 || n_warmup > 1000000)
        return PyErr_Format(PyExc_ValueError,
                            "time: n_warmup is %d and n_repeat %d, expected 0 to "
                            "1000000 and 1 to 1000000",
                            n_warmup, n_repeat);
    PyObject *made = into ? NULL : gop_make_output(r), *said = NULL;
    if (!made && PyErr_Occurred()) return NULL;
    _Static_assert(sizeof(gop_times) == 4 * sizeof(double), "a number for each phase");
    npy_intp shape[] = {n_repeat, 4};
    PyArrayObject *times = (PyArrayObject *)PyArray_ZEROS(2, shape, NPY_DOUBLE, 0);
    if (times) {
        gop_explanation p;
        gop_status status;
        Py_BEGIN_ALLOW_THREADS;
        status =
            gop_time(&r->call, &r->options, n_warmup, n_repeat, cold, PyArray_DATA(times), &p);
        Py_END_ALLOW_THREADS;
        said = status == GOP_OK ? plan_dict(r, &p, "name", PyTuple_New(0)) : gop_raise();
        if (said && add_times(said, times) < 0) Py_CLEAR(said);
    }
    Py_XDECREF((PyObject *)times);
    Py_XDECREF(made);
    return said;
}

/* ---- the type ---- */

int gop_call_ready(PyObject *module)
{
    static PyMethodDef methods[] = {
        {"run", call_run, METH_NOARGS, "run() -> the result, or out"},
        {"infer", call_infer, METH_NOARGS, "infer() -> dtype, shape of the result"},
        {"check", call_check, METH_NOARGS,
         "check(): raises what a run would, of the data, too"},
        {"choose", call_choose, METH_NOARGS, "choose() -> the device that it would run on"},
        {"plan", call_plan, METH_VARARGS,
         "plan([a GPU's facts]) -> device, kernel, bytes, flops, scratch; runs nothing"},
        {"time", call_time, METH_VARARGS,
         "time(n_warmup, n_repeat, cold[, into]) -> the same, and lists of seconds"},
        {NULL, NULL, 0, NULL}};
    static PyType_Slot slots[] = {{Py_tp_new, call_new},
                                  {Py_tp_dealloc, call_free},
                                  {Py_tp_methods, methods},
                                  {Py_tp_doc, "A call of the core, not run yet."},
                                  {0, NULL}};
    static PyType_Spec spec = {"gpuops._core.Call", sizeof(call), 0, Py_TPFLAGS_DEFAULT, slots};
    PyObject *type = PyType_FromSpec(&spec);
    if (!type) return -1;
    call_type = (PyTypeObject *)type;
    return PyModule_AddObjectRef(module, "Call", type);
}
