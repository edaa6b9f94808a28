// The main of a fuzz target without libFuzzer: runs the target on every file given, and on every
// file of every folder given. Fails when there was none.
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define FILE_BYTES_MAX ((size_t)64 * 1024 * 1024)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path, long bytes) {
    if (bytes < 0 || (size_t)bytes > FILE_BYTES_MAX) {
        (void)fprintf(stderr, "%s: too large\n", path);
        return 1;
    }
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc((size_t)bytes + 1);
    if (file == NULL || data == NULL || fread(data, 1, (size_t)bytes, file) != (size_t)bytes) {
        (void)fprintf(stderr, "%s: cannot be read\n", path);
        free(data);
        if (file != NULL) {
            (void)fclose(file);
        }
        return 1;
    }
    (void)fclose(file);
    (void)LLVMFuzzerTestOneInput(data, (size_t)bytes);
    free(data);
    return 0;
}

static int replay(const char *path, int *count) {
    struct stat status;
    if (stat(path, &status) != 0) {
        (void)fprintf(stderr, "%s: not there\n", path);
        return 1;
    }
    if (!S_ISDIR(status.st_mode)) {
        *count += 1;
        return replay_file(path, (long)status.st_size);
    }
    DIR *folder = opendir(path);
    if (folder == NULL) {
        return 1;
    }
    int failed = 0;
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        char name[4096];
        int length = snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        if (entry->d_name[0] != '.' && length > 0 && (size_t)length < sizeof name) {
            failed |= replay(name, count);
        }
    }
    (void)closedir(folder);
    return failed;
}

int main(int argc, char **argv) {
    int count = 0;
    int failed = 0;
    for (int i = 1; i < argc; i++) {
        failed |= replay(argv[i], &count);
    }
    (void)printf("%d files\n", count);
    return failed != 0 || count == 0 ? 1 : 0;
}
