// Status texts and the per-thread last error.
#include "base/status.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local ls_error last_error = {.rank = LS_RANK_NONE, .file = ""};

const char *ls_status_text(int status) {
    switch (status) {
#define LS_STATUS_CASE(name, value, meaning)                                                       \
    case name:                                                                                     \
        return meaning;
        LS_STATUS_MAP(LS_STATUS_CASE)
#undef LS_STATUS_CASE
    default:
        return "unknown status";
    }
}

bool ls_status_is_environment(int status) {
    return status == LS_ERR_MEMORY || status == LS_ERR_BACKEND || status == LS_ERR_RANK_DIED ||
           status == LS_ERR_TIMEOUT || status == LS_ERR_RESOURCE;
}

int ls_status_of_errno(int error) {
    switch (error) {
    case ENOMEM:
        return LS_ERR_MEMORY;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EIO:
    case EMFILE:
    case ENFILE:
    case EAGAIN:
        return LS_ERR_RESOURCE;
    default:
        return LS_ERR_IO;
    }
}

const ls_error *ls_error_last(void) {
    return &last_error;
}

void ls_error_clear(void) {
    last_error = (ls_error){.rank = LS_RANK_NONE, .file = ""};
}

int ls_error__set(const char *file, int line, int code, int rank, const char *format, ...) {
    LS_ASSERT(code < 0);
    // The arguments may point into the text that is replaced, so format aside first.
    char text[LS_ERROR_TEXT_MAX];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    last_error.code = code;
    last_error.rank = rank;
    last_error.file = file;
    last_error.line = line;
    memcpy(last_error.text, text, sizeof text);
    return code;
}

int ls_error_wrap(const char *format, ...) {
    LS_ASSERT(last_error.code < 0);
    char text[LS_ERROR_TEXT_MAX];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (length > 0 && (size_t)length < sizeof text) {
        // A text that no longer fits is cut at its end: the context in front matters more.
        size_t room = sizeof text - (size_t)length;
        (void)snprintf(text + length, room, ": %.*s", (int)room, last_error.text);
    }
    memcpy(last_error.text, text, sizeof text);
    return last_error.code;
}

void ls_assert__fail(const char *file, int line, const char *condition) {
    fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, condition);
    abort();
}
