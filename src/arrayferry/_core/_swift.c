/* The express lane in C: what `express.py` does, to the letter, in a tenth of the time.
 *
 * It is built where there is a compiler, and done without where there is none. It gives up as the lane in
 * Python does: by an exception and without a trace, so that the walk does it all again.
 *
 * The proof of ownership stands in `ownership.py`. Here it reads the same fields directly: a value whose
 * count is one is held by its container alone. So every function here takes a value together with the
 * answer to "is it nobody else's?", given before it holds a reference of its own.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#include <numpy/arrayobject.h>
#include <numpy/arrayscalars.h>

#define MINE(value) (Py_REFCNT(value) == 1)

/* What is nested deeper is left to the walk, which does not recur. */
#define DEEPEST 200

/* The types here hold objects in an array of their own; so one set of functions serves all. */
#define MOST_HELD 8
typedef struct {
    PyObject_HEAD
    PyObject *held[MOST_HELD];
    unsigned long long takes; /* of a Lane: the numbers of the dtypes that `adopt` takes as they are */
    int looks_at_bools;       /* of a Lane: whether it takes bools too, if they are 0 and 1 */
    int shares;               /* of a Lane: whether memory is shared, whoever else sees it */
    int tells;                /* of a Lane: whether somebody wants to know of leaves without a counterpart */
    int arrays;               /* of an Exit: how many of the values of a step are arrays, but for the info */
} Holder;

enum { ADOPT, HANDLERS, UNCHANGED, ARRAYS, DICTS, CONTAINER, KEEP, DETOUR }; /* held by a Lane */
enum { OUTPUTS, INFOS, NUMBER, FLAG, SLOWLY, IS_INSIDE, OUTSIDE };           /* held by an Exit */

static PyObject *s_values, *s_build, *s_counted, *s_enter, *s_exit, *nobody_else, *many;

static PyObject *carry(Holder *lane, PyObject *value, int mine, int depth);

/* ---- the proof ---------------------------------------------------------------------------------- */

static int is_zero_or_one(PyArrayObject *bools)
{
    const unsigned char *bytes = PyArray_DATA(bools);
    unsigned char seen = 0;
    for (npy_intp i = 0, size = PyArray_SIZE(bools); i < size; i++) {
        seen |= bytes[i];
    }
    return seen <= 1;
}

/* Whether a value is an array that can be given to `adopt` as it is. */
static int is_to_be_taken(Holder *lane, PyObject *value, int mine)
{
    const int shareable = NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED | NPY_ARRAY_WRITEABLE;
    if (!PyArray_CheckExact(value)) {
        return 0;
    }
    PyArrayObject *array = (PyArrayObject *)value;
    int flags = PyArray_FLAGS(array), number = PyArray_TYPE(array);
    if ((flags & shareable) != shareable || !PyArray_ISNBO(PyArray_DESCR(array)->byteorder)) {
        return 0;
    }
    if (!lane->shares
        && (!mine || !(flags & NPY_ARRAY_OWNDATA) || PyArray_BASE(array)
            || *PyObject_GET_WEAKREFS_LISTPTR(value))) {
        return 0;
    }
    int is_plain = number >= 0 && number < 64 && (lane->takes >> number & 1);
    return is_plain || (number == NPY_BOOL && lane->looks_at_bools && is_zero_or_one(array));
}

/* ---- containers --------------------------------------------------------------------------------- */

static PyObject *carry_dict(Holder *lane, PyObject *dict, int mine, int depth)
{
    PyObject *key, *value, *new = PyDict_New();
    Py_ssize_t at = 0, size = PyDict_GET_SIZE(dict);
    while (new && PyDict_Next(dict, &at, &key, &value)) {
        Py_INCREF(key);
        PyObject *found = carry(lane, value, mine && MINE(value), depth);
        if (found == NULL || PyDict_SetItem(new, key, found) < 0) {
            Py_CLEAR(new);
        }
        else if (PyDict_GET_SIZE(dict) != size) {
            PyErr_SetString(PyExc_RuntimeError, "it was changed meanwhile");
            Py_CLEAR(new);
        }
        Py_XDECREF(found);
        Py_DECREF(key);
    }
    return new;
}

/* The values of a container, or of a box, to a list of new values. */
static PyObject *carry_all(Holder *lane, PyObject *values, int mine, int depth)
{
    PyObject *iterator = PyObject_GetIter(values), *value, *new = PyList_New(0);
    while (iterator && new && (value = PyIter_Next(iterator))) {
        int only_its = mine && Py_REFCNT(value) <= 2; /* its container's, and ours */
        PyObject *found = carry(lane, value, only_its, depth);
        if (found == NULL || PyList_Append(new, found) < 0) {
            Py_CLEAR(new);
        }
        Py_XDECREF(found);
        Py_DECREF(value);
    }
    if (iterator == NULL || PyErr_Occurred()) {
        Py_CLEAR(new);
    }
    Py_XDECREF(iterator);
    return new;
}

