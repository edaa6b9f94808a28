# The handles of an MPI program, and one that was freed. A handle is of the selected rank's.
$ lockstep gdb -- lockstep mpi -n 4 mistakes handles
(gdb) break meet_here if $rank() == 2
Function "meet_here" not defined.
Breakpoint 1 (meet_here if $rank() == 2) pending.
(gdb) run
Thread 4 "rank 2" hit Breakpoint 1..., meet_here () at tests/gdb/mistakes.c:11
11      static void meet_here(void) {
(gdb) up
#1  0x... in handles () at tests/gdb/mistakes.c:39
39          meet_here();
(gdb) print half
$1 = half: 2 ranks, 0, 2; rank 1 of it
(gdb) print none
$2 = MPI_COMM_NULL
(gdb) print vector
$3 = 3 elements of MPI_INT, 12 bytes, extent 20, not committed
(gdb) print receive
$4 = MPI_Irecv, count 4, MPI_INT, source 3, tag 5, waits for other ranks at mistakes.c:36
(gdb) print window
$5 = window of 4 ranks, 32 bytes here at 0x..., a fence epoch since mistakes.c:35
(gdb) print own
$6 = sum (), commutes
(gdb) print group
$7 = group of 2 ranks: 0, 2
(gdb) print (MPI_Datatype)0x18000009
$8 = MPI_INT
(gdb) continue
Thread 4 "rank 2" hit Breakpoint 1..., meet_here () at tests/gdb/mistakes.c:11
11      static void meet_here(void) {
(gdb) up
#1  0x... in handles () at tests/gdb/mistakes.c:41
41          meet_here();
(gdb) print freed
$9 = MPI_Comm that was freed at mistakes.c:40
# The threads of an OpenMP region are their rank's.
$ lockstep gdb -- lockstep mpi -n 2 mistakes threads
(gdb) break meet_here if $rank() == 1
Function "meet_here" not defined.
Breakpoint 1 (meet_here if $rank() == 1) pending.
(gdb) run
Thread ... "rank 1" hit Breakpoint ..., meet_here () at tests/gdb/mistakes.c:11
11      static void meet_here(void) {
(gdb) rank threads 1
rank 1: 3 threads
  own thread ...
      thread ...
      thread ...
(gdb) rank threads 9
'9' is not a rank of the run
