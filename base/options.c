// Reads option structs of other versions.
#include "base/options.h"

#include <string.h>

int ls_options_take(void *own, size_t own_size, const void *given) {
    LS_ASSERT(own != NULL && given != NULL && own_size >= sizeof(size_t));
    size_t size = 0;
    memcpy(&size, given, sizeof size);
    if (size == 0) {
        size = own_size;
    }
    if (size < sizeof size) {
        return LS_FAIL(LS_ERR_INVALID, "options of %zu bytes: size must be sizeof the struct",
                       size);
    }
    for (size_t i = own_size; i < size; i++) {
        if (((const char *)given)[i] != 0) {
            return LS_FAIL(LS_ERR_UNSUPPORTED,
                           "the options have %zu bytes and set a member that this library (%zu "
                           "bytes) does not have: install a newer library",
                           size, own_size);
        }
    }
    memset(own, 0, own_size);
    memcpy(own, given, size < own_size ? size : own_size);
    memcpy(own, &own_size, sizeof own_size);
    return LS_OK;
}
