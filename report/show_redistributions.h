// The redistributions of a program as text and JSON: the collectives of each and the cheapest path.
#pragma once

#include "formats/json.h"
#include "runner/program/redistribute.h"

// Both append nothing where the program has no redistribution and ran to its end. stopped: what
// ended the program early; NULL: nothing.
int ls_show_redistributions_text(ls_text *out, const ls_redistributions *all, const char *stopped,
                                 const ls_scenario *scenario);
// The member "redistributions" of the open object, an array, and "stopped" where it is given.
void ls_show_redistributions_json(ls_json *json, const ls_redistributions *all,
                                  const char *stopped);
