// What launch.c and launch_tell.c share.
#ifndef LS_SCENARIOS_RUNNER_LAUNCH_INTERNAL_H
#define LS_SCENARIOS_RUNNER_LAUNCH_INTERNAL_H

#include <stdbool.h>

#define LS_LAUNCH_PATH_BYTES 4096

// out [LS_LAUNCH_PATH_BYTES] = "DIR/rank_R.SUFFIX"; false: too long.
bool ls_launch__mark(char *out, const char *dir, int rank, const char *suffix);

#endif