static PyObject *carry_container(Holder *lane, PyObject *container, PyObject *value, int mine, int depth)
{
    PyObject *counted = NULL, *values = NULL, *carried = NULL, *new = NULL;
    if ((counted = PyObject_GetAttr(container, s_counted))
        && (values = PyObject_CallMethodOneArg(container, s_values, value))
        && (carried = carry_all(lane, values, mine && counted == Py_True, depth))) {
        new = PyObject_CallMethodObjArgs(container, s_build, value, carried, NULL);
    }
    Py_XDECREF(counted);
    Py_XDECREF(values);
    Py_XDECREF(carried);
    return new;
}

/* ---- a value ------------------------------------------------------------------------------------ */

static PyObject *call_handler(Holder *lane, PyObject *handler, PyObject *value, int mine, int depth)
{
    PyObject *arguments[] = {value, mine ? nobody_else : many}, *new = NULL;
    PyObject *found = PyObject_Vectorcall(handler, arguments, 2, NULL);
    if (found == NULL || (PyObject *)Py_TYPE(found) != lane->held[CONTAINER]) {
        return found;
    }
    if (found != lane->held[KEEP]) {
        new = carry_container(lane, found, value, mine, depth);
    }
    else if (lane->tells) {
        PyErr_SetNone(lane->held[DETOUR]);
    }
    else {
        new = Py_NewRef(value);
    }
    Py_DECREF(found);
    return new;
}

/* What a table of types, which fills itself, has for a value. */
static PyObject *handler_of(PyObject *handlers, PyObject *value)
{
    PyObject *kind = (PyObject *)Py_TYPE(value);
    PyObject *handler = PyDict_GetItemWithError(handlers, kind);
    if (handler || PyErr_Occurred()) {
        return Py_XNewRef(handler);
    }
    return PyObject_GetItem(handlers, kind); /* which decides */
}

/* A new reference to what a value becomes; `mine`: nobody but its container holds the value. */
static PyObject *carry(Holder *lane, PyObject *value, int mine, int depth)
{
    if (depth > DEEPEST) {
        PyErr_SetNone(lane->held[DETOUR]);
        return NULL;
    }
    Py_INCREF(value); /* it stays, whatever is called from here on */
    PyObject *new = NULL, *handler = handler_of(lane->held[HANDLERS], value);
    if (handler == lane->held[UNCHANGED]) {
        new = Py_NewRef(value);
    }
    else if (handler == lane->held[ARRAYS] && is_to_be_taken(lane, value, mine)) {
        new = PyObject_CallOneArg(lane->held[ADOPT], value);
    }
    else if (handler == lane->held[DICTS]) {
        new = carry_dict(lane, value, mine, depth + 1);
    }
    else if (handler) {
        new = call_handler(lane, handler, value, mine, depth + 1);
    }
    Py_XDECREF(handler);
    Py_DECREF(value);
    return new;
}

/* ---- what the types share ----------------------------------------------------------------------- */

/* A new one, from a tuple of objects to hold and of numbers. */
static Holder *holding(
    PyTypeObject *type, PyObject *args, Py_ssize_t objects, Py_ssize_t numbers, long long *number)
{
    if (PyTuple_GET_SIZE(args) != objects + numbers) {
        return (Holder *)PyErr_Format(PyExc_TypeError, "it takes %zd arguments", objects + numbers);
    }
    for (Py_ssize_t i = 0; i < numbers; i++) {
        number[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(args, objects + i));
    }
    Holder *self = PyErr_Occurred() ? NULL : (Holder *)type->tp_alloc(type, 0);
    for (Py_ssize_t i = 0; self && i < objects; i++) {
        self->held[i] = Py_NewRef(PyTuple_GET_ITEM(args, i));
    }
    return self;
}

static int traverse(Holder *self, visitproc visit, void *arg)
{
    for (int i = 0; i < MOST_HELD; i++) {
        Py_VISIT(self->held[i]);
    }
    return 0;
}

static int clear(Holder *self)
{
    for (int i = 0; i < MOST_HELD; i++) {
        Py_CLEAR(self->held[i]);
    }
    return 0;
}

