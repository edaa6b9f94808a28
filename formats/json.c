// The streaming JSON writer.
#include "formats/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ls_json_begin(ls_json *json, ls_text *out, int indent) {
    *json = (ls_json){.out = out, .indent = indent};
}

static void new_line(ls_json *json) {
    if (json->indent > 0) {
        ls_text_puts(json->out, "\n");
        ls_text_repeat(json->out, ' ', (size_t)(json->indent * json->depth));
    }
}

// Writes the comma and the line break that come before a value or a key.
static void before_item(ls_json *json) {
    if (json->depth == 0) {
        return;
    }
    int level = json->depth - 1;
    if (json->has_member[level]) {
        ls_text_puts(json->out, json->indent > 0 ? "," : ", ");
    }
    json->has_member[level] = true;
    new_line(json);
}

static void before_value(ls_json *json) {
    if (json->key_pending) {
        json->key_pending = false;
        return;
    }
    LS_ASSERT(json->depth == 0 || json->kind[json->depth - 1] == '[');
    before_item(json);
}

static void open_level(ls_json *json, char kind) {
    before_value(json);
    LS_ASSERT(json->depth < LS_JSON_DEPTH_MAX);
    ls_text_append(json->out, &kind, 1);
    json->kind[json->depth] = kind;
    json->has_member[json->depth] = false;
    json->depth += 1;
}

static void close_level(ls_json *json, char kind) {
    LS_ASSERT(json->depth > 0 && json->kind[json->depth - 1] == kind && !json->key_pending);
    json->depth -= 1;
    if (json->has_member[json->depth]) {
        new_line(json);
    }
    ls_text_puts(json->out, kind == '{' ? "}" : "]");
}

void ls_json_object_open(ls_json *json) {
    open_level(json, '{');
}

void ls_json_object_close(ls_json *json) {
    close_level(json, '{');
}

void ls_json_array_open(ls_json *json) {
    open_level(json, '[');
}

void ls_json_array_close(ls_json *json) {
    close_level(json, '[');
}

static void quote(ls_text *out, const char *value) {
    ls_text_puts(out, "\"");
    const unsigned char *s = (const unsigned char *)value;
    while (*s != 0) {
        if (*s == '"' || *s == '\\') {
            ls_text_printf(out, "\\%c", *s);
            s += 1;
        } else if (*s == '\n') {
            ls_text_puts(out, "\\n");
            s += 1;
        } else if (*s == '\t') {
            ls_text_puts(out, "\\t");
            s += 1;
        } else if (*s < 0x20 || *s == 0x7F) {
            ls_text_printf(out, "\\u%04x", *s);
            s += 1;
        } else {
            size_t length = ls_text_utf8_length(s, 4);
            if (length == 0) {
                ls_text_puts(out, "\\ufffd");
                s += 1;
            } else {
                ls_text_append(out, (const char *)s, length);
                s += length;
            }
        }
    }
    ls_text_puts(out, "\"");
}

void ls_json_key(ls_json *json, const char *key) {
    LS_ASSERT(json->depth > 0 && json->kind[json->depth - 1] == '{' && !json->key_pending);
    before_item(json);
    quote(json->out, key);
    ls_text_puts(json->out, ": ");
    json->key_pending = true;
}

void ls_json_string(ls_json *json, const char *value) {
    if (value == NULL) {
        ls_json_null(json);
        return;
    }
    before_value(json);
    quote(json->out, value);
}

void ls_json_int(ls_json *json, int64_t value) {
    before_value(json);
    ls_text_printf(json->out, "%" PRId64, value);
}

void ls_json_uint(ls_json *json, uint64_t value) {
    before_value(json);
    ls_text_printf(json->out, "%" PRIu64, value);
}

void ls_json_double(ls_json *json, double value) {
    if (isnan(value)) {
        ls_json_string(json, "NaN");
        return;
    }
    if (isinf(value)) {
        ls_json_string(json, value > 0 ? "Infinity" : "-Infinity");
        return;
    }
    before_value(json);
    char text[40];
    for (int digits = 15; digits <= 17; digits++) {
        (void)snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value) {
            break;
        }
    }
    ls_text_puts(json->out, text);
}

void ls_json_bool(ls_json *json, bool value) {
    before_value(json);
    ls_text_puts(json->out, value ? "true" : "false");
}

void ls_json_null(ls_json *json) {
    before_value(json);
    ls_text_puts(json->out, "null");
}

void ls_json_member_string(ls_json *json, const char *key, const char *value) {
    ls_json_key(json, key);
    ls_json_string(json, value);
}

void ls_json_member_given(ls_json *json, const char *key, const char *value) {
    if (value != NULL) {
        ls_json_member_string(json, key, value);
    }
}

void ls_json_member_int(ls_json *json, const char *key, int64_t value) {
    ls_json_key(json, key);
    ls_json_int(json, value);
}

void ls_json_member_uint(ls_json *json, const char *key, uint64_t value) {
    ls_json_key(json, key);
    ls_json_uint(json, value);
}

void ls_json_member_double(ls_json *json, const char *key, double value) {
    ls_json_key(json, key);
    ls_json_double(json, value);
}

void ls_json_member_bool(ls_json *json, const char *key, bool value) {
    ls_json_key(json, key);
    ls_json_bool(json, value);
}

void ls_json_member_object(ls_json *json, const char *key) {
    ls_json_key(json, key);
    ls_json_object_open(json);
}

void ls_json_member_array(ls_json *json, const char *key) {
    ls_json_key(json, key);
    ls_json_array_open(json);
}

void ls_json_report_begin(ls_json *json, ls_text *out, int indent, const char *command) {
    ls_json_begin(json, out, indent);
    ls_json_object_open(json);
    ls_json_member_int(json, "format", 1);
    ls_json_member_string(json, "command", command);
}

void ls_json_report_end(ls_json *json) {
    ls_json_object_close(json);
    ls_text_puts(json->out, "\n");
}
