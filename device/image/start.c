// Linked into every program by lockstep-cuda-cc: its door for `lockstep spmd`.
#include "ranks/ranks.h"

extern int main(int argc, char **argv, char **environment);
__attribute__((visibility("default"))) int
ls_device_main(ls_rank *self, void *arg, int (*program)(int argc, char **argv, char **environment));

__attribute__((visibility("default"))) int spmd_main(ls_rank *self, void *arg);
int spmd_main(ls_rank *self, void *arg) {
    return ls_device_main(self, arg, main);
}
