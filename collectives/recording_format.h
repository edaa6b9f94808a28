// Shared by the writer and the reader of recordings. Private to this folder.
#pragma once

#include "collectives/recording.h"

#define LS_RECORDING_FORMAT         1
#define LS_RECORDING_JSON_BYTES_MAX ((size_t)256 * 1024 * 1024)
#define LS_RECORDING_PATH_MAX       4096

// Metadata key of a rank's safetensors file: names of the tensors that reduce, one per line.
#define LS_RECORDING_REDUCES "reduces"

// "DIR/rank_00003SUFFIX"; LS_ERR_LIMIT when it is too long.
int ls_recording__path(char out[LS_RECORDING_PATH_MAX], const char *dir, int rank,
                       const char *suffix);
