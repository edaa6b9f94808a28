// .npy files.
#include "formats/npy.h"
#include "fuzzers.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    const char *path = fuzz_file(data, bytes);
    ls_npy array;
    (void)ls_npy_describe(&array, path);
    if (ls_npy_read(&array, path) == LS_OK) {
        ls_npy_free(&array);
    }
    return 0;
}
