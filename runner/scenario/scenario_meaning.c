// Writes a scenario's meaning by a walk of the schema table over its structs.
#define _XOPEN_SOURCE 700
#include "runner/scenario/scenario_meaning.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "embedding/checkpoint.h"
#include "runner/scenario/schema.h"

#define PATH_BYTES             512
#define AT(type, base, offset) ((type *)(void *)((char *)(uintptr_t)(base) + (offset)))

// ---- Files --------------------------------------------------------------------------------------
// The length and a hash of a file's bytes.
static int write_file(ls_text *out, const char *path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat about;
    if (fd < 0 || fstat(fd, &about) != 0 || !S_ISREG(about.st_mode)) {
        int reason = fd < 0 ? errno : 0;
        if (fd >= 0) {
            (void)close(fd);
        }
        return LS_FAIL(LS_ERR_IO, "cannot read '%s': %s", path,
                       reason != 0 ? strerror(reason) : "it is not a regular file");
    }
    uint64_t hash = LS_HASH_START, total = 0;
    unsigned char block[65536];
    ssize_t got = 0;
    while ((got = read(fd, block, sizeof block)) > 0) {
        hash = ls_hash(hash, block, (size_t)got);
        total += (uint64_t)got;
    }
    int reason = errno;
    (void)close(fd);
    if (got < 0) {
        return LS_FAIL(ls_status_of_errno(reason), "cannot read '%s': %s", path, strerror(reason));
    }
    ls_text_printf(out, "a file of %" PRIu64 " bytes with hash %016" PRIx64, total, hash);
    return LS_OK;
}

static int write_part(void *arg, const char *path) {
    ls_text *out = arg;
    ls_text_printf(out, "%s: ", strrchr(path, '/') + 1);
    LS_TRY(write_file(out, path));
    ls_text_puts(out, "; ");
    return LS_OK;
}

// ---- Values -------------------------------------------------------------------------------------
static void write_string(ls_text *out, const char *text) {
    ls_text_printf(out, text != NULL ? "\"%s\"" : "none", text);
}

static void write_ints(ls_text *out, const ls_int_list *list) {
    ls_text_puts(out, "[");
    for (int i = 0; i < list->count; i++) {
        ls_text_printf(out, "%s%" PRId64, i > 0 ? ", " : "", list->at[i]);
    }
    ls_text_puts(out, "]");
}

static void write_lists(ls_text *out, const void *base, const ls_schema_field *field) {
    const ls_string_list *words = AT(const ls_string_list, base, field->offset);
    if (field->type == LS_FIELD_STRINGS && field->names != NULL && words->count == 1) {
        ls_text_puts(out, words->at[0]);  // one of some names is a word
        return;
    }
    ls_text_puts(out, "[");
    if (field->type == LS_FIELD_INT_ROWS) {
        const ls_int_rows *rows = AT(const ls_int_rows, base, field->offset);
        for (int i = 0; i < rows->count; i++) {
            write_ints(out, &rows->at[i]);
        }
    } else if (field->type == LS_FIELD_REALS) {
        const ls_real_list *list = AT(const ls_real_list, base, field->offset);
        for (int i = 0; i < list->count; i++) {
            ls_text_printf(out, "%s%.17g", i > 0 ? ", " : "", list->at[i]);
        }
    } else if (field->type == LS_FIELD_STRINGS) {
        const ls_string_list *list = AT(const ls_string_list, base, field->offset);
        for (int i = 0; i < list->count; i++) {
            ls_text_puts(out, i > 0 ? ", " : "");
            write_string(out, list->at[i]);
        }
    } else {
        LS_ASSERT(field->type == LS_FIELD_TABLES_STEPS);
        const ls_tables_step *steps = *AT(const ls_tables_step *, base, field->offset);
        for (int i = 0; i < *AT(const int, base, field->aux); i++) {
            ls_text_printf(out, "%s%s", i > 0 ? ", " : "", field->names->at[steps[i]].text);
        }
    }
    ls_text_puts(out, "]");
}

