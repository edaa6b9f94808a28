// Results with more than one right answer, stored as a figure for each subject. They change only on
// purpose, so users get the same result in every version.
#pragma once

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"
#include "base/file.h"
#include "base/random.h"

// Compares the texts [count], which are freed, with `file` below the project's root. `means`: the
// consequence of a difference for users; `test`: the test's name for ctest.
static inline void figures_expect(const char *file, const char *test, const char *means,
                                  const char *const *names, ls_text *texts, int count) {
    ls_text figures = {0};
    for (int i = 0; i < count; i++) {
        uint32_t figure = ls_random_stream(ls_text_string(&texts[i]));
        ls_text_printf(&figures, "%s: %08x\n", names[i], (unsigned)figure);
        cr_assert(!texts[i].failed);
        ls_text_free(&texts[i]);
    }
    char path[4096], *kept = NULL;
    size_t bytes;
    ls_arena *arena = NULL;
    cr_assert_not_null(getenv("LOCKSTEP_SOURCE"), "LOCKSTEP_SOURCE is to be the project's root");
    (void)snprintf(path, sizeof path, "%s/%s", getenv("LOCKSTEP_SOURCE"), file);
    if (getenv("LOCKSTEP_BLESS") != NULL) {
        cr_assert_eq(ls_file_write(path, ls_text_string(&figures), figures.length), LS_OK);
    }
    cr_assert_eq(ls_arena_create(&arena), LS_OK);
    cr_assert_eq(ls_file_read(&kept, &bytes, arena, path, 4096), LS_OK);
    cr_assert_str_eq(ls_text_string(&figures), kept,
                     "%s If so it must be, LOCKSTEP_BLESS=1 ctest --test-dir build -R %s writes "
                     "%s. It has\n%snow\n%s",
                     means, test, path, kept, ls_text_string(&figures));
    ls_arena_free(arena);
    ls_text_free(&figures);
}
