// A field of the schema: finding it by its key, and describing it.
#include "runner/scenario/schema.h"

#include <inttypes.h>
#include <string.h>

int ls_schema_find(const ls_schema_record *record, const char *key) {
    for (int i = 0; i < record->field_count; i++) {
        if (strcmp(record->fields[i].key, key) == 0) {
            return i;
        }
    }
    return -1;
}

static void names(ls_text *out, const ls_schema_names *list) {
    for (int i = 0; i < list->count; i++) {
        ls_text_printf(out, "%s%s", i == 0 ? "" : ", ", list->at[i].text);
    }
}

// " from 1 to 10", without ends that are no limit.
static void range(ls_text *out, const ls_schema_field *field) {
    bool low = field->min > -(INT64_C(1) << 53);
    if ((field->flags & LS_FIELD_POSITIVE) != 0) {
        ls_text_printf(out, " above %" PRId64 ", at most %" PRId64, field->min, field->max);
        return;
    }
    bool high = field->max < INT64_C(1) << 53;
    if (low) {
        ls_text_printf(out, " from %" PRId64, field->min);
    }
    if (high) {
        ls_text_printf(out, "%s %" PRId64, low ? " to" : " up to", field->max);
    }
}

void ls_schema_describe(ls_text *out, const ls_schema_field *field) {
    bool integers = (field->flags & LS_FIELD_INTEGERS) != 0;
    const char *single = (field->flags & LS_FIELD_SINGLE) != 0 ? ", or just one" : "";
    switch (field->type) {
    case LS_FIELD_INT:
    case LS_FIELD_INT32:
        if (field->min == field->max) {
            ls_text_printf(out, "the integer %" PRId64, field->min);
            return;
        }
        ls_text_puts(out, "an integer");
        range(out, field);
        return;
    case LS_FIELD_UINT64:
        ls_text_puts(out, "an integer from 0 to 18446744073709551615");
        return;
    case LS_FIELD_REAL:
        ls_text_puts(out, integers ? "an integer" : "a number");
        range(out, field);
        return;
    case LS_FIELD_BOOL:
        ls_text_puts(out, "true or false");
        return;
    case LS_FIELD_STRING:
        if (field->names != NULL) {
            ls_text_puts(out, "one of ");
            names(out, field->names);
            return;
        }
        ls_text_puts(out, "a text");
        return;
    case LS_FIELD_PATH:
        if (field->names != NULL) {
            ls_text_puts(out, "one of ");
            names(out, field->names);
            ls_text_puts(out, ", or ");
        }
        ls_text_puts(out, field->flags & LS_FIELD_CHECKPOINT
                              ? "the path of a checkpoint in the scenario's folder"
                              : "the path of a file in the scenario's folder");
        return;
    case LS_FIELD_ORDER:
        ls_text_puts(out, "rank, ring, tree, symmetric (each with keys, as in ring:proto=ll) or "
                          "measured:FILE, with a file of the scenario's folder");
        return;
    case LS_FIELD_ENUM:
    case LS_FIELD_CLASS:
        ls_text_puts(out, field->names->count > 1 ? "one of " : "");
        names(out, field->names);
        return;
    case LS_FIELD_FLAG:
        ls_text_puts(out, "true");
        return;
    case LS_FIELD_RANGE:
        ls_text_printf(out, "a list of two ascending %s", integers ? "integers" : "numbers");
        range(out, field);
        return;
    case LS_FIELD_INTS:
    case LS_FIELD_SHAPE:
    case LS_FIELD_MESH_SHAPE:
        ls_text_puts(out, "a list of integers");
        range(out, field);
        ls_text_puts(out, single);
        return;
    case LS_FIELD_INT_ROWS:
        ls_text_puts(out, "a list of lists of integers");
        range(out, field);
        return;
    case LS_FIELD_REALS:
        ls_text_puts(out, "a list of numbers");
        return;
    case LS_FIELD_STRINGS:
        if (field->names != NULL) {
            ls_text_puts(out, "one of ");
            names(out, field->names);
            ls_text_puts(out, ", or a list of them");
            return;
        }
        ls_text_printf(out, "a list of texts%s", single);
        return;
    case LS_FIELD_MESH_NAMES:
        ls_text_printf(out, "a list of texts%s", single);
        return;
    case LS_FIELD_VALUES:
        ls_text_printf(out, "a list of %s, or a list of such lists",
                       integers ? "integers" : "numbers");
        range(out, field);
        return;
    case LS_FIELD_PLACEMENTS:
        ls_text_puts(out, "S(dim), R or P(op) for each mesh dimension, with commas between");
        return;
    case LS_FIELD_TABLES_STEPS:
        ls_text_puts(out, "a list of ");
        names(out, field->names);
        return;
    case LS_FIELD_RECORD:
    case LS_FIELD_INLINE:
        ls_text_printf(out, "a mapping (%s)", field->record->name);
        return;
    case LS_FIELD_RECORDS:
        ls_text_printf(out, "a list of mappings (%s)%s", field->record->name, single);
        return;
    case LS_FIELD_RECORD_MAP:
        ls_text_printf(out, "a mapping of names to mappings (%s)", field->record->name);
        return;
    }
}
