/* The walk of `walk.py` and the proof of `ownership.py` in C, and other short functions that run often.
 *
 * The walk has a stack of its own, so that a structure may be as deep as memory allows. When a leaf is
 * refused or kept, its path is read off the stack. Nothing is converted twice.
 *
 * Whatever holds objects for it is a tuple: a `Route`, a `Slot`, a Walker, what a function was made with.
 * Their fields are read by number.
 *
 * A value whose count is one is held by its container alone. So every function here takes a value
 * together with the answer to "is it unshared?", given before the function holds its own reference.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NPY_TARGET_VERSION NPY_1_25_API_VERSION
#include <numpy/arrayobject.h>
#include <numpy/arrayscalars.h>

#define MANY_BYTES (1 << 20) /* from this size on, copies let other threads run */

/* ---- the walk's own records --------------------------------------------------------------------- */

#define FIELD(record, number) (((PyTupleObject *)(record))->ob_item[number])

/* The fields of a Route, a Slot and a Walker. */
enum {
    STEPS, FOLLOW, RESOLVE, COPY_OF, FINISH, TAKE, RESULT_TYPE, REFUSE, REFUSAL, AS_IS, COPY, SMALL, LARGE
};
enum { NAME, ON_KEEP, SCALAR, KEPT_TYPE, EXPECTS, SLOT_FIELDS };
enum { TABLE, SLOTS, REPACK, IS_ON, CONTEXT, SHARED };

/* What the walk shares with the one in Python, by the names that it has there, and the names of attributes. */
enum {
    UNCHANGED, KEEP, ROUTE, CONTAINER, DICT, LIST, TUPLE, IN_PROGRESS, PATH_OF, LOCATE, REPORT_KEPT,
    REFUSE_CYCLE, GUARDED, DEFERRED, COMPLETE, REFCOUNTS_RELIABLE, FLATTEN, UNFLATTEN, COUNTED, DTYPE_NAME,
    SHARED_FIELDS
};

static const char *const shared_names[SHARED_FIELDS] = {"unchanged", "KEEP", "Route", "Container", "DICT", "LIST",
    "TUPLE", "IN_PROGRESS", "path_of", "locate", "report_kept", "refuse_cycle", "guarded", "Deferred",
    "complete", "REFCOUNTS_RELIABLE", "flatten", "unflatten", "counted", "dtype"};

/* The DLTensor, the DLManagedTensorVersioned and the DLPackExchangeAPI of DLPack 1.3. */
typedef struct {
    void *data;
    int32_t device_type, device_id, ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} Tensor;

typedef struct Managed {
    uint32_t major, minor;
    PyObject *array;
    void (*release)(struct Managed *);
    uint64_t flags;
    Tensor tensor;
} Managed;

typedef struct {
    uint32_t major, minor;
    void *older, *allocate, *export;
    int (*take)(Managed *, PyObject **);
    int (*borrow)(PyObject *, Tensor *);
} Exchange;

#define MAX_SLOTS 8

/* A container that is being walked: one step on the path to a leaf. It holds all of its objects. */
typedef struct {
    PyObject *container, *node; /* its kind, and itself */
    PyObject *keys, *key;       /* what `flatten` returned, or NULL; the current key of a dict */
    PyObject *source, *results; /* what is iterated over; the results so far: a dict or a list */
    PyObject *id;               /* its key in the memo, or NULL if it cannot be reached again */
    Py_ssize_t index, position; /* of the value that is being converted; of the next one in a dict */
    char alone;                 /* whether only the walk can reach it */
} Frame;

#define FEW_FRAMES 16

/* One call of a Walker: the slot that is being converted, and the containers that may be reached again. */
typedef struct {
    PyObject *walker, **shared;
    Py_ssize_t slot, depth, room;
    Frame *frames, few[FEW_FRAMES];
    PyObject *memo; /* from id to (container, result), as in Python; NULL until it is needed */
    PyObject *deferred; /* what `complete` takes, as in Python; NULL until it is needed */
    PyObject *take;     /* what last made an array, and its table of functions, if they can be used */
    const Exchange *exchange;
} Call;

static void begin(Call *call, PyObject *walker)
{
    call->walker = walker;
    call->shared = &FIELD(FIELD(walker, SHARED), 0);
    call->slot = call->depth = 0;
    call->room = FEW_FRAMES;
    call->frames = call->few;
    call->memo = call->deferred = call->take = NULL;
}

/* Return the current error, which is cleared, or NULL. */
static PyObject *take_error(void)
{
    PyObject *type, *error, *traceback;
    PyErr_Fetch(&type, &error, &traceback);
    PyErr_NormalizeException(&type, &error, &traceback);
    if (traceback) {
        PyException_SetTraceback(error, traceback);
    }
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    return error;
}

/* Make an error, which is taken over, the current one. */
static void raise_error(PyObject *error)
{
    PyErr_Restore(Py_NewRef(Py_TYPE(error)), error, PyException_GetTraceback(error));
}

/* Complete the arrays that were deferred; after an error, which stays, as well. */
static int complete(Call *call)
{
    PyObject *error = take_error(), *failed = error ? Py_True : Py_False;
    PyObject *done = PyObject_CallFunctionObjArgs(call->shared[COMPLETE], call->deferred, failed, NULL);
    if (done && error) {
        raise_error(Py_NewRef(error));
    }
    Py_XDECREF(done);
    Py_XDECREF(error);
    return PyErr_Occurred() ? -1 : 0;
}

/* Return the result of a call, which is over; without one, there is an error. */
static PyObject *end(Call *call, PyObject *result)
{
    if (call->deferred && complete(call) < 0) {
        Py_CLEAR(result);
    }
    Py_XDECREF(call->memo);
    Py_XDECREF(call->deferred);
    Py_XDECREF(call->take);
    if (call->frames != call->few) {
        PyMem_Free(call->frames);
    }
    return result;
}

/* Whether only the walk can reach the container that it is in, as far as counts prove anything. */
static int is_alone(const Call *call)
{
    const Frame *frame = call->depth ? &call->frames[call->depth - 1] : NULL;
    return call->shared[REFCOUNTS_RELIABLE] == Py_True && (!frame || frame->alone);
}

/* What a function without arguments says: yes or no, or -1 with an error. One in C is called as it is. */
static int ask(PyObject *function)
{
    int is_in_c = PyCFunction_CheckExact(function) && PyCFunction_GET_FLAGS(function) == METH_NOARGS;
    PyObject *answer = is_in_c ? PyCFunction_GET_FUNCTION(function)(PyCFunction_GET_SELF(function), NULL)
                               : PyObject_CallNoArgs(function);
    int is_true = answer ? PyObject_IsTrue(answer) : -1;
    Py_XDECREF(answer);
    return is_true;
}

/* ---- the proof ---------------------------------------------------------------------------------- */

/* Whether the only reference to a value, weak ones included, is the one that its container holds. Nobody's code
 * runs between the two questions; after them, nobody can get a reference. Of the other types that are taken
 * over or opened without a copy, none has weak references. */
static inline int is_unshared(PyObject *value)
{
#ifndef Py_GIL_DISABLED
    return Py_REFCNT(value) == 1
        && !(PyArray_CheckExact(value) && *PyObject_GET_WEAKREFS_LISTPTR(value));
#elif PY_VERSION_HEX >= 0x030E0000
    return PyUnstable_Object_IsUniquelyReferenced(value); /* never of what had a weak reference */
#else
    return value == NULL; /* never: there is no way to tell */
#endif
}

