// Open files: one is passed to another process, or all are closed.
#pragma once

#include <stdbool.h>
#include <stddef.h>

// Sends one packet with the descriptor. Does not block; false: it was not sent whole.
bool ls_descriptor_send(int socket, const void *bytes, size_t count, int descriptor);

// Closes `first` and all above.
void ls_descriptors_close(int first);
