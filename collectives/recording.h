// Recordings: what a run leaves behind. Every stage output of every rank and every call record, in
// one directory that a later comparison reads, whether it was made a second ago or last month.
//
// DIR/manifest.json          format, scenario, backend, ranks, seed, machine, versions, files
// DIR/scenario.yaml          the scenario, as it was run
// DIR/rank_00003.safetensors stage outputs of rank 3, one tensor per ls_stage_key
// DIR/rank_00003.calls.json  call records of rank 3
// A recording appears complete or not at all: it is written beside its place and renamed.
#ifndef LS_COLLECTIVES_RECORDING_H
#define LS_COLLECTIVES_RECORDING_H

#include "collectives/collectives.h"

#ifdef __cplusplus
extern "C" {
#endif

// One array that a stage of a run produced on one rank. Everything is borrowed for the call.
typedef struct ls_stage_output {
    const char *stage;    // "input_dist", "lookup", "output_dist", or a program step's name
    const char *table;    // NULL where it does not apply
    const char *feature;  // NULL where it does not apply
    const char *field;    // "lengths", "ids", "weights", "values"
    int rank;
    ls_dtype dtype;
    ls_shape shape;
    const void *data;
    bool reduces;  // a sum whose order may differ; false: only moves data, must be bit exact
    const double *bounds;  // [elements] how far rounding alone can move each one; NULL: not known.
                           // For comparisons in memory: a recording does not keep it.
} ls_stage_output;

// Where a run sends its stage outputs: a recording, a comparison in memory, or both.
typedef struct ls_stage_sink {
    void *arg;
    int (*emit)(void *arg, const ls_stage_output *output);
} ls_stage_sink;

#define LS_STAGE_KEY_MAX 256
// "stage/table/feature/field", "-" where absent: the tensor's name in a recording.
LS_API int ls_stage_key(char *out, size_t out_bytes, const ls_stage_output *output);

#ifdef __cplusplus
}
#endif
#endif