/* The same where we have one more reference, from an iterator or in a copy of the container; without the GIL,
 * there is no way to tell. */
#ifndef Py_GIL_DISABLED
#define IS_UNSHARED_BUT_FOR_US(value) (Py_REFCNT(value) <= 2)
#else
#define IS_UNSHARED_BUT_FOR_US(value) 0
#endif

static int are_zero_or_one(const unsigned char *bools, npy_intp count)
{
    unsigned char seen = 0;
    for (npy_intp i = 0; i < count; i++) {
        seen |= bools[i];
    }
    return seen <= 1;
}

/* The strides of an axis with fewer than two elements may be anything, even if the array is contiguous. */
static int has_odd_strides(PyArrayObject *array)
{
    npy_intp item = PyArray_ITEMSIZE(array);
    for (int axis = 0; axis < PyArray_NDIM(array); axis++) {
        npy_intp stride = PyArray_STRIDE(array, axis);
        if (stride < 0 || (item && stride % item)) {
            return 1;
        }
    }
    return 0;
}

/* Whether the target takes a value, an array, without a cast: 1, or 2 if its bools have to be checked. */
static int is_plain(PyObject *route, PyObject *value)
{
    const int shareable = NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED | NPY_ARRAY_WRITEABLE;
    if (!PyArray_CheckExact(value)) {
        return 0;
    }
    PyArrayObject *array = (PyArrayObject *)value;
    PyObject *as_is = FIELD(route, AS_IS);
    int number = PyArray_TYPE(array), shares = FIELD(route, COPY) == Py_False;
    int needed = shares ? shareable : shareable & ~NPY_ARRAY_WRITEABLE;
    return (PyArray_FLAGS(array) & needed) == needed && PyArray_ISNBO(PyArray_DESCR(array)->byteorder)
            && PyBytes_Check(as_is) && number >= 0 && number < PyBytes_GET_SIZE(as_is)
            && !has_odd_strides(array)
        ? PyBytes_AS_STRING(as_is)[number] : 0;
}

/* The proof: whether nobody else sees a plain array's memory. `owned`: nobody else can reach the array. */
static int is_takeable(PyArrayObject *array, int owned)
{
    const int writable = NPY_ARRAY_OWNDATA | NPY_ARRAY_WRITEABLE;
    return owned && (PyArray_FLAGS(array) & writable) == writable && !PyArray_BASE(array);
}

/* ---- paths and errors --------------------------------------------------------------------------- */

static PyObject *slot_of(Call *call)
{
    return FIELD(FIELD(call->walker, SLOTS), call->slot);
}

/* Call a function with what comes before the path, the path, and what comes after it, if anything. */
static PyObject *call_with_path(Call *call, PyObject *function, PyObject *before, PyObject *after)
{
    PyObject *steps = PyList_New(0), *path = NULL, *result = NULL;
    for (Py_ssize_t i = 0; steps && i < call->depth; i++) {
        Frame *frame = &call->frames[i];
        PyObject *keys = frame->keys ? frame->keys : frame->source;
        PyObject *step = Py_BuildValue("(OOn)", frame->container, keys, frame->index);
        if (step == NULL || PyList_Append(steps, step) < 0) {
            Py_CLEAR(steps);
        }
        Py_XDECREF(step);
    }
    if (steps) {
        PyObject *name = FIELD(slot_of(call), NAME);
        path = PyObject_CallFunctionObjArgs(call->shared[PATH_OF], name, steps, NULL);
    }
    if (path) {
        result = PyObject_CallFunctionObjArgs(function, before, path, after, NULL);
    }
    Py_XDECREF(steps);
    Py_XDECREF(path);
    return result;
}

/* Replace the current error with the one to raise: with its path, and by way of `refusal` if a framework
 * refused an array. */
static void locate(Call *call, PyObject *refusal, PyObject *refused)
{
    if (!PyErr_ExceptionMatches(PyExc_Exception)) {
        return;
    }
    PyObject *error = take_error();
    PyObject *better = refused ? PyObject_CallFunctionObjArgs(refusal, refused, error, NULL) : Py_NewRef(error);
    if (better) {
        Py_SETREF(better, call_with_path(call, call->shared[LOCATE], better, NULL));
    }
    if (better && better != error) {
        PyException_SetCause(better, Py_NewRef(error));
        PyException_SetContext(better, Py_NewRef(error));
    }
    if (better) {
        raise_error(better);
    }
    Py_DECREF(error);
}

/* Return a leaf that stays as it is, after telling the slot's `on_keep`, if it has one. */
static PyObject *keep(Call *call, PyObject *leaf)
{
    PyObject *slot = slot_of(call);
    if (FIELD(slot, ON_KEEP) != Py_None) {
        PyObject *told = call_with_path(call, call->shared[REPORT_KEPT], slot, leaf);
        if (told == NULL) {
            return NULL;
        }
        Py_DECREF(told);
    }
    return Py_NewRef(leaf);
}

/* ---- containers --------------------------------------------------------------------------------- */

static void pop_frame(Call *call)
{
    Frame *frame = &call->frames[--call->depth];
    Py_DECREF(frame->container);
    Py_DECREF(frame->node);
    Py_XDECREF(frame->keys);
    Py_XDECREF(frame->key);
    Py_XDECREF(frame->source);
    Py_XDECREF(frame->results);
    Py_XDECREF(frame->id);
}

static Frame *push_frame(Call *call)
{
    if (call->depth == call->room) {
        size_t size = (size_t)call->room * sizeof(Frame);
        Frame *more = PyMem_Malloc(size * 2);
        if (more == NULL) {
            PyErr_NoMemory();
            return NULL;
        }
        memcpy(more, call->frames, size);
        if (call->frames != call->few) {
            PyMem_Free(call->frames);
        }
        call->frames = more;
        call->room *= 2;
    }
    return &call->frames[call->depth++];
}

/* What to iterate over: a container that others can reach is read at one moment, because another thread, or
 * what is called for a leaf, may change it. */
static PyObject *stable(PyObject *container, int alone)
{
    if (alone || PyTuple_CheckExact(container)) {
        return Py_NewRef(container);
    }
    return PyDict_CheckExact(container) ? PyDict_Copy(container) : PyList_AsTuple(container);
}

static void flatten(Call *call, Frame *frame)
{
    PyObject *container = frame->container, **shared = call->shared, *keys, *values;
    PyObject *counted = PyObject_GetAttr(container, shared[COUNTED]);
    PyObject *flat = counted ? PyObject_CallMethodOneArg(container, shared[FLATTEN], frame->node) : NULL;
    if (flat && PyArg_Parse(flat, "(OO)", &keys, &values)) {
        frame->keys = Py_NewRef(keys);
        frame->source = PyObject_GetIter(values);
        frame->alone = frame->alone && counted == Py_True;
    }
    Py_XDECREF(counted);
    Py_XDECREF(flat);
}

/* Remember a container that may be reached again: first that it is being converted, then its result. */
static int remember(Call *call, PyObject *id, PyObject *value, PyObject *result)
{
    PyObject *entry = PyTuple_Pack(2, value, result);
    if (call->memo == NULL) {
        call->memo = PyDict_New();
    }
    int failed = entry == NULL || call->memo == NULL || PyDict_SetItem(call->memo, id, entry) < 0;
    Py_XDECREF(entry);
    return failed ? -1 : 0;
}

