/*
 * foreign.c - reads and makes arrays of CuPy and PyTorch without Python.
 *
 * Their library has to work on the device's default stream. Our work goes there too, so neither
 * waits for the other. gpuops/arrays.py handles all other arrays, and their errors.
 */
#include "python/dlpack.h"

enum { TYPES = 16 }; /* the types that are remembered, of arrays or not */

typedef struct known {
    PyTypeObject *type;
    gop_library library;
    const dl_exchange_api *api;
} known;

static known types[TYPES]; /* the GIL guards these, next_type and cupy */
static int next_type;
static struct {
    PyObject *ndarray;            /* the class */
    PyObject *current_stream;     /* get_current_stream() */
    intptr_t (*stream_of)(int);   /* what its own modules call for it, or NULL */
    PyObject *pooled, *lent;      /* classes of memory whose device is known */
    PyObject *allocate, *prepare; /* methods by which `empty` makes one, or NULL */
    PyObject *empty;
    PyObject *memory; /* what takes a number of bytes from its allocator, or NULL */
} cupy;

PyObject *gop_library_word(gop_library library)
{
    return gop_words[library == GOP_TORCH ? GOP_WORD_torch : GOP_WORD_cupy];
}

static PyObject *attribute(PyObject *object, int word)
{
    return PyObject_GetAttr(object, gop_words[word]);
}

/* Whether the type is that class itself, and no subclass. */
static int is_named(PyObject *type, const char *module, const char *name)
{
    PyObject *m = PyObject_GetAttrString(type, "__module__");
    PyObject *n = PyObject_GetAttrString(type, "__name__");
    const int is = m && n && PyUnicode_CompareWithASCIIString(m, module) == 0 &&
                   PyUnicode_CompareWithASCIIString(n, name) == 0;
    Py_XDECREF(m);
    Py_XDECREF(n);
    PyErr_Clear();
    return is;
}

static const dl_exchange_api *exchange_api(PyObject *type)
{
    PyObject *capsule = PyObject_GetAttrString(type, "__dlpack_c_exchange_api__");
    const dl_exchange_api *api =
        capsule ? PyCapsule_GetPointer(capsule, "dlpack_exchange_api") : NULL;
    Py_XDECREF(capsule); /* the table lives as long as its library */
    PyErr_Clear();
    return api && api->major == 1 && api->read && api->stream ? api : NULL;
}

static void find_member(const char *where, const char *name, PyObject **found)
{
    if (!*found) *found = gop_import(where, name);
    PyErr_Clear();
}

/* Modules made by Cython offer each other C functions by their signatures. */
static void find_stream(void)
{
    static const char signature[] = "intptr_t (int)";
    PyObject *table = NULL;
    find_member("cupy_backends.cuda.stream", "__pyx_capi__", &table);
    PyObject *function =
        table && PyDict_Check(table) ? PyDict_GetItemString(table, "get_stream_ptr") : NULL;
    if (function && PyCapsule_IsValid(function, signature))
        *(void **)&cupy.stream_of = PyCapsule_GetPointer(function, signature);
    Py_XDECREF(table); /* the function lives as long as its module */
}

/* cupy.empty and ndarray's constructor take half of the time of making an array. It needs only
 * two methods of its base class. */
static void find_methods(void)
{
    PyObject *base = PyObject_GetAttrString(cupy.ndarray, "__base__");
    Py_CLEAR(cupy.prepare);
    if (base) cupy.prepare = PyObject_GetAttrString(base, "_init");
    if (cupy.prepare) cupy.allocate = PyObject_GetAttrString(base, "__new__");
    Py_XDECREF(base);
    PyErr_Clear();
}

static int find_cupy(PyObject *type)
{
    PyObject *const before = cupy.ndarray;
    Py_INCREF(cupy.ndarray = type);
    Py_XDECREF(before);
    find_member("cupy.cuda", "get_current_stream", &cupy.current_stream);
    find_member("cupy.cuda.memory", "PooledMemory", &cupy.pooled);
    find_member("cupy._core.dlpack", "DLPackMemory", &cupy.lent);
    find_member("cupy", "empty", &cupy.empty);
    find_member("cupy.cuda.memory", "alloc", &cupy.memory);
    if (!cupy.stream_of) find_stream();
    if (!cupy.allocate) find_methods();
    return cupy.current_stream != NULL;
}

