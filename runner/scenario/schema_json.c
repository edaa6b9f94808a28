// The schema table as a JSON schema, so that editors complete and check scenario files.
#include "runner/scenario/schema.h"

#include "formats/json.h"

static void limits(ls_json *json, const ls_schema_field *field) {
    if (field->min > -(INT64_C(1) << 53)) {
        bool above = (field->flags & LS_FIELD_POSITIVE) != 0;
        ls_json_member_int(json, above ? "exclusiveMinimum" : "minimum", field->min);
    }
    if (field->max < INT64_C(1) << 53) {
        ls_json_member_int(json, "maximum", field->max);
    }
}

static void number(ls_json *json, const ls_schema_field *field, bool integer) {
    ls_json_object_open(json);
    ls_json_member_string(json, "type", integer ? "integer" : "number");
    limits(json, field);
    ls_json_object_close(json);
}

static void open_list(ls_json *json) {
    ls_json_object_open(json);
    ls_json_member_string(json, "type", "array");
    ls_json_key(json, "items");
}

static void list_of_numbers(ls_json *json, const ls_schema_field *field, bool integer) {
    open_list(json);
    number(json, field, integer);
    ls_json_object_close(json);
}

static void names(ls_json *json, const ls_schema_names *list) {
    ls_json_object_open(json);
    ls_json_member_array(json, "enum");
    for (int i = 0; i < list->count; i++) {
        ls_json_string(json, list->at[i].text);
    }
    ls_json_array_close(json);
    ls_json_object_close(json);
}

static void simple(ls_json *json, const char *type) {
    ls_json_object_open(json);
    ls_json_member_string(json, "type", type);
    ls_json_object_close(json);
}

static void reference(ls_json *json, const ls_schema_record *record) {
    ls_json_object_open(json);
    ls_text path = {0};
    ls_text_printf(&path, "#/$defs/%s", record->name);
    ls_json_member_string(json, "$ref", ls_text_string(&path));
    ls_text_free(&path);
    ls_json_object_close(json);
}

// The JSON schema of one value of a list type.
static void element(ls_json *json, const ls_schema_field *field) {
    switch (field->type) {
    case LS_FIELD_STRINGS:
    case LS_FIELD_MESH_NAMES:
        if (field->names != NULL) {
            names(json, field->names);
        } else {
            simple(json, "string");
        }
        return;
    case LS_FIELD_RECORDS:
        reference(json, field->record);
        return;
    default:
        number(json, field, true);
        return;
    }
}

static void some(ls_json *json, const ls_schema_field *field) {
    if ((field->flags & LS_FIELD_SOME) != 0) {
        ls_json_member_int(json, "minItems", 1);
    }
}

static void list(ls_json *json, const ls_schema_field *field) {
    if ((field->flags & LS_FIELD_SINGLE) != 0) {
        ls_json_object_open(json);
        ls_json_member_array(json, "anyOf");
        element(json, field);
    }
    open_list(json);
    element(json, field);
    some(json, field);
    ls_json_object_close(json);
    if ((field->flags & LS_FIELD_SINGLE) != 0) {
        ls_json_array_close(json);
        ls_json_object_close(json);
    }
}

static void rows(ls_json *json, const ls_schema_field *field, bool integer, bool flat_too) {
    if (flat_too) {
        ls_json_object_open(json);
        ls_json_member_array(json, "anyOf");
        list_of_numbers(json, field, integer);
    }
    open_list(json);
    list_of_numbers(json, field, integer);
    ls_json_object_close(json);
    if (flat_too) {
        ls_json_array_close(json);
        ls_json_object_close(json);
    }
}

static void pair(ls_json *json, const ls_schema_field *field, bool integer) {
    ls_json_object_open(json);
    ls_json_member_string(json, "type", "array");
    ls_json_key(json, "items");
    number(json, field, integer);
    ls_json_member_int(json, "minItems", 2);
    ls_json_member_int(json, "maxItems", 2);
    ls_json_object_close(json);
}

static void map(ls_json *json, const ls_schema_field *field) {
    ls_json_object_open(json);
    ls_json_member_string(json, "type", "object");
    ls_json_key(json, "additionalProperties");
    reference(json, field->record);
    ls_json_object_close(json);
}

