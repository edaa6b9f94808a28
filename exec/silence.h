// Whether a TCP connection still has another side, as the kernel knows.
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct ls_silence {
    double looked;  // the last time
    double since;   // all that was asked before has been answered
} ls_silence;

// Makes the kernel ask an idle connection's other side, and leave the end to ls_silence_lasts.
void ls_silence_watch(ls_silence *silence, int socket);
// Whether the other side's kernel has not answered for so long that it is dead. Looks once a
// second.
bool ls_silence_lasts(ls_silence *silence, int socket);
// Bytes that the other side has not acknowledged.
int64_t ls_silence_unacknowledged(int socket);