/* What is known of a type, which is looked at once. */
static const known *look_up_kind(PyTypeObject *type)
{
    for (int i = 0; i < TYPES; i++)
        if (types[i].type == type) return &types[i];
    known *k = &types[next_type];
    next_type = (next_type + 1) % TYPES;
    PyObject *old = (PyObject *)k->type, *object = (PyObject *)type;
    Py_INCREF(object);
    *k = (known){type, GOP_NO_LIBRARY, NULL};
    if (is_named(object, "torch", "Tensor") && (k->api = exchange_api(object)))
        k->library = GOP_TORCH;
    else if (is_named(object, "cupy", "ndarray") && find_cupy(object)) k->library = GOP_CUPY;
    Py_XDECREF(old);
    return k;
}

/* Takes the reference to an answer; NULL is none. */
static int is_false(PyObject *answer)
{
    const int is = answer == Py_False;
    Py_XDECREF(answer);
    return is;
}

/* A tensor that takes part in automatic differentiation is not read here. */
static int is_constant(PyObject *tensor)
{
    return is_false(attribute(tensor, GOP_WORD_requires_grad));
}

/* Whether the memory has the values themselves, with no negation or conjugation pending. The
 * class is PyTorch's own, so none of the caller's code runs. */
static int is_resolved(PyObject *tensor, int word)
{
    return is_false(PyObject_CallMethodObjArgs(tensor, gop_words[word], NULL));
}

/* Whether CuPy's current stream is the device's default one. */
static int cupy_follows(int ordinal)
{
    if (cupy.stream_of)
        return (size_t)cupy.stream_of(ordinal) <= (size_t)GOP_DEFAULT_STREAM; /* -1: failed */
    PyObject *stream = PyObject_CallFunction(cupy.current_stream, "i", ordinal);
    PyObject *pointer = stream ? attribute(stream, GOP_WORD_ptr) : NULL;
    const size_t handle = pointer ? PyLong_AsSize_t(pointer) : 2;
    Py_XDECREF(stream);
    Py_XDECREF(pointer);
    return !PyErr_Occurred() && handle <= (size_t)GOP_DEFAULT_STREAM;
}

static int torch_follows(const dl_exchange_api *api, int ordinal)
{
    void *stream = NULL;
    return api->stream(DL_CUDA, ordinal, &stream) == 0 &&
           (uintptr_t)stream <= (uintptr_t)GOP_DEFAULT_STREAM;
}

/* An attribute that is an integer; 0 without one. */
static size_t number_of(PyObject *object, int word)
{
    PyObject *value = object ? attribute(object, word) : NULL;
    const size_t number = value ? PyLong_AsSize_t(value) : 0;
    Py_XDECREF(value);
    return number;
}

/* Whether the driver has to say whose memory it is. A class of the caller's may claim anything,
 * and memory of another library may be anywhere. */
static int is_unknown(PyObject *data)
{
    PyObject *memory = attribute(data, GOP_WORD_mem);
    PyObject *class = memory ? (PyObject *)Py_TYPE(memory) : NULL;
    const int unknown = !class || (class != cupy.pooled && class != cupy.lent);
    if (!memory) PyErr_Clear();
    Py_XDECREF(memory);
    return unknown;
}

/* A new reference to its strides, or to None for C order. CuPy takes ten times as long for the
 * tuple as for the flag. */
static PyObject *strides_of(PyObject *object)
{
    PyObject *dense = attribute(object, GOP_WORD__c_contiguous);
    const int is_dense = dense == Py_True;
    if (!dense) PyErr_Clear();
    Py_XDECREF(dense);
    if (!is_dense) return attribute(object, GOP_WORD_strides);
    Py_RETURN_NONE;
}

