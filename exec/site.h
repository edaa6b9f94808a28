// Python's frames, where the process has an interpreter.
#pragma once

#include <stdbool.h>

typedef struct ls_python_place {
    char file[1024];
    int line;
    bool in_torch;     // its innermost frame is in torch.distributed
    bool connects;     // there, in the functions that connect to a store
    char stack[3072];  // "FILE:LINE FUNCTION" in lines, nearest first, of the program's frames
} ls_python_place;

// The nearest frame of this thread that is neither installed nor the standard library's. Where it
// has none: of the program's first thread, which threads of autograd and of frameworks work for,
// else the outermost frame that is installed. False: there is no Python here, or it runs nothing.
bool ls_python_here(ls_python_place *out);
// The same of the program's first thread; false after ls_python_close.
bool ls_python_first(ls_python_place *out);
// The interpreter is about to finalise. No thread is in ls_python_first when this returns.
void ls_python_close(void);
