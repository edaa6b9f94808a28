// A streaming JSON writer. Numbers print so that they read back to the same value; NaN and
// infinities, which JSON lacks, are written as the strings "NaN", "Infinity", "-Infinity".
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"

#define LS_JSON_DEPTH_MAX 64

// Writes into `out`. Begin with ls_json_begin; the nesting is asserted.
typedef struct ls_json {
    ls_text *out;
    int depth;
    int indent;                          // spaces per level; 0: all on one line
    char kind[LS_JSON_DEPTH_MAX];        // '{' or '[' per level
    bool has_member[LS_JSON_DEPTH_MAX];  //
    bool key_pending;                    // a key was written, its value is due
} ls_json;

void ls_json_begin(ls_json *json, ls_text *out, int indent);
// The JSON of a command's --json: an object that names its format and the command, and ends with a
// line break.
void ls_json_report_begin(ls_json *json, ls_text *out, int indent, const char *command);
void ls_json_report_end(ls_json *json);
void ls_json_object_open(ls_json *json);
void ls_json_object_close(ls_json *json);
void ls_json_array_open(ls_json *json);
void ls_json_array_close(ls_json *json);
void ls_json_key(ls_json *json, const char *key);
void ls_json_string(ls_json *json, const char *value);  // NULL writes null; bytes that are
                                                        // not UTF-8 become U+FFFD
void ls_json_int(ls_json *json, int64_t value);
void ls_json_uint(ls_json *json, uint64_t value);
void ls_json_double(ls_json *json, double value);
void ls_json_bool(ls_json *json, bool value);
void ls_json_null(ls_json *json);

// key and value in one call
void ls_json_member_string(ls_json *json, const char *key, const char *value);
void ls_json_member_given(ls_json *json, const char *key, const char *value);  // NULL: no member
void ls_json_member_int(ls_json *json, const char *key, int64_t value);
void ls_json_member_uint(ls_json *json, const char *key, uint64_t value);
void ls_json_member_double(ls_json *json, const char *key, double value);
void ls_json_member_bool(ls_json *json, const char *key, bool value);
// The same of an object or an array, which is opened.
void ls_json_member_object(ls_json *json, const char *key);
void ls_json_member_array(ls_json *json, const char *key);
