/*
 * foreign.c - arrays of CuPy and PyTorch, read at once for the quick way.
 *
 * Only arrays whose library works on the device's default stream, where our work goes too, so
 * that nobody has to wait for anybody. For all others gpuops/arrays.py has the words.
 */
#include "python/dlpack.h"

enum { TYPES = 16 }; /* that are kept in mind, arrays or not */

typedef struct known {
    PyTypeObject *type;
    gop_library library;
    const dl_exchange_api *api;
} known;

static known types[TYPES];
static int next_type;
static PyObject *dlpack_word, *gradient_word, *pointer_word, *stream_function;
static PyObject *library_words[] = {[GOP_CUPY] = NULL, [GOP_TORCH] = NULL};

PyObject *gop_library_word(gop_library library)
{
    return library_words[library];
}

/* Whether the type is itself the class that a module is known for. */
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

static int find_stream_function(void)
{
    PyObject *module = stream_function ? NULL : PyImport_ImportModule("cupy.cuda");
    if (module) stream_function = PyObject_GetAttrString(module, "get_current_stream");
    Py_XDECREF(module);
    PyErr_Clear();
    return stream_function != NULL;
}

/* What is known of a type; it is looked at once. */
static const known *look_up(PyTypeObject *type)
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
    else if (is_named(object, "cupy", "ndarray") && find_stream_function())
        k->library = GOP_CUPY;
    Py_XDECREF(old);
    return k;
}

/* A tensor that takes part in automatic differentiation is not for us. */
static int is_constant(PyObject *tensor)
{
    PyObject *gradient = PyObject_GetAttr(tensor, gradient_word);
    const int constant = gradient == Py_False;
    Py_XDECREF(gradient);
    return constant;
}

/* The capsule keeps the memory, and it is another library's word: the driver is asked too.
 * Without a stream the capsule is for the default one. */
static int ask_cupy(PyObject *object, gop_foreign *foreign)
{
    gop_array array;
    foreign->owner = PyObject_CallMethodObjArgs(object, dlpack_word, NULL);
    if (!foreign->owner || gop_dlpack_peek(foreign->owner, &array) < 0) return 0;
    if (array.where.backend != GOP_CUDA || gop_check_whose(&array) < 0) return 0;
    PyObject *stream = PyObject_CallFunction(stream_function, "i", array.where.ordinal);
    PyObject *pointer = stream ? PyObject_GetAttr(stream, pointer_word) : NULL;
    const size_t handle = pointer ? PyLong_AsSize_t(pointer) : 2;
    Py_XDECREF(stream);
    Py_XDECREF(pointer);
    return !PyErr_Occurred() && handle <= (size_t)GOP_DEFAULT_STREAM;
}

int gop_ask_foreign(PyObject *object, gop_foreign *foreign)
{
    const known *k = look_up(Py_TYPE(object));
    *foreign = (gop_foreign){k->library, k->api, NULL};
    if (k->library == GOP_TORCH) return is_constant(object);
    return k->library == GOP_CUPY && ask_cupy(object, foreign);
}

/* The sign of a complex tensor's parts may be pending. */
static int read_torch(const dl_exchange_api *api, PyObject *object, gop_array *array)
{
    dl_tensor tensor;
    void *stream;
    if (api->read(object, &tensor) != 0) return 0;
    if (tensor.device.type != DL_CUDA || gop_dlpack_read(&tensor, array) < 0) return 0;
    if (gop_dtype_kind(array->dtype) == 'c') return 0;
    return api->stream(DL_CUDA, tensor.device.id, &stream) == 0 &&
           (uintptr_t)stream <= (uintptr_t)GOP_DEFAULT_STREAM;
}

int gop_read_foreign(PyObject *object, const gop_foreign *foreign, gop_array *array)
{
    if (foreign->library == GOP_TORCH) return read_torch(foreign->api, object, array);
    return gop_dlpack_peek(foreign->owner, array) == 0;
}

int gop_foreign_ready(void)
{
    dlpack_word = PyUnicode_InternFromString("__dlpack__");
    gradient_word = PyUnicode_InternFromString("requires_grad");
    pointer_word = PyUnicode_InternFromString("ptr");
    library_words[GOP_CUPY] = PyUnicode_InternFromString("cupy");
    library_words[GOP_TORCH] = PyUnicode_InternFromString("torch");
    return PyErr_Occurred() ? -1 : 0;
}
