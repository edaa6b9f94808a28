// Recordings: what a run leaves behind. Every stage output of every rank and every call record, in
// one directory that a later comparison reads, whether it was made a second ago or last month.
//
// DIR/manifest.json          format, scenario, backend, ranks, seed, machine, versions,
//                            commit, files
// DIR/scenario.yaml          the scenario, as it was run
// DIR/rank_00003.safetensors stage outputs of rank 3, one tensor per ls_stage_key
// DIR/rank_00003.calls.json  call records of rank 3
// DIR/inputs/                where the scenario reads files: theirs and its copies (scenario.yaml)
// A recording appears complete or not at all: it is written beside its place and renamed.
#ifndef LS_COLLECTIVES_RECORDING_H
#define LS_COLLECTIVES_RECORDING_H

#include "base/text.h"
#include "collectives/collectives.h"

#ifdef __cplusplus
extern "C" {
#endif

// The folder of a recording that holds the scenario beside the files that it reads.
#define LS_RECORDING_INPUTS "inputs"

// One array that a stage of a run produced on one rank. The library alone makes it. Everything is
// borrowed for the call.
typedef struct ls_stage_output {
    const char *stage;    // "input_dist", "lookup", "output_dist", or a program step's name
    const char *table;    // NULL where it does not apply
    const char *feature;  // NULL where it does not apply
    const char *field;    // "lengths", "ids", "weights", "values"
    int rank;
    ls_dtype dtype;
    ls_shape shape;
    const void *data;
    // The arrays are final and stay valid as long as the sink: they are in memory from its `room`
    // or in the caller's memory.
    bool in_room;
    bool reduces;  // a sum whose order may differ; false: only moves data, must be bit exact
    // Inside the library
    // An ls_stage and an ls_stage_field (embedding/stages.h) and the step, from 0, where a module
    // gives it here. Not of what is read from a file.
    int stage_of_tables, field_of_tables, step_of_tables;
    // Of what a run must give, for comparisons in memory; a recording does not keep them. All three
    // [elements] or all NULL: the exact values, how far from them rounding alone can move each one,
    // and how it may overflow (ls_overflow). NULL: an element is exactly what `data` holds.
    const double *exact;
    const double *bounds;
    const unsigned char *overflow;
    // Of another system's output: it rounds each element so often where the bound counts none (a
    // mean that is multiplied by a rounded 1/n).
    int roundings;
} ls_stage_output;

// Where a run sends its stage outputs: a recording, a comparison in memory, or both.
typedef struct ls_stage_sink {
    void *arg;
    int (*emit)(void *arg, const ls_stage_output *output);
    // Zeroed memory of the sink's for an output to come, which is not copied then; NULL: the sink
    // has none. May be NULL.
    void *(*room)(void *arg, size_t bytes);
} ls_stage_sink;

#define LS_STAGE_KEY_MAX 256
// "stage/table/feature/field", "-" where absent: the tensor's name in a recording.
int ls_stage_key(char *out, size_t out_bytes, const ls_stage_output *output);

// Of a finished recording, see below.
typedef struct ls_recording ls_recording;

// ---- Writing ------------------------------------------------------------------------------------
// One process's part of a recording: the files of the ranks that it holds, and, for rank 0, the
// manifest. Tensors are kept in memory until the end and then written file by file.
typedef struct ls_recording_writer ls_recording_writer;

// The manifest's description of the run. Strings are copied.
typedef struct ls_recording_info {
    const char *name;      // of the scenario
    const char *scenario;  // the scenario file's text, copied to scenario.yaml; NULL: none
    const char *backend;   // "mpi", "nccl", "sim"
    int ranks;
    uint64_t seed;
    const char *versions;  // "mpich 4.0.2" or "nccl 2.28.9+cuda13.0": libraries that mattered
} ls_recording_info;

// `dir` must exist: the launcher makes a directory beside the recording's place and publishes it.
int ls_recording_writer_create(ls_recording_writer **out, const char *dir, const ls_world *world,
                               const ls_recording_info *info);
// Where the run's stage outputs go. Outputs of ranks that are not held are LS_ERR_INVALID.
ls_stage_sink ls_recording_writer_sink(ls_recording_writer *writer);
// An ls_call_observer: records calls (without their buffers). Its arg is the writer.
void ls_recording_writer_observe(void *writer, const ls_call *call);
// Writes the files. The writer can then only be freed.
int ls_recording_writer_finish(ls_recording_writer *writer);
// Instead: the calls that were recorded, as a recording without files and outputs, to be compared.
// The writer can then only be freed, and so must *out.
int ls_recording_writer_calls(ls_recording **out, ls_recording_writer *writer);
void ls_recording_writer_free(ls_recording_writer *writer);  // NULL is allowed
// Moves the complete directory `made` to `dir` in one rename, replacing an earlier recording there
// (and nothing else: LS_ERR_INVALID when `dir` is something that is not a recording).
int ls_recording_publish(const char *made, const char *dir);

// ---- Reading ------------------------------------------------------------------------------------
// The rank whose file of a recording has this name (without folders); -1: it is none.
int ls_recording_file_rank(const char *name);

// Opens a recording. Files may be hostile: LS_ERR_FORMAT names file and reason. Free it with
// ls_recording_free.
int ls_recording_open(ls_recording **out, const char *dir);
void ls_recording_free(ls_recording *recording);  // NULL is allowed
const ls_recording_info *ls_recording_about(const ls_recording *recording);
// Gives every stage output of every rank to `sink`, rank by rank, in the order of recording; data
// is borrowed for the call. `reduces` is as it was recorded.
int ls_recording_read(const ls_recording *recording, const ls_stage_sink *sink);
// A rank's call records, in order; comm is NULL in them, its name and member ranks are in the info.
typedef struct ls_recorded_call {
    ls_call call;      // send, recv and comm are NULL; counts and file are owned by the recording
    const char *comm;  // the communicator's name
    int comm_id;       // its number, in order of creation; -1: not recorded
    int comm_size;
    int member;             // the rank's place among its members; -1: not recorded
    const char *algorithm;  // the backend's own report: "ring", "tree", or NULL
    const char *protocol;   // "ll", "ll128", "simple", or NULL
    int channels;           // 0: not known
    const char *order;      // text of the reduction order that follows from these, or NULL
} ls_recorded_call;
int ls_recording_call_count(const ls_recording *recording, int rank);
const ls_recorded_call *ls_recording_call(const ls_recording *recording, int rank, int index);

// How the calls of two runs differ: kind, type, count, op, root, communicator and order.
typedef struct ls_call_difference {
    size_t calls;      // compared
    size_t differing;  // of these, those that one run lacks among them
} ls_call_difference;
// Compares two recordings of as many ranks, rank by rank and call by call. `text` gets the first
// difference.
void ls_recording_compare_calls(ls_call_difference *out, ls_text *text,
                                const ls_recording *simulated, const ls_recording *recorded);

#ifdef __cplusplus
}
#endif
#endif
