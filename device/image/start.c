// Linked into every program by lockstep-cuda-cc: its door for `lockstep spmd`.
#include "device/image/image.h"

extern int main(int argc, char **argv, char **environment);
extern __attribute__((weak)) int lockstep_process_per_rank;  // of nvshmem.h

__attribute__((visibility("default"))) int ls_device_image_main(int argc, char **argv,
                                                                char **environment);
int ls_device_image_main(int argc, char **argv, char **environment) {
    return main(argc, argv, environment);
}

__attribute__((visibility("default"))) int spmd_main(ls_rank *self, void *arg);
int spmd_main(ls_rank *self, void *arg) {
    return ls_device_main(self, arg, ls_device_image_main, &lockstep_process_per_rank != NULL);
}
