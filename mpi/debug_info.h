// The program's debug information, for the files that ask it.
#ifndef LS_MPI_DEBUG_INFO_H
#define LS_MPI_DEBUG_INFO_H

#include <elfutils/libdw.h>
#include <stdbool.h>

// The unit of an instruction, held for the calling thread. False: none, and not held.
bool ls_mpi__unit_hold(Dwarf_Die *out, Dwarf_Addr code);
void ls_mpi__unit_release(void);

#endif
