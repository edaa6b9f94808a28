// Functions of MPI 4 in mpi.h: partitioned messages, and their queries.
#ifndef LS_MPI_INCLUDE_MPI_FUNCTIONS4_H
#define LS_MPI_INCLUDE_MPI_FUNCTIONS4_H

int MPI_Info_get_string(MPI_Info info, const char *key, int *length, char *value, int *flag);
int MPI_Psend_init(const void *buf, int partitions, MPI_Count count, MPI_Datatype type, int dest,
                   int tag, MPI_Comm comm, MPI_Info info, MPI_Request *request);
int MPI_Precv_init(void *buf, int partitions, MPI_Count count, MPI_Datatype type, int source,
                   int tag, MPI_Comm comm, MPI_Info info, MPI_Request *request);
int MPI_Pready(int partition, MPI_Request request);
int MPI_Pready_range(int low, int high, MPI_Request request);
int MPI_Pready_list(int length, const int partitions[], MPI_Request request);
int MPI_Parrived(MPI_Request request, int partition, int *flag);
int MPI_Comm_idup_with_info(MPI_Comm comm, MPI_Info info, MPI_Comm *out, MPI_Request *request);
int MPI_Status_set_elements_x(MPI_Status *status, MPI_Datatype type, MPI_Count count);

#endif
