// A program whose functions and variables have names of the C library: they stay its own, in each
// of its files and on each rank.
#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>

extern int err, errx[2];
void error(const char *format, ...);
int random(int below);
#ifdef HERE
int err = 10, errx[2] = {20, 21};

void error(const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)vprintf(format, args);
    va_end(args);
}

int random(int below) {
    return below - 1;
}
#else
int index, link, signal = 3;
double time;

int main(int argc, char **argv) {
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    err += rank;
    errx[1] += 1;
    index += 2;
    link = -1;
    signal += rank;
    time += 0.5;
    error("%d %d %d %d %d %g %d;", err, errx[1], index, link, signal, time, random(5));
    MPI_Finalize();
    return 0;
}
#endif
