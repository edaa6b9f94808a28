// Opens a library: each rank gets a copy, which uses the names of the rank's program.
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int of_program = 0;
int program_adds(int value);
int program_adds(int value) {
    return of_program += value;
}

static void *open_it(const char *path) {
    void *library = dlopen(path, RTLD_NOW);
    if (library == NULL) {
        (void)fprintf(stderr, "%s\n", dlerror());
        exit(3);
    }
    return library;
}

typedef int (*plugin_function)(int);

int main(int argc, char **argv) {
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    void *library = open_it(argv[1]);
    plugin_function adds = (plugin_function)dlsym(library, "plugin_adds");
    int one = adds(rank + 1), all = adds(10);
    MPI_Barrier(MPI_COMM_WORLD);
    // Opening the library again returns the same handle, and NULL is the program.
    int again = ((plugin_function)dlsym(open_it(argv[1]), "plugin_adds"))(100);
    int *found = dlsym(dlopen(NULL, RTLD_NOW), "of_program");
    (void)printf("rank %d: %d %d %d, program %d, found %d, none %d\n", rank, one, all, again,
                 of_program, found == &of_program, dlopen("./none.so", RTLD_NOW) == NULL);
    MPI_Finalize();
    return 0;
}
