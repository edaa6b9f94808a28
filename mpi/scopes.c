// The scopes of the program around an instruction.
#ifdef LOCKSTEP_HAVE_DW
#include <dwarf.h>
#include <stdlib.h>

#include "mpi/debug_info.h"

static bool inner_scope(Dwarf_Die *at, Dwarf_Addr code) {
    Dwarf_Die child;
    for (int more = dwarf_child(at, &child); more == 0; more = dwarf_siblingof(&child, &child)) {
        int tag = dwarf_tag(&child);
        if ((tag == DW_TAG_lexical_block || tag == DW_TAG_inlined_subroutine) &&
            dwarf_haspc(&child, code) > 0) {
            *at = child;
            return true;
        }
    }
    return false;
}

// Searches everything: a lambda or a parallel region is a function inside the one that it is
// written in, with instructions of its own.
static bool function_at(Dwarf_Die *out, Dwarf_Die *around, Dwarf_Addr code) {
    Dwarf_Die child;
    for (int more = dwarf_child(around, &child); more == 0;
         more = dwarf_siblingof(&child, &child)) {
        if (dwarf_tag(&child) == DW_TAG_subprogram && dwarf_haspc(&child, code) > 0) {
            *out = child;
            return true;
        }
        if (dwarf_haschildren(&child) > 0 && function_at(out, &child, code)) {
            return true;
        }
    }
    return false;
}

int ls_mpi__scopes_at(Dwarf_Die **out, Dwarf_Die *unit, Dwarf_Addr code) {
    Dwarf_Die *inner = NULL, at;
    bool found = dwarf_getscopes(unit, code, &inner) > 0;
    if (found) {
        at = inner[0];
    }
    free(inner);
    int tag = found ? dwarf_tag(&at) : DW_TAG_compile_unit;
    if (tag != DW_TAG_subprogram && tag != DW_TAG_lexical_block &&
        tag != DW_TAG_inlined_subroutine) {
        found = function_at(&at, unit, code);
        while (found && inner_scope(&at, code)) {
        }
    }
    *out = NULL;
    return found ? dwarf_getscopes_die(&at, out) : 0;
}
#else
typedef int mpi_no_scopes;
#endif
