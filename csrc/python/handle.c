/*
 * handle.c - Handle: a Buffer and the library that its memory came from; gpuops.DeviceArray is
 * one, so that device arrays are made and read without asking Python.
 */
#include "python/python.h"

#include <structmember.h>

typedef struct handle {
    PyObject_HEAD PyObject *buffer;
    PyObject *kind; /* "cupy", ...; None for memory of our own */
} handle;

static PyTypeObject *handle_type;

PyObject *gop_handle_buffer(PyObject *object)
{
    return PyObject_TypeCheck(object, handle_type) ? ((handle *)object)->buffer : object;
}

PyObject *gop_handle_kind(PyObject *object)
{
    return ((handle *)object)->kind;
}

PyObject *gop_handle_new(PyTypeObject *class, PyObject *buffer, PyObject *kind)
{
    handle *h = (handle *)PyType_GenericAlloc(class, 0);
    if (!h) return NULL;
    Py_INCREF(buffer);
    Py_INCREF(kind);
    h->buffer = buffer;
    h->kind = kind;
    return (PyObject *)h;
}

/* DeviceArray(buffer, kind=None) */
static PyObject *handle_new(PyTypeObject *class, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"buffer", "kind", NULL};
    PyObject *buffer, *kind = Py_None;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O|O:DeviceArray", names, &buffer,
                                     &kind))
        return NULL;
    if (gop_buffer_array(buffer)) return gop_handle_new(class, gop_handle_buffer(buffer), kind);
    PyErr_SetString(PyExc_TypeError, "DeviceArray: make one with gpuops.to_device(a, device)");
    return NULL;
}

static void handle_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(((handle *)self)->buffer);
    Py_XDECREF(((handle *)self)->kind);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

int gop_handle_ready(PyObject *module)
{
    static PyMemberDef members[] = {
        {"_buffer", T_OBJECT_EX, offsetof(handle, buffer), READONLY, NULL},
        {"_kind", T_OBJECT_EX, offsetof(handle, kind), READONLY, NULL},
        {NULL, 0, 0, 0, NULL}};
    static PyType_Slot slots[] = {{Py_tp_new, handle_new},
                                  {Py_tp_dealloc, handle_free},
                                  {Py_tp_members, members},
                                  {Py_tp_doc, "A Buffer and where its memory came from."},
                                  {0, NULL}};
    static PyType_Spec spec = {"gpuops._core.Handle", sizeof(handle), 0,
                               Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
    PyObject *type = PyType_FromSpec(&spec);
    if (!type) return -1;
    handle_type = (PyTypeObject *)type;
    return PyModule_AddObjectRef(module, "Handle", type);
}
