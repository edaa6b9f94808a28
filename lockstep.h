// lockstep: every rank of an SPMD program in one process, proven against real runs. Gathers the
// public headers, ground floor first; each can also be included alone. Those of the
// single backends are not among them: what they declare lies in libraries of their own.
#ifndef LS_LOCKSTEP_H
#define LS_LOCKSTEP_H

#include "base/base.h"

#include "formats/diagnostic.h"

#include "kernels/optimizer.h"
#include "kernels/pooling.h"
#include "kernels/quantise.h"

#include "local_tensor/local_tensor.h"

#include "orders/order.h"

#include "collectives/collectives.h"
#include "collectives/finding.h"
#include "collectives/recording.h"

#include "backends/kinds.h"

#include "ranks/fault.h"
#include "ranks/ranks.h"

#include "planner/plan.h"
#include "planner/plan_file.h"
#include "planner/planner.h"
#include "planner/topology.h"

#include "embedding/embedding.h"
#include "embedding/jagged.h"
#include "embedding/module.h"

#include "runner/result.h"
#include "runner/compare/run.h"
#include "runner/scenario/load.h"

#include "report/report.h"

#endif
