// --core DIR of commands whose ranks are in their own process: a core file at the first finding.
#pragma once

#define CLI_CORE_OPTION(variable)                                                                  \
    CLI_OPTION(CLI_STRING, "core", &(variable), "DIR", .output = CLI_OUTPUT_FOLDER,                \
               .help = "Keep a core file in a new folder at the first finding, at most 20 MB; "    \
                       "lockstep gdb --core DIR opens it")

// Whether --core DIR (NULL: not given) can be carried out beside --break-on-finding and
// --wait-for-debugger (`debugger`). Returns an exit code.
int cli_core_check(const char *dir, bool debugger);
// In the process of the ranks, before they start: the first finding keeps a core file in DIR.
// Nothing for NULL. Returns an exit code.
int cli_core_open(const char *dir);
// The folder that becomes DIR, for files that a debugger needs with it; NULL: no --core.
const char *cli_core_folder(void);
void cli_core_close(void);
// The program that writes it: words [4] are the process, the thread that a debugger selects, the
// folder, and its name once it is complete. Returns an exit code.
#define CLI_CORE_WRITER "--write-core"
int cli_core_write(const char *const *words);