/* Push the frame of a container, and return NULL; or return what it has become already. */
static PyObject *enter(Call *call, PyObject *container, PyObject *value, int unshared)
{
    PyObject **shared = call->shared, *id = NULL;
    int alone = unshared && is_alone(call);
    if (!unshared || call->shared[REFCOUNTS_RELIABLE] != Py_True) { /* it may be reached again */
        id = PyLong_FromVoidPtr(value);
        PyObject *entry = id && call->memo ? PyDict_GetItemWithError(call->memo, id) : NULL;
        if (entry) {
            PyObject *result = PyTuple_GET_ITEM(entry, 1);
            Py_DECREF(id);
            if (result == shared[IN_PROGRESS]) {
                return PyObject_CallOneArg(shared[REFUSE_CYCLE], value); /* it raises */
            }
            return Py_NewRef(result);
        }
        if (id == NULL || PyErr_Occurred() || remember(call, id, value, shared[IN_PROGRESS]) < 0) {
            Py_XDECREF(id);
            return NULL;
        }
    }
    Frame *frame = push_frame(call);
    if (frame == NULL) {
        Py_XDECREF(id);
        return NULL;
    }
    *frame = (Frame){.container = Py_NewRef(container), .node = Py_NewRef(value), .id = id, .index = -1,
        .alone = (char)alone};
    int is_dict = container == shared[DICT];
    if (is_dict || container == shared[LIST] || container == shared[TUPLE]) {
        frame->source = stable(value, alone);
    }
    else {
        flatten(call, frame);
    }
    if (alone && (is_dict || container == shared[LIST])) {
        frame->results = Py_NewRef(value); /* only the walk can reach it, so it becomes its own result */
    }
    else if (frame->source) {
        frame->results = is_dict ? PyDict_New() : PyList_New(0);
    }
    if (frame->results == NULL) {
        pop_frame(call);
    }
    return NULL;
}

/* A new reference to a container's next value; NULL after the last, or with an error. */
static PyObject *next_value(Frame *frame, int *unshared)
{
    PyObject *key, *value = NULL, *source = frame->source;
    frame->index++;
    if (frame->keys) { /* an iterator, which gives us a reference */
        value = PyIter_Next(source);
        *unshared = value && IS_UNSHARED_BUT_FOR_US(value);
        return value;
    }
    if (PyDict_CheckExact(source)) {
        if (PyDict_Next(source, &frame->position, &key, &value)) {
            Py_XSETREF(frame->key, Py_NewRef(key));
        }
    }
    else if (frame->index < PySequence_Fast_GET_SIZE(source)) {
        value = PySequence_Fast_GET_ITEM(source, frame->index);
    }
    if (value) {
        *unshared = source == frame->node ? is_unshared(value) : IS_UNSHARED_BUT_FOR_US(value);
        Py_INCREF(value);
    }
    return value;
}

/* Put a result, which is taken over, into the container that is being built. */
static int put(Frame *frame, PyObject *new)
{
    PyObject *results = frame->results;
    if (results == frame->node && !frame->key) {
        return PyList_SetItem(results, frame->index, new);
    }
    int failed = frame->key ? PyDict_SetItem(results, frame->key, new) : PyList_Append(results, new);
    Py_DECREF(new);
    return failed;
}

/* Return what the innermost container has become, and pop its frame. */
static PyObject *leave(Call *call, Frame *frame)
{
    PyObject *new = NULL, *results = frame->results;
    if (frame->keys) {
        PyObject *arguments[] = {frame->container, frame->node, frame->keys, results};
        if (!call->deferred || complete(call) == 0) { /* others would see the arrays */
            new = PyObject_VectorcallMethod(call->shared[UNFLATTEN], arguments, 4, NULL);
        }
    }
    else if (frame->container == call->shared[TUPLE]) {
        new = PyList_AsTuple(results);
    }
    else if (PyDict_CheckExact(results) && PyDict_GET_SIZE(results) < frame->index) {
        PyErr_SetString(PyExc_ValueError, "two of its keys are equal, so that one entry would be lost");
    }
    else {
        new = Py_NewRef(results);
    }
    if (new && frame->id && remember(call, frame->id, frame->node, new) < 0) {
        Py_CLEAR(new);
    }
    pop_frame(call);
    return new;
}

/* ---- small arrays ------------------------------------------------------------------------------- */

/* Whether the current error only means that a probe failed, and may be cleared; no other error may. What was
 * raised in Python may have come from a signal handler. */
static int is_refusal(void)
{
    if (!PyErr_ExceptionMatches(PyExc_Exception) || PyErr_ExceptionMatches(PyExc_MemoryError)) {
        return 0;
    }
    PyObject *error = take_error(), *traceback = PyException_GetTraceback(error), *answer = NULL;
    PyObject *module = traceback ? PyImport_ImportModule("arrayferry._core.interruptions") : NULL;
    if (module) {
        answer = PyObject_CallMethod(module, "is_from_handler", "O", error);
        Py_DECREF(module);
    }
    int is_refusal = !traceback || answer == Py_False;
    Py_XDECREF(traceback);
    Py_XDECREF(answer);
    raise_error(error);
    return is_refusal;
}

/* A function's answer where in doubt: None, without the error if it is a refusal. */
static PyObject *none_if_refused(void)
{
    if (PyErr_Occurred() && !is_refusal()) {
        return NULL;
    }
    PyErr_Clear();
    Py_RETURN_NONE;
}

static PyArrayObject *plain_array(PyObject *value)
{
    PyArrayObject *array = (PyArrayObject *)value;
    int is_plain = PyArray_CheckExact(value) && PyArray_IS_C_CONTIGUOUS(array) && PyArray_ISALIGNED(array)
        && PyArray_ISNBO(PyArray_DESCR(array)->byteorder) && PyArray_DATA(array)
        && PyTypeNum_ISNUMBER(PyArray_TYPE(array));
    return is_plain ? array : NULL;
}

/* Other threads run during large copies. They may write to the memory, as they may whenever NumPy copies. */
static void copy_bytes(PyObject *copy, const void *from)
{
    size_t bytes = (size_t)PyArray_NBYTES((PyArrayObject *)copy);
    void *to = PyArray_DATA((PyArrayObject *)copy);
    if (bytes < MANY_BYTES) {
        memcpy(to, from, bytes);
        return;
    }
    Py_BEGIN_ALLOW_THREADS
    memcpy(to, from, bytes);
    Py_END_ALLOW_THREADS
}

/* The caller has a reference to the array, so that `resize` in another thread does not free the memory. */
static PyObject *copy_plain(PyArrayObject *array)
{
    PyArray_Descr *dtype = (PyArray_Descr *)Py_NewRef(PyArray_DESCR(array));
    PyObject *copy = PyArray_NewFromDescr(
        &PyArray_Type, dtype, PyArray_NDIM(array), PyArray_DIMS(array), NULL, NULL, 0, NULL);
    if (copy) {
        copy_bytes(copy, PyArray_DATA(array));
    }
    return copy;
}

