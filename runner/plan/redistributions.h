// The redistributions of a scenario's program, listed by running it.
#pragma once

#include "runner/program/redistribute.h"

// Runs the scenario in the simulator and lists the redistributions of its redistribute steps and of
// operands. *stopped: the reason why the program ended early or cannot run here, in `arena`; NULL:
// none. LS_ERR_MEMORY.
int ls_redistributions_of(ls_redistributions *out, const char **stopped,
                          const ls_scenario *scenario, ls_arena *arena);