static void dealloc(Holder *self)
{
    PyObject_GC_UnTrack(self);
    clear(self);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

/* clang-format off */
#define TYPE(name, doc, make, with_methods) {                   \
    PyVarObject_HEAD_INIT(NULL, 0)                              \
    .tp_name = "arrayferry._core._swift." name,                 \
    .tp_doc = doc,                                              \
    .tp_basicsize = sizeof(Holder),                             \
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,        \
    .tp_new = make,                                             \
    .tp_methods = with_methods,                                 \
    .tp_traverse = (traverseproc)traverse,                      \
    .tp_clear = (inquiry)clear,                                 \
    .tp_dealloc = (destructor)dealloc,                          \
}
/* clang-format on */

/* ---- Lane: the ways of express.py --------------------------------------------------------------- */

static PyObject *lane_new(PyTypeObject *type, PyObject *args, PyObject *options)
{
    long long number[4];
    Holder *lane = holding(type, args, DETOUR + 1, 4, number);
    if (lane) {
        lane->takes = (unsigned long long)number[0];
        lane->looks_at_bools = (int)number[1];
        lane->shares = (int)number[2];
        lane->tells = (int)number[3];
    }
    return (PyObject *)lane;
}

static PyObject *lane_alone(Holder *lane, PyObject *values)
{
    return carry_all(lane, values, 1, 0);
}

static PyObject *lane_shared(Holder *lane, PyObject *values)
{
    return carry_all(lane, values, 0, 0);
}

/* A borrowed reference to the one value in a box. */
static PyObject *only_in(PyObject *box)
{
    if (PyList_CheckExact(box) && PyList_GET_SIZE(box) == 1) {
        return PyList_GET_ITEM(box, 0);
    }
    return PyErr_Format(PyExc_TypeError, "it takes a list of one");
}

static PyObject *lane_one(Holder *lane, PyObject *box)
{
    PyObject *value = only_in(box);
    return value ? carry(lane, value, MINE(value), 0) : NULL;
}

static PyMethodDef lane_methods[] = {
    {"alone", (PyCFunction)lane_alone, METH_O, "The values of a container that nobody else holds."},
    {"shared", (PyCFunction)lane_shared, METH_O, "The values of a container that others can reach."},
    {"one", (PyCFunction)lane_one, METH_O, "The one value in a list that nobody else holds."},
    {NULL}};

static PyTypeObject LaneType = TYPE("Lane",
    "Lane(adopt, handlers, unchanged, arrays, dicts, container, keep, detour, "
    "takes, looks_at_bools, shares, tells)",
    lane_new, lane_methods);

/* ---- Exit: all that a step returned ------------------------------------------------------------- */

static PyObject *exit_new(PyTypeObject *type, PyObject *args, PyObject *options)
{
    long long number = 0;
    Holder *self = holding(type, args, OUTSIDE + 1, 1, &number);
    if (self) {
        self->arrays = (int)number;
        if (!Py_IS_TYPE(self->held[OUTPUTS], &LaneType) || !Py_IS_TYPE(self->held[INFOS], &LaneType)) {
            PyErr_SetString(PyExc_TypeError, "it takes two lanes");
            Py_CLEAR(self);
        }
    }
    return (PyObject *)self;
}

enum { REWARD = 1, INFO = 4, ALL = 5 };

static PyObject *leave_one(Holder *self, Py_ssize_t which, PyObject *value, int mine)
{
    if (which < self->arrays) {
        return carry((Holder *)self->held[OUTPUTS], value, mine, 0);
    }
    if (which == INFO) {
        int is_empty = PyDict_CheckExact(value) && PyDict_GET_SIZE(value) == 0;
        return is_empty ? PyDict_New() : carry((Holder *)self->held[INFOS], value, mine, 0);
    }
    if (which == REWARD ? PyFloat_CheckExact(value) : PyBool_Check(value)) {
        return Py_NewRef(value);
    }
    if (which == REWARD && Py_IS_TYPE(value, &PyDoubleArrType_Type)) {
        return PyFloat_FromDouble(PyArrayScalar_VAL(value, Double));
    }
    if (which != REWARD && Py_IS_TYPE(value, &PyBoolArrType_Type)) {
        return PyBool_FromLong(PyArrayScalar_VAL(value, Bool));
    }
    return PyObject_CallOneArg(self->held[which == REWARD ? NUMBER : FLAG], value);
}

static PyObject *leave_here(Holder *self, PyObject *result)
{
    PyObject *new = PyTuple_New(ALL);
    int mine = Py_REFCNT(result) <= 2; /* the box's, and ours */
    for (Py_ssize_t i = 0; new && i < ALL; i++) {
        PyObject *value = PyTuple_GET_ITEM(result, i);
        PyObject *found = leave_one(self, i, value, mine && MINE(value));
        if (found) {
            PyTuple_SET_ITEM(new, i, found);
        }
        else {
            Py_CLEAR(new);
        }
    }
    return new;
}

