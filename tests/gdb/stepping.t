# Break in rank 2, look at all ranks, switch, step over a collective, compare ranks.
$ lockstep gdb -- data_parallel
(gdb) tbreak data_parallel.c:31 if $rank() == 2
Temporary breakpoint 1 at 0x...: file examples/data_parallel.c, line 31.
(gdb) run
Thread 4 "rank 2" hit Temporary breakpoint 1, train (self=0x... rank 2, running, 1 call, last at data_parallel.c:30, arg=0x...) at examples/data_parallel.c:31
31	        for (int i = 0; i < 2; i++) {
(gdb) ranks
4 ranks, 1 set of calls matched
   rank  state    call                     communicator  seq  where
   0     blocked  all_reduce avg of 2 f32  world         1    data_parallel.c:30
   1     blocked  all_reduce avg of 2 f32  world         1    data_parallel.c:30
*  2     running  after 1 call                                train () at data_parallel.c:31
   3     blocked  all_reduce avg of 2 f32  world         1    data_parallel.c:30
(gdb) rank
rank 2
(gdb) print $rank()
$1 = 2
(gdb) diff-ranks grad 2 1
rank 2 at data_parallel.c:31, rank 1 at data_parallel.c:30
2 of 2 f32 differ
  first at [0]: -2.4635828 on rank 2, 0.1784619 on rank 1 (2119461390 ulps)
  worst at [1]: -4.5962315 on rank 2, 1.1983938 on rank 1 (2150398284 ulps)
(gdb) rank 1
[rank 1, blocked] train () at data_parallel.c:30
(gdb) print step
$2 = 1
(gdb) next
0x... in train (self=0x... rank 1, running, 2 calls, last at data_parallel.c:30, arg=0x...) at examples/data_parallel.c:30
30	        CHECK(ls_all_reduce(grad, grad, reduced, LS_F32, LS_AVG, world));
Value returned is $3 = 0
31	        for (int i = 0; i < 2; i++) {
(gdb) ranks
4 ranks, 2 sets of calls matched
   rank  state    call                     communicator  seq  where
   0     blocked  all_reduce avg of 2 f32  world         2    data_parallel.c:30
*  1     running  after 2 calls                               train () at data_parallel.c:31
   2     blocked  all_reduce avg of 2 f32  world         2    data_parallel.c:30
   3     blocked  all_reduce avg of 2 f32  world         2    data_parallel.c:30
(gdb) diff-ranks model 0 1
rank 0 at data_parallel.c:30, rank 1 at data_parallel.c:31
2 of 2 f32 differ
  first at [0]: 1.1540401 on rank 0, 1.2317914 on rank 1 (652225 ulps)
  worst at [1]: 1.8334649 on rank 0, 2.2981157 on rank 1 (2647386 ulps)
(gdb) diff-ranks model 1 2
rank 1 at data_parallel.c:31, rank 2 at data_parallel.c:30
2 of 2 f32 differ
  first at [0]: 1.2317914 on rank 1, 1.1540401 on rank 2 (652225 ulps)
  worst at [1]: 2.2981157 on rank 1, 1.8334649 on rank 2 (2647386 ulps)
(gdb) tbreak data_parallel.c:30 if $rank() == 3 && step == 3
Temporary breakpoint 2 at 0x...: file examples/data_parallel.c, line 30.
(gdb) continue
Thread 5 "rank 3" hit Temporary breakpoint 2, train (self=0x... rank 3, running, 3 calls, last at data_parallel.c:30, arg=0x...) at examples/data_parallel.c:30
30	        CHECK(ls_all_reduce(grad, grad, reduced, LS_F32, LS_AVG, world));
(gdb) next
31	        for (int i = 0; i < 2; i++) {
(gdb) rank
rank 3
(gdb) shard grad 0
rank 0: 2 f32 = {-0.38232616, -0.16667347}
(gdb) rank apply 0,2-3 print step
rank 0: $4 = 4
rank 2: $5 = 4
rank 3: $6 = 3
(gdb) calls 2
rank 3: 4 calls
  2  all_reduce avg of 2 f32  world  data_parallel.c:30
  3  all_reduce avg of 2 f32  world  data_parallel.c:30
(gdb) waitgraph
ranks 0-2 wait for rank 3 (running): all_reduce avg of 2 f32 on world, data_parallel.c:30
(gdb) info symbol $pc
train + ... in section .text of .../examples/data_parallel
