// The version that the library was built as.
#include "base/version.h"

const char *ls_version(void) {
    return LS_VERSION;
}
