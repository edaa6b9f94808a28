// The interface between a program that lockstep-cuda-cc has linked and the library that runs it.
#ifndef LS_DEVICE_IMAGE_IMAGE_H
#define LS_DEVICE_IMAGE_IMAGE_H

#include "ranks/ranks.h"

typedef int (*ls_device_program)(int argc, char **argv, char **environment);
#define LS_DEVICE_IMAGE_MAIN "ls_device_image_main"

// processes: each rank runs main with separate variables, from a copy of the program.
__attribute__((visibility("default"))) int ls_device_main(ls_rank *self, void *arg,
                                                          ls_device_program main, bool processes);

#endif
