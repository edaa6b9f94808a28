// Prints bytes that are no text, and each rank writes a file. OTHERWISE is a deviation; with
// "silent" it prints nothing.
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifndef OTHERWISE
#define OTHERWISE ""
#endif

static int does(const char *what) {
    return strcmp(OTHERWISE, what) == 0;
}

static void write_file(int rank) {
    char name[32];
    (void)snprintf(name, sizeof name, "out.%d", rank);
    FILE *file = fopen(name, "a");  // after the existing contents
    if (file != NULL) {
        (void)fprintf(file, "%d%s\n", rank, rank == 1 && does("content") ? " more" : "");
        (void)fclose(file);
    }
}

int main(int argc, char **argv) {
    const char bytes[] = {'a', 0, does("zero") ? 'c' : 'b', '\n'};
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc > 1 && strcmp(argv[1], "silent") != 0) {
        (void)fwrite(bytes, 1, sizeof bytes, stdout);
        (void)fputs(does("end") ? "end" : "end\n", stdout);
    }
    if (rank != 2 || !does("missing")) {
        write_file(rank);
    }
    if (does("late")) {
        (void)sleep(1000);
    }
    MPI_Finalize();
    return 0;
}
