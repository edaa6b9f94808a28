// The least scenario, or C program, that has a history's finding.
#pragma once

#include <jansson.h>

#include "base/text.h"
#include "diagnose/history.h"

// A scenario of the history's calls that has `finding`, made as small as it still has it; the
// history has been explained. *out is NULL where no scenario of its calls has the finding. The
// caller drops it with json_decref. LS_ERR_MEMORY.
int ls_history_extract(json_t **out, const ls_history *history, ls_finding_id finding,
                       ls_arena *arena);
// The scenario's text, below `comment`, a sentence of lines.
void ls_extract_write_scenario(ls_text *out, const json_t *scenario, const char *comment);
// The same calls as a C program for `lockstep spmd`.
void ls_extract_write_program(ls_text *out, const json_t *scenario, const char *comment);
