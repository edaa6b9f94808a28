// The redistributions of a scenario's program, as lockstep show and lockstep plan report them.
#pragma once

#include "runner/scenario/scenario.h"

// lockstep plan of a program: reports the cost of each redistribution and of the cheapest path.
// LS_EXIT_OK; LS_EXIT_NOTHING: the program has none; else as the exit codes say.
int cli_redistributions_report(const ls_scenario *scenario, ls_arena *arena);