/* Reads a CuPy array by its attributes, which takes a fifth of the time of its capsule. */
static int read_cupy(PyObject *object, gop_foreign *foreign)
{
    gop_array *array = &foreign->array;
    PyObject *dtype = attribute(object, GOP_WORD_dtype);
    PyObject *shape = dtype ? attribute(object, GOP_WORD_shape) : NULL;
    PyObject *strides = shape ? strides_of(object) : NULL;
    foreign->owner = strides ? attribute(object, GOP_WORD_data) : NULL;
    int read = foreign->owner && PyArray_DescrCheck(dtype) &&
               gop_plain_dtype((PyArray_Descr *)dtype, &array->dtype);
    if (read) {
        array->data = (void *)number_of(foreign->owner, GOP_WORD_ptr);
        array->where =
            (gop_device){GOP_CUDA, (int)number_of(foreign->owner, GOP_WORD_device_id)};
        read = !PyErr_Occurred() && gop_read_layout("cupy", shape, strides, array) == 0;
        if (read && is_unknown(foreign->owner)) read = gop_check_whose(array) == 0;
    }
    Py_XDECREF(strides);
    Py_XDECREF(shape);
    Py_XDECREF(dtype);
    return read;
}

/* Whether CuPy's stream on this device was asked for with an operand before operand i. */
static int was_asked(const gop_foreign *foreign, int i)
{
    for (int before = 0; before < i; before++)
        if (foreign[before].library == GOP_CUPY &&
            foreign[before].array.where.ordinal == foreign[i].array.where.ordinal)
            return 1;
    return 0;
}

int gop_ask_foreign(PyObject *object, gop_foreign *foreign, int i)
{
    const known *k = look_up_kind(Py_TYPE(object));
    gop_foreign *asked = &foreign[i];
    asked->library = k->library;
    asked->api = k->api;
    if (k->library == GOP_TORCH)
        return is_constant(object) && is_resolved(object, GOP_WORD_is_neg);
    return k->library == GOP_CUPY && read_cupy(object, asked) &&
           (was_asked(foreign, i) || cupy_follows(asked->array.where.ordinal));
}

static int read_torch(const dl_exchange_api *api, PyObject *object, gop_array *array)
{
    dl_tensor tensor;
    if (api->read(object, &tensor) != 0) return 0;
    if (tensor.device.type != DL_CUDA || gop_dlpack_read(&tensor, array) < 0) return 0;
    if (gop_dtype_kind(array->dtype) == 'c' && !is_resolved(object, GOP_WORD_is_conj)) return 0;
    return torch_follows(api, tensor.device.id);
}

int gop_read_foreign(PyObject *object, const gop_foreign *foreign, gop_array *array)
{
    if (foreign->library == GOP_TORCH) return read_torch(foreign->api, object, array);
    gop_array_assign(array, &foreign->array);
    return 1;
}

/* ---- results ---- */

static void ignore(void *context, const char *kind, const char *message) {}

/* PyTorch's allocator makes C order, so the axes are passed in the order of memory. */
static PyObject *make_torch(const dl_exchange_api *api, gop_array *array)
{
    dl_versioned *managed = NULL;
    void *object = NULL;
    gop_array stored;
    int64_t strides[GOP_MAX_NDIM]; /* in elements */
    gop_as_stored(array, &stored);
    dl_tensor tensor = gop_dlpack_tensor(&stored, stored.shape, NULL);
    if (!api->allocate || !api->to_object || api->allocate(&tensor, &managed, NULL, ignore))
        return NULL;
    for (int d = 0; d < array->ndim; d++)
        strides[d] = array->strides[d] / gop_dtype_size(array->dtype);
    if (!gop_is_c_order(array))
        managed->tensor.shape = array->shape, managed->tensor.strides = strides;
    array->data = (char *)managed->tensor.data + managed->tensor.byte_offset;
    if (api->to_object(managed, &object) != 0) return NULL;
    return object;
}

/* An array of this shape: in `data` by these strides, or in new memory in C order without. */
static PyObject *new_cupy(PyObject *shape, PyObject *dtype, PyObject *data, PyObject *strides)
{
    if (!cupy.allocate)
        return data ? PyObject_CallFunctionObjArgs(cupy.ndarray, shape, dtype, data, strides,
                                                   NULL)
               : cupy.empty ? PyObject_CallFunctionObjArgs(cupy.empty, shape, dtype, NULL)
                            : NULL;
    PyObject *made = PyObject_CallFunctionObjArgs(cupy.allocate, cupy.ndarray, NULL);
    PyObject *done = made ? PyObject_CallFunctionObjArgs(cupy.prepare, made, shape, dtype, data,
                                                         strides, NULL)
                          : NULL;
    if (!done) Py_CLEAR(made);
    Py_XDECREF(done);
    return made;
}

