// Debuggers: starting gdb on a program with the extension loaded, and waiting for one to come.
#pragma once

#include "cli/cli.h"

// Replaces this process by gdb on argv [argc], its program first. commands [command_count] are gdb
// commands to give first; options [option_count] go to gdb as they stand. Returns an exit code when
// gdb cannot be started.
int cli_gdb_exec(const char *const *commands, int command_count, const char *const *options,
                 int option_count, const char *const *argv, int argc);
// The same on this program with the command line that it was started with, less the options
// `without` [count]. Set by main.
int cli_gdb_exec_self(const char *const *commands, int command_count, const char *const *without,
                      int count);
// The same with `lockstep exec`, all of whose ranks gdb has. others: options that exclude it.
int cli_gdb_ranks(int ranks, bool others);
#define CLI_GDB_OPTION(variable)                                                                   \
    CLI_OPTION(CLI_SWITCH, "gdb", &(variable),                                                     \
               .help = "Debug the ranks in one gdb, each an inferior (docs/debugging.md)")
const char *cli_debugger_own_path(void);  // of this program
void cli_debugger_remember(int argc, char **argv);

// Replaces this process by the debugger of Python ranks (python/lockstep/debugger) with this face,
// which, if `again`, starts this program with the command line that it was started with. Returns an
// exit code where it cannot, and LS_EXIT_OK in the program that the debugger has started.
int cli_python_debugger(const char *const *face, bool again);

// Does what --debug or --core DIR (NULL: not given) asks. elsewhere: other libraries move the
// data.
int cli_python_debug(bool debug, const char *core, bool elsewhere);

// The process that traces this thread; 0: none.
long cli_debugger_has(void);

// Prints which process waits, and sleeps until a debugger has attached to it. Only the first call
// does.
void cli_debugger_wait(void);

// The options of the commands that can stop where something went wrong.
typedef struct cli_stop_options {
    bool stop;  // --break-on-finding, --stop-at-divergence
    bool wait;  // --wait-for-debugger
} cli_stop_options;

#define CLI_STOP_OPTIONS(options, name, help_)                                                     \
    {CLI_SWITCH, (name), &(options).stop, .help = (help_)},                                        \
        CLI_OPTION(CLI_SWITCH, "wait-for-debugger", &(options).wait,                               \
                   .help = "Print the process id, wait for a debugger to attach, then continue")

// Acts on these options before the command runs: starts gdb with the commands catches [count], at
// most three, then the run; or waits now; or arranges to wait at the error. Returns LS_EXIT_OK to
// continue.
int cli_stop(const cli_stop_options *options, const char *name, const char *const *catches,
             int count);
