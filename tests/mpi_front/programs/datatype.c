// A struct sent with its type; with WRONG it is received as other types of the same size.
#include <mpi.h>
#include <stddef.h>

typedef struct item {
    int number;
    float value;
} item;

int main(int argc, char **argv) {
    int rank, lengths[2] = {1, 1};
    item it = {7, 2.5f};
    MPI_Aint at[2] = {offsetof(item, number), offsetof(item, value)};
    MPI_Datatype parts[2] = {MPI_INT, MPI_FLOAT}, type;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
#ifdef WRONG
    parts[1] = rank == 1 ? MPI_INT : MPI_FLOAT;
#endif
    MPI_Type_create_struct(2, lengths, at, parts, &type);
    MPI_Type_commit(&type);
    if (rank == 0) {
        MPI_Send(&it, 1, type, 1, 3, MPI_COMM_WORLD);
    } else if (rank == 1) {
        it.number = 0;
        MPI_Recv(&it, 1, type, 0, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Type_free(&type);
    MPI_Finalize();
    return it.number == 7 && it.value == 2.5f ? 0 : 9;
}
