# Every command on 1,024 ranks; the times are in the output.
$ lockstep gdb -- many 1024
(gdb) catch collective all_reduce if $rank() == 2
Breakpoint 1 at 0x...: file ranks/hooks.c, line ....
Breakpoint 2 at 0x...: file collectives/hooks.c, line ....
(gdb) run
Thread 4 "rank 2" hit Breakpoint 1, ls_gdb_hook_caught ...
(gdb) ranks
1024 ranks, 3 sets of calls matched
   rank             state    call                      communicator  seq  where
   0, 1, 1021-1023  blocked  all_reduce avg of 64 f32  world         3    many.c:25
*  2                running  after 4 calls                                program () at many.c:25
   3-1020           ready    barrier                   world         2    many.c:22
(gdb) ranks 0-2
1024 ranks, 3 sets of calls matched
   rank  state    call                      communicator  seq  where
   0     blocked  all_reduce avg of 64 f32  world         3    many.c:25
   1     blocked  all_reduce avg of 64 f32  world         3    many.c:25
*  2     running  after 4 calls                                program () at many.c:25
(gdb) waitgraph
ranks 0, 1, 1021-1023 wait for ranks 2-1020 (ready, running): all_reduce avg of 64 f32 on world, many.c:25
(gdb) rank 700
[rank 700, ready] program () at many.c:22
(gdb) diff-ranks grad 0 5
rank 0 at many.c:25, rank 5 at many.c:22
1 of 64 f32 differ
  first at [40]: 41 on rank 0, 41.000004 on rank 5 (1 ulp)
(gdb) shard grad 5
rank 5: 64 f32 = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41.000004, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63, 64}
(gdb) calls 2
rank 700: 3 calls
  1  barrier  world  many.c:22
  2  barrier  world  many.c:22
(gdb) calls 1 all
ranks 0-2, 1021-1023: 4 calls
  3  all_reduce avg of 64 f32  world  many.c:25  not complete
ranks 3-1020: 3 calls
  2  barrier  world  many.c:22
(gdb) rank apply all print rank
rank 0: $1 = 0
...
rank 1023: $1024 = 1023
(gdb) print $rank()
$1025 = 700
(gdb) print *self
$1026 = rank 700, ready, 3 calls, last at many.c:22
(gdb) next-collective
#3: all_reduce avg of 64 f32 on world, ranks 0-1023 at many.c:25
[rank 1020] program () at many.c:25
(gdb) goto-collective 1
#1: barrier on world, ranks 0-1023 at many.c:22
[rank 1022] program () at many.c:22
(gdb) generate-core-file core.many
(gdb) kill
(gdb) core-file core.many
Program terminated with signal SIGTRAP, Trace/breakpoint trap.
#0  ls_gdb_hook_reached ...
(gdb) ranks
1024 ranks, 2 sets of calls matched
   rank          state    call     communicator  seq  where
   0-1021, 1023  blocked  barrier  world         1    many.c:22
*  1022          running  barrier  world         1    many.c:22
