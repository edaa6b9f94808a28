// The expected types of a result's arguments.
#include "runner/replay/import.h"

const char *ls_import_mistyped(const json_t *object, const ls_import_key *keys) {
    for (int k = 0; keys[k].name != NULL; k++) {
        const json_t *value = json_object_get(object, keys[k].name);
        unsigned is;
        if (json_is_integer(value)) {
            is = LS_IMPORT_INTEGER | LS_IMPORT_NUMBER;
        } else if (json_is_number(value)) {
            is = LS_IMPORT_NUMBER;
        } else if (json_is_boolean(value)) {
            is = LS_IMPORT_BOOLEAN;
        } else if (json_is_string(value)) {
            is = LS_IMPORT_TEXT;
        } else {
            is = json_is_null(value) ? LS_IMPORT_NULL : 0;
        }
        if (json_is_array(value) && json_array_size(value) == 2 &&
            json_is_number(json_array_get(value, 0)) && json_is_number(json_array_get(value, 1))) {
            is = LS_IMPORT_TWO_NUMBERS;
        }
        if (value != NULL && (is & keys[k].types) == 0) {
            return keys[k].name;
        }
    }
    return NULL;
}

int ls_import_skip_mistyped(ls_import *import, const json_t *object, const ls_import_key *keys) {
    const char *key = ls_import_mistyped(object, keys);
    if (key == NULL || import->skip != NULL) {
        return LS_OK;
    }
    import->skip = ls_arena_printf(import->arena, "%s has the wrong type", key);
    return import->skip != NULL ? LS_OK : LS_ERR_MEMORY;
}
