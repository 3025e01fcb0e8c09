/* The walk of `walk.py` and the proof of `ownership.py` in C, and other short functions that run often.
 *
 * The walk keeps its frames on the C stack: when a leaf is refused or kept, its path is read off them at
 * once. Nothing is converted twice. What is nested deeper than MAX_DEPTH goes to the walk in Python, with
 * its path and the memo.
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

#define MAX_DEPTH 50
#define MANY_BYTES (1 << 20) /* from this size on, copies let other threads run */

/* ---- the module's state ------------------------------------------------------------------------- */

typedef struct {
    PyObject *name_flatten, *name_unflatten, *name_counted, *name_action_space;
} State;

static State *state_of(PyTypeObject *type);

/* ---- a Walker: what it was made with ------------------------------------------------------------ */

enum { WALK, FLOAT, BOOL, SCALAR }; /* what becomes of the value in a slot */

/* The objects that a Walker holds. */
enum {
    HANDLERS, IS_MODE_ON, WITHOUT_MODE, SLOTS, REPACK, /* its arguments */
    ARRAY_HANDLER, FROM_PRIVATE, REFUSAL, MAKES,       /* from its LeafConverter */
    UNCHANGED, KEEP, CONTAINER, DICT, LIST, TUPLE,     /* from the walk in Python */
    OPEN, PYTHON_WALK, SLOT_TYPE, PATH_OF, LOCATE, REPORT_KEPT, REFUSE_CYCLE,
    HELD
};

#define MAX_SLOTS 8

typedef struct {
    PyObject_HEAD
    PyObject *held[HELD];
    PyObject *scalar[MAX_SLOTS]; /* borrowed from SLOTS */
    unsigned char kind[MAX_SLOTS];
    Py_ssize_t slots;
    unsigned long long plain; /* a bit for the number of each dtype that FROM_PRIVATE takes as it is */
    npy_intp large;           /* from this many bytes on, copies go into aligned memory */
    char takes_bools, hands_over, takes, shares, counts_prove;
} Walker;

/* One call of a Walker: the slot that is being converted, and the containers that may be reached again. */
typedef struct {
    Walker *walker;
    State *state;
    Py_ssize_t slot;
    PyObject *memo; /* from id to (container, result), as in Python; NULL until it is needed */
} Call;

/* A container that is being walked: one step on the path to a leaf. */
typedef struct Frame {
    const struct Frame *up;
    PyObject *container, *keys, *node;
    Py_ssize_t index;
    int depth;
    char alone; /* whether only the walk can reach it */
} Frame;

static PyObject *convert(Call *call, PyObject *value, int unshared, const Frame *up);
static PyObject *copied(PyObject *module, PyObject *value);

/* What the small types at the end consist of: the objects that they call or compare. */
#define MAX_HELD 8

typedef struct {
    PyObject_HEAD
    PyObject *held[MAX_HELD];
} Holder;

enum { COPY, FINISH, COPY_FIRST_HOLDS };

static PyObject *copy_first_call(Holder *self, PyObject *args, PyObject *options);

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

