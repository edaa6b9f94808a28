// What a program that lockstep-cc has linked and the library that runs it know of each other.
#ifndef LS_MPI_IMAGE_IMAGE_H
#define LS_MPI_IMAGE_IMAGE_H

#define LS_MPI_IMAGE_MAIN "ls_mpi_image_main"
typedef int (*ls_mpi_image_main_function)(int argc, char **argv, char **environment);

__attribute__((visibility("default"))) void ls_mpi_exit(int status, int at_once);
// Memory that the program has allocated and freed.
__attribute__((visibility("default"))) void ls_mpi_allocated(const void *at, unsigned long bytes);
// Not 0: somebody still uses it, which is told; it must stay.
__attribute__((visibility("default"))) int ls_mpi_freed(const void *at, const void *caller);
__attribute__((visibility("default"))) int ls_mpi_unmapped(const void *at, unsigned long bytes,
                                                           const void *caller);
// Memory that library functions read and write for the program.
__attribute__((visibility("default"))) void ls_mpi_accessed(const void *at, unsigned long bytes,
                                                            int writes, const void *caller);

#endif