static PyObject *leave_outside(Holder *self, PyObject *result)
{
    PyObject *new = NULL, *left = NULL, *entered = NULL, *context = PyObject_CallNoArgs(self->held[OUTSIDE]);
    if (context && (entered = PyObject_CallMethodNoArgs(context, s_enter))) {
        new = leave_here(self, result);
        PyObject *type, *error, *traceback;
        PyErr_Fetch(&type, &error, &traceback);
        left = PyObject_CallMethodObjArgs(context, s_exit, Py_None, Py_None, Py_None, NULL);
        if (left) {
            PyErr_Restore(type, error, traceback);
        }
        else {
            Py_CLEAR(new);
            Py_XDECREF(type);
            Py_XDECREF(error);
            Py_XDECREF(traceback);
        }
    }
    Py_XDECREF(context);
    Py_XDECREF(entered);
    Py_XDECREF(left);
    return new;
}

static PyObject *leave(Holder *self, PyObject *result)
{
    PyObject *answer = PyObject_CallNoArgs(self->held[IS_INSIDE]);
    int is_inside = answer ? PyObject_IsTrue(answer) : -1;
    Py_XDECREF(answer);
    return is_inside < 0 ? NULL : is_inside ? leave_outside(self, result) : leave_here(self, result);
}

static PyObject *exit_leave(Holder *self, PyObject *box)
{
    PyObject *result = only_in(box), *new;
    if (result == NULL) {
        return NULL;
    }
    if (PyTuple_CheckExact(result) && PyTuple_GET_SIZE(result) == ALL) {
        Py_INCREF(result); /* it stays, whatever is called */
        new = leave(self, result);
        Py_DECREF(result);
        if (new || !PyErr_ExceptionMatches(PyExc_Exception)) {
            return new;
        }
        PyErr_Clear(); /* whatever it is: it is found again, or said where it is */
    }
    return PyObject_CallOneArg(self->held[SLOWLY], box);
}

static PyMethodDef exit_methods[] = {
    {"leave", (PyCFunction)exit_leave, METH_O, "From a list that alone holds what a step returned."},
    {NULL}};

static PyTypeObject ExitType = TYPE("Exit",
    "Exit(outputs, infos, number, flag, slowly, is_inside, outside, arrays)", exit_new, exit_methods);

/* ---- Entry: the commonest actions, to members of the action space ------------------------------- */

enum { TABLE, LONG_WAY, MEMBERS, FIT, DTYPE }; /* held by an Entry */

static PyObject *entry_new(PyTypeObject *type, PyObject *args, PyObject *options)
{
    return (PyObject *)holding(type, args, DTYPE + 1, 0, NULL);
}

/* The member of a Discrete space that a Python integer stands for; NULL for any other. */
static PyObject *member(Holder *self, PyObject *found)
{
    if (found == NULL || !PyLong_CheckExact(found)) {
        return NULL;
    }
    Py_ssize_t index = PyLong_AsSsize_t(found);
    return index >= 0 && index < PyList_GET_SIZE(self->held[MEMBERS])
        ? Py_NewRef(PyList_GET_ITEM(self->held[MEMBERS], index)) : NULL;
}

static PyObject *entry_enter(Holder *self, PyObject *action)
{
    PyObject *new = NULL, *copier = handler_of(self->held[TABLE], action), *found = NULL;
    if (copier && copier != Py_None) {
        found = PyObject_CallOneArg(copier, action);
    }
    Py_XDECREF(copier);
    if (PyList_CheckExact(self->held[MEMBERS])) {
        new = member(self, found);
    }
    else if (found && PyArray_CheckExact(found)) {
        PyArrayObject *array = (PyArrayObject *)found;
        if ((PyObject *)PyArray_DESCR(array) == self->held[DTYPE]) {
            return found; /* a member; or not of its shape, and then it goes as it is */
        }
        if (PyTypeNum_ISNUMBER(PyArray_TYPE(array))) {
            new = PyObject_CallOneArg(self->held[FIT], found);
            Py_DECREF(found);
            return new;
        }
    }
    Py_XDECREF(found);
    if (new) {
        return new;
    }
    if (PyErr_Occurred()) {
        if (!PyErr_ExceptionMatches(PyExc_Exception)) {
            return NULL;
        }
        PyErr_Clear(); /* the long way will say it */
    }
    return PyObject_CallOneArg(self->held[LONG_WAY], action);
}

