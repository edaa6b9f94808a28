// The device of a program's calls without a GPU: the fake one, which maps the memory of the
// stand-in's processes. Replaces cli/device.c. At the end the file DEVICE_USED contains how often
// it was used.
#include <stdio.h>
#include <stdlib.h>

#include "cli/device.h"
#include "tests/cuda/fake_device.h"

const char *const cli_devices[] = {"host", "cuda", NULL};
const char *const cli_call_devices[] = {"auto", "host", "cuda", NULL};

int cli_device_open(ls_device **out, int choice) {
    *out = choice != 0 ? fake_device() : NULL;
    return LS_EXIT_OK;
}

static void tell(void) {
    const char *path = getenv("DEVICE_USED");
    FILE *file = path != NULL ? fopen(path, "w") : NULL;
    if (file != NULL) {
        (void)fprintf(file, "%zu %zu\n", fake_device_used(), fake_device_live());
        (void)fclose(file);
    }
}

static int open_fake(ls_device **out) {
    *out = fake_device();
    return LS_OK;
}

int cli_device_later(int (**out)(ls_device **), int choice) {
    *out = choice != 1 ? open_fake : NULL;
    (void)atexit(tell);
    return LS_EXIT_OK;
}

void cli_reproduce_device(ls_text *out, int choice) {
    (void)out, (void)choice;
}
