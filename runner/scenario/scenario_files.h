// Lists the files that a scenario reads, and copies them beside a recording, so that it can be
// replayed without the originals.
#pragma once

#include "runner/scenario/scenario.h"

// Calls visit for each place in the scenario that names a file (repeatedly for a repeated file).
// Stops at the first status that is not LS_OK and returns it.
typedef int (*ls_scenario_file_visit)(void *arg, const char *path);
int ls_scenario_each_file(const ls_scenario *scenario, ls_scenario_file_visit visit, void *arg);

// Copies every file in the scenario's folder (or below it) to the same relative path in `dir`, and
// the scenario as scenario.yaml. Files elsewhere are not copied: the copied scenario names their
// original path. Without any file to copy, `dir` is not created.
int ls_scenario_copy_files(const ls_scenario *scenario, const char *dir);
