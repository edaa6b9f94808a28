// Results of others that lie in a folder and that no manifest there names: nothing would replay
// them, and nobody would miss them.
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runner/replay/replay_internal.h"
#include "runner/replay/replay_kind.h"

static bool ends_in(const char *name, const char *end) {
    size_t length = strlen(name), end_length = strlen(end);
    return length > end_length && strcmp(name + length - end_length, end) == 0;
}

static int is_array(const struct dirent *entry) {
    return entry->d_name[0] != '.' &&
           (ends_in(entry->d_name, ".bin") || ends_in(entry->d_name, ".safetensors"));
}

// Beside a manifest of results lists are results, too.
static int is_result(const struct dirent *entry) {
    const char *name = entry->d_name;
    return is_array(entry) || (name[0] != '.' && ends_in(name, ".json") &&
                               strcmp(name, "manifest.json") != 0 && !ls_replay__is_dtensor(name));
}

int ls_replay__unnamed(ls_results *results, const char *dir, ls_replay_named *named,
                       const void *manifest) {
    struct dirent **entries = NULL;
    int count = scandir(dir, &entries, named != NULL ? is_result : is_array, alphasort);
    if (count < 0) {
        return LS_FAIL(errno == ENOMEM ? LS_ERR_MEMORY : LS_ERR_IO,
                       "cannot read the folder '%s': %s", dir, strerror(errno));
    }
    ls_text list = {0};
    for (int i = 0; i < count; i++) {
        if (named == NULL || !named(manifest, entries[i]->d_name)) {
            ls_text_printf(&list, "%s%s", list.length > 0 ? ", " : "", entries[i]->d_name);
        }
        free(entries[i]);
    }
    free(entries);
    if (list.length > 0) {
        ls_text_puts(&list, ": no manifest in the folder names it");
    }
    int status = list.failed
                     ? LS_FAIL(LS_ERR_MEMORY, "replay: out of memory")
                     : ls_replay__not_replayed(results, dir, "unnamed", dir, ls_text_string(&list));
    ls_text_free(&list);
    return status;
}

int ls_replay_unnamed(ls_results *results, const char *dir) {
    return ls_replay__unnamed(results, dir, NULL, NULL);
}
