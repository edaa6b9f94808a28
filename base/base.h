// base: what every other folder stands on. Gathers the public headers of this folder.
#ifndef LS_BASE_BASE_H
#define LS_BASE_BASE_H

#include "base/dtype.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/options.h"
#include "base/random.h"
#include "base/status.h"
#include "base/text.h"
#include "base/version.h"

#endif
