// The interface between a program that lockstep-cc has linked and the library that runs it.
#pragma once

#define LS_MPI_IMAGE_MAIN "ls_mpi_image_main"
typedef int (*ls_mpi_image_main_function)(int argc, char **argv, char **environment);

__attribute__((visibility("default"))) void ls_mpi_exit(int status, int at_once);
// dlopen for the rank whose image contains `caller`.
__attribute__((visibility("default"))) void *ls_mpi_open_library(const char *path, int mode,
                                                                 const void *caller);
// With guards, this many bytes of this value follow each allocation.
#define LS_MPI_GUARD      32
#define LS_MPI_GUARD_BYTE 0xa7
// Returns `at`.
__attribute__((visibility("default"))) void *ls_mpi_allocated(void *at, unsigned long bytes,
                                                              int guarded, const void *caller);
// Not 0: the block must stay. It is still in use, or (may_keep) is freed later.
__attribute__((visibility("default"))) int ls_mpi_freed(void *at, int may_keep, const void *caller);
// From here on other code may grow the block.
__attribute__((visibility("default"))) void ls_mpi_forget(const void *at, const void *caller);
__attribute__((visibility("default"))) unsigned long ls_mpi_room(void *at, const void *caller);
__attribute__((visibility("default"))) int ls_mpi_unmapped(const void *at, unsigned long bytes,
                                                           const void *caller);
// Memory that library functions read and write for the program.
__attribute__((visibility("default"))) void ls_mpi_accessed(const void *at, unsigned long bytes,
                                                            int writes, const void *caller);
// Marks synchronisation between threads of the rank: a lock, a barrier, ...
__attribute__((visibility("default"))) void ls_mpi_synchronises(void);
__attribute__((visibility("default"))) void ls_mpi_makes_task(void);
__attribute__((visibility("default"))) void ls_mpi_forks(void);   // a parallel region
__attribute__((visibility("default"))) void ls_mpi_starts(void);  // a thread
