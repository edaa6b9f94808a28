// A user's program: includes the header that gathers all others and calls the library.
#include <stdio.h>
#include <string.h>

#include "lockstep.h"

int main(void) {
    ls_dtype dtype = LS_I8;
    if (ls_dtype_parse(&dtype, "bf16") != LS_OK || ls_dtype_bytes(dtype) != 2) {
        return 1;
    }
    if (ls_dtype_parse(&dtype, "bf17") != LS_ERR_NOT_FOUND || ls_error_last()->text[0] == 0) {
        return 1;
    }
    return puts("the library answers") < 0;
}
