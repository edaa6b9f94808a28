// Shared by the commands: diagnostics, where results go, and the terminal.
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "base/base.h"
#include "cli/exits.h"
#include "cli/options.h"
#include "runner/result.h"

// Prints "lockstep: error: ..." on stderr.
void cli_error(const char *format, ...) LS_PRINTF(1, 2);
void cli_note(const char *format, ...) LS_PRINTF(1, 2);

// The exit code for a library status.
int cli_exit_of(int status);
// Prints this thread's last error and returns cli_exit_of(status).
int cli_fail(int status);
// Returns from the caller with an exit code that is not LS_EXIT_OK, as LS_TRY does with a status.
#define CLI_TRY(code) LS_TRY(code)
_Static_assert(LS_EXIT_OK == LS_OK, "LS_TRY returns what is not 0");

// main's argv, and exec of another program beside this one with the same arguments (the one with
// CUDA inside). Returns an exit code only if that fails, with the reason on stderr.
extern char **cli_arguments;
int cli_become(const char *program);

// Whether stdout is to be coloured, and whether it shows characters beyond ASCII.
bool cli_color_on(void);
bool cli_unicode_on(void);
// Whether stdout is taken by a machine-readable output (an option's value is "-").
bool cli_stdout_taken(void);

// Writes `text` to `path`; "-": stdout. A failure is reported on stderr. Returns an exit code.
int cli_output(const char *path, const ls_text *text);

// Writes a report for people to stdout, or to stderr where stdout is taken. Control characters in
// it, as in a table's name, are printed as a '?' there. Returns an exit code, as above.
int cli_print(const ls_text *text);

// Prints and writes the results everywhere that was asked for: the text report on stdout (unless
// stdout is taken), JSON, JUnit, HTML. Returns the exit code that the results and the writing give.
int cli_report(const ls_results *results);
// The same, with `summary` (NULL or empty: none) in place of the row per case in the text report.
// count_skips: one row for all the cases that were skipped for the same reason.
int cli_report_with(const ls_results *results, const ls_text *summary, bool count_skips);

// Writes only --junit and --report, for commands with their own text and JSON.
int cli_report_pages(const ls_results *results);

// A progress bar on stderr, when that is a terminal, stdout is one too or not, and --quiet was not
// given. Nothing is drawn in the first half second.
void cli_progress(const char *what, int done, int total);
void cli_progress_end(void);

// Whether a file of this program is beside it, or where it is installed; *out is its path.
bool cli_find_beside(char *out, size_t bytes, const char *name);
// Whether a program of this name is in PATH; *out is its path.
bool cli_find_program(char *out, size_t bytes, const char *name);
