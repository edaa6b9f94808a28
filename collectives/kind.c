// Names of kinds of calls, and the places of calls.
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "collectives/check.h"

static const char *const kind_names[] = {
#define LS_KIND_NAME(name, text) [LS_##name] = #text,
    LS_KIND_MAP(LS_KIND_NAME) LS_ASK_MAP(LS_KIND_NAME)
#undef LS_KIND_NAME
};

const char *ls_kind_name(ls_kind kind) {
    bool known = (int)kind >= 0 && kind < LS_ASK_END && kind_names[kind] != NULL;
    return known ? kind_names[kind] : "unknown kind";
}

int ls_kind_parse(ls_kind *out, const char *text) {
    LS_ASSERT(out != NULL && text != NULL);
    for (int kind = 0; kind < LS_KIND_COUNT; kind++) {
        if (strcmp(text, kind_names[kind]) == 0) {
            *out = (ls_kind)kind;
            return LS_OK;
        }
    }
    const char *near = ls_nearest(text, kind_names, LS_KIND_COUNT);
    return LS_FAIL(LS_ERR_NOT_FOUND, "there is no collective named \"%.64s\"%s%s%s", text,
                   near != NULL ? "; did you mean \"" : "", near != NULL ? near : "",
                   near != NULL ? "\"?" : "");
}

double ls_collective_bus_factor(const ls_collective *collective, int size) {
    return collective->bus_times > 0 ? collective->bus_times * (size - 1) / size
                                     : ls_collective_has_data(collective);
}

const char *ls_call__where(char out[LS_CALL_WHERE_MAX], const ls_call *call) {
    if (call->file == NULL) {
        return "?";
    }
    size_t length = strlen(call->file), room = LS_CALL_WHERE_MAX - 16;
    (void)snprintf(out, LS_CALL_WHERE_MAX, "%s:%d",
                   call->file + (length > room ? length - room : 0), call->line);
    return out;
}
