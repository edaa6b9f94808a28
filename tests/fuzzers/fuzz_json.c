// JSON, of which recordings, machines and measured orders are made.
#include <jansson.h>

#include "formats/json_read.h"
#include "fuzzers.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    json_t *root = NULL;
    if (ls_json_parse(&root, "fuzzed.json", (const char *)data, bytes) == LS_OK) {
        LS_ASSERT(root != NULL);
    }
    json_decref(root);
    return 0;
}
