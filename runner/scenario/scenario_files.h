// Lists the files that a scenario reads, and copies them beside a recording, so that it can be
// replayed without the originals.
#pragma once

#include "runner/scenario/scenario.h"

// Copies every file in the scenario's folder (or below it) to the same relative path in `dir`, and
// the scenario as scenario.yaml. Files elsewhere are not copied: the copied scenario names their
// original path. Without any file to copy, `dir` is not created.
int ls_scenario_copy_files(const ls_scenario *scenario, const char *dir);
