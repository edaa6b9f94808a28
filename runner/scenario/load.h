// Loads scenarios from files: the public interface. scenario.h describes their contents.
#ifndef LS_RUNNER_SCENARIO_LOAD_H
#define LS_RUNNER_SCENARIO_LOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "formats/diagnostic.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_scenario ls_scenario;

typedef struct ls_scenario_options {
    size_t size;         // sizeof this struct (LS_OPTIONS); 0: as this header has it
    bool allow_outside;  // paths may leave the scenario's folder
    bool has_seed;       // --seed: replaces the file's
    uint64_t seed;       //
} ls_scenario_options;

// Reads and checks the scenario in `path`. On LS_OK the caller owns *out. LS_ERR_FORMAT: the file
// is wrong; every error is in `diagnostics` (created for this path). LS_ERR_IO: it cannot be read;
// the error is in `diagnostics`, too. options may be NULL.
LS_API int ls_scenario_load(ls_scenario **out, ls_diagnostics *diagnostics, const char *path,
                            const ls_scenario_options *options);
// The same from memory: `path` names it in messages; its folder is the base of relative paths.
LS_API int ls_scenario_parse(ls_scenario **out, ls_diagnostics *diagnostics, const char *path,
                             const char *text, size_t bytes, const ls_scenario_options *options);
LS_API void ls_scenario_free(ls_scenario *scenario);  // NULL is allowed

#ifdef __cplusplus
}
#endif
#endif