static void write_values(ls_text *out, const ls_generator *generator, bool integers) {
    write_ints(out, &generator->row_counts);
    for (int64_t i = 0; i < generator->value_count; i++) {
        if (integers) {
            ls_text_printf(out, " %" PRId64, generator->ints[i]);
        } else {
            ls_text_printf(out, " %.17g", generator->reals[i]);
        }
    }
}

static void write_mesh(ls_text *out, const ls_mesh *mesh, bool names) {
    for (int i = 0; i < mesh->ndim; i++) {
        ls_text_puts(out, i > 0 ? " x " : "");
        if (names) {
            ls_text_printf(out, "\"%s\"", mesh->name[i]);
        } else {
            ls_text_printf(out, "%d", mesh->dim[i]);
        }
    }
}

static void write_enum(ls_text *out, const void *base, const ls_schema_field *field) {
    int value = *AT(const int, base, field->offset);
    bool given = (field->flags & LS_FIELD_HIDDEN_BOOL) == 0 || *AT(const bool, base, field->aux);
    for (int i = 0; given && i < field->names->count; i++) {
        if (field->names->at[i].value == value) {
            ls_text_puts(out, field->names->at[i].text);
            return;
        }
    }
    ls_text_puts(out, "none");
}

static void write_shape(ls_text *out, const void *base, const ls_schema_field *field) {
    char text[256];
    if (field->type == LS_FIELD_SHAPE) {
        ls_shape_format(text, sizeof text, AT(const ls_shape, base, field->offset));
    } else {
        ls_placements_format(text, sizeof text, AT(const ls_placements, base, field->offset));
    }
    ls_text_puts(out, text);
}

static bool is_preset(const ls_schema_field *field, const char *text) {
    for (int i = 0; field->names != NULL && i < field->names->count; i++) {
        if (strcmp(field->names->at[i].text, text) == 0) {
            return true;
        }
    }
    return false;
}

static int write_path(ls_text *out, const ls_schema_field *field, const char *path) {
    if (path == NULL || is_preset(field, path)) {
        write_string(out, path);
        return LS_OK;
    }
    if (field->flags & LS_FIELD_CHECKPOINT) {
        return ls_checkpoint_each_file(path, write_part, out);
    }
    return write_file(out, path);
}

static int write_value(ls_text *out, const void *base, const ls_schema_field *field) {
    switch (field->type) {
    case LS_FIELD_INT:
        ls_text_printf(out, "%" PRId64, *AT(const int64_t, base, field->offset));
        break;
    case LS_FIELD_INT32:
        ls_text_printf(out, "%d", *AT(const int, base, field->offset));
        break;
    case LS_FIELD_UINT64:
        ls_text_printf(out, "%" PRIu64, *AT(const uint64_t, base, field->offset));
        break;
    case LS_FIELD_REAL:
        ls_text_printf(out, "%.17g", *AT(const double, base, field->offset));
        break;
    case LS_FIELD_BOOL:
        ls_text_puts(out, *AT(const bool, base, field->offset) ? "true" : "false");
        break;
    case LS_FIELD_STRING:
        write_string(out, *AT(const char *const, base, field->offset));
        break;
    case LS_FIELD_PATH:
        return write_path(out, field, *AT(const char *const, base, field->offset));
    case LS_FIELD_ENUM:
    case LS_FIELD_CLASS:
        write_enum(out, base, field);
        break;
    case LS_FIELD_FLAG:
        break;  // the alternative's key implies it
    case LS_FIELD_RANGE:
        if (((const ls_generator *)base)->has_range) {
            ls_text_printf(out, "%.17g to %.17g", *AT(const double, base, field->offset),
                           *AT(const double, base, field->aux));
        }
        break;
    case LS_FIELD_INTS:
        write_ints(out, AT(const ls_int_list, base, field->offset));
        break;
    case LS_FIELD_VALUES:
        write_values(out, base, (field->flags & LS_FIELD_INTEGERS) != 0);
        break;
    case LS_FIELD_MESH_SHAPE:
    case LS_FIELD_MESH_NAMES:
        write_mesh(out, base, field->type == LS_FIELD_MESH_NAMES);
        break;
    case LS_FIELD_SHAPE:
    case LS_FIELD_PLACEMENTS:
        write_shape(out, base, field);
        break;
    default:
        write_lists(out, base, field);
        break;
    }
    return LS_OK;
}

