// --device: the place of the simulator's buffers and kernels.
#pragma once

#include "cli/cli.h"
#include "kernels/device.h"

extern const char *const cli_devices[];  // "host", "cuda"

#define CLI_DEVICE_OPTION(given)                                                                   \
    CLI_OPTION(CLI_CHOICE, "device", &(given), "NAME", .choices = cli_devices,                     \
               .help =                                                                             \
                   "Device of the simulator: host (default), or cuda with all ranks on one GPU")

// Opens a device; *out NULL for the host. A program without CUDA becomes the one with it. An exit
// code, with the reason on stderr if it is not LS_EXIT_OK.
int cli_device_open(ls_device **out, int choice);
// How the device of a program's calls is opened once it is needed (NULL: there is none), for
// --device auto, host or cuda. An exit code, as above.
extern const char *const cli_call_devices[];
int cli_device_later(int (**out)(ls_device **), int choice);
// For the reproducing command: " --device cuda", or nothing.
void cli_reproduce_device(ls_text *out, int choice);
