// Exit codes of the program: part of what scripts depend on.
#pragma once

#define LS_EXIT_OK          0  // everything asked holds
#define LS_EXIT_FINDING     1  // a mismatch, a failed check, a deadlock, a survivor
#define LS_EXIT_USAGE       2  // the call or an input file is unusable
#define LS_EXIT_ENVIRONMENT 3  // a backend is missing, a process died, no memory, a time-out
#define LS_EXIT_NOTHING     5  // nothing ran
