/* The one shared object that holds all compiled modules: creates the one of them that a spec names.
 *
 * `tidelog.kernel_choice` asks for it. Python's own loader cannot: it looks for an init function by the last part of a module's
 * name, and several modules share theirs.
 */

#include <Python.h>

/* Written by setup.py. A line for each module, such as MODULE("tidelog.model.clock", PyInit_tidelog__model__clock) */
#define MODULES "compiled_modules.h"

#define MODULE(name, init) PyObject *init(void);
#include MODULES
#undef MODULE

static const struct {
    const char *name;
    PyObject *(*init)(void);
} modules[] = {
#define MODULE(name, init) {name, init},
#include MODULES
#undef MODULE
};

static PyObject *
create(PyObject *Py_UNUSED(self), PyObject *spec)
{
    PyObject *name = PyObject_GetAttrString(spec, "name");
    const char *wanted = name == NULL ? NULL : PyUnicode_AsUTF8(name);
    PyObject *created = NULL;
    size_t index = 0;

    if (wanted == NULL)
        goto done;
    while (index < Py_ARRAY_LENGTH(modules) && strcmp(modules[index].name, wanted) != 0)
        index++;
    if (index == Py_ARRAY_LENGTH(modules)) {
        PyErr_Format(PyExc_ImportError, "%U is not among the compiled modules", name);
        goto done;
    }
    /* Cython's init functions give the definition (PEP 489), which nobody has to release. */
    PyObject *definition = modules[index].init();
    if (definition == NULL)
        goto done;
    if (!PyObject_TypeCheck(definition, &PyModuleDef_Type)) {
        PyErr_Format(PyExc_SystemError, "%U was not compiled for multi-phase initialisation", name);
        goto done;
    }
    created = PyModule_FromDefAndSpec((PyModuleDef *)definition, spec);
done:
    Py_XDECREF(name);
    return created;
}

static PyMethodDef methods[] = {
    {"create", create, METH_O, "create(spec)\n--\n\nThe module that the spec names, not yet executed."},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "tidelog._compiled",
    .m_doc = "Creates the compiled modules.",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC
PyInit__compiled(void)
{
    return PyModuleDef_Init(&definition);
}
