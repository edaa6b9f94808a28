// Reading JSON: a file under a limit, jansson's errors as ours.
#include "base/json_read.h"

#include "base/file.h"

int ls_json_parse(json_t **out, const char *path, const char *text, size_t bytes) {
    json_error_t error = {.text = ""};
    *out = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    if (*out != NULL) {
        return LS_OK;
    }
    if (json_error_code(&error) == json_error_out_of_memory) {
        return LS_FAIL(LS_ERR_MEMORY, "'%s': no memory for its JSON", path);
    }
    return LS_FAIL(LS_ERR_FORMAT, "'%s':%d:%d: not JSON: %s", path, error.line, error.column,
                   error.text);
}

int ls_json_read(json_t **out, const char *path, size_t bytes_max) {
    *out = NULL;
    ls_arena *arena = NULL;
    LS_TRY(ls_arena_create(&arena, NULL));
    char *text = NULL;
    size_t bytes = 0;
    int status = ls_file_read(&text, &bytes, arena, path, bytes_max);
    if (status == LS_OK) {
        status = ls_json_parse(out, path, text, bytes);
    }
    ls_arena_free(arena);
    return status;
}
