// .safetensors files: the header, and every tensor in it.
#include <stdlib.h>

#include "formats/safetensors.h"
#include "fuzzers.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    ls_safetensors *file = NULL;
    if (ls_safetensors_open(&file, fuzz_file(data, bytes)) != LS_OK) {
        return 0;
    }
    for (size_t i = 0; i < ls_safetensors_count(file); i++) {
        const ls_safetensor *tensor = ls_safetensors_at(file, i);
        LS_ASSERT(tensor->bytes <= bytes);  // the file has them
        void *out = malloc(tensor->bytes + 1);
        if (out != NULL) {
            int expected = tensor->dtype < 0 ? LS_ERR_UNSUPPORTED : LS_OK;
            LS_ASSERT(ls_safetensors_read(out, tensor->bytes, file, tensor) == expected);
        }
        free(out);
    }
    ls_safetensors_free(file);
    return 0;
}
