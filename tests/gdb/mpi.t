# A program for MPI: its frames, its names, its globals; back and forth; the finding stops every way on.
$ lockstep mpi --break-on-finding -n 4 ring -- wrong
(gdb) ranks
4 ranks, 2 sets of calls matched
   rank  state    call                                         communicator    seq  where
   0     blocked  MPI_Allreduce, count 4, MPI_DOUBLE, MPI_SUM  MPI_COMM_WORLD  1    ring.c:22
   1     blocked  MPI_Allreduce, count 4, MPI_DOUBLE, MPI_SUM  MPI_COMM_WORLD  1    ring.c:22
*  2     running  MPI_Allreduce, count 3, MPI_DOUBLE, MPI_SUM  MPI_COMM_WORLD  1    ring.c:22
   3     blocked  MPI_Allreduce, count 4, MPI_DOUBLE, MPI_SUM  MPI_COMM_WORLD  1    ring.c:22
(gdb) bt
#14 0x... in main (argc=2, argv=0x...) at tests/gdb/ring.c:22
(gdb) info locals
count = 3
step = 1
rank = 2
size = 4
x = {21, 3, 4, 5}
sum = {60, 10, 14, 18}
(gdb) rank apply all print counter
rank 0: $1 = 0
rank 1: $2 = 2
rank 2: $3 = 4
rank 3: $4 = 6
(gdb) diff-ranks counter 0 2
1 of 1 i32 differ
  first at [0]: 0 on rank 0, 4 on rank 2 (4 apart)
(gdb) diff-ranks x 0 1
4 of 4 f64 differ
  first at [0]: 1.0 on rank 0, 11.0 on rank 1 (15199648742375424 ulps)
(gdb) calls 2 2
rank 2: 2 calls
  0  MPI_Allreduce, count 4, MPI_DOUBLE, MPI_SUM  MPI_COMM_WORLD  ring.c:22
  1  MPI_Allreduce, count 3, MPI_DOUBLE, MPI_SUM  MPI_COMM_WORLD  ring.c:22  not complete
(gdb) goto-collective 0
#0: MPI_Allreduce, count 4, MPI_DOUBLE, MPI_SUM on MPI_COMM_WORLD, ranks 0-3 at ring.c:22
[rank 3] main () at ring.c:22
(gdb) print step
$5 = 0
(gdb) next
main (argc=2, argv=0x...) at tests/gdb/ring.c:23
23              if (rank == 0) {
Value returned is $6 = 0
18          for (int step = 0; step < 3; step++) {
(gdb) print sum[0]
$7 = 60
(gdb) goto-collective 7
finding collective.count_mismatch of rank 2 at ring.c:22
member 2 reduces 3 elements, member 0 4
  ranks 0, 1, 3 (the majority): MPI_Allreduce, count 4, MPI_DOUBLE, MPI_SUM on MPI_COMM_WORLD at tests/gdb/ring.c:22
  rank 2: MPI_Allreduce, count 3, MPI_DOUBLE, MPI_SUM on MPI_COMM_WORLD at tests/gdb/ring.c:22
last calls of rank 2, newest last:
  MPI_Allreduce, count 4, MPI_DOUBLE, MPI_SUM on MPI_COMM_WORLD at tests/gdb/ring.c:22
  MPI_Allreduce, count 3, MPI_DOUBLE, MPI_SUM on MPI_COMM_WORLD (not complete) at tests/gdb/ring.c:22
last calls of rank 0, newest last:
  MPI_Allreduce, count 4, MPI_DOUBLE, MPI_SUM on MPI_COMM_WORLD at tests/gdb/ring.c:22
  MPI_Allreduce, count 4, MPI_DOUBLE, MPI_SUM on MPI_COMM_WORLD (not complete) at tests/gdb/ring.c:22
[rank 2, running] main () at ring.c:22
the program stopped at the finding, before call 7 on world matched
(gdb) ranks
4 ranks, 2 sets of calls matched
   rank  state    call                                         communicator    seq  where
   0     blocked  MPI_Allreduce, count 4, MPI_DOUBLE, MPI_SUM  MPI_COMM_WORLD  1    ring.c:22
   1     blocked  MPI_Allreduce, count 4, MPI_DOUBLE, MPI_SUM  MPI_COMM_WORLD  1    ring.c:22
*  2     running  MPI_Allreduce, count 3, MPI_DOUBLE, MPI_SUM  MPI_COMM_WORLD  1    ring.c:22
   3     blocked  MPI_Allreduce, count 4, MPI_DOUBLE, MPI_SUM  MPI_COMM_WORLD  1    ring.c:22
(gdb) reverse-next-collective
#0: MPI_Allreduce, count 4, MPI_DOUBLE, MPI_SUM on MPI_COMM_WORLD, ranks 0-3 at ring.c:22
[rank 3] main () at ring.c:22
(gdb) reverse-next-collective
no such set has matched before this one
(gdb) kill
# Breakpoints in a program that the run loads, and the end of a run that has nothing wrong.
$ lockstep gdb -- lockstep mpi -n 4 ring
(gdb) break ring.c:21 if $rank() == 2
No source file named ring.c.
Breakpoint 1 (ring.c:21 if $rank() == 2) pending.
(gdb) run
Thread 4 "rank 2" hit Breakpoint 1.2, main (argc=1, argv=0x...) at tests/gdb/ring.c:21
21              int count = rank == 2 && step == 1 && argc > 1 ? 3 : 4;
(gdb) print counter
$1 = 2
(gdb) bt
#0  main (argc=1, argv=0x...) at tests/gdb/ring.c:21
(gdb) next
22              MPI_Allreduce(x, sum, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
(gdb) next
23              if (rank == 0) {
(gdb) delete
(gdb) catch collective if $rank() == 1
Breakpoint 2 at 0x...: file ranks/hooks.c, line ....
Breakpoint 3 at 0x...: file collectives/hooks.c, line ....
(gdb) continue
Thread 3 "rank 1" hit Breakpoint 2, ls_gdb_hook_caught ...
(gdb) delete
(gdb) until-collective 2
#2: MPI_Allreduce, count 4, MPI_DOUBLE, MPI_SUM on MPI_COMM_WORLD, ranks 0-3 at ring.c:22
[rank 1] main () at ring.c:22
(gdb) goto-collective 99
the run ended before call 99 on world matched; its ranks are still here
(gdb) ranks
4 ranks, 3 sets of calls matched
   rank  state     call    communicator  seq  where
   0     returned  with 0                     ring.c:22
   1     returned  with 0                     ring.c:22
   2     returned  with 0                     ring.c:22
   3     returned  with 0                     ring.c:22
(gdb) kill
