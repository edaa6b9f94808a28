// Writes .npy files for tests of their readers.
#pragma once

#include <stdio.h>
#include <string.h>

#include "base/dtype.h"

// Writes dim [ndim], data [product of dim] as version 1, in the host's byte order.
static inline bool write_npy(const char *path, ls_dtype dtype, int ndim, const int64_t *dim,
                             const void *data) {
    static const char magic[8] = {'\x93', 'N', 'U', 'M', 'P', 'Y', 1, 0};
    const char order = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? '>' : '<';
    char text[118];
    size_t bytes = ls_dtype_bytes(dtype);
    int used = snprintf(text, sizeof text, "{'descr': '%c%s', 'fortran_order': False, 'shape': (",
                        bytes == 1 ? '|' : order, ls_dtype_name_npy(dtype));
    for (int i = 0; i < ndim; i++) {
        used += snprintf(text + used, sizeof text - (size_t)used, "%s%lld", i != 0 ? ", " : "",
                         (long long)dim[i]);
        bytes *= (size_t)dim[i];
    }
    used += snprintf(text + used, sizeof text - (size_t)used, "%s", ndim == 1 ? ",), }" : "), }");
    memset(text + used, ' ', sizeof text - (size_t)used);  // the data starts at 128
    text[sizeof text - 1] = '\n';
    FILE *file = fopen(path, "wb");
    bool written = file != NULL && fwrite(magic, 1, sizeof magic, file) == sizeof magic &&
                   fwrite((const char[]){sizeof text, 0}, 1, 2, file) == 2 &&
                   fwrite(text, 1, sizeof text, file) == sizeof text &&
                   fwrite(data, 1, bytes, file) == bytes;
    return file != NULL && fclose(file) == 0 && written;
}
