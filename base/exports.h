// What the libraries of the backends need of liblockstep beside its public face: exported for them
// alone. A header that says LS_API_BACKENDS is not installed, and what it declares may change.
#ifndef LS_BASE_EXPORTS_H
#define LS_BASE_EXPORTS_H

#include "base/status.h"

#define LS_API_BACKENDS LS_API

#endif
