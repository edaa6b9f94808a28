// lockstep dap [--port N]: the debuggers for editors, which speak the Debug Adapter Protocol.
#include <stdio.h>

#include "cli/commands.h"
#include "cli/debugger.h"

static struct {
    int port;
    bool port_given;
} given;

static const cli_option options[] = {
    {CLI_INT, "port", &given.port, "N", .given = &given.port_given, .int_min = 0, .int_max = 65535,
     .help = "Listen on this port of 127.0.0.1 for one session; 0: a free port, which stderr names "
             "(default: stdin and stdout)"},
    {.long_name = NULL},
};

static int run(const cli_args *args) {
    (void)args;
    char port[16] = "-";
    if (given.port_given) {
        (void)snprintf(port, sizeof port, "%d", given.port);
    }
    const char *const face[] = {"dap", cli_debugger_own_path(), port, NULL};
    return cli_python_debugger(face, false);
}

const cli_command cli_cmd_dap = {
    .name = "dap",
    .arguments = "",
    .arguments_max = 0,
    .summary = "Debug the ranks of a program or a scenario in an editor",
    .details =
        "A server of the Debug Adapter Protocol, which editors start. Ranks are the threads of "
        "one session: breakpoints, steps, variables and expressions of each; a finding stops "
        "all ranks. C programs, MPI programs and scenarios run in gdb. docs/debugging.md and "
        "examples/editor/ have settings for editors.",
    .example = "lockstep dap --port 4711",
    .options = options,
    .run = run,
};
