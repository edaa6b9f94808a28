// Reads names of captured tensors: "step 2 input layers.0 (call 1) [0]".
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner/diff/diff_internal.h"

size_t ls_diff__step(size_t *step, const char *name) {
    size_t digits = strncmp(name, "step ", 5) == 0 ? strspn(name + 5, "0123456789") : 0;
    *step = digits > 0 ? strtoull(name + 5, NULL, 10) : 0;
    return digits > 0 && name[5 + digits] == ' ' ? 6 + digits : 0;
}

size_t ls_diff__name_length(const char *name) {
    const char *end = strstr(name, " (call ");
    end = end != NULL ? end : strstr(name, " [");
    return end != NULL ? (size_t)(end - name) : strlen(name);
}

// The length of a name up to the mark of calls in evaluation mode, too.
static size_t length_of_module(const char *name) {
    size_t length = ls_diff__name_length(name);
    const char *evaluation = strstr(name, " (evaluation)");
    return evaluation != NULL && (size_t)(evaluation - name) < length ? (size_t)(evaluation - name)
                                                                      : length;
}

bool ls_diff__is_of(const char *name, const char *other) {
    size_t length = length_of_module(name);
    return length_of_module(other) == length && strncmp(name, other, length) == 0;
}

int ls_diff__calls_of(ls_arena *arena, const ls_capture *of, const char *name) {
    int length = (int)ls_diff__name_length(name), calls = 1;
    const char *call = ls_arena_printf(arena, "%.*s (call 1)", length, name);
    while (call != NULL && ls_capture_find(of, call) != NULL) {
        call = ls_arena_printf(arena, "%.*s (call %d)", length, name, ++calls);
    }
    return calls;
}

const ls_captured *ls_diff__first_input(const ls_capture *of, const char *name) {
    size_t number = 0, step = ls_diff__step(&number, name);
    for (size_t i = 0; step > 0 && i < of->count; i++) {
        const char *other = of->tensors[i].name;
        if (strncmp(other, name, step) == 0 && strncmp(other + step, "input ", 6) == 0) {
            return &of->tensors[i];
        }
    }
    return NULL;
}
