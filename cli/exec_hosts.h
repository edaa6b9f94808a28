// Jobs on many hosts under `lockstep exec --observe`: options of the coordinator and of agents.
#pragma once

#include "exec/coordinator.h"

#define CLI_KEY_VARIABLE "LOCKSTEP_KEY"  // of the environment: the file, if --key is not given

typedef struct cli_exec_hosts {
    const char *listen, *join, *key;
    int agents;
} cli_exec_hosts;

#define CLI_HOSTS_OPTIONS(hosts)                                                                   \
    CLI_OPTION(CLI_STRING, "listen", &(hosts).listen, "[HOST:]PORT",                               \
               .help =                                                                             \
                   "With --observe: check a job on many hosts, whose agents join at this port"),   \
        CLI_OPTION(CLI_INT, "agents", &(hosts).agents, "N", .int_min = 1, .int_max = 4096,         \
                   .help = "With --listen: number of agents that join"),                           \
        CLI_OPTION(CLI_STRING, "join", &(hosts).join, "HOST:PORT",                                 \
                   .help =                                                                         \
                       "With --observe: run the program as an agent of the coordinator at this "   \
                       "address, which prints the report"),                                        \
        CLI_OPTION(                                                                                \
            CLI_STRING, "key", &(hosts).key, "FILE",                                               \
            .help = "With --listen or --join: file of the key that all hosts share (default: the " \
                    "file that " CLI_KEY_VARIABLE " names)")

// Sets them. Says what is wrong on stderr, and returns an exit code. alone: an option was given
// that needs the data or the processes of all ranks on one host; its name, or NULL.
int cli_exec_set_hosts(ls_exec_options *out, cli_exec_hosts *given, const char *alone);
// Runs the program as an agent. The exit code is the program's.
int cli_exec_run_agent(const ls_exec_options *options);
