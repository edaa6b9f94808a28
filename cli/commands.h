// The commands, one cmd_NAME.c each. The order is the one that --help shows.
#ifndef LS_CLI_COMMANDS_H
#define LS_CLI_COMMANDS_H

#include "cli/options.h"

#ifndef LOCKSTEP_VERSION
#error "LOCKSTEP_VERSION is defined by cli/CMakeLists.txt"
#endif

extern const cli_command cli_cmd_run;
extern const cli_command cli_cmd_compare;
extern const cli_command cli_cmd_record;
extern const cli_command cli_cmd_replay;
extern const cli_command cli_cmd_plan;
extern const cli_command cli_cmd_show;
extern const cli_command cli_cmd_bench;
extern const cli_command cli_cmd_calibrate;
extern const cli_command cli_cmd_gdb;
extern const cli_command cli_cmd_traffic;
extern const cli_command cli_cmd_doctor;
extern const cli_command cli_cmd_rank;  // in lockstep-mpi alone

#endif