// ---- Records ------------------------------------------------------------------------------------
// The text under construction, and the current key.
typedef struct meaning {
    ls_text *out;
    ls_text at;
} meaning;

static void leave(meaning *m, size_t length) {
    if (m->at.length > length) {
        m->at.data[length] = 0;
        m->at.length = length;
    }
}

static int write_record(meaning *m, const void *base, const ls_schema_record *record);

static int write_records(meaning *m, const void *base, const ls_schema_field *field) {
    const char *list = *AT(const char *const, base, field->offset);
    int count = *AT(const int, base, field->aux);
    ls_text_printf(m->out, "%s: %d\n", ls_text_string(&m->at), count);
    size_t length = m->at.length;
    for (int i = 0; i < count; i++) {
        const void *entry = list + (size_t)i * field->record->size;
        if (field->type == LS_FIELD_RECORD_MAP) {
            ls_text_printf(&m->at, ".%s",
                           *AT(const char *const, entry, field->record->name_offset));
        } else {
            ls_text_printf(&m->at, "[%d]", i);
        }
        LS_TRY(write_record(m, entry, field->record));
        leave(m, length);
    }
    return LS_OK;
}

static int write_field(meaning *m, const void *base, const ls_schema_record *record,
                       const ls_schema_field *field) {
    size_t length = m->at.length;
    bool same_place = field->type == LS_FIELD_INLINE && !record->one_of;  // the keys are its own
    if (!same_place) {
        ls_text_printf(&m->at, "%s%s", length > 0 ? "." : "", field->key);
    }
    const char *at = ls_text_string(&m->at);
    switch (field->type) {
    case LS_FIELD_RECORD:
        LS_TRY(write_record(m, (const char *)base + field->offset, field->record));
        break;
    case LS_FIELD_INLINE:
        if (!same_place) {
            ls_text_printf(m->out, "%s\n", at);
        }
        LS_TRY(write_record(m, base, field->record));
        break;
    case LS_FIELD_RECORDS:
    case LS_FIELD_RECORD_MAP:
        LS_TRY(write_records(m, base, field));
        break;
    default:
        ls_text_printf(m->out, "%s: ", at);
        LS_TRY(write_value(m->out, base, field));
        ls_text_puts(m->out, "\n");
        break;
    }
    leave(m, length);
    return LS_OK;
}

// Whether a field affects the run: the chosen alternative, and for exceptions only given keys (they
// have no defaults).
static bool counts(const ls_schema_record *record, const void *base, const ls_schema_field *field) {
    if (record->one_of && (field->flags & LS_FIELD_COMPANION) == 0) {
        return *AT(const int, base, record->tag_offset) == field->tag;
    }
    return (field->flags & LS_FIELD_JUDGES) == 0 &&
           (!record->partial || ls_node_has(base, field->key));
}

static int write_record(meaning *m, const void *base, const ls_schema_record *record) {
    for (int i = 0; i < record->field_count; i++) {
        if (counts(record, base, &record->fields[i])) {
            LS_TRY(write_field(m, base, record, &record->fields[i]));
        }
    }
    return LS_OK;
}

int ls_scenario_meaning(ls_text *out, const ls_scenario *scenario) {
    meaning m = {.out = out};
    int status = write_record(&m, scenario, ls_schema_root());
    if (status == LS_OK && (out->failed || m.at.failed)) {
        status = LS_FAIL(LS_ERR_MEMORY, "no memory for what the scenario means");
    }
    ls_text_free(&m.at);
    return status;
}
