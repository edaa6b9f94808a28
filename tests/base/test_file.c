// Whole files: contents are read as written, limits hold, and no read blocks.
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"

static char folder[64];
static ls_arena *arena;

static void set_up(void) {
    snprintf(folder, sizeof folder, "/tmp/ls_file_XXXXXX");
    cr_assert(mkdtemp(folder) != NULL);
    cr_assert(ls_arena_create(&arena) == LS_OK);
}

static void tear_down(void) {
    ls_arena_free(arena);
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    (void)!system(command);
}

static const char *at(const char *name) {
    static char path[160];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static int read_at(const char *name, size_t bytes_max, char **text, size_t *bytes) {
    return ls_file_read(text, bytes, arena, at(name), bytes_max);
}

TestSuite(file, .init = set_up, .fini = tear_down, .timeout = 20);

// Contents are read back with a terminating 0, including inner zero bytes; an empty file, too.
Test(file, round_trip) {
    char *text = NULL;
    size_t bytes = 0;
    cr_assert(ls_file_write(at("some"), "a\0b", 3) == LS_OK);
    cr_assert(read_at("some", 3, &text, &bytes) == LS_OK);
    cr_expect(bytes == 3 && memcmp(text, "a\0b", 4) == 0);
    cr_assert(ls_file_write(at("none"), NULL, 0) == LS_OK);
    cr_assert(read_at("none", 0, &text, &bytes) == LS_OK);
    cr_expect(bytes == 0 && text[0] == 0);
}

// A file over the limit is not read, however large it claims to be.
Test(file, limit) {
    char *text = NULL;
    size_t bytes = 0;
    cr_assert(ls_file_write(at("four"), "1234", 4) == LS_OK);
    cr_expect(read_at("four", 3, &text, &bytes) == LS_ERR_LIMIT);
    cr_expect(text == NULL && strstr(ls_error_last()->text, "larger than 3 bytes") != NULL);
    FILE *sparse = fopen(at("sparse"), "wb");
    cr_assert(sparse != NULL && ftruncate(fileno(sparse), (off_t)1 << 40) == 0);
    fclose(sparse);
    cr_expect(read_at("sparse", 1 << 20, &text, &bytes) == LS_ERR_LIMIT);
}

// A missing file, a folder, a pipe without a writer and a device are errors at once.
Test(file, what_is_no_file) {
    char *text = NULL;
    size_t bytes = 0;
    cr_expect(read_at("missing", 10, &text, &bytes) == LS_ERR_IO);
    cr_expect(read_at("", 10, &text, &bytes) == LS_ERR_FORMAT);
    cr_assert(mkfifo(at("pipe"), 0600) == 0);
    cr_expect(read_at("pipe", 10, &text, &bytes) == LS_ERR_FORMAT);
    cr_expect(ls_file_read(&text, &bytes, arena, "/dev/zero", 10) == LS_ERR_FORMAT);
}

// A write that fails leaves the old file and nothing beside it.
Test(file, failed_write_leaves_the_old) {
    char *text = NULL;
    size_t bytes = 0;
    cr_assert(ls_file_write("/dev/full", "x", 1) == LS_ERR_RESOURCE);
    cr_assert(mkdir(at("taken"), 0700) == 0);
    cr_expect(ls_file_write(at("taken"), "x", 1) == LS_ERR_IO);
    cr_expect(ls_file_write(at("no/such/folder"), "x", 1) == LS_ERR_IO);
    cr_assert(ls_file_write(at("kept"), "old", 3) == LS_OK);
    cr_assert(ls_file_write(at("kept"), "new", 3) == LS_OK);
    cr_assert(read_at("kept", 3, &text, &bytes) == LS_OK);
    cr_expect(strcmp(text, "new") == 0);
    char command[160];
    snprintf(command, sizeof command, "test \"$(ls '%s')\" = \"$(printf 'kept\\ntaken')\"", folder);
    cr_expect(system(command) == 0, "nothing is left beside them");
}
