// An open file passed to another process.
#ifndef LS_PROCESS_DESCRIPTOR_H
#define LS_PROCESS_DESCRIPTOR_H

#include <stdbool.h>
#include <stddef.h>

// Sends one packet with the descriptor. Does not block; false: it was not sent whole.
bool ls_descriptor_send(int socket, const void *bytes, size_t count, int descriptor);

#endif
