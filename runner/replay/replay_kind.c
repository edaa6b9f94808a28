// Tells by a folder's manifest and file names what it holds that can be replayed.
#include "runner/replay/replay_kind.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "formats/json_read.h"
#include "collectives/recording.h"
#include "runner/replay/replay_internal.h"

// The kind by what the manifest says of itself.
static int read_manifest(ls_replay_kind *out, const char *dir) {
    char path[LS_REPLAY_PATH_MAX];
    json_t *root = NULL;
    LS_TRY(ls_replay__path(path, dir, "manifest.json"));
    LS_TRY(ls_json_read(&root, path, LS_REPLAY_JSON_BYTES_MAX));
    out->recording = json_object_get(root, "lockstep_recording") != NULL;
    out->nccl = json_is_array(root);
    out->torch = out->torch || ls_replay__is_torch(root);
    bool known = out->recording || out->nccl || ls_replay__is_torch(root);
    json_decref(root);
    if (!known) {
        return LS_FAIL(LS_ERR_FORMAT,
                       "'%s' is the manifest neither of a recording nor of NCCL's or torch's "
                       "results",
                       path);
    }
    return LS_OK;
}

int ls_replay_kind_of(ls_replay_kind *out, const char *dir) {
    *out = (ls_replay_kind){0};
    DIR *folder = opendir(dir);
    if (folder == NULL) {
        return LS_FAIL(LS_ERR_IO, "cannot read the folder '%s': %s", dir, strerror(errno));
    }
    bool manifest = false, ranks = false;
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        manifest = manifest || strcmp(entry->d_name, "manifest.json") == 0;
        ranks = ranks || ls_recording_file_rank(entry->d_name) >= 0;
        out->torch = out->torch || ls_replay__is_dtensor(entry->d_name);
    }
    (void)closedir(folder);
    out->manifest = manifest;
    if (manifest) {
        LS_TRY(read_manifest(out, dir));
    }
    if (ranks && !out->recording) {
        return LS_FAIL(LS_ERR_FORMAT,
                       "the folder '%s' holds files of a recording's ranks and no manifest of one",
                       dir);
    }
    return LS_OK;
}
