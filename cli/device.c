// Opening the device that --device names.
#include "cli/device.h"

#include <limits.h>
#include <unistd.h>

#ifdef LOCKSTEP_WITH_NCCL
#include "kernels/cuda/device.h"
#endif

const char *const cli_devices[] = {"host", "cuda", NULL};

int cli_device_open(ls_device **out, int choice) {
    *out = NULL;
    if (choice == 0) {
        return LS_EXIT_OK;
    }
#ifdef LOCKSTEP_WITH_NCCL
    int status = ls_device_cuda_open(out);
    return status == LS_OK ? LS_EXIT_OK : cli_fail(status);
#else
    return cli_become("lockstep-cuda");
#endif
}

const char *const cli_call_devices[] = {"auto", "host", "cuda", NULL};

int cli_device_later(int (**out)(ls_device **), int choice) {
    *out = NULL;
    if (choice == 1) {
        return LS_EXIT_OK;
    }
#ifdef LOCKSTEP_WITH_NCCL
    *out = ls_device_cuda_open;
    ls_device *device = NULL;
    return choice == 2 ? cli_device_open(&device, 1) : LS_EXIT_OK;
#else
    char path[PATH_MAX];
    bool there =
        access("/dev/nvidiactl", F_OK) == 0 && cli_find_beside(path, sizeof path, "lockstep-cuda");
    return choice == 2 || there ? cli_become("lockstep-cuda") : LS_EXIT_OK;
#endif
}

void cli_reproduce_device(ls_text *out, int choice) {
    if (choice != 0) {
        ls_text_printf(out, " --device %s", cli_devices[choice]);
    }
}