/* The number of the dtype that a buffer's format stands for, in native byte order; -1 for any other. */
static int number_of(const char *format)
{
    static const char *const formats[] = {"f", "i", "?", "B", "I", "d", "q", "Q", "b", "h", "H", "e", "Zf", "Zd"};
    static const int numbers[] = {NPY_FLOAT, NPY_INT32, NPY_BOOL, NPY_UINT8, NPY_UINT32, NPY_DOUBLE, NPY_INT64,
        NPY_UINT64, NPY_INT8, NPY_INT16, NPY_UINT16, NPY_HALF, NPY_CFLOAT, NPY_CDOUBLE};
    format += *format == '=' || *format == '@';
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
        if (strcmp(format, formats[i]) == 0) {
            return numbers[i];
        }
    }
    return -1;
}

static PyObject *copy_buffer(PyObject *Py_UNUSED(module), PyObject *value)
{
    Py_buffer view;
    if (PyObject_GetBuffer(value, &view, PyBUF_ND | PyBUF_FORMAT) < 0) {
        return none_if_refused();
    }
    int number = view.format ? number_of(view.format) : -1;
    PyObject *copy = number < 0 ? NULL : PyArray_SimpleNew(view.ndim, (npy_intp *)view.shape, number);
    if (copy && PyArray_NBYTES((PyArrayObject *)copy) == view.len) {
        copy_bytes(copy, view.buf);
    }
    else {
        Py_CLEAR(copy);
    }
    PyBuffer_Release(&view);
    return copy ? copy : none_if_refused();
}

#define NARROW(number, wide, narrow, is_lost)                                                           \
    case number: {                                                                                      \
        const wide *old = PyArray_DATA(array);                                                          \
        narrow *new = PyArray_DATA((PyArrayObject *)copy);                                              \
        for (npy_intp i = 0; i < size; i++) {                                                           \
            new[i] = (narrow)old[i];                                                                    \
            lost |= is_lost;                                                                            \
        }                                                                                               \
        break;                                                                                          \
    }

static PyObject *halved(PyObject *Py_UNUSED(module), PyObject *value)
{
    static const int half_of[NPY_NTYPES_LEGACY] = {
        [NPY_DOUBLE] = NPY_FLOAT, [NPY_INT64] = NPY_INT32, [NPY_UINT64] = NPY_UINT32};
    PyArrayObject *array = plain_array(value);
    int number = array ? PyArray_TYPE(array) : 0, lost = 0;
    if (!half_of[number]) {
        Py_RETURN_NONE;
    }
    PyObject *copy = PyArray_SimpleNew(PyArray_NDIM(array), PyArray_DIMS(array), half_of[number]);
    if (copy == NULL) {
        return NULL;
    }
    npy_intp size = PyArray_SIZE(array);
    switch (number) {
        NARROW(NPY_DOUBLE, npy_double, npy_float, isinf(new[i]) && !isinf(old[i]))
        NARROW(NPY_INT64, npy_int64, npy_int32, new[i] != old[i])
        NARROW(NPY_UINT64, npy_uint64, npy_uint32, new[i] != old[i])
    }
    if (lost) {
        Py_SETREF(copy, Py_NewRef(Py_None));
    }
    return copy;
}

/* ---- arrays of a framework whose memory NumPy can see ------------------------------------------- */

#if PY_VERSION_HEX < 0x030D0000
#define Py_IsFinalizing _Py_IsFinalizing
#endif
#define EXCHANGE_NAME "dlpack_exchange_api"
#define ON_CPU 1

/* What the functions for a framework's arrays hold: their type; its table of functions, or None; whether an
 * array's values differ from its memory, and whether a mode is on that replaces new arrays; how it reads, takes
 * apart and makes arrays itself; and an array's memory, and the address of that. */
enum { CLASS, EXCHANGE, IS_LAZY, IS_REPLACED, SEE, ITEM, MAKE, MEMORY, ADDRESS, ARRAYS_HOLD };

static const Exchange *exchange_of(PyObject *self)
{
    PyObject *capsule = FIELD(self, EXCHANGE);
    const Exchange *exchange = capsule == Py_None ? NULL : PyCapsule_GetPointer(capsule, EXCHANGE_NAME);
    return exchange && exchange->major == 1 && sizeof(npy_intp) == sizeof(int64_t) ? exchange : NULL;
}

/* Describe an array; return the number of its dtype, or -1 if it is not in C order, on the CPU, of real numbers
 * that are its memory: then the framework's own function says what is wrong, if anything is. */
static int describe(PyObject *self, PyObject *value, Tensor *tensor)
{
    static const signed char numbers[3][9] = { /* by DLPack's code, and bytes */
        {[1] = NPY_INT8, [2] = NPY_INT16, [4] = NPY_INT32, [8] = NPY_INT64},
        {[1] = NPY_UINT8, [2] = NPY_UINT16, [4] = NPY_UINT32, [8] = NPY_UINT64},
        {[2] = NPY_HALF, [4] = NPY_FLOAT, [8] = NPY_DOUBLE}};
    const Exchange *exchange = (PyObject *)Py_TYPE(value) == FIELD(self, CLASS) ? exchange_of(self) : NULL;
    int64_t step = 1;
    int is_plain = exchange && exchange->borrow && exchange->borrow(value, tensor) == 0
        && tensor->device_type == ON_CPU && tensor->code <= 2 && tensor->bits >= 8 && tensor->bits <= 64
        && tensor->lanes == 1 && tensor->data;
    for (int axis = is_plain ? tensor->ndim : 0; axis--; step *= tensor->shape[axis]) {
        is_plain = is_plain && (tensor->strides[axis] == step || tensor->shape[axis] == 1);
    }
    PyObject *is_lazy = is_plain ? PyObject_CallOneArg(FIELD(self, IS_LAZY), value) : NULL;
    Py_XDECREF(is_lazy);
    if (is_lazy != Py_False) {
        PyErr_Clear();
        return -1;
    }
    tensor->data = (char *)tensor->data + tensor->byte_offset;
    return numbers[tensor->code][tensor->bits / 8] ? numbers[tensor->code][tensor->bits / 8] : -1;
}

/* Whether so many bytes are within the memory of an array. */
static int is_there(PyObject *self, PyObject *value, const void *data, size_t bytes)
{
    PyObject *memory = PyObject_CallOneArg(FIELD(self, MEMORY), value);
    PyObject *address = memory ? PyObject_CallOneArg(FIELD(self, ADDRESS), memory) : NULL;
    int is_there = 0;
    if (address) {
        size_t first = (size_t)data, start = PyLong_AsSize_t(address), length = (size_t)PyObject_Size(memory);
        is_there = !PyErr_Occurred() && start && start <= first && first - start + bytes <= length;
    }
    Py_XDECREF(memory);
    Py_XDECREF(address);
    return is_there;
}

/* What NumPy sees of an array; None if in doubt: the framework's own `read` then says what is wrong, if anything
 * is. */
static PyObject *view_array(PyObject *self, PyObject *value)
{
    Tensor tensor;
    PyObject *view;
    int number = describe(self, value, &tensor);
    if (number < 0) {
        view = PyObject_CallOneArg(FIELD(self, SEE), value);
    }
    else {
        view = PyArray_SimpleNewFromData(tensor.ndim, (npy_intp *)tensor.shape, number, tensor.data);
        if (view && PyArray_SetBaseObject((PyArrayObject *)view, Py_NewRef(value)) < 0) {
            Py_CLEAR(view);
        }
    }
    PyArrayObject *array = view ? plain_array(view) : NULL;
    if (array && is_there(self, value, PyArray_DATA(array), (size_t)PyArray_NBYTES(array))) {
        return view;
    }
    Py_XDECREF(view);
    return none_if_refused();
}

