// Finds and copies the files that a scenario reads.
#define _XOPEN_SOURCE 700
#include "runner/scenario/scenario_files.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "embedding/checkpoint.h"
#include "orders/order.h"
#include "runner/plan/scenario_machine.h"

typedef int (*file_visit)(void *arg, const char *path);

static int visit_one(file_visit visit, void *arg, const char *path) {
    return path != NULL ? visit(arg, path) : LS_OK;
}

// Calls visit for each place in the scenario that names a file (repeatedly for a repeated file).
// Stops at the first status that is not LS_OK and returns it.
static int each_file(const ls_scenario *scenario, file_visit visit, void *arg) {
    if (scenario->machine != NULL && ls_scenario_machine_is_path(scenario->machine)) {
        LS_TRY(visit(arg, scenario->machine));
    }
    if (scenario->order != NULL) {
        LS_TRY(visit_one(visit, arg, ls_order_file(scenario->order)));
    }
    for (int i = 0; i < scenario->table_count; i++) {
        LS_TRY(visit_one(visit, arg, scenario->tables[i].weights.file));
        LS_TRY(visit_one(visit, arg, scenario->tables[i].sharding.plan));
    }
    for (int i = 0; i < scenario->inputs.feature_count; i++) {
        const ls_scenario_feature *feature = &scenario->inputs.features[i];
        LS_TRY(visit_one(visit, arg, feature->lengths.file));
        LS_TRY(visit_one(visit, arg, feature->ids.file));
        LS_TRY(visit_one(visit, arg, feature->weights.file));
        LS_TRY(visit_one(visit, arg, feature->inverse_indices.file));
    }
    LS_TRY(visit_one(visit, arg, scenario->train.gradients.file));
    if (scenario->checkpoint != NULL) {
        LS_TRY(ls_checkpoint_each_file(scenario->checkpoint, visit, arg));
    }
    for (int i = 0; i < scenario->tensor_count; i++) {
        LS_TRY(visit_one(visit, arg, scenario->tensors[i].values.file));
    }
    for (int i = 0; i < scenario->step_count; i++) {
        const ls_scenario_step *step = &scenario->steps[i];
        LS_TRY(ls_step_on_buffers(step) ? visit_one(visit, arg, step->call.values.file) : LS_OK);
    }
    for (int i = 0; i < scenario->checks.reference_count; i++) {
        LS_TRY(visit_one(visit, arg, scenario->checks.references[i].file));
    }
    return LS_OK;
}

struct copy {
    char folder[PATH_MAX];  // of the scenario, resolved
    const char *dir;
    bool any;  // a file was copied
};

// Creates the directories above `path`, from its character `from` on.
static int make_folders(char *path, size_t from) {
    for (char *slash = strchr(path + from, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        int failed = mkdir(path, 0777) != 0 && errno != EEXIST;
        *slash = '/';
        if (failed) {
            return LS_FAIL(ls_status_of_errno(errno), "cannot make the folders of \"%s\": %s", path,
                           strerror(errno));
        }
    }
    return LS_OK;
}

static int copy_file(const char *from, const char *to) {
    FILE *file = fopen(from, "rb");
    struct stat about;
    if (file == NULL || fstat(fileno(file), &about) != 0 || !S_ISREG(about.st_mode)) {
        if (file != NULL) {
            (void)fclose(file);
        }
        return LS_FAIL(LS_ERR_IO, "cannot read \"%s\" to keep it with the recording", from);
    }
    size_t bytes = (size_t)about.st_size;
    void *data = NULL;
    int status = ls_alloc(&data, bytes, 1);
    if (status == LS_OK && fread(data, 1, bytes, file) != bytes) {
        status = LS_FAIL(LS_ERR_IO, "cannot read all of \"%s\"", from);
    }
    status = status == LS_OK ? ls_file_write(to, data, bytes) : status;
    ls_free(data, bytes, 1);
    (void)fclose(file);
    return status;
}

static int copy_one(void *arg, const char *path) {
    struct copy *copy = arg;
    char resolved[PATH_MAX];
    char to[PATH_MAX];
    size_t folder_length = strlen(copy->folder);
    if (realpath(path, resolved) == NULL) {
        return LS_FAIL(ls_status_of_errno(errno), "cannot find \"%s\": %s", path, strerror(errno));
    }
    if (strncmp(resolved, copy->folder, folder_length) != 0 || resolved[folder_length] != '/') {
        return LS_OK;
    }
    const char *relative = resolved + folder_length + 1;
    int length = snprintf(to, sizeof to, "%s/%s", copy->dir, relative);
    if (length < 0 || (size_t)length >= sizeof to) {
        return LS_FAIL(LS_ERR_IO, "the path of \"%s\" is too long", relative);
    }
    LS_TRY(make_folders(to, strlen(copy->dir)));
    copy->any = true;
    return copy_file(resolved, to);
}

int ls_scenario_copy_files(const ls_scenario *scenario, const char *dir) {
    struct copy copy = {.dir = dir};
    char resolved[PATH_MAX];
    if (realpath(scenario->file, resolved) == NULL) {
        return LS_FAIL(ls_status_of_errno(errno), "cannot find \"%s\": %s", scenario->file,
                       strerror(errno));
    }
    char *slash = strrchr(resolved, '/');
    LS_ASSERT(slash != NULL);
    *slash = 0;
    memcpy(copy.folder, resolved, strlen(resolved) + 1);
    LS_TRY(each_file(scenario, copy_one, &copy));
    if (!copy.any) {
        return LS_OK;
    }
    char to[PATH_MAX];
    int length = snprintf(to, sizeof to, "%s/scenario.yaml", dir);
    if (length < 0 || (size_t)length >= sizeof to) {
        return LS_FAIL(LS_ERR_IO, "the path of \"%s\" is too long", dir);
    }
    return copy_file(scenario->file, to);
}
