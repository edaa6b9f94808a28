// The program's debug information, shared by its readers.
#pragma once

#include <elfutils/libdw.h>
#include <stdbool.h>

// Locks the compilation unit of an instruction for the calling thread. False: there is none, and
// nothing is locked.
bool ls_mpi__unit_hold(Dwarf_Die *out, Dwarf_Addr code);
void ls_mpi__unit_release(void);
// The scopes around an instruction of the unit, innermost first: their number. The caller frees the
// list.
int ls_mpi__scopes_at(Dwarf_Die **out, Dwarf_Die *unit, Dwarf_Addr code);