static PyMethodDef entry_methods[] = {
    {"enter", (PyCFunction)entry_enter, METH_O, "An action, to a member of the action space."},
    {NULL}};

static PyTypeObject EntryType = TYPE("Entry", "Entry(table, long_way, members, fit, dtype)", entry_new,
    entry_methods);

/* ---- small arrays ------------------------------------------------------------------------------- */

static PyArrayObject *plain_array(PyObject *value)
{
    PyArrayObject *array = (PyArrayObject *)value;
    int is_plain = PyArray_CheckExact(value) && PyArray_IS_C_CONTIGUOUS(array) && PyArray_ISALIGNED(array)
        && PyArray_ISNBO(PyArray_DESCR(array)->byteorder) && PyArray_DATA(array)
        && PyTypeNum_ISNUMBER(PyArray_TYPE(array));
    return is_plain ? array : NULL;
}

static PyObject *copied(PyObject *module, PyObject *value)
{
    PyArrayObject *array = plain_array(value);
    if (array == NULL) {
        Py_RETURN_NONE;
    }
    PyArray_Descr *dtype = (PyArray_Descr *)Py_NewRef(PyArray_DESCR(array));
    PyObject *copy = PyArray_NewFromDescr(
        &PyArray_Type, dtype, PyArray_NDIM(array), PyArray_DIMS(array), NULL, NULL, 0, NULL);
    if (copy) {
        memcpy(PyArray_DATA((PyArrayObject *)copy), PyArray_DATA(array), PyArray_NBYTES(array));
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

/* float64, int64 or uint64 to half of the width; None where that loses more than a float's last digits. */
static PyObject *halved(PyObject *module, PyObject *value)
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

enum { SEE, MEMORY, ADDRESS }; /* held by a Snapshot */

static PyObject *snapshot_new(PyTypeObject *type, PyObject *args, PyObject *options)
{
    return (PyObject *)holding(type, args, ADDRESS + 1, 0, NULL);
}

/* Whether an array lies in a piece of memory. */
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

static PyObject *snapshot_take(Holder *self, PyObject *value)
{
    PyObject *seen = NULL, *memory = NULL, *address = NULL, *copy = NULL;
    if ((seen = PyObject_CallOneArg(self->held[SEE], value))
        && (memory = PyObject_CallOneArg(self->held[MEMORY], value))
        && (address = PyObject_CallOneArg(self->held[ADDRESS], memory))) {
        Py_ssize_t length = PyObject_Size(memory);
        if (length >= 0 && lies_within(seen, address, length)) {
            copy = copied(NULL, seen);
        }
    }
    Py_XDECREF(seen);
    Py_XDECREF(memory);
    Py_XDECREF(address);
    if (copy == NULL && (!PyErr_Occurred() || PyErr_ExceptionMatches(PyExc_Exception))) {
        PyErr_Clear(); /* it is in doubt */
        Py_RETURN_NONE;
    }
    return copy;
}

static PyMethodDef snapshot_methods[] = {
    {"take", (PyCFunction)snapshot_take, METH_O, "A copy in NumPy; None where it is in doubt."}, {NULL}};

static PyTypeObject SnapshotType = TYPE("Snapshot", "Snapshot(see, memory, address)", snapshot_new,
    snapshot_methods);

static PyMethodDef functions[] = {
    {"copied", copied, METH_O, "A copy of a plain array; None for any other."},
    {"halved", halved, METH_O, "A 64-bit array in half of the bits; None where values are lost."},
    {NULL}};

/* ---- the module --------------------------------------------------------------------------------- */

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_swift", "The express lane in C.", -1, functions};

PyMODINIT_FUNC PyInit__swift(void)
{
    import_array();
    PyObject *self = PyModule_Create(&module);
    if (self == NULL || !(s_values = PyUnicode_InternFromString("values"))
        || !(s_build = PyUnicode_InternFromString("build"))
        || !(s_counted = PyUnicode_InternFromString("counted"))
        || !(s_enter = PyUnicode_InternFromString("__enter__"))
        || !(s_exit = PyUnicode_InternFromString("__exit__")) || !(nobody_else = PyLong_FromLong(0))
        || !(many = PyLong_FromLongLong(1LL << 62)) || PyModule_AddType(self, &LaneType) < 0
        || PyModule_AddType(self, &ExitType) < 0 || PyModule_AddType(self, &EntryType) < 0
        || PyModule_AddType(self, &SnapshotType) < 0) {
        Py_CLEAR(self);
    }
    return self;
}
