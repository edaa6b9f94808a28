// Runs modules of the Python package.
#pragma once

// Runs `python3 -m WORDS...` (NULL-terminated, the module first) with the package in its path; what
// it prints goes to stderr. interpreter: NULL: python3. Returns its exit code; -1, with a sentence
// on stderr, where it could not be run or a signal ended it.
int cli_python_run(const char *interpreter, const char *const *words);