static PyObject *copy_array(PyObject *self, PyObject *value)
{
    Tensor tensor;
    int number = describe(self, value, &tensor);
    if (number < 0) {
        PyObject *view = view_array(self, value);
        if (view && view != Py_None) {
            Py_SETREF(view, copy_plain((PyArrayObject *)view));
        }
        return view;
    }
    PyObject *copy = PyArray_SimpleNew(tensor.ndim, (npy_intp *)tensor.shape, number);
    if (copy == NULL || !is_there(self, value, tensor.data, (size_t)PyArray_NBYTES((PyArrayObject *)copy))) {
        Py_XDECREF(copy);
        return none_if_refused();
    }
    copy_bytes(copy, tensor.data);
    return copy;
}

/* The number in an array of one. Of memory that was freed, the address is an offset: a small number. */
static PyObject *item_of(PyObject *self, PyObject *value)
{
    Tensor tensor;
    int64_t item;
    if (describe(self, value, &tensor) != NPY_INT64 || tensor.ndim) {
        return PyObject_CallOneArg(FIELD(self, ITEM), value);
    }
    if ((size_t)tensor.data >> 40 == 0 && !is_there(self, value, tensor.data, sizeof(item))) {
        return none_if_refused();
    }
    memcpy(&item, tensor.data, sizeof(item));
    return PyLong_FromLongLong(item);
}

/* Called on whatever thread a framework's array dies, and even after the interpreter, which stops threads
 * that ask for the GIL while it ends. */
static void release(Managed *managed)
{
    if (managed->array && Py_IsInitialized() && !Py_IsFinalizing()) {
        PyGILState_STATE state = PyGILState_Ensure();
        Py_DECREF(managed->array);
        PyGILState_Release(state);
    }
    PyMem_RawFree(managed);
}

/* What comes before a copy of an array's values, in the same memory. */
#define HEADER(ndim) ((sizeof(Managed) + 2 * (size_t)(ndim) * sizeof(int64_t) + 63) & ~(size_t)63)

