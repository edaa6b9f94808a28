// Reports of launched processes in files of the watched directory: a finding, an error, or too few
// GPUs. Their output may be lost when they are ended.
#define _XOPEN_SOURCE 700
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runner/launch/launch.h"
#include "runner/launch/launch_internal.h"

bool ls_launch__mark(char *out, const char *dir, int rank, const char *suffix) {
    int length = snprintf(out, LS_LAUNCH_PATH_BYTES, "%s/rank_%d.%s", dir, rank, suffix);
    return length > 0 && length < LS_LAUNCH_PATH_BYTES;
}

int ls_launch__tell(const char *dir, int rank, const char *suffix, ls_text *text) {
    char path[LS_LAUNCH_PATH_BYTES], temporary[LS_LAUNCH_PATH_BYTES + 8];
    int status = ls_launch__mark(path, dir, rank, suffix)
                     ? LS_OK
                     : LS_FAIL(LS_ERR_IO, "the path of directory \"%s\" is too long", dir);
    if (status == LS_OK) {
        (void)snprintf(temporary, sizeof temporary, "%s.part", path);
        FILE *file = fopen(temporary, "w");
        bool written = file != NULL && fputs(ls_text_string(text), file) >= 0;
        written = file != NULL && fclose(file) == 0 && written;
        if (!written || rename(temporary, path) != 0) {
            status = LS_FAIL_RANK(ls_status_of_errno(errno), rank, "cannot write \"%s\": %s", path,
                                  strerror(errno));
        }
    }
    ls_text_free(text);
    return status;
}

// ---- Findings of launched processes -------------------------------------------------------------
// rank_R.finding: the finding's name, its ranks, its place, then the text.
void ls_launch_tell_finding(const char *watch_dir, int rank, const ls_finding *finding) {
    ls_text text = {0};
    ls_text_printf(&text, "%s\n", ls_finding_name(finding->id));
    for (int i = 0; i < finding->rank_count; i++) {
        ls_text_printf(&text, "%d ", finding->ranks[i]);
    }
    ls_text_printf(&text, "\n%s\n%s\n", finding->where, finding->text);
    (void)ls_launch__tell(watch_dir, rank, "finding", &text);
}

// Ranks in [0, rank_count); otherwise the file is not from this run.
static bool parse_finding(ls_finding *out, FILE *file, int rank_count, ls_arena *arena) {
    char name[128], ranks[512], where[LS_LAUNCH_PATH_BYTES], text[LS_ERROR_TEXT_MAX + 1] = "";
    if (fgets(name, sizeof name, file) == NULL || fgets(ranks, sizeof ranks, file) == NULL ||
        fgets(where, sizeof where, file) == NULL) {
        return false;
    }
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    name[strcspn(name, "\n")] = 0;
    where[strcspn(where, "\n")] = 0;
    size_t length = strlen(text);
    text[length > 0 && text[length - 1] == '\n' ? length - 1 : length] = 0;
    int *list = ls_arena_alloc(arena, LS_CHECK_RANKS_MAX, sizeof *list);
    *out = (ls_finding){.ranks = list,
                        .where = ls_arena_strdup(arena, where),
                        .text = ls_arena_strdup(arena, text)};
    char *at = ranks, *end = NULL;
    for (long rank = strtol(at, &end, 10); list != NULL && end != at; rank = strtol(at, &end, 10)) {
        if (rank < 0 || rank >= rank_count) {
            return false;
        }
        if (out->rank_count < LS_CHECK_RANKS_MAX) {
            list[out->rank_count++] = (int)rank;
        }
        at = end;
    }
    return list != NULL && out->where != NULL && out->text != NULL &&
           ls_finding_parse(&out->id, name) == LS_OK;
}

bool ls_launch_finding(ls_finding *out, const char *watch_dir, int ranks, ls_arena *arena) {
    for (int r = 0; r < ranks; r++) {
        char path[LS_LAUNCH_PATH_BYTES];
        FILE *file = ls_launch__mark(path, watch_dir, r, "finding") ? fopen(path, "r") : NULL;
        bool found = file != NULL && parse_finding(out, file, ranks, arena);
        if (file != NULL) {
            (void)fclose(file);
        }
        if (found) {
            return true;
        }
    }
    return false;
}

// ---- Errors of launched processes ---------------------------------------------------------------
// rank_R.error: the code, and the text in one line; written atomically.
static void tell(const char *watch_dir, int rank, const char *suffix) {
    ls_text text = {0};
    ls_text_printf(&text, "%d %s\n", ls_error_last()->code, ls_error_last()->text);
    (void)ls_launch__tell(watch_dir, rank, suffix, &text);
}

void ls_launch_tell_error(const char *watch_dir, int rank) {
    tell(watch_dir, rank, "error");
}

void ls_launch_tell_too_few(const char *watch_dir, int rank) {
    tell(watch_dir, rank, "too_few");
}

// Reads the report of `rank`; its time goes to *when. False: none.
static bool read_told(int *code, char *text, size_t text_bytes, struct timespec *when,
                      const char *watch_dir, int rank, const char *suffix) {
    char path[LS_LAUNCH_PATH_BYTES];
    FILE *file = ls_launch__mark(path, watch_dir, rank, suffix) ? fopen(path, "r") : NULL;
    if (file == NULL) {
        return false;
    }
    struct stat about;
    bool read = fstat(fileno(file), &about) == 0 && fscanf(file, "%d", code) == 1 &&
                *code < LS_OK && *code >= LS_ERR_RESOURCE && fgetc(file) == ' ' &&
                fgets(text, (int)text_bytes, file) != NULL;
    (void)fclose(file);
    if (read) {
        text[strcspn(text, "\n")] = 0;
        *when = about.st_mtim;
    }
    return read;
}

bool ls_launch__earlier(const struct timespec *a, const struct timespec *b) {
    return a->tv_sec != 0 && (b->tv_sec == 0 || a->tv_sec < b->tv_sec ||
                              (a->tv_sec == b->tv_sec && a->tv_nsec < b->tv_nsec));
}

bool ls_launch_error(int *code, char *text, size_t text_bytes, const char *watch_dir, int ranks,
                     const struct timespec *death) {
    struct timespec first = {0}, when = {0};
    for (int r = 0; r < ranks; r++) {
        char told[LS_ERROR_TEXT_MAX + 2];
        int its = LS_OK;
        bool read = read_told(&its, told, sizeof told, &when, watch_dir, r, "error");
        if (read && ls_launch__earlier(&when, &first)) {
            first = when;
            *code = its;
            (void)snprintf(text, text_bytes, "%s", told);
        }
    }
    return ls_launch__earlier(&first, death);
}

bool ls_launch_too_few(char *text, size_t text_bytes, const char *watch_dir, int ranks) {
    struct timespec when;
    int code = LS_OK;
    for (int r = ranks; r-- > 0;) {  // the highest rank needs the most
        if (read_told(&code, text, text_bytes, &when, watch_dir, r, "too_few")) {
            return true;
        }
    }
    return false;
}
