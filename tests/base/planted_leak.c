// Loses a block, so that a memory checker that finds nothing here is no memory checker.
#include <stdlib.h>

static void *volatile held;

int main(void) {
    held = malloc(4096);
    held = NULL;  // the only pointer to it
    return 0;
}