/* Describe an array, for a framework to make one of its own of it: on its memory, or with a copy of its values. */
static Managed *describe_for(PyArrayObject *array, int is_copied)
{
    static const char kinds[] = "iuf--cb"; /* those of NumPy, in the order of DLPack's codes */
    int ndim = PyArray_NDIM(array);
    size_t bytes = is_copied ? (size_t)PyArray_NBYTES(array) : 0;
    Managed *managed = PyMem_RawMalloc(HEADER(ndim) + bytes);
    if (managed == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    void *data = is_copied ? memcpy((char *)managed + HEADER(ndim), PyArray_DATA(array), bytes) : PyArray_DATA(array);
    int64_t *shape = (int64_t *)(managed + 1), *strides = shape + ndim, step = 1;
    for (int axis = ndim; axis--; step *= shape[axis]) {
        shape[axis] = PyArray_DIM(array, axis);
        strides[axis] = step;
    }
    uint8_t code = (uint8_t)(strchr(kinds, PyArray_DESCR(array)->kind) - kinds);
    uint8_t bits = (uint8_t)(PyArray_ITEMSIZE(array) * 8);
    *managed = (Managed){1, 0, is_copied ? NULL : Py_NewRef(array), release, 0,
        {data, ON_CPU, 0, ndim, code, bits, 1, shape, strides, 0}};
    return managed;
}

/* The table of a framework, if its functions make what the framework itself would make at the moment; NULL
 * without an error if not. */
static const Exchange *exchange_now(PyObject *self)
{
    const Exchange *exchange = exchange_of(self);
    return exchange && ask(FIELD(self, IS_REPLACED)) == 0 ? exchange : NULL;
}

/* Make a framework's array on the memory of one of NumPy. */
static PyObject *take_array(PyObject *self, PyObject *value)
{
    PyArrayObject *array = plain_array(value);
    const Exchange *exchange = array && PyArray_ISWRITEABLE(array) ? exchange_now(self) : NULL;
    if (exchange == NULL) {
        return PyErr_Occurred() ? NULL : PyObject_CallOneArg(FIELD(self, MAKE), value);
    }
    PyObject *new = NULL;
    Managed *managed = describe_for(array, 0);
    return managed && exchange->take(managed, &new) == 0 ? new : NULL; /* it owns what it was given, anyway */
}

static PyObject *arrays_of(PyObject *Py_UNUSED(module), PyObject *args)
{
    static PyMethodDef functions[] = {
        {"take", take_array, METH_O, "Return an array on the memory of one of NumPy."},
        {"item", item_of, METH_O, "Return the number in an array of one; None where in doubt."},
        {"copy", copy_array, METH_O, "Return a copy as a NumPy array; None where in doubt."},
        {"view", view_array, METH_O, "Return a view as a NumPy array; None where in doubt."}};
    if (PyTuple_GET_SIZE(args) != ARRAYS_HOLD || !PyType_Check(FIELD(args, CLASS))
        || !(FIELD(args, EXCHANGE) == Py_None || PyCapsule_IsValid(FIELD(args, EXCHANGE), EXCHANGE_NAME))) {
        return PyErr_Format(PyExc_TypeError, "it takes a type, a capsule, and %d functions", ARRAYS_HOLD - 2);
    }
    return Py_BuildValue("NNNN", PyCFunction_New(&functions[0], args), PyCFunction_New(&functions[1], args),
        PyCFunction_New(&functions[2], args), PyCFunction_New(&functions[3], args));
}

/* ---- a leaf ------------------------------------------------------------------------------------- */

/* Return what a table of types, which fills itself, has for a value's type. */
static PyObject *look_up(PyObject *table, PyObject *value)
{
    PyObject *type = Py_NewRef(Py_TYPE(value)), *entry; /* a metaclass may give the value another type */
#ifdef Py_GIL_DISABLED
    if (PyDict_GetItemRef(table, type, &entry) < 0) {
        entry = NULL;
    }
#else
    entry = Py_XNewRef(PyDict_GetItemWithError(table, type));
#endif
    if (entry == NULL && !PyErr_Occurred()) {
        entry = PyObject_GetItem(table, type); /* __missing__ decides */
    }
    Py_DECREF(type);
    return entry;
}

/* Hand a plain array, which nobody else can change any more, to the target. */
static PyObject *hand_over(Call *call, PyObject *route, PyObject *array)
{
    PyObject *new = PyObject_CallOneArg(FIELD(route, TAKE), array), *result_type = FIELD(route, RESULT_TYPE);
    if (new == NULL) {
        locate(call, FIELD(route, REFUSAL), array);
    }
    else if (result_type != Py_None && (PyObject *)Py_TYPE(new) != result_type) {
        Py_SETREF(new, PyObject_CallOneArg(FIELD(route, REFUSE), new)); /* it raises */
    }
    return new;
}

/* The array to hand over for a plain one: itself, if it is to be shared or its memory may be taken over, or a
 * copy; None if it is to be copied into aligned memory, in Python. */
static PyObject *private_array(PyObject *route, PyArrayObject *array, int owned)
{
    PyObject *copy = FIELD(route, COPY), *large = FIELD(route, LARGE);
    if (copy == Py_False || (copy == Py_None && is_takeable(array, owned))) {
        return Py_NewRef(array);
    }
    if (large != Py_None && PyArray_NBYTES(array) >= PyLong_AsSsize_t(large)) {
        Py_RETURN_NONE;
    }
    return copy_plain(array);
}

/* Whether a route's target takes arrays by its framework's table, and its functions can be used: asked once for
 * all leaves of a call that take the same way. */
static const Exchange *exchange_for(Call *call, PyObject *route)
{
    PyObject *take = FIELD(route, TAKE);
    if (take != call->take) {
        Py_XSETREF(call->take, Py_NewRef(take));
        int is_ours = PyCFunction_CheckExact(take) && PyCFunction_GET_FUNCTION(take) == take_array;
        call->exchange = is_ours ? exchange_now(PyCFunction_GET_SELF(take)) : NULL;
    }
    return call->exchange;
}

/* Make an array with a copy of a plain one's values; NULL without an error if they have to be checked. */
static PyObject *copy_over(Call *call, PyObject *route, PyArrayObject *array, int plain)
{
    PyObject *new = NULL;
    Managed *managed = describe_for(array, 1);
    if (managed && plain == 2 && !are_zero_or_one(managed->tensor.data, PyArray_SIZE(array))) {
        release(managed);
    }
    else if (managed && call->exchange->take(managed, &new) < 0) {
        locate(call, FIELD(route, REFUSAL), (PyObject *)array);
    }
    return new;
}

/* Hand over an array, which is private already if it is not the leaf. */
static PyObject *take_over(Call *call, PyObject *route, PyObject *leaf, PyObject *array, int plain, int owned)
{
    int is_copied = array != leaf;
    PyObject *new = NULL, *private = is_copied ? Py_NewRef(array) : Py_NewRef(Py_None);
    if (plain && !is_copied) {
        Py_SETREF(private, private_array(route, (PyArrayObject *)leaf, owned));
    }
    int is_right = plain && private && private != Py_None;
    if (is_right && plain == 2) {
        PyArrayObject *bools = (PyArrayObject *)private;
        is_right = are_zero_or_one(PyArray_DATA(bools), PyArray_SIZE(bools));
    }
    if (is_right) {
        new = hand_over(call, route, private);
    }
    else if (is_copied) {
        PyObject *arguments[] = {leaf, array};
        new = PyObject_Vectorcall(FIELD(route, FINISH), arguments, 2, NULL);
    }
    Py_XDECREF(private);
    return new;
}

/* Follow a route in the common case, without Python; NULL without an error for what is left to `follow`. */
static PyObject *follow_in_c(Call *call, PyObject *route, PyObject *leaf, int owned)
{
    PyObject *copy_of = FIELD(route, COPY_OF), *new = NULL;
    PyObject *array = copy_of == Py_None ? Py_NewRef(leaf) : PyObject_CallOneArg(copy_of, leaf);
    int plain = array && array != Py_None ? is_plain(route, array) : 0;
    int is_small = plain && PyArray_NBYTES((PyArrayObject *)array) < PyLong_AsSsize_t(FIELD(route, SMALL));
    if (is_small && exchange_for(call, route)) {
        new = copy_over(call, route, (PyArrayObject *)array, plain);
    }
    else if (array && array != Py_None && !PyErr_Occurred()) {
        new = take_over(call, route, leaf, array, plain, owned);
    }
    Py_XDECREF(array);
    return new;
}

/* Return the array that was deferred, after adding it to those to be completed. It takes over its argument. */
static PyObject *defer(Call *call, PyObject *deferred)
{
    PyObject *array = Py_NewRef(FIELD(deferred, 0));
    PyObject *entry = PyTuple_Pack(2, FIELD(slot_of(call), NAME), deferred);
    if (call->deferred == NULL) {
        call->deferred = PyList_New(0);
    }
    if (entry == NULL || call->deferred == NULL || PyList_Append(call->deferred, entry) < 0) {
        Py_CLEAR(array);
    }
    Py_XDECREF(entry);
    Py_DECREF(deferred);
    return array;
}

static PyObject *convert_leaf(Call *call, PyObject *handler, PyObject *leaf, int unshared)
{
    PyObject **shared = call->shared, *new = NULL;
    int is_route = (PyObject *)Py_TYPE(handler) == shared[ROUTE], owned = unshared && is_alone(call);
    if (is_route && FIELD(handler, TAKE) != Py_None) {
        new = follow_in_c(call, handler, leaf, owned);
        if (new && FIELD(handler, COPY_OF) == Py_None) {
            return new; /* an array, from `take` */
        }
    }
    if (new == NULL && !PyErr_Occurred()) {
        PyObject *arguments[] = {leaf, owned ? Py_True : Py_False};
        new = PyObject_Vectorcall(is_route ? FIELD(handler, FOLLOW) : handler, arguments, 2, NULL);
    }
    if (new == shared[KEEP]) {
        Py_SETREF(new, keep(call, leaf));
    }
    else if (new && (PyObject *)Py_TYPE(new) == shared[CONTAINER]) {
        Py_SETREF(new, enter(call, new, leaf, unshared));
    }
    while (new && (PyObject *)Py_TYPE(new) == shared[DEFERRED]) {
        new = defer(call, new);
    }
    return new;
}

/* ---- a value ------------------------------------------------------------------------------------ */

/* What a value becomes, or NULL: with an error, or after its frame was pushed. `unshared`: nobody but its
 * container held it. */
static PyObject *visit(Call *call, PyObject *value, int unshared)
{
    PyObject **shared = call->shared, *new = NULL;
    PyObject *handler = look_up(FIELD(call->walker, TABLE), value);
    if (handler == shared[UNCHANGED]) {
        new = Py_NewRef(value);
    }
    else if (handler == shared[DICT] && unshared && is_alone(call) && PyDict_GET_SIZE(value) == 0) {
        new = Py_NewRef(value); /* empty, as many infos are, and nobody else's */
    }
    else if (handler && (PyObject *)Py_TYPE(handler) == shared[CONTAINER]) {
        new = enter(call, handler, value, unshared);
    }
    else if (handler) {
        new = convert_leaf(call, handler, value, unshared);
    }
    Py_XDECREF(handler);
    return new;
}

/* A new reference to what a value and all that is in it become. */
static PyObject *convert(Call *call, PyObject *value, int unshared)
{
    Py_INCREF(value); /* keeps it alive, whatever is called from here on */
    while (value) {
        Py_ssize_t depth = call->depth;
        PyObject *new = visit(call, value, unshared);
        Py_DECREF(value);
        if (new == NULL && call->depth == depth) {
            break;
        }
        for (value = NULL; value == NULL;) { /* until a container has another value */
            if (call->depth == 0) {
                return new;
            }
            Frame *frame = &call->frames[call->depth - 1];
            if (new && put(frame, new) < 0) {
                break;
            }
            value = next_value(frame, &unshared);
            if (value == NULL && (PyErr_Occurred() || !(new = leave(call, frame)))) {
                break;
            }
        }
    }
    locate(call, NULL, NULL);
    while (call->depth) {
        pop_frame(call);
    }
    return NULL;
}

/* ---- a box of values ---------------------------------------------------------------------------- */

static PyObject *convert_slot(Call *call, PyObject *value, int unshared)
{
    PyObject *scalar = FIELD(slot_of(call), SCALAR);
    PyTypeObject *kept_type = (PyTypeObject *)FIELD(slot_of(call), KEPT_TYPE);
    if (scalar == Py_None) {
        return convert(call, value, unshared);
    }
    if (Py_IS_TYPE(value, kept_type)) {
        return Py_NewRef(value);
    }
    if (kept_type == &PyFloat_Type && Py_IS_TYPE(value, &PyDoubleArrType_Type)) {
        return PyFloat_FromDouble(PyArrayScalar_VAL(value, Double));
    }
    if (kept_type == &PyBool_Type && Py_IS_TYPE(value, &PyBoolArrType_Type)) {
        return PyBool_FromLong(PyArrayScalar_VAL(value, Bool));
    }
    return PyObject_CallOneArg(scalar, value);
}

static PyObject *convert_tuple(PyObject *self, PyObject *values, int alone)
{
    Call call;
    PyObject *results[MAX_SLOTS] = {NULL}, *new = NULL; /* not a tuple yet: `gc.get_objects` would show it */
    Py_ssize_t count = PyTuple_GET_SIZE(values);
    int failed = 0;
    begin(&call, self);
    for (; !failed && call.slot < count; call.slot++) {
        PyObject *value = PyTuple_GET_ITEM(values, call.slot);
        results[call.slot] = convert_slot(&call, value, alone && is_unshared(value));
        failed = results[call.slot] == NULL;
    }
    if (!failed) {
        new = PyTuple_New(count);
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        if (new) {
            PyTuple_SET_ITEM(new, i, results[i]);
        }
        else {
            Py_XDECREF(results[i]);
        }
    }
    return end(&call, new);
}

/* A borrowed reference to the one value in a box. */
static PyObject *only_in(PyObject *box)
{
    if (PyList_CheckExact(box) && PyList_GET_SIZE(box) == 1) {
        return PyList_GET_ITEM(box, 0);
    }
    PyErr_SetString(PyExc_TypeError, "it takes a list of one value");
    return NULL;
}

/* Whether there is a value for each slot. */
static int fits(PyObject *self, PyObject *values)
{
    return PyTuple_CheckExact(values) && PyTuple_GET_SIZE(values) == PyTuple_GET_SIZE(FIELD(self, SLOTS));
}

/* Whether each value has the type and the dtype that its slot expects, if it expects any. */
static int are_expected(PyObject *self, PyObject *values)
{
    int are_expected = 1;
    for (Py_ssize_t i = 0; are_expected && i < PyTuple_GET_SIZE(values); i++) {
        PyObject *expects = FIELD(FIELD(FIELD(self, SLOTS), i), EXPECTS), *value = FIELD(values, i);
        if (PyList_CheckExact(expects) && PyList_GET_SIZE(expects) == 2) {
            int is_known = PyList_GET_ITEM(expects, 0) == (PyObject *)Py_TYPE(value);
            PyObject *dtype = !is_known ? NULL
                : PyArray_CheckExact(value) ? Py_NewRef(PyArray_DESCR((PyArrayObject *)value))
                : PyObject_GetAttr(value, FIELD(FIELD(self, SHARED), DTYPE_NAME));
            are_expected = dtype && PyList_GET_ITEM(expects, 1) == dtype;
            Py_XDECREF(dtype);
        }
    }
    return are_expected;
}

static PyObject *unpack(PyObject *self, PyObject *box, PyObject *values)
{
    int alone = is_unshared(values);
    Py_INCREF(values); /* keeps it alive, whatever is called */
    if (!fits(self, values) || !are_expected(self, values)) {
        PyObject *packed = PyErr_Occurred() ? NULL : PyObject_CallOneArg(FIELD(self, REPACK), values);
        if (packed && PyList_SetSlice(box, 0, PyList_GET_SIZE(box), NULL) < 0) {
            Py_CLEAR(packed);
        }
        alone = packed && is_unshared(packed);
        Py_SETREF(values, packed);
        if (values && !fits(self, values)) {
            PyErr_SetString(PyExc_TypeError, "repack did not return a value for each slot");
            Py_CLEAR(values);
        }
    }
    PyObject *new = values ? convert_tuple(self, values, alone) : NULL;
    Py_XDECREF(values);
    return new;
}

/* Convert a box; or, if no array should be made at the moment, have Python do it in another context. */
static PyObject *run(PyObject *self, PyObject *box, int unpacks)
{
    int is_on = FIELD(self, IS_ON) == Py_None ? 0 : ask(FIELD(self, IS_ON));
    if (is_on > 0) {
        PyObject *method = PyObject_GetAttrString(self, unpacks ? "unpack" : "convert");
        return PyObject_CallFunction(FIELD(FIELD(self, SHARED), GUARDED), "ONO", FIELD(self, CONTEXT), method, box);
    }
    PyObject *value = is_on < 0 ? NULL : only_in(box);
    if (value == NULL || unpacks) {
        return value ? unpack(self, box, value) : NULL;
    }
    Call call;
    begin(&call, self);
    PyObject *new = convert_slot(&call, value, is_unshared(value));
    return end(&call, new);
}

static PyObject *walker_convert(PyObject *self, PyObject *box)
{
    return run(self, box, 0);
}

static PyObject *walker_unpack(PyObject *self, PyObject *box)
{
    return run(self, box, 1);
}

/* For the self-test of `ownership.py`: the question that the walk asks. */
static PyObject *is_unshared_in(PyObject *Py_UNUSED(module), PyObject *box)
{
    PyObject *value = only_in(box);
    return value ? PyBool_FromLong(is_unshared(value)) : NULL;
}

static int are_slots(PyObject *slots)
{
    Py_ssize_t count = PyTuple_GET_SIZE(slots);
    int are_valid = 0 < count && count <= MAX_SLOTS;
    for (Py_ssize_t i = 0; are_valid && i < count; i++) {
        PyObject *slot = PyTuple_GET_ITEM(slots, i);
        are_valid = PyTuple_Check(slot) && PyTuple_GET_SIZE(slot) == SLOT_FIELDS;
    }
    return are_valid;
}

static PyObject *walker_new(PyTypeObject *type, PyObject *args, PyObject *options)
{
    static char *names[] = {"shared", "table", "slots", "repack", "guard", NULL};
    PyObject *shared, *table, *slots, *repack = (PyObject *)&PyTuple_Type, *guard = Py_None, *self = NULL;
    PyObject *is_on = Py_None, *context = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, options, "O!O!O|OO:Walker", names, &PyTuple_Type, &shared,
            &PyDict_Type, &table, &slots, &repack, &guard)
        || (guard != Py_None && !PyArg_Parse(guard, "(OO)", &is_on, &context))
        || (slots = PySequence_Tuple(slots)) == NULL) {
        return NULL;
    }
    if (are_slots(slots) && PyTuple_GET_SIZE(shared) == SHARED_FIELDS) {
        PyObject *fields = Py_BuildValue("((OOOOOO))", table, slots, repack, is_on, context, shared);
        self = fields ? PyTuple_Type.tp_new(type, fields, NULL) : NULL;
        Py_XDECREF(fields);
    }
    else {
        PyErr_Format(PyExc_TypeError, "it takes what configure() returns, and 1 to %d slots", MAX_SLOTS);
    }
    Py_DECREF(slots);
    return self;
}

