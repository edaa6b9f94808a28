// The place in the program of the current MPI call.
#define _GNU_SOURCE

#include <sched.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mpi/internal.h"
#include "ranks/seen.h"

_Thread_local const char *ls_mpi__file = "";

_Thread_local int ls_mpi__line;
