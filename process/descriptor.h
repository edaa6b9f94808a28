// Open files: one is passed to another process, or all are closed.
#pragma once

#include <stddef.h>
#include <sys/types.h>

// Sends one packet, with the descriptor unless it is -1. flags and result: of sendmsg.
ssize_t ls_descriptor_send(int socket, const void *bytes, size_t count, int descriptor, int flags);
// Receives one packet, and the descriptor that came with it, else -1. flags, result: of recvmsg.
ssize_t ls_descriptor_receive(int socket, void *bytes, size_t count, int *descriptor, int flags);

// Closes `first` and all above.
void ls_descriptors_close(int first);