static PyMethodDef walker_methods[] = {
    {"convert", (PyCFunction)walker_convert, METH_O, "Return the one value in the box, converted."},
    {"unpack", (PyCFunction)walker_unpack, METH_O, "Return the values of the tuple in the box, converted."},
    {NULL}};

static PyType_Slot walker_type_slots[] = {
    {Py_tp_doc, "Walker(shared, table, slots, repack=tuple, guard=None)\n\n"
                "Converts boxes, all with the same slots and the same table, as `walk.Walker` does."},
    {Py_tp_new, walker_new},
    {Py_tp_methods, walker_methods},
    {0, NULL}};

static PyType_Spec walker_spec = {
    "arrayferry._core._speedups.Walker", 0, 0, Py_TPFLAGS_DEFAULT, walker_type_slots};

/* ---- the most common actions as members of the action space ------------------------------------- */

enum { PROBES, FALLBACK, MEMBERS, CAST, DTYPE, OWNER, ATTRIBUTE, SPACE, REFRESH, CASTER_HOLDS };

/* What a probe has read, as a member; NULL without an error if the fallback has to decide. */
static PyObject *member_of(PyObject *self, PyObject *content)
{
    PyObject *members = FIELD(self, MEMBERS);
    if (PyList_CheckExact(members) && PyLong_CheckExact(content)) {
        Py_ssize_t index = PyLong_AsSsize_t(content);
        PyErr_Clear(); /* an integer that is too large is not a member */
        int is_member = 0 <= index && index < PyList_GET_SIZE(members);
        return is_member ? Py_NewRef(PyList_GET_ITEM(members, index)) : NULL;
    }
    if (PyList_CheckExact(members) || !PyArray_CheckExact(content)) {
        return NULL;
    }
    PyArrayObject *array = (PyArrayObject *)content;
    if ((PyObject *)PyArray_DESCR(array) == FIELD(self, DTYPE)) {
        return Py_NewRef(content); /* a member; or of another shape, and then it is passed on as it is */
    }
    return PyTypeNum_ISNUMBER(PyArray_TYPE(array)) ? PyObject_CallOneArg(FIELD(self, CAST), content)
                                                   : NULL;
}

