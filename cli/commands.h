// The commands, one cmd_NAME.c each. The order is the one that --help shows.
#ifndef LS_CLI_COMMANDS_H
#define LS_CLI_COMMANDS_H

#include "cli/options.h"

#ifndef LOCKSTEP_VERSION
#error "LOCKSTEP_VERSION is defined by cli/CMakeLists.txt"
#endif

extern const cli_command cli_cmd_bench;
extern const cli_command cli_cmd_doctor;

#endif
