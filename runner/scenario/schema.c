// Texts from the schema table: the expectations in error messages and the text of --explain-schema.
// schema_json.c has the JSON schema.
#include "runner/scenario/schema.h"

#include <string.h>

#define LINE_WIDTH 100

// Words of `text`, wrapped at LINE_WIDTH and indented.
static void wrapped(ls_text *out, const char *text, size_t indent) {
    size_t column = indent;
    ls_text_repeat(out, ' ', indent);
    while (*text != 0) {
        size_t word = strcspn(text, " ");
        if (column > indent && column + 1 + word > LINE_WIDTH) {
            ls_text_puts(out, "\n");
            ls_text_repeat(out, ' ', indent);
            column = indent;
        }
        if (column > indent) {
            ls_text_puts(out, " ");
            column++;
        }
        ls_text_append(out, text, word);
        column += word;
        text += word;
        text += strspn(text, " ");
    }
    ls_text_puts(out, "\n");
}

static void explain_field(ls_text *out, const ls_schema_record *record,
                          const ls_schema_field *field) {
    ls_text line = {0};
    bool required = (field->flags & LS_FIELD_REQUIRED) != 0;
    ls_schema_describe(&line, field);
    if ((field->flags & LS_FIELD_BARE) != 0) {
        ls_text_printf(&line, ", or just the word %s", field->key);
    }
    if (required) {
        ls_text_puts(&line, "; required");
    } else if (!record->one_of || (field->flags & LS_FIELD_COMPANION) != 0) {
        const char *standard = field->otherwise != NULL ? field->otherwise : field->fallback;
        ls_text_printf(&line, "; default: %s", standard == NULL ? "none" : standard);
    }
    ls_text_printf(out, "  %s\n", field->key);
    wrapped(out, field->doc, 6);
    wrapped(out, ls_text_string(&line), 6);
    ls_text_printf(out, "      example: %s\n", field->example);
    out->failed = out->failed || line.failed;
    ls_text_free(&line);
}

// The records reachable from the root, each once, in reading order.
static int collect(const ls_schema_record **list, int count, const ls_schema_record *record) {
    for (int i = 0; i < count; i++) {
        if (list[i] == record) {
            return count;
        }
    }
    LS_ASSERT(count < LS_SCHEMA_RECORDS_MAX);
    list[count++] = record;
    for (int i = 0; i < record->field_count; i++) {
        if (record->fields[i].record != NULL) {
            count = collect(list, count, record->fields[i].record);
        }
    }
    return count;
}

int ls_schema_records(const ls_schema_record **out) {
    return collect(out, 0, ls_schema_root());
}

void ls_schema_explain(ls_text *out) {
    const ls_schema_record *list[LS_SCHEMA_RECORDS_MAX];
    int count = ls_schema_records(list);
    ls_text_puts(out, "A scenario is a YAML file. Its first key is lockstep: 1; it holds either "
                      "tables (with inputs)\nor a program. Every mapping, with its keys:\n");
    for (int i = 0; i < count; i++) {
        ls_text_printf(out, "\n%s\n", list[i]->name);
        wrapped(out, list[i]->doc, 2);
        if (list[i]->one_of) {
            ls_text_puts(out, "  Exactly one of these keys:\n");
        }
        for (int j = 0; j < list[i]->field_count; j++) {
            explain_field(out, list[i], &list[i]->fields[j]);
        }
    }
}
