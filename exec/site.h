// Python's frames, where the process has an interpreter.
#ifndef LS_EXEC_SITE_H
#define LS_EXEC_SITE_H

#include <stdbool.h>

typedef struct ls_python_place {
    char file[1024];
    int line;
    bool in_torch;     // its innermost frame is in torch.distributed
    char stack[3072];  // "FILE:LINE FUNCTION" in lines, nearest first, without torch's own
} ls_python_place;

// The nearest frame outside of torch of this thread, or, where it has none (autograd's threads), of
// the program's first thread. False: there is no Python here, or it runs nothing.
bool ls_python_here(ls_python_place *out);
// The same of the program's first thread.
bool ls_python_first(ls_python_place *out);

#endif
