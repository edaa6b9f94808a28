// embedding: sharded embedding tables. Forward: jagged inputs -> input_dist -> lookup ->
// output_dist; training: backward the same ways back, and an optimizer's update; each a stage with
// its real collectives.
// The public headers of this folder, gathered.
#ifndef LS_EMBEDDING_EMBEDDING_H
#define LS_EMBEDDING_EMBEDDING_H

#include "embedding/checkpoint.h"
#include "embedding/functional.h"
#include "embedding/jagged.h"
#include "embedding/module.h"
#include "embedding/training.h"

#endif