static void value(ls_json *json, const ls_schema_field *field) {
    bool integers = (field->flags & LS_FIELD_INTEGERS) != 0;
    switch (field->type) {
    case LS_FIELD_INT:
    case LS_FIELD_INT32:
        number(json, field, true);
        return;
    case LS_FIELD_UINT64:
        ls_json_object_open(json);
        ls_json_member_string(json, "type", "integer");
        ls_json_member_int(json, "minimum", 0);
        ls_json_object_close(json);
        return;
    case LS_FIELD_REAL:
        number(json, field, integers);
        return;
    case LS_FIELD_BOOL:
    case LS_FIELD_FLAG:
        simple(json, "boolean");
        return;
    case LS_FIELD_STRING:
        if (field->names != NULL) {
            names(json, field->names);
            return;
        }
        ls_json_object_open(json);
        ls_json_member_array(json, "type");
        ls_json_string(json, "string");
        ls_json_string(json, "number");
        ls_json_array_close(json);
        ls_json_object_close(json);
        return;
    case LS_FIELD_PATH:
    case LS_FIELD_ORDER:
    case LS_FIELD_PLACEMENTS:
        simple(json, "string");
        return;
    case LS_FIELD_ENUM:
    case LS_FIELD_CLASS:
        names(json, field->names);
        return;
    case LS_FIELD_RANGE:
        pair(json, field, integers);
        return;
    case LS_FIELD_INT_ROWS:
        rows(json, field, true, false);
        return;
    case LS_FIELD_VALUES:
        rows(json, field, integers, true);
        return;
    case LS_FIELD_REALS:
        list_of_numbers(json, field, false);
        return;
    case LS_FIELD_TABLES_STEPS:
        open_list(json);
        names(json, field->names);
        some(json, field);
        ls_json_object_close(json);
        return;
    case LS_FIELD_INTS:
    case LS_FIELD_SHAPE:
    case LS_FIELD_MESH_SHAPE:
    case LS_FIELD_STRINGS:
    case LS_FIELD_MESH_NAMES:
    case LS_FIELD_RECORDS:
        list(json, field);
        return;
    case LS_FIELD_RECORD:
    case LS_FIELD_INLINE:
        reference(json, field->record);
        return;
    case LS_FIELD_RECORD_MAP:
        map(json, field);
        return;
    }
}

static void property(ls_json *json, const ls_schema_field *field) {
    ls_json_member_object(json, field->key);
    ls_json_member_string(json, "description", field->doc);
    const char *standard = field->otherwise != NULL ? field->otherwise : field->fallback;
    if (standard != NULL) {
        ls_text comment = {0};
        ls_text_printf(&comment, "default: %s", standard);
        ls_json_member_string(json, "$comment", ls_text_string(&comment));
        ls_text_free(&comment);
    }
    ls_json_member_array(json, "allOf");
    value(json, field);
    ls_json_array_close(json);
    ls_json_object_close(json);
}

static void object(ls_json *json, const ls_schema_record *record) {
    ls_json_member_string(json, "type", "object");
    ls_json_member_object(json, "properties");
    int companions = 0;
    for (int i = 0; i < record->field_count; i++) {
        property(json, &record->fields[i]);
        companions += (record->fields[i].flags & LS_FIELD_COMPANION) != 0;
    }
    ls_json_object_close(json);
    ls_json_member_bool(json, "additionalProperties", false);
    if (record->one_of) {
        ls_json_member_int(json, "minProperties", 1);
        ls_json_member_int(json, "maxProperties", 1 + companions);
        return;
    }
    ls_json_member_array(json, "required");
    for (int i = 0; i < record->field_count; i++) {
        if ((record->fields[i].flags & LS_FIELD_REQUIRED) != 0) {
            ls_json_string(json, record->fields[i].key);
        }
    }
    ls_json_array_close(json);
}

static void definition(ls_json *json, const ls_schema_record *record) {
    ls_json_object_open(json);
    ls_json_member_string(json, "description", record->doc);
    bool bare = false;
    for (int i = 0; i < record->field_count; i++) {
        bare = bare || (record->fields[i].flags & LS_FIELD_BARE) != 0;
    }
    if (!bare) {
        object(json, record);
        ls_json_object_close(json);
        return;
    }
    ls_json_member_array(json, "anyOf");
    ls_json_object_open(json);
    ls_json_member_array(json, "enum");
    for (int i = 0; i < record->field_count; i++) {
        if ((record->fields[i].flags & LS_FIELD_BARE) != 0) {
            ls_json_string(json, record->fields[i].key);
        }
    }
    ls_json_array_close(json);
    ls_json_object_close(json);
    ls_json_object_open(json);
    object(json, record);
    ls_json_object_close(json);
    ls_json_array_close(json);
    ls_json_object_close(json);
}

void ls_schema_json(ls_text *out) {
    const ls_schema_record *records[LS_SCHEMA_RECORDS_MAX];
    int count = ls_schema_records(records);
    ls_json json;
    ls_json_begin(&json, out, 2);
    ls_json_object_open(&json);
    ls_json_member_string(&json, "$schema", "https://json-schema.org/draft/2020-12/schema");
    ls_json_member_string(&json, "title", "lockstep scenario");
    object(&json, ls_schema_root());
    ls_json_member_object(&json, "$defs");
    for (int i = 1; i < count; i++) {
        ls_json_key(&json, records[i]->name);
        definition(&json, records[i]);
    }
    ls_json_object_close(&json);
    ls_json_object_close(&json);
    ls_text_puts(out, "\n");
}