static int are_zero_or_one(PyArrayObject *bools)
{
    const unsigned char *bytes = PyArray_DATA(bools);
    unsigned char seen = 0;
    for (npy_intp i = 0, size = PyArray_SIZE(bools); i < size; i++) {
        seen |= bytes[i];
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

/* Whether a value is an array that the target takes as it is, without a cast; `hand_over` checks bools. */
static int is_plain(Walker *walker, PyObject *value)
{
    const int shareable = NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED | NPY_ARRAY_WRITEABLE;
    if (!walker->hands_over || !PyArray_CheckExact(value)) {
        return 0;
    }
    PyArrayObject *array = (PyArrayObject *)value;
    int number = PyArray_TYPE(array), needed = walker->shares ? shareable : shareable & ~NPY_ARRAY_WRITEABLE;
    if ((PyArray_FLAGS(array) & needed) != needed || !PyArray_ISNBO(PyArray_DESCR(array)->byteorder)) {
        return 0;
    }
    if (has_odd_strides(array)) {
        return 0;
    }
    return (number >= 0 && number < 64 && (walker->plain >> number & 1))
        || (number == NPY_BOOL && walker->takes_bools && !walker->shares);
}

/* The proof: whether nobody else sees a plain array's memory. `mine`: nobody else can reach the array. */
static int is_takeable(Walker *walker, PyArrayObject *array, int mine)
{
    const int owned = NPY_ARRAY_OWNDATA | NPY_ARRAY_WRITEABLE;
    return mine && walker->takes && (PyArray_FLAGS(array) & owned) == owned && !PyArray_BASE(array);
}

/* ---- paths and errors --------------------------------------------------------------------------- */

/* The path to the value that the innermost frame is at. */
static PyObject *path_to(Call *call, const Frame *frame)
{
    PyObject *steps = PyList_New(0), *path = NULL;
    PyObject *slot = PyTuple_GET_ITEM(call->walker->held[SLOTS], call->slot);
    for (; steps && frame; frame = frame->up) {
        PyObject *keys = frame->keys ? frame->keys : frame->node;
        PyObject *step = Py_BuildValue("(OOn)", frame->container, keys, frame->index);
        if (step == NULL || PyList_Append(steps, step) < 0) {
            Py_CLEAR(steps);
        }
        Py_XDECREF(step);
    }
    if (steps && PyList_Reverse(steps) == 0) {
        path = PyObject_CallFunctionObjArgs(
            call->walker->held[PATH_OF], PyTuple_GET_ITEM(slot, 0), steps, NULL);
    }
    Py_XDECREF(steps);
    return path;
}

/* Replace the current error with the one to raise: with its path, and by way of `refusal` if a framework
 * refused an array. */
static void locate(Call *call, const Frame *frame, PyObject *refused)
{
    PyObject *type, *error, *traceback, *path = NULL, *better = NULL;
    if (!PyErr_ExceptionMatches(PyExc_Exception)) {
        return;
    }
    PyErr_Fetch(&type, &error, &traceback);
    PyErr_NormalizeException(&type, &error, &traceback);
    if (traceback) {
        PyException_SetTraceback(error, traceback);
    }
    if (refused) {
        better = PyObject_CallFunctionObjArgs(call->walker->held[REFUSAL], refused, error, NULL);
    }
    else {
        better = Py_NewRef(error);
    }
    if (better && (path = path_to(call, frame))) {
        Py_SETREF(better, PyObject_CallFunctionObjArgs(call->walker->held[LOCATE], better, path, NULL));
    }
    if (better && path) {
        if (better != error) {
            PyException_SetCause(better, Py_NewRef(error));
            PyException_SetContext(better, Py_NewRef(error));
        }
        PyErr_SetObject((PyObject *)Py_TYPE(better), better);
    }
    Py_XDECREF(path);
    Py_XDECREF(better);
    Py_XDECREF(type);
    Py_XDECREF(error);
    Py_XDECREF(traceback);
}

/* Return a leaf that stays as it is, after telling the slot's `on_keep`, if it has one. */
static PyObject *keep(Call *call, PyObject *leaf, const Frame *frame)
{
    PyObject *slot = PyTuple_GET_ITEM(call->walker->held[SLOTS], call->slot), *told = NULL;
    if (PyTuple_GET_ITEM(slot, 1) == Py_None) { /* on_keep */
        return Py_NewRef(leaf);
    }
    PyObject *path = path_to(call, frame);
    if (path) {
        told = PyObject_CallFunctionObjArgs(call->walker->held[REPORT_KEPT], slot, path, leaf, NULL);
        Py_DECREF(path);
    }
    if (told == NULL) {
        locate(call, frame, NULL);
        return NULL;
    }
    Py_DECREF(told);
    return Py_NewRef(leaf);
}

/* ---- containers --------------------------------------------------------------------------------- */

/* What to iterate over: a container that others can reach is read at one moment, because another thread, or
 * what is called for a leaf, may change it. */
static PyObject *stable(PyObject *container, const Frame *frame)
{
    if (frame->alone || PyTuple_CheckExact(container)) {
        return Py_NewRef(container);
    }
    return PyDict_CheckExact(container) ? PyDict_Copy(container) : PyList_AsTuple(container);
}

static PyObject *convert_dict(Call *call, PyObject *old, Frame *frame)
{
    PyObject *key, *value, *dict = stable(old, frame), *new = dict ? PyDict_New() : NULL;
    Py_ssize_t at = 0;
    frame->keys = dict;
    for (frame->index = 0; new && PyDict_Next(dict, &at, &key, &value); frame->index++) {
        Py_INCREF(key);
        int unshared = dict == old ? is_unshared(value) : IS_UNSHARED_BUT_FOR_US(value);
        PyObject *found = convert(call, value, unshared, frame);
        if (found == NULL) {
            Py_CLEAR(new);
        }
        else if (PyDict_SetItem(new, key, found) < 0) {
            Py_CLEAR(new);
            locate(call, frame, NULL);
        }
        Py_XDECREF(found);
        Py_DECREF(key);
    }
    if (new && PyDict_GET_SIZE(new) < frame->index) {
        Py_CLEAR(new);
        PyErr_SetString(PyExc_ValueError, "two of its keys are equal, so that one entry would be lost");
        locate(call, frame->up, NULL);
    }
    Py_XDECREF(dict);
    return new;
}

/* Return a list of the converted items of a list or tuple. */
static PyObject *convert_items(Call *call, PyObject *old, Frame *frame)
{
    PyObject *items = stable(old, frame), *new = items ? PyList_New(0) : NULL;
    for (frame->index = 0; new && frame->index < PySequence_Fast_GET_SIZE(items); frame->index++) {
        PyObject *value = PySequence_Fast_GET_ITEM(items, frame->index);
        int unshared = items == old ? is_unshared(value) : IS_UNSHARED_BUT_FOR_US(value);
        PyObject *found = convert(call, value, unshared, frame);
        if (found == NULL || PyList_Append(new, found) < 0) {
            Py_CLEAR(new);
        }
        Py_XDECREF(found);
    }
    Py_XDECREF(items);
    return new;
}

/* Return a list of the converted values of any other container. The iterator gives us a reference to each. */
static PyObject *convert_values(Call *call, PyObject *values, Frame *frame)
{
    PyObject *iterator = PyObject_GetIter(values), *value, *new = PyList_New(0);
    for (frame->index = 0; iterator && new && (value = PyIter_Next(iterator)); frame->index++) {
        PyObject *found = convert(call, value, IS_UNSHARED_BUT_FOR_US(value), frame);
        if (found == NULL || PyList_Append(new, found) < 0) {
            Py_CLEAR(new);
        }
        Py_XDECREF(found);
        Py_DECREF(value);
    }
    if (iterator == NULL || (new && PyErr_Occurred())) {
        Py_CLEAR(new);
        locate(call, frame, NULL);
    }
    Py_XDECREF(iterator);
    return new;
}

static PyObject *convert_other(Call *call, PyObject *value, Frame *frame)
{
    PyObject *container = frame->container, *new = NULL, *values = NULL;
    PyObject *counted = PyObject_GetAttr(container, call->state->name_counted);
    PyObject *opened = counted ? PyObject_CallMethodOneArg(container, call->state->name_flatten, value) : NULL;
    frame->keys = Py_None;
    if (opened == NULL || !PyArg_ParseTuple(opened, "OO", &frame->keys, &values)) {
        locate(call, frame->up, NULL);
    }
    else {
        frame->alone = frame->alone && counted == Py_True;
        values = convert_values(call, values, frame);
        if (values) {
            PyObject *arguments[] = {container, value, frame->keys, values};
            new = PyObject_VectorcallMethod(call->state->name_unflatten, arguments, 4, NULL);
            if (new == NULL) {
                locate(call, frame->up, NULL);
            }
            Py_DECREF(values);
        }
    }
    Py_XDECREF(counted);
    Py_XDECREF(opened);
    return new;
}

/* What is nested too deep for the C stack goes to the walk in Python, with its path. */
static PyObject *convert_deep(Call *call, PyObject *value, const Frame *up)
{
    PyObject **held = call->walker->held, *new = NULL, *path = NULL, *slot = NULL, *found = NULL;
    PyObject *outer = PyTuple_GET_ITEM(held[SLOTS], call->slot);
    if (call->memo == NULL && (call->memo = PyDict_New()) == NULL) {
        return NULL;
    }
    if ((path = path_to(call, up))
        && (slot = PyObject_CallFunctionObjArgs(held[SLOT_TYPE], path, PyTuple_GET_ITEM(outer, 1), NULL))) {
        found = PyObject_CallFunction(
            held[PYTHON_WALK], "([O](O)OO)", value, slot, held[HANDLERS], call->memo);
    }
    if (found) {
        new = PySequence_GetItem(found, 0);
    }
    Py_XDECREF(path);
    Py_XDECREF(slot);
    Py_XDECREF(found);
    return new;
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

static PyObject *refuse_cycle(Call *call, PyObject *value, const Frame *up)
{
    const Frame *frame = up;
    while (frame && frame->node != value) {
        frame = frame->up;
    }
    Py_XDECREF(PyObject_CallOneArg(call->walker->held[REFUSE_CYCLE], value)); /* it raises */
    locate(call, frame ? frame->up : up, NULL);
    return NULL;
}

static PyObject *convert_opened(Call *call, PyObject *container, PyObject *value, const Frame *up, char alone)
{
    PyObject **held = call->walker->held, *new;
    Frame frame = {up, container, NULL, value, 0, up ? up->depth + 1 : 0, alone};
    if (Py_EnterRecursiveCall(" while it was converted")) { /* a hook may convert again, at any depth */
        locate(call, up, NULL);
        return NULL;
    }
    if (container == held[DICT]) {
        new = convert_dict(call, value, &frame);
    }
    else if (container == held[LIST]) {
        new = convert_items(call, value, &frame);
    }
    else if (container == held[TUPLE]) {
        new = convert_items(call, value, &frame);
        if (new) {
            Py_SETREF(new, PyList_AsTuple(new));
        }
    }
    else {
        new = convert_other(call, value, &frame);
    }
    Py_LeaveRecursiveCall();
    return new;
}

static PyObject *convert_container(
    Call *call, PyObject *container, PyObject *value, int unshared, const Frame *up)
{
    char alone = unshared && (!up || up->alone) && call->walker->counts_prove;
    if (up && up->depth >= MAX_DEPTH) {
        return convert_deep(call, value, up);
    }
    if (unshared && call->walker->counts_prove) { /* it cannot be reached again */
        return convert_opened(call, container, value, up, alone);
    }
    PyObject *id = PyLong_FromVoidPtr(value), *new = NULL;
    PyObject *entry = id && call->memo ? PyDict_GetItemWithError(call->memo, id) : NULL;
    if (entry) {
        PyObject *result = PyTuple_GET_ITEM(entry, 1);
        new = result == call->walker->held[OPEN] ? refuse_cycle(call, value, up) : Py_NewRef(result);
    }
    else if (id && !PyErr_Occurred() && remember(call, id, value, call->walker->held[OPEN]) == 0) {
        new = convert_opened(call, container, value, up, alone);
        if (new && remember(call, id, value, new) < 0) {
            Py_CLEAR(new);
        }
    }
    Py_XDECREF(id);
    return new;
}

/* ---- a value ------------------------------------------------------------------------------------ */

/* Return what a table of types, which fills itself, has for a value's type. */
static PyObject *look_up(PyObject *table, PyObject *value)
{
    PyObject *type = Py_NewRef(Py_TYPE(value)), *found; /* a metaclass may give the value another type */
#ifdef Py_GIL_DISABLED
    if (PyDict_GetItemRef(table, type, &found) < 0) {
        found = NULL;
    }
#else
    found = Py_XNewRef(PyDict_GetItemWithError(table, type));
#endif
    if (found == NULL && !PyErr_Occurred()) {
        found = PyObject_GetItem(table, type); /* __missing__ decides */
    }
    Py_DECREF(type);
    return found;
}

/* The target's array for a plain one; NULL without an error if it has other bools than 0 and 1, or if the result
 * has no values. Nobody else can change the bools by now: the array was copied or is taken over. */
static PyObject *hand_over(Call *call, PyObject *array, const Frame *up)
{
    PyObject *makes = call->walker->held[MAKES];
    int is_plain_bool = call->walker->plain >> NPY_BOOL & 1; /* whatever its bytes are */
    if (PyArray_TYPE((PyArrayObject *)array) == NPY_BOOL && !is_plain_bool
        && !are_zero_or_one((PyArrayObject *)array)) {
        return NULL;
    }
    PyObject *new = PyObject_CallOneArg(call->walker->held[FROM_PRIVATE], array);
    if (new == NULL) {
        locate(call, up, array);
    }
    else if (makes != Py_None && (PyObject *)Py_TYPE(new) != makes) {
        Py_CLEAR(new);
    }
    return new;
}

/* Hand a plain array to the target, or a copy of it if somebody else sees it; NULL without an error for what
 * is left to the handler. */
static PyObject *convert_plain(Call *call, PyObject *value, int mine, const Frame *up)
{
    Walker *walker = call->walker;
    if (walker->shares || is_takeable(walker, (PyArrayObject *)value, mine)) {
        return hand_over(call, value, up);
    }
    if (PyArray_NBYTES((PyArrayObject *)value) >= walker->large) {
        return NULL; /* to be copied into aligned memory */
    }
    PyObject *copy = copied(NULL, value), *new = NULL;
    if (copy && copy != Py_None) {
        new = hand_over(call, copy, up);
    }
    Py_XDECREF(copy);
    return new;
}

/* Convert an array of another framework through its copy in NumPy. */
static PyObject *convert_copied(Call *call, PyObject *const held[], PyObject *value, const Frame *up)
{
    PyObject *copy = PyObject_CallOneArg(held[COPY], value), *new = NULL;
    if (copy == NULL) {
        locate(call, up, NULL);
        return NULL;
    }
    if (is_plain(call->walker, copy)) {
        new = hand_over(call, copy, up);
    }
    if (new == NULL && !PyErr_Occurred()) {
        PyObject *arguments[] = {value, copy};
        new = PyObject_Vectorcall(held[FINISH], arguments, 2, NULL);
        if (new == NULL) {
            locate(call, up, NULL);
        }
    }
    Py_DECREF(copy);
    return new;
}

static PyObject *convert_leaf(Call *call, PyObject *handler, PyObject *value, int unshared, const Frame *up)
{
    Walker *walker = call->walker;
    int mine = unshared && walker->counts_prove && (!up || up->alone);
    if (Py_TYPE(handler)->tp_call == (ternaryfunc)copy_first_call) {
        PyObject *copied = convert_copied(call, ((Holder *)handler)->held, value, up);
        return copied == walker->held[KEEP] ? (Py_DECREF(copied), keep(call, value, up)) : copied;
    }
    if (handler == walker->held[ARRAY_HANDLER] && is_plain(walker, value)) {
        PyObject *new = convert_plain(call, value, mine, up);
        if (new || PyErr_Occurred()) {
            return new;
        }
    }
    PyObject *arguments[] = {value, mine ? Py_True : Py_False};
    PyObject *found = PyObject_Vectorcall(handler, arguments, 2, NULL);
    if (found == NULL) {
        locate(call, up, NULL);
    }
    else if (found == walker->held[KEEP]) {
        Py_SETREF(found, keep(call, value, up));
    }
    else if ((PyObject *)Py_TYPE(found) == walker->held[CONTAINER]) {
        Py_SETREF(found, convert_container(call, found, value, unshared, up));
    }
    return found;
}

/* A new reference to what a value becomes; `unshared`: nobody but its container holds it. */
static PyObject *convert(Call *call, PyObject *value, int unshared, const Frame *up)
{
    PyObject **held = call->walker->held, *new = NULL;
    Py_INCREF(value); /* keeps it alive, whatever is called from here on */
    PyObject *handler = look_up(held[HANDLERS], value);
    if (handler == held[UNCHANGED]) {
        new = Py_NewRef(value);
    }
    else if (handler == held[DICT] && unshared && PyDict_GET_SIZE(value) == 0) {
        new = PyDict_New(); /* empty, as many infos are */
    }
    else if (handler && (PyObject *)Py_TYPE(handler) == held[CONTAINER]) {
        new = convert_container(call, handler, value, unshared, up);
    }
    else if (handler) {
        new = convert_leaf(call, handler, value, unshared, up);
    }
    else {
        locate(call, up, NULL); /* its type could not be looked up */
    }
    Py_XDECREF(handler);
    Py_DECREF(value);
    return new;
}

/* ---- a box of values ---------------------------------------------------------------------------- */

static PyObject *convert_slot(Call *call, PyObject *value, int unshared)
{
    Walker *walker = call->walker;
    switch (walker->kind[call->slot]) {
    case WALK:
        return convert(call, value, unshared, NULL);
    case FLOAT:
        if (PyFloat_CheckExact(value)) {
            return Py_NewRef(value);
        }
        if (Py_IS_TYPE(value, &PyDoubleArrType_Type)) {
            return PyFloat_FromDouble(PyArrayScalar_VAL(value, Double));
        }
        break;
    case BOOL:
        if (PyBool_Check(value)) {
            return Py_NewRef(value);
        }
        if (Py_IS_TYPE(value, &PyBoolArrType_Type)) {
            return PyBool_FromLong(PyArrayScalar_VAL(value, Bool));
        }
    }
    return PyObject_CallOneArg(walker->scalar[call->slot], value);
}

static PyObject *convert_tuple(Walker *self, PyObject *values, int alone)
{
    Call call = {self, state_of(Py_TYPE(self)), 0, NULL};
    PyObject *found[MAX_SLOTS] = {NULL}, *new = NULL; /* not a tuple yet: `gc.get_objects` would show it */
    int failed = 0;
    for (int numbers = 0; numbers < 2; numbers++) { /* first what is walked, then the numbers */
        for (call.slot = 0; !failed && call.slot < self->slots; call.slot++) {
            if ((self->kind[call.slot] != WALK) != numbers) {
                continue;
            }
            PyObject *value = PyTuple_GET_ITEM(values, call.slot);
            found[call.slot] = convert_slot(&call, value, alone && is_unshared(value));
            failed = found[call.slot] == NULL;
        }
    }
    if (!failed) {
        new = PyTuple_New(self->slots);
    }
    for (Py_ssize_t i = 0; i < self->slots; i++) {
        if (new) {
            PyTuple_SET_ITEM(new, i, found[i]);
        }
        else {
            Py_XDECREF(found[i]);
        }
    }
    Py_XDECREF(call.memo);
    return new;
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

/* Whether a mode is on in which no array should be made; -1 on error. */
static int is_mode_on(Walker *self)
{
    if (self->held[IS_MODE_ON] == (PyObject *)&PyBool_Type) {
        return 0; /* bool() is False: the framework has no such mode */
    }
    PyObject *answer = PyObject_CallNoArgs(self->held[IS_MODE_ON]);
    int is_on = answer ? PyObject_IsTrue(answer) : -1;
    Py_XDECREF(answer);
    return is_on;
}

/* Call the same method again, in a context without the mode. */
static PyObject *in_context(Walker *self, const char *method, PyObject *box)
{
    PyObject *context = PyObject_CallNoArgs(self->held[WITHOUT_MODE]), *new = NULL;
    PyObject *entered = context ? PyObject_CallMethod(context, "__enter__", NULL) : NULL;
    if (entered) {
        PyObject *type, *error, *traceback;
        new = PyObject_CallMethod((PyObject *)self, method, "O", box);
        PyErr_Fetch(&type, &error, &traceback);
        PyObject *left = PyObject_CallMethod(context, "__exit__", "OOO", Py_None, Py_None, Py_None);
        if (left) {
            PyErr_Restore(type, error, traceback);
        }
        else {
            Py_CLEAR(new);
            Py_XDECREF(type);
            Py_XDECREF(error);
            Py_XDECREF(traceback);
        }
        Py_XDECREF(left);
    }
    Py_XDECREF(entered);
    Py_XDECREF(context);
    return new;
}

static PyObject *walker_convert(Walker *self, PyObject *box)
{
    PyObject *value = only_in(box);
    int is_on = value ? is_mode_on(self) : -1;
    if (is_on) {
        return is_on < 0 ? NULL : in_context(self, "convert", box);
    }
    if ((value = only_in(box)) == NULL) { /* again, because other code was called */
        return NULL;
    }
    Call call = {self, state_of(Py_TYPE(self)), 0, NULL};
    PyObject *new = convert_slot(&call, value, is_unshared(value));
    Py_XDECREF(call.memo);
    return new;
}

static PyObject *walker_unpack(Walker *self, PyObject *box)
{
    PyObject *values = only_in(box);
    int is_on = values ? is_mode_on(self) : -1;
    if (is_on) {
        return is_on < 0 ? NULL : in_context(self, "unpack", box);
    }
    if ((values = only_in(box)) == NULL) {
        return NULL;
    }
    int alone = is_unshared(values);
    Py_INCREF(values); /* keeps it alive, whatever is called */
    if (!PyTuple_CheckExact(values) || PyTuple_GET_SIZE(values) != self->slots) {
        PyObject *packed = PyObject_CallOneArg(self->held[REPACK], values);
        if (packed && PyList_SetSlice(box, 0, PyList_GET_SIZE(box), NULL) < 0) {
            Py_CLEAR(packed);
        }
        alone = packed && is_unshared(packed);
        Py_SETREF(values, packed);
        if (values && (!PyTuple_CheckExact(values) || PyTuple_GET_SIZE(values) != self->slots)) {
            PyErr_SetString(PyExc_TypeError, "repack did not return a value for each slot");
            Py_CLEAR(values);
        }
    }
    PyObject *new = values ? convert_tuple(self, values, alone) : NULL;
    Py_XDECREF(values);
    return new;
}

/* For the self-test of `ownership.py`: the question that the walk asks. */
static PyObject *is_unshared_in(PyObject *Py_UNUSED(module), PyObject *box)
{
    PyObject *value = only_in(box);
    return value ? PyBool_FromLong(is_unshared(value)) : NULL;
}

static int walker_traverse(Walker *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    for (int i = 0; i < HELD; i++) {
        Py_VISIT(self->held[i]);
    }
    return 0;
}

static int walker_clear(Walker *self)
{
    for (int i = 0; i < HELD; i++) {
        Py_CLEAR(self->held[i]);
    }
    return 0;
}

static void walker_dealloc(Walker *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    walker_clear(self);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

/* Read from a LeafConverter its array handler, what it hands arrays to, and which arrays. */
static int read_leaf(Walker *self, PyObject *leaf)
{
    const char *held[] = {"array_handler", "from_private", "refusal", "makes"};
    struct { const char *name; char *value; } flags[] = {
        {"has_bools", &self->takes_bools}, {"hands_over", &self->hands_over}, {"takes", &self->takes},
        {"shares", &self->shares}};
    PyObject *found;
    for (int i = 0; i < 4; i++) {
        if ((self->held[ARRAY_HANDLER + i] = PyObject_GetAttrString(leaf, held[i])) == NULL) {
            return -1;
        }
    }
    if ((found = PyObject_GetAttrString(leaf, "plain_numbers"))) {
        self->plain = PyLong_AsUnsignedLongLong(found);
        Py_DECREF(found);
    }
    if (!PyErr_Occurred() && (found = PyObject_GetAttrString(leaf, "large"))) {
        self->large = PyLong_AsSsize_t(found);
        Py_DECREF(found);
    }
    for (int i = 0; i < 4 && !PyErr_Occurred(); i++) {
        if ((found = PyObject_GetAttrString(leaf, flags[i].name))) {
            *flags[i].value = (char)PyObject_IsTrue(found);
            Py_DECREF(found);
        }
    }
    return PyErr_Occurred() ? -1 : 0;
}

/* Read what becomes of each slot. */
static int read_slots(Walker *self)
{
    self->slots = PyTuple_GET_SIZE(self->held[SLOTS]);
    if (self->slots < 1 || self->slots > MAX_SLOTS) {
        PyErr_Format(PyExc_ValueError, "it takes 1 to %d slots", MAX_SLOTS);
        return -1;
    }
    for (Py_ssize_t i = 0; i < self->slots; i++) {
        PyObject *slot = PyTuple_GET_ITEM(self->held[SLOTS], i);
        if (!PyTuple_Check(slot) || PyTuple_GET_SIZE(slot) != 4) {
            PyErr_SetString(PyExc_TypeError, "a slot has a name, on_keep, scalar and kept_type");
            return -1;
        }
        PyObject *passes = PyTuple_GET_ITEM(slot, 3);
        self->scalar[i] = PyTuple_GET_ITEM(slot, 2);
        self->kind[i] = self->scalar[i] == Py_None ? WALK
            : passes == (PyObject *)&PyFloat_Type  ? FLOAT
            : passes == (PyObject *)&PyBool_Type   ? BOOL
                                                   : SCALAR;
    }
    return 0;
}

static PyObject *walker_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(options))
{
    PyObject *handlers, *is_on, *without, *slots, *repack, *leaf, *shared;
    int counts_prove;
    if (!PyArg_ParseTuple(args, "O!(OO)OOOpO!:Walker", &PyDict_Type, &handlers, &is_on, &without, &slots,
            &repack, &leaf, &counts_prove, &PyTuple_Type, &shared)) {
        return NULL;
    }
    if (PyTuple_GET_SIZE(shared) != HELD - UNCHANGED) {
        PyErr_Format(PyExc_TypeError, "it shares %d objects with the walk in Python", HELD - UNCHANGED);
        return NULL;
    }
    Walker *self = (Walker *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->held[HANDLERS] = Py_NewRef(handlers);
    self->held[IS_MODE_ON] = Py_NewRef(is_on);
    self->held[WITHOUT_MODE] = Py_NewRef(without);
    self->held[REPACK] = Py_NewRef(repack);
    self->counts_prove = (char)counts_prove;
    for (int i = UNCHANGED; i < HELD; i++) {
        self->held[i] = Py_NewRef(PyTuple_GET_ITEM(shared, i - UNCHANGED));
    }
    self->held[SLOTS] = PySequence_Tuple(slots);
    if (self->held[SLOTS] == NULL || read_slots(self) < 0 || read_leaf(self, leaf) < 0) {
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

static PyMethodDef walker_methods[] = {
    {"convert", (PyCFunction)walker_convert, METH_O, "Return the one value in the box, converted."},
    {"unpack", (PyCFunction)walker_unpack, METH_O, "Return the values of the tuple in the box, converted."},
    {NULL}};

static PyType_Slot walker_type_slots[] = {
    {Py_tp_doc, "Walker(handlers, mode, slots, repack, leaf, counts_prove, shared)\n\n"
                "Converts boxes, all with the same slots and handlers, as `walk.Walker` does."},
    {Py_tp_new, walker_new},
    {Py_tp_methods, walker_methods},
    {Py_tp_traverse, walker_traverse},
    {Py_tp_clear, walker_clear},
    {Py_tp_dealloc, walker_dealloc},
    {0, NULL}};

/* ---- small arrays ------------------------------------------------------------------------------- */

/* Whether the current error only means that a probe failed, and may be cleared; no other error may. What was
 * raised in Python may have come from a signal handler. */
static int is_refusal(void)
{
    PyObject *type, *error, *traceback, *module, *answer = NULL;
    if (!PyErr_ExceptionMatches(PyExc_Exception) || PyErr_ExceptionMatches(PyExc_MemoryError)) {
        return 0;
    }
    PyErr_Fetch(&type, &error, &traceback);
    if (traceback) {
        PyErr_NormalizeException(&type, &error, &traceback);
        PyException_SetTraceback(error, traceback);
        if ((module = PyImport_ImportModule("arrayferry._core.interruptions"))) {
            answer = PyObject_CallMethod(module, "is_from_handler", "O", error);
            Py_DECREF(module);
        }
    }
    int is_refusal = !traceback || answer == Py_False;
    Py_XDECREF(answer);
    PyErr_Restore(type, error, traceback);
    return is_refusal;
}

static PyArrayObject *plain_array(PyObject *value)
{
    PyArrayObject *array = (PyArrayObject *)value;
    int is_plain = PyArray_CheckExact(value) && PyArray_IS_C_CONTIGUOUS(array) && PyArray_ISALIGNED(array)
        && PyArray_ISNBO(PyArray_DESCR(array)->byteorder) && PyArray_DATA(array)
        && PyTypeNum_ISNUMBER(PyArray_TYPE(array));
    return is_plain ? array : NULL;
}

/* Other threads run during large copies. They may write to the array, as they may whenever NumPy copies; but
 * the extra reference keeps `resize` from freeing its memory. */
static void copy_bytes(void *to, PyArrayObject *array)
{
    size_t bytes = (size_t)PyArray_NBYTES(array);
    const void *from = PyArray_DATA(array);
    if (bytes < MANY_BYTES) {
        memcpy(to, from, bytes);
        return;
    }
    Py_INCREF(array);
    Py_BEGIN_ALLOW_THREADS
    memcpy(to, from, bytes);
    Py_END_ALLOW_THREADS
    Py_DECREF(array);
}

static PyObject *copied(PyObject *Py_UNUSED(module), PyObject *value)
{
    PyArrayObject *array = plain_array(value);
    if (array == NULL) {
        Py_RETURN_NONE;
    }
    PyArray_Descr *dtype = (PyArray_Descr *)Py_NewRef(PyArray_DESCR(array));
    PyObject *copy = PyArray_NewFromDescr(
        &PyArray_Type, dtype, PyArray_NDIM(array), PyArray_DIMS(array), NULL, NULL, 0, NULL);
    if (copy) {
        copy_bytes(PyArray_DATA((PyArrayObject *)copy), array);
    }
    return copy;
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

/* The array stored in some 32-bit words. `place` has its first word, the one after its last, its shape, its
 * dtype, and, for bools, the bit that each word holds them in. */
static PyObject *array_of_words(PyArrayObject *words, PyObject *place)
{
    Py_ssize_t start, stop;
    int bit;
    PyArray_Dims shape = {NULL, 0};
    PyArray_Descr *dtype;
    if (!PyTuple_Check(place)) {
        PyErr_SetString(PyExc_TypeError, "a place is a tuple");
        return NULL;
    }
    if (!PyArg_ParseTuple(place, "nnO&O!i", &start, &stop, PyArray_IntpConverter, &shape, &PyArrayDescr_Type,
            &dtype, &bit)) {
        PyDimMem_FREE(shape.ptr);
        return NULL;
    }
    PyObject *new = NULL;
    if (start < 0 || stop < start || stop > PyArray_SIZE(words) || bit < 0 || bit > 31
        || PyArray_MultiplyList(shape.ptr, shape.len) != stop - start
        || (dtype->type_num != NPY_BOOL && PyDataType_ELSIZE(dtype) != 4)) {
        PyErr_SetString(PyExc_ValueError, "a place is outside the words, or does not fit them");
    }
    else {
        Py_INCREF(dtype);
        new = PyArray_NewFromDescr(&PyArray_Type, dtype, shape.len, shape.ptr, NULL, NULL, 0, NULL);
    }
    PyDimMem_FREE(shape.ptr);
    if (new == NULL) {
        return NULL;
    }
    const npy_uint32 *from = (const npy_uint32 *)PyArray_DATA(words) + start;
    void *to = PyArray_DATA((PyArrayObject *)new);
    if (dtype->type_num == NPY_BOOL) {
        for (Py_ssize_t i = 0; i < stop - start; i++) {
            ((npy_bool *)to)[i] = (npy_bool)(from[i] >> bit & 1);
        }
    }
    else {
        memcpy(to, from, (size_t)(stop - start) * 4);
    }
    return new;
}

static PyObject *from_words(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *words, *places;
    if (!PyArg_ParseTuple(args, "O!O!", &PyArray_Type, &words, &PyList_Type, &places)) {
        return NULL;
    }
    PyArrayObject *array = plain_array(words);
    if (array == NULL || PyArray_TYPE(array) != NPY_UINT32) {
        PyErr_SetString(PyExc_TypeError, "words are uint32 in one piece");
        return NULL;
    }
    PyObject *arrays = PyList_New(0);
    for (Py_ssize_t i = 0; arrays && i < PyList_GET_SIZE(places); i++) {
        PyObject *place = Py_NewRef(PyList_GET_ITEM(places, i)); /* its numbers may have an `__index__` */
        PyObject *new = array_of_words(array, place);
        if (new == NULL || PyList_Append(arrays, new) < 0) {
            Py_CLEAR(arrays);
        }
        Py_XDECREF(new);
        Py_DECREF(place);
    }
    return arrays;
}

/* ---- what the small types share ----------------------------------------------------------------- */

static PyObject *holder_new(PyTypeObject *type, PyObject *args, Py_ssize_t count)
{
    if (PyTuple_GET_SIZE(args) != count) {
        return PyErr_Format(PyExc_TypeError, "it takes %zd arguments", count);
    }
    Holder *self = (Holder *)type->tp_alloc(type, 0);
    for (Py_ssize_t i = 0; self && i < count; i++) {
        self->held[i] = Py_NewRef(PyTuple_GET_ITEM(args, i));
    }
    return (PyObject *)self;
}

static int holder_traverse(Holder *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    for (int i = 0; i < MAX_HELD; i++) {
        Py_VISIT(self->held[i]);
    }
    return 0;
}

static int holder_clear(Holder *self)
{
    for (int i = 0; i < MAX_HELD; i++) {
        Py_CLEAR(self->held[i]);
    }
    return 0;
}

static void holder_dealloc(Holder *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    holder_clear(self);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

/* ---- ArrayReader: arrays of another framework that NumPy can see ----------------------------- */

enum { SEE, MEMORY, ADDRESS, READER_HOLDS };

static PyObject *reader_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(options))
{
    return holder_new(type, args, READER_HOLDS);
}

/* Whether an array lies within a piece of memory. */
static int lies_within(PyObject *array, PyObject *address, Py_ssize_t length)
{
    size_t start = PyLong_AsSize_t(address), first, bytes;
    if (PyErr_Occurred() || !PyArray_Check(array)) {
        return 0;
    }
    first = (size_t)PyArray_DATA((PyArrayObject *)array);
    bytes = (size_t)PyArray_NBYTES((PyArrayObject *)array);
    return start && start <= first && first - start + bytes <= (size_t)length;
}

/* What NumPy sees of an array; None if in doubt: the framework's own `to_numpy` then says what is wrong, if
 * anything is. */
static PyObject *reader_view(Holder *self, PyObject *value)
{
    PyObject *seen = NULL, *memory = NULL, *address = NULL;
    int is_there = 0;
    if ((seen = PyObject_CallOneArg(self->held[SEE], value))
        && (memory = PyObject_CallOneArg(self->held[MEMORY], value))
        && (address = PyObject_CallOneArg(self->held[ADDRESS], memory))) {
        Py_ssize_t length = PyObject_Size(memory);
        is_there = length >= 0 && lies_within(seen, address, length);
    }
    Py_XDECREF(memory);
    Py_XDECREF(address);
    if (!is_there) {
        Py_CLEAR(seen);
        if (!PyErr_Occurred() || is_refusal()) {
            PyErr_Clear();
            seen = Py_NewRef(Py_None);
        }
    }
    return seen;
}

static PyObject *reader_copy(Holder *self, PyObject *value)
{
    PyObject *seen = reader_view(self, value), *copy = NULL;
    if (seen) {
        copy = copied(NULL, seen); /* None for None */
        Py_DECREF(seen);
    }
    return copy;
}

static PyObject *copied_from(PyObject *Py_UNUSED(module), PyObject *value)
{
    PyObject *seen = PyArray_FromAny(value, NULL, 0, 0, 0, NULL), *copy = NULL;
    if (seen) {
        copy = copied(NULL, seen);
        Py_DECREF(seen);
    }
    else if (is_refusal()) {
        PyErr_Clear();
        copy = Py_NewRef(Py_None);
    }
    return copy;
}

static PyMethodDef reader_methods[] = {
    {"copy", (PyCFunction)reader_copy, METH_O, "Return a copy in NumPy; None where in doubt."},
    {"view", (PyCFunction)reader_view, METH_O, "Return what NumPy sees; None where in doubt."},
    {NULL}};

static PyType_Slot reader_slots[] = {
    {Py_tp_doc, "ArrayReader(see, memory, address)\n\n"
                "Reads arrays that `see` shows to NumPy, if they lie within `memory` at `address`."},
    {Py_tp_new, reader_new},
    {Py_tp_methods, reader_methods},
    {Py_tp_traverse, holder_traverse},
    {Py_tp_clear, holder_clear},
    {Py_tp_dealloc, holder_dealloc},
    {0, NULL}};

/* ---- CopyFirst: the handler for another framework's arrays -------------------------------------- */

static PyObject *copy_first_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(options))
{
    return holder_new(type, args, COPY_FIRST_HOLDS);
}

/* For the walk in Python; the one in C hands plain copies over by itself. */
static PyObject *copy_first_call(Holder *self, PyObject *args, PyObject *Py_UNUSED(options))
{
    PyObject *value, *mine, *copy, *found = NULL;
    if (PyArg_ParseTuple(args, "OO", &value, &mine) && (copy = PyObject_CallOneArg(self->held[COPY], value))) {
        PyObject *arguments[] = {value, copy};
        found = PyObject_Vectorcall(self->held[FINISH], arguments, 2, NULL);
        Py_DECREF(copy);
    }
    return found;
}

static PyType_Slot copy_first_slots[] = {
    {Py_tp_doc, "CopyFirst(copy, finish)\n\n"
                "The handler `finish(array, copy(array))`; the walk in C hands plain copies over by itself."},
    {Py_tp_new, copy_first_new},
    {Py_tp_call, copy_first_call},
    {Py_tp_traverse, holder_traverse},
    {Py_tp_clear, holder_clear},
    {Py_tp_dealloc, holder_dealloc},
    {0, NULL}};

/* ---- MemberCaster: the most common actions as members of the action space ----------------------- */

enum { TABLE, FALLBACK, MEMBERS, CAST, DTYPE, OWNER, SPACE, REFRESH, MEMBER_CASTER_HOLDS };

static PyObject *member_caster_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(options))
{
    if (PyTuple_GET_SIZE(args) > TABLE && !PyDict_Check(PyTuple_GET_ITEM(args, TABLE))) {
        PyErr_SetString(PyExc_TypeError, "the table is a dict");
        return NULL;
    }
    return holder_new(type, args, MEMBER_CASTER_HOLDS);
}

/* The member of a Discrete space that a Python integer stands for; NULL for anything else. */
static PyObject *member(Holder *self, PyObject *found)
{
    if (!PyLong_CheckExact(found)) {
        return NULL;
    }
    Py_ssize_t index = PyLong_AsSsize_t(found);
    return index >= 0 && index < PyList_GET_SIZE(self->held[MEMBERS])
        ? Py_NewRef(PyList_GET_ITEM(self->held[MEMBERS], index)) : NULL;
}

/* What a probe found, as a member; NULL without an error if the fallback has to decide. */
static PyObject *member_of(Holder *self, PyObject *found)
{
    if (PyList_CheckExact(self->held[MEMBERS])) {
        PyObject *new = member(self, found);
        PyErr_Clear(); /* an integer that is too large is not a member */
        return new;
    }
    if (!PyArray_CheckExact(found)) {
        return NULL;
    }
    PyArrayObject *array = (PyArrayObject *)found;
    if ((PyObject *)PyArray_DESCR(array) == self->held[DTYPE]) {
        return Py_NewRef(found); /* a member; or of another shape, and then it is passed on as it is */
    }
    return PyTypeNum_ISNUMBER(PyArray_TYPE(array)) ? PyObject_CallOneArg(self->held[CAST], found) : NULL;
}

static PyObject *member_caster_cast(Holder *self, PyObject *action)
{
    PyObject *space = PyObject_GetAttr(self->held[OWNER], state_of(Py_TYPE(self))->name_action_space);
    Py_XDECREF(space);
    if (space != self->held[SPACE]) { /* the environment has another one now, or none */
        return space ? PyObject_CallOneArg(self->held[REFRESH], action) : NULL;
    }
    PyObject *probe = look_up(self->held[TABLE], action), *found = NULL, *new = NULL;
    if (probe && probe != Py_None) {
        found = PyObject_CallOneArg(probe, action);
    }
    Py_XDECREF(probe);
    if (found) {
        new = member_of(self, found);
        Py_DECREF(found);
        if (new || PyErr_Occurred()) {
            return new;
        }
    }
    else if (PyErr_Occurred()) {
        if (!is_refusal()) {
            return NULL;
        }
        PyErr_Clear(); /* the probe does not know this action */
    }
    return PyObject_CallOneArg(self->held[FALLBACK], action);
}

static PyMethodDef member_caster_methods[] = {
    {"cast", (PyCFunction)member_caster_cast, METH_O, "Return an action as a member of the action space."},
    {NULL}};

static PyType_Slot member_caster_slots[] = {
    {Py_tp_doc, "MemberCaster(table, fallback, members, cast, dtype, owner, space, refresh)\n\n"
                "Turns actions that the table's probes know into members, leaving others to `fallback`, as "
                "long as `owner.action_space` is `space`."},
    {Py_tp_new, member_caster_new},
    {Py_tp_methods, member_caster_methods},
    {Py_tp_traverse, holder_traverse},
    {Py_tp_clear, holder_clear},
    {Py_tp_dealloc, holder_dealloc},
    {0, NULL}};

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

#define SPEC(name, type, slots)                                                                         \
    {"arrayferry._core._speedups." name, sizeof(type), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots}

static PyType_Spec specs[] = {
    SPEC("Walker", Walker, walker_type_slots),
    SPEC("ArrayReader", Holder, reader_slots),
    SPEC("CopyFirst", Holder, copy_first_slots),
    SPEC("MemberCaster", Holder, member_caster_slots)};

static PyMethodDef functions[] = {
    {"is_unshared", is_unshared_in, METH_O, "Return whether a list alone holds its one value."},
    {"copied", copied, METH_O, "Return a copy of a plain array; None for any other."},
    {"copied_from", copied_from, METH_O, "Return a copy of what NumPy sees of an array; None where in doubt."},
    {"from_words", from_words, METH_VARARGS, "Return the arrays of which an array of words is made up."},
    {"halved", halved, METH_O, "Return a plain 64-bit array as a 32-bit one; None if values are lost."},
    {NULL}};

static int module_exec(PyObject *module)
{
    State *state = PyModule_GetState(module);
    /* Not PyArray_ImportNumPyAPI, which asks once per process: we refuse subinterpreters where NumPy does. */
    if (_import_array() < 0 || !(state->name_flatten = PyUnicode_InternFromString("flatten"))
        || !(state->name_unflatten = PyUnicode_InternFromString("unflatten"))
        || !(state->name_counted = PyUnicode_InternFromString("counted"))
        || !(state->name_action_space = PyUnicode_InternFromString("action_space"))) {
        return -1;
    }
    const size_t count = sizeof(specs) / sizeof(*specs);
    for (size_t i = 0; i <= count; i++) {
        PyObject *type = i < count
            ? PyType_FromModuleAndSpec(module, &specs[i], NULL)
            : PyType_FromSpecWithBases(&type_key_spec, (PyObject *)&_PyWeakref_RefType);
        if (type == NULL || PyModule_AddType(module, (PyTypeObject *)type) < 0) {
            Py_XDECREF(type);
            return -1;
        }
        Py_DECREF(type);
    }
    return 0;
}

static int module_traverse(PyObject *module, visitproc visit, void *arg)
{
    State *state = PyModule_GetState(module);
    Py_VISIT(state->name_flatten);
    Py_VISIT(state->name_unflatten);
    Py_VISIT(state->name_counted);
    Py_VISIT(state->name_action_space);
    return 0;
}

static int module_clear(PyObject *module)
{
    State *state = PyModule_GetState(module);
    Py_CLEAR(state->name_flatten);
    Py_CLEAR(state->name_unflatten);
    Py_CLEAR(state->name_counted);
    Py_CLEAR(state->name_action_space);
    return 0;
}

static void module_free(void *module)
{
    module_clear(module);
}

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, module_exec},
#ifdef Py_mod_multiple_interpreters
    /* Each interpreter has its own state, but NumPy's table of functions is one per process. */
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
    .m_size = sizeof(State),
    .m_methods = functions,
    .m_slots = module_slots,
    .m_traverse = module_traverse,
    .m_clear = module_clear,
    .m_free = module_free,
};

static State *state_of(PyTypeObject *type)
{
    return PyType_GetModuleState(type);
}

PyMODINIT_FUNC PyInit__speedups(void)
{
    return PyModuleDef_Init(&module);
}