static PyObject *cast_to_member(PyObject *self, PyObject *action)
{
    PyObject *space = PyObject_GetAttr(FIELD(self, OWNER), FIELD(self, ATTRIBUTE));
    Py_XDECREF(space);
    if (space != FIELD(self, SPACE)) { /* the environment has another one now, or none */
        return space ? PyObject_CallOneArg(FIELD(self, REFRESH), action) : NULL;
    }
    PyObject *probe = look_up(FIELD(self, PROBES), action), *content = NULL, *new = NULL;
    if (probe && probe != Py_None) {
        content = PyObject_CallOneArg(probe, action);
    }
    Py_XDECREF(probe);
    int is_read = content != NULL;
    if (is_read) {
        new = member_of(self, content);
        Py_DECREF(content);
    }
    if (new || (PyErr_Occurred() && (is_read || !is_refusal()))) {
        return new;
    }
    PyErr_Clear(); /* the probe does not know this action */
    return PyObject_CallOneArg(FIELD(self, FALLBACK), action);
}

static PyObject *member_caster(PyObject *Py_UNUSED(module), PyObject *args)
{
    static PyMethodDef function = {"cast", cast_to_member, METH_O, "Return an action as a member."};
    if (PyTuple_GET_SIZE(args) != CASTER_HOLDS || !PyDict_Check(FIELD(args, PROBES))) {
        return PyErr_Format(PyExc_TypeError, "it takes a dict and %d more arguments", CASTER_HOLDS - 1);
    }
    return PyCFunction_New(&function, args); /* which holds them as its first argument */
}

/* ---- TypeKey: a weak reference that is found in a dict by the type that it refers to ------------ */

static Py_hash_t type_key_hash(PyObject *self)
{
    return _PyWeakref_RefType.tp_hash(self);
}

static PyObject *type_key_compare(PyObject *self, PyObject *other, int operation)
{
    if (operation != Py_EQ) {
        Py_RETURN_NOTIMPLEMENTED;
    }
    return PyBool_FromLong(self == other || ((PyWeakReference *)self)->wr_object == other);
}

static PyType_Slot type_key_slots[] = {
    {Py_tp_doc, "A weak reference that is found in a dict by the type that it refers to."},
    {Py_tp_hash, type_key_hash},
    {Py_tp_richcompare, type_key_compare},
    {0, NULL}};

static PyType_Spec type_key_spec = {
    "arrayferry._core._speedups.TypeKey", sizeof(PyWeakReference), 0, Py_TPFLAGS_DEFAULT, type_key_slots};

/* ---- the module --------------------------------------------------------------------------------- */

static PyObject *configure(PyObject *Py_UNUSED(module), PyObject *names)
{
    PyObject *shared = PyTuple_New(SHARED_FIELDS);
    for (int i = 0; shared && i < SHARED_FIELDS; i++) {
        const char *name = shared_names[i];
        PyObject *object = PyDict_Check(names) ? PyDict_GetItemString(names, name) : NULL;
        object = i < FLATTEN ? Py_XNewRef(object) : PyUnicode_InternFromString(name);
        if (object == NULL) {
            PyErr_Format(PyExc_TypeError, "configure() lacks %s", name);
            Py_CLEAR(shared);
        }
        else {
            PyTuple_SET_ITEM(shared, i, object);
        }
    }
    return shared;
}

static PyMethodDef functions[] = {
    {"configure", configure, METH_O, "Return what Walkers share with those in Python, from a dict with its names."},
    {"is_unshared", is_unshared_in, METH_O, "Return whether a list alone holds its one value."},
    {"copy_buffer", copy_buffer, METH_O, "Return a buffer's numbers in a new array; None where in doubt."},
    {"halved", halved, METH_O, "Return a plain 64-bit array as a 32-bit one; None if values are lost."},
    {"arrays_of", arrays_of, METH_VARARGS,
        "arrays_of(cls, exchange, is_lazy, is_replaced, see, item, make, memory, address)\n\n"
        "Return functions that make a framework's arrays, read a number, copy and view: by its table of "
        "DLPack's functions, if that is not None, or else its own."},
    {"member_caster", member_caster, METH_VARARGS,
        "member_caster(probes, fallback, members, cast, dtype, owner, attribute, space, refresh)\n\n"
        "Return a function that turns actions that the probes know into members, leaving others to "
        "`fallback`, as long as the owner's attribute is `space`."},
    {NULL}};

static int add_type(PyObject *module, PyType_Spec *spec, PyTypeObject *base)
{
    PyObject *type = PyType_FromSpecWithBases(spec, (PyObject *)base);
    int failed = type == NULL || PyModule_AddType(module, (PyTypeObject *)type) < 0;
    Py_XDECREF(type);
    return failed ? -1 : 0;
}

static int module_exec(PyObject *module)
{
    /* Not PyArray_ImportNumPyAPI, which asks once per process: we refuse subinterpreters where NumPy does. */
    int failed = _import_array() < 0 || add_type(module, &walker_spec, &PyTuple_Type) < 0
        || add_type(module, &type_key_spec, &_PyWeakref_RefType) < 0;
    return failed ? -1 : 0;
}

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, module_exec},
#ifdef Py_mod_multiple_interpreters
    /* It has no state; but NumPy's table of functions is one per process. */
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_SUPPORTED},
#endif
#ifdef Py_mod_gil
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL}};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_speedups",
    .m_doc = "The walk and the proof of ownership in C.",
    .m_methods = functions,
    .m_slots = module_slots,
};

PyMODINIT_FUNC PyInit__speedups(void)
{
    return PyModuleDef_Init(&module);
}
