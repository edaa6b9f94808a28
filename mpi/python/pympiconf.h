// mpi4py's configuration: the MPI of mpi.h, without the names that lockstep declares and does not
// implement. mpi4py raises NotImplementedError for these.
#pragma once

#include "config/mpiapi.h"
#include "config/mpiio.h"
#include "config/unknown.h"

#undef PyMPI_HAVE_MPI_Comm_spawn
#undef PyMPI_HAVE_MPI_Comm_spawn_multiple
#undef PyMPI_HAVE_MPI_Open_port
#undef PyMPI_HAVE_MPI_Close_port
#undef PyMPI_HAVE_MPI_Publish_name
#undef PyMPI_HAVE_MPI_Unpublish_name
#undef PyMPI_HAVE_MPI_Lookup_name
#undef PyMPI_HAVE_MPI_Comm_accept
#undef PyMPI_HAVE_MPI_Comm_connect
#undef PyMPI_HAVE_MPI_Comm_join
#undef PyMPI_HAVE_MPI_Type_create_f90_integer
#undef PyMPI_HAVE_MPI_Type_create_f90_real
#undef PyMPI_HAVE_MPI_Type_create_f90_complex
