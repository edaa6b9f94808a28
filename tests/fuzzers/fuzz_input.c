// See fuzzers.h.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuzzers.h"

static char path[64];

static void forget(void) {
    (void)unlink(path);
}

const char *fuzz_file(const uint8_t *data, size_t bytes) {
    if (path[0] == 0) {
        (void)snprintf(path, sizeof path, "/tmp/lockstep_fuzz_XXXXXX");
        int made = mkstemp(path);
        if (made < 0) {
            abort();
        }
        (void)close(made);
        (void)atexit(forget);
    }
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(data, 1, bytes, file) != bytes || fclose(file) != 0) {
        abort();
    }
    return path;
}

char *fuzz_text(const uint8_t *data, size_t bytes) {
    char *text = malloc(bytes + 1);
    if (text == NULL) {
        abort();
    }
    memcpy(text, data, bytes);
    text[bytes] = 0;
    return text;
}
