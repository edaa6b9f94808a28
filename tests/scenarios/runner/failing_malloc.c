// Preloaded into the program: allocation number FAIL_AT fails, counted from 1; with FAIL_ON all
// later ones, too. The total goes to the file in FAIL_COUNT. Its child programs are not affected.
// For glibc.
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

// glibc's own, under other names.
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);

static atomic_long made;
static long fail_at = -1;  // before the constructor: nothing is counted
static bool fail_on;
static const char *count_path;  // NULL: not counted

__attribute__((constructor)) static void begin(void) {
    const char *at = getenv("FAIL_AT");
    fail_at = at != NULL ? strtol(at, NULL, 10) : 0;
    fail_on = getenv("FAIL_ON") != NULL && fail_at > 0;
    count_path = getenv("FAIL_COUNT");  // its text stays in place
    (void)unsetenv("FAIL_AT");
    (void)unsetenv("FAIL_COUNT");
}

__attribute__((destructor)) static void end(void) {
    long count = atomic_load(&made);
    FILE *file = count_path != NULL ? fopen(count_path, "w") : NULL;
    if (file != NULL) {
        (void)fprintf(file, "%ld\n", count);
        (void)fclose(file);
    }
}

static bool fails(void) {
    if (fail_at < 0) {
        return false;
    }
    long number = atomic_fetch_add(&made, 1) + 1;
    if (number != fail_at && !(fail_on && number > fail_at)) {
        return false;
    }
    errno = ENOMEM;
    return true;
}

__attribute__((visibility("default"))) void *malloc(size_t bytes) {
    return fails() ? NULL : __libc_malloc(bytes);
}

__attribute__((visibility("default"))) void *calloc(size_t count, size_t bytes) {
    return fails() ? NULL : __libc_calloc(count, bytes);
}

__attribute__((visibility("default"))) void *realloc(void *old, size_t bytes) {
    return fails() ? NULL : __libc_realloc(old, bytes);
}
