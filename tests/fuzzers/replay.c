// Gives a fuzzer every file of the named folders: replays its corpus as an ordinary test.
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "fuzzers.h"

#define BYTES_MAX ((size_t)1 << 20)

static int replay(const char *folder, const char *name) {
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(BYTES_MAX);
    if (file == NULL || data == NULL) {
        (void)fprintf(stderr, "%s cannot be read\n", path);
        return -1;
    }
    size_t bytes = fread(data, 1, BYTES_MAX, file);
    (void)fclose(file);
    (void)LLVMFuzzerTestOneInput(data, bytes);
    free(data);
    return 1;
}

int main(int count, char **words) {
    int files = 0;
    for (int i = 1; i < count; i++) {
        DIR *folder = opendir(words[i]);
        for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
            int given = entry->d_name[0] != '.' ? replay(words[i], entry->d_name) : 0;
            if (given < 0) {
                return 1;
            }
            files += given;
        }
        if (folder != NULL) {
            (void)closedir(folder);
        }
    }
    (void)printf("%d files\n", files);
    return files > 0 ? 0 : 1;
}
