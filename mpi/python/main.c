// The main of an interpreter with mpi4py; lockstep-mpi-python links it for `lockstep mpi`.
#include <Python.h>
#include <mpi.h>
#include <stdbool.h>

PyMODINIT_FUNC PyInit_MPI(void);

// Modules of packages that are linked in, and the folder of the packages' other files.
static const char prologue[] =
    "def prologue():\n"
    "    import sys\n"
    "    from importlib.machinery import BuiltinImporter, ModuleSpec\n"
    "    class Linked:\n"
    "        create_module = staticmethod(BuiltinImporter.create_module)\n"
    "        exec_module = staticmethod(BuiltinImporter.exec_module)\n"
    "        def find_spec(self, name, path=None, target=None):\n"
    "            if path is not None and name in sys.builtin_module_names:\n"
    "                return ModuleSpec(name, self, origin='built-in')\n"
    "    sys.meta_path.insert(0, Linked())\n"
    "    sys.path.append('" LOCKSTEP_PACKAGES "')\n"
    "prologue()\n"
    "del prologue\n";

static const char packages[] = LOCKSTEP_PACKAGES "/mpi4py/";

// ---- The line of a call -------------------------------------------------------------------------
typedef struct name {
    struct name *next;
    char text[];
} name;

// A finding may name it after its code object is gone.
static const char *keep(const char *text) {
    static name *names;
    for (const name *at = names; at != NULL; at = at->next) {
        if (strcmp(at->text, text) == 0) {
            return at->text;
        }
    }
    size_t bytes = strlen(text) + 1;
    name *made = malloc(sizeof *made + bytes);
    if (made == NULL) {
        return "";
    }
    memcpy(made->text, text, bytes);
    made->next = names;
    names = made;
    return made->text;
}

// Calls of mpi4py come here instead of ls_mpi_at: records the nearest frame outside of mpi4py.
void lockstep_python_at(const char *file, int line) {
    if (Py_IsInitialized() && PyGILState_GetThisThreadState() != NULL) {
        PyGILState_STATE held = PyGILState_Ensure();
        PyFrameObject *frame = PyEval_GetFrame();
        Py_XINCREF(frame);
        for (bool found = false; frame != NULL && !found;) {
            PyCodeObject *code = PyFrame_GetCode(frame);
            const char *in = PyUnicode_AsUTF8(code->co_filename);
            if (in == NULL) {
                PyErr_Clear();
            } else if (in[0] != '<' && strncmp(in, packages, sizeof packages - 1) != 0) {
                file = keep(in);
                line = PyFrame_GetLineNumber(frame);
                found = true;
            }
            Py_DECREF(code);
            PyFrameObject *back = found ? NULL : PyFrame_GetBack(frame);
            Py_DECREF(frame);
            frame = back;
        }
        PyGILState_Release(held);
    }
    ls_mpi_at(file, line);
}

int main(int argc, char **argv) {
    PyConfig config;
    PyConfig_InitPythonConfig(&config);
    if (PyImport_AppendInittab("mpi4py.MPI", PyInit_MPI) != 0 ||
        PyStatus_Exception(PyConfig_SetBytesString(&config, &config.executable, LOCKSTEP_PYTHON)) ||
        PyStatus_Exception(PyConfig_SetBytesArgv(&config, argc, argv))) {
        return 1;
    }
    PyStatus status = Py_InitializeFromConfig(&config);
    PyConfig_Clear(&config);
    if (PyStatus_Exception(status)) {
        Py_ExitStatusException(status);
    }
    return PyRun_SimpleString(prologue) != 0 ? 1 : Py_RunMain();
}
