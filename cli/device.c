// Opening the device that --device names.
#include "cli/device.h"

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

void cli_reproduce_device(ls_text *out, int choice) {
    if (choice != 0) {
        ls_text_printf(out, " --device %s", cli_devices[choice]);
    }
}
