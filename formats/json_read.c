// Reading JSON: a file under a limit, jansson's errors as ours.
#include "formats/json_read.h"

#include <pthread.h>
#include <stdbool.h>

#include "base/file.h"

// jansson reports a failed allocation as a syntax error, or not at all; so its allocator is asked.
static json_malloc_t allocate;
static _Thread_local bool no_memory;

static void *watched_allocate(size_t bytes) {
    void *memory = allocate(bytes);
    no_memory = no_memory || memory == NULL;
    return memory;
}

static void watch(void) {
    json_free_t release = NULL;
    json_get_alloc_funcs(&allocate, &release);
    json_set_alloc_funcs(watched_allocate, release);
}

int ls_json_parse(json_t **out, const char *path, const char *text, size_t bytes) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, watch);
    no_memory = false;
    json_error_t error = {.text = ""};
    *out = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    if (*out != NULL && !no_memory) {
        return LS_OK;
    }
    json_decref(*out);
    *out = NULL;
    if (no_memory) {
        return LS_FAIL(LS_ERR_MEMORY, "'%s': no memory for its JSON", path);
    }
    return LS_FAIL(LS_ERR_FORMAT, "'%s':%d:%d: not JSON: %s", path, error.line, error.column,
                   error.text);
}

int ls_json_read(json_t **out, const char *path, size_t bytes_max) {
    *out = NULL;
    ls_arena *arena = NULL;
    LS_TRY(ls_arena_create(&arena));
    char *text = NULL;
    size_t bytes = 0;
    int status = ls_file_read(&text, &bytes, arena, path, bytes_max);
    status = status == LS_OK ? ls_json_parse(out, path, text, bytes) : status;
    ls_arena_free(arena);
    return status;
}
