// The files that a scenario reads, and copying them beside a recording, so that the recording can
// be replayed where the originals are not.
#ifndef LS_RUNNER_SCENARIO_SCENARIO_FILES_H
#define LS_RUNNER_SCENARIO_SCENARIO_FILES_H

#include "runner/scenario/scenario.h"

// Calls visit once per place in the scenario that names a file (a file may come up again). Stops at
// the first status that is not LS_OK and returns it.
typedef int (*ls_scenario_file_visit)(void *arg, const char *path);
int ls_scenario_each_file(const ls_scenario *scenario, ls_scenario_file_visit visit, void *arg);

// Copies every file that lies in the scenario's folder (or below it) to the same relative place in
// `dir`, and the scenario there as scenario.yaml. Files elsewhere stay where they are: the copied
// scenario names them as before. Without any file to copy `dir` is not made.
int ls_scenario_copy_files(const ls_scenario *scenario, const char *dir);

#endif
