// Leaks a block. A memory checker that reports nothing for this program does not work.
#include <stdlib.h>

static void *volatile held;

int main(void) {
    held = malloc(4096);
    held = NULL;  // the only pointer to it
    return 0;
}
