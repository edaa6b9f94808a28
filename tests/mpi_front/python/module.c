// A module in place of mpi4py's, with the two calls that the test needs.
#include <Python.h>
#include <mpi.h>

static PyObject *sum(PyObject *self, PyObject *value) {
    int own = (int)PyLong_AsLong(value), all = 0;
    (void)self;
    Py_BEGIN_ALLOW_THREADS;
    MPI_Allreduce(&own, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    Py_END_ALLOW_THREADS;
    return PyLong_FromLong(all);
}

static PyObject *receive(PyObject *self, PyObject *from) {
    int value = 0;
    (void)self;
    MPI_Recv(&value, 1, MPI_INT, (int)PyLong_AsLong(from), 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return PyLong_FromLong(value);
}

static void finalize(void) {
    MPI_Finalize();
}

static PyMethodDef methods[] = {
    {"sum", sum, METH_O, NULL}, {"receive", receive, METH_O, NULL}, {0}};
static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "mpi4py.MPI", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_MPI(void) {
    int level, rank;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    (void)Py_AtExit(finalize);
    PyObject *made = PyModule_Create(&module);
    (void)PyModule_AddIntConstant(made, "rank", rank);
    return made;
}
