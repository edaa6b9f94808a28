// Signal handlers and timers of ranks.
#pragma once

#include "mpi/internal.h"

void ls_mpi__signals_open(mpi_rank *me);
// The program of the rank has ended: nothing is delivered to it any more.
void ls_mpi__signals_end(mpi_rank *me);
void ls_mpi__signals_close(mpi_rank *me);
// See ls_front.
bool ls_mpi__signalled(int signal, siginfo_t *info, void *context);