/* Memory for an array that is not in C order: from the allocator itself, or that of an array in
 * C order. */
static PyObject *cupy_memory(const gop_array *array, PyObject *shape, PyObject *dtype)
{
    const int64_t bytes = gop_array_size(array) * gop_dtype_size(array->dtype);
    if (cupy.memory) return PyObject_CallFunction(cupy.memory, "n", (Py_ssize_t)bytes);
    PyObject *plain = new_cupy(shape, dtype, NULL, NULL);
    PyObject *data = plain ? attribute(plain, GOP_WORD_data) : NULL;
    Py_XDECREF(plain);
    return data;
}

/* CuPy makes it on its current device, which may not be the operands' device. */
static PyObject *make_cupy(gop_array *array)
{
    PyObject *shape = gop_shape_tuple(array->ndim, array->shape), *made = NULL, *data = NULL;
    PyObject *dtype = (PyObject *)gop_descr(array->dtype), *strides = NULL;
    if (shape && dtype && !gop_is_c_order(array)) {
        data = cupy_memory(array, shape, dtype);
        strides = data ? gop_shape_tuple(array->ndim, array->strides) : NULL;
        if (strides) made = new_cupy(shape, dtype, data, strides);
    } else if (shape && dtype && (made = new_cupy(shape, dtype, NULL, NULL)))
        data = attribute(made, GOP_WORD_data);
    if (number_of(data, GOP_WORD_device_id) == (size_t)array->where.ordinal)
        array->data = (void *)number_of(data, GOP_WORD_ptr);
    Py_XDECREF(strides);
    Py_XDECREF(data);
    Py_XDECREF(dtype);
    Py_XDECREF(shape);
    return made;
}

PyObject *gop_make_foreign(const gop_foreign *foreign, gop_array *array)
{
    array->data = NULL;
    PyObject *made =
        foreign->library == GOP_TORCH ? make_torch(foreign->api, array) : make_cupy(array);
    if (made && array->data && !PyErr_Occurred()) return made;
    Py_XDECREF(made);
    if (!gop_is_critical()) PyErr_Clear();
    return NULL;
}

/* Finds the library of that name, if one of its arrays was seen before. */
static int named(PyObject *kind, gop_foreign *foreign)
{
    for (int i = 0; i < TYPES; i++) {
        const gop_library library = types[i].library;
        if (library == GOP_NO_LIBRARY || gop_library_word(library) != kind) continue;
        *foreign = (gop_foreign){.library = library, .api = types[i].api};
        return 1;
    }
    return 0;
}

int gop_foreign_follows(PyObject *kind, int ordinal)
{
    gop_foreign foreign;
    if (!named(kind, &foreign)) return 0;
    return foreign.library == GOP_TORCH ? torch_follows(foreign.api, ordinal)
                                        : cupy_follows(ordinal);
}

PyObject *gop_make_of_kind(PyObject *kind, gop_array *array)
{
    gop_foreign foreign;
    if (!named(kind, &foreign) || !gop_foreign_follows(kind, array->where.ordinal)) {
        if (!gop_is_critical()) PyErr_Clear();
        return NULL;
    }
    return gop_make_foreign(&foreign, array);
}

/* foreign(array) -> DeviceArray or None */
static PyObject *foreign(PyObject *module, PyObject *object)
{
    gop_foreign f = {.owner = NULL};
    gop_array array;
    const gop_backend *cuda;
    PyObject *taken = NULL;
    if (gop_ask_foreign(object, &f, 0) && gop_backend_get(GOP_CUDA, &cuda) == GOP_OK &&
        gop_read_foreign(object, &f, &array)) {
        PyObject *buffer = gop_buffer_borrow(&array, object, 0);
        if (buffer) taken = gop_device_array(buffer, gop_library_word(f.library));
        Py_XDECREF(buffer);
    }
    Py_XDECREF(f.owner);
    if (taken || gop_is_critical()) return taken;
    PyErr_Clear();
    Py_RETURN_NONE;
}

PyMethodDef gop_foreign_functions[] = {
    {"foreign", foreign, METH_O,
     "foreign(array) -> DeviceArray of a plain array of CuPy or PyTorch that works on the "
     "default stream, or None"},
    {NULL, NULL, 0, NULL}};
