/* `_packing.from_words` in C: the engine calls it in every step, for many small arrays. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NPY_TARGET_VERSION NPY_1_25_API_VERSION
#include <numpy/arrayobject.h>

/* The array stored in some 32-bit words. `place` has its first word, the one after its last, its shape and its
 * dtype. */
static PyObject *array_at(PyArrayObject *words, PyObject *place)
{
    Py_ssize_t start, stop;
    PyArray_Dims shape = {NULL, 0};
    PyArray_Descr *dtype;
    PyObject *new = NULL;
    if (PyArg_Parse(place, "(nnO&O!)", &start, &stop, PyArray_IntpConverter, &shape, &PyArrayDescr_Type,
            &dtype)) {
        if (0 <= start && start <= stop && stop <= PyArray_SIZE(words)
            && PyArray_MultiplyList(shape.ptr, shape.len) == stop - start
            && (dtype->type_num == NPY_BOOL || PyDataType_ELSIZE(dtype) == 4)) {
            Py_INCREF(dtype);
            new = PyArray_NewFromDescr(&PyArray_Type, dtype, shape.len, shape.ptr, NULL, NULL, 0, NULL);
        }
        else {
            PyErr_SetString(PyExc_ValueError, "a place is outside the words, or does not fit them");
        }
    }
    PyDimMem_FREE(shape.ptr);
    if (new == NULL) {
        return NULL;
    }
    const npy_uint32 *from = (const npy_uint32 *)PyArray_DATA(words) + start;
    npy_bool *to = PyArray_DATA((PyArrayObject *)new);
    if (PyArray_TYPE((PyArrayObject *)new) != NPY_BOOL) {
        memcpy(to, from, (size_t)(stop - start) * 4);
        return new;
    }
    for (Py_ssize_t i = 0; i < stop - start; i++) {
        to[i] = from[i] != 0;
    }
    return new;
}

static PyObject *from_words(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyArrayObject *words;
    PyObject *places;
    if (!PyArg_ParseTuple(args, "O!O!", &PyArray_Type, &words, &PyList_Type, &places)) {
        return NULL;
    }
    if (PyArray_TYPE(words) != NPY_UINT32 || !PyArray_ISCARRAY_RO(words)) {
        PyErr_SetString(PyExc_TypeError, "words are uint32 in one piece");
        return NULL;
    }
    PyObject *arrays = PyList_New(0);
    for (Py_ssize_t i = 0; arrays && i < PyList_GET_SIZE(places); i++) {
        PyObject *place = Py_NewRef(PyList_GET_ITEM(places, i)); /* its numbers may have an `__index__` */
        PyObject *new = array_at(words, place);
        if (new == NULL || PyList_Append(arrays, new) < 0) {
            Py_CLEAR(arrays);
        }
        Py_XDECREF(new);
        Py_DECREF(place);
    }
    return arrays;
}

static PyMethodDef functions[] = {
    {"from_words", from_words, METH_VARARGS, "Return the arrays of which an array of words is made up."},
    {NULL}};

static int module_exec(PyObject *Py_UNUSED(module))
{
    return _import_array();
}

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, module_exec},
#ifdef Py_mod_multiple_interpreters
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_SUPPORTED},
#endif
#ifdef Py_mod_gil
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL}};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, .m_name = "_words", .m_methods = functions, .m_slots = module_slots};

PyMODINIT_FUNC PyInit__words(void)
{
    return PyModuleDef_Init(&module);
}
