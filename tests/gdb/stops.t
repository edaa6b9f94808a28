# Collectives by number, forth and back; breakpoints stay.
$ lockstep gdb -- data_parallel
(gdb) break gradient if $rank() == 3
Breakpoint 1 at 0x...: file examples/data_parallel.c, line 14.
(gdb) run
Thread 5 "rank 3" hit Breakpoint 1, gradient (out=0x..., model=0x..., self=0x... rank 3, running, 0 calls, step=0) at examples/data_parallel.c:14
14	    out[0] = out[1] = 0;
(gdb) print $seq()
$1 = -1
(gdb) next-collective
#0: all_reduce avg of 2 f32 on world, ranks 0-3 at data_parallel.c:30
[rank 3] train () at data_parallel.c:30
(gdb) until-collective 3
Thread 5 "rank 3" hit Breakpoint 1, gradient (out=0x..., model=0x..., self=0x... rank 3, running, 1 call, last at data_parallel.c:30, step=1) at examples/data_parallel.c:14
14	    out[0] = out[1] = 0;
the program stopped elsewhere
(gdb) print $seq()
$2 = 0
(gdb) rank apply all print step
rank 0: $3 = 0
rank 1: $4 = 0
rank 2: $5 = 0
rank 3: $6 = 1
(gdb) until-collective 1
#1: all_reduce avg of 2 f32 on world, ranks 0-3 at data_parallel.c:30
[rank 2] train () at data_parallel.c:30
(gdb) goto-collective 1
#1: all_reduce avg of 2 f32 on world, ranks 0-3 at data_parallel.c:30
[rank 2] train () at data_parallel.c:30
(gdb) print $seq()
$7 = 1
(gdb) rank apply all print step
rank 0: $8 = 1
rank 1: $9 = 1
rank 2: $10 = 1
rank 3: $11 = 1
(gdb) goto-collective 4
#4: all_reduce avg of 2 f32 on world, ranks 0-3 at data_parallel.c:30
[rank 3] train () at data_parallel.c:30
(gdb) goto-collective 0
#0: all_reduce avg of 2 f32 on world, ranks 0-3 at data_parallel.c:30
[rank 3] train () at data_parallel.c:30
(gdb) continue
Thread 5 "rank 3" hit Breakpoint 1, gradient (out=0x..., model=0x..., self=0x... rank 3, running, 1 call, last at data_parallel.c:30, step=1) at examples/data_parallel.c:14
14	    out[0] = out[1] = 0;
(gdb) delete
(gdb) catch collective all_reduce if $rank() == 1 && request->call.seq == 2
Breakpoint 2 at 0x...: file ranks/hooks.c, line ....
(gdb) continue
Thread 3 "rank 1" hit Breakpoint 2, ls_gdb_hook_caught ...
(gdb) print *request
$12 = all_reduce avg of 2 f32 on world (rank 1, call 2, data_parallel.c:30), posted
(gdb) catch collective nonsense
'nonsense' is not a kind of call; there are all_reduce, reduce, broadcast, all_gather, reduce_scatter, all_to_all, gather, scatter, scan, exscan, barrier, send, recv
(gdb) goto-collective 99
the run ended before call 99 on world matched; its ranks are still here
# A message, and a finding of an SPMD program.
$ lockstep gdb -- pipeline --bug
(gdb) catch finding deadlock.*
Breakpoint 1 at 0x...: file ranks/hooks.c, line ....
Breakpoint 2 at 0x...: file ranks/hooks.c, line ....
Breakpoint 3 at 0x...: file collectives/hooks.c, line ....
(gdb) run
finding deadlock.cycle of ranks 1, 2 at pipeline.c:29
deadlock: 2 ranks wait for each other in a circle
  rank 1 waits for rank 2: recv of 4 f32 from rank 2 on world at examples/pipeline.c:29
  rank 2 waits for rank 1: recv of 4 f32 from rank 1 on world at examples/pipeline.c:18
3 of 3 ranks wait:
  rank 0: recv of 4 f32 from rank 1 on world at examples/pipeline.c:29
  rank 1: recv of 4 f32 from rank 2 on world at examples/pipeline.c:29
  rank 2: recv of 4 f32 from rank 1 on world at examples/pipeline.c:18
last calls of rank 1, newest last:
  recv of 4 f32 from rank 0 on world at examples/pipeline.c:18
  recv of 4 f32 from rank 2 on world (not complete) at examples/pipeline.c:29
last calls of rank 2, newest last:
  recv of 4 f32 from rank 1 on world (not complete) at examples/pipeline.c:18
Thread 2 "rank 0" hit Breakpoint 2, ls_gdb_hook_finding ...
[rank 1, blocked] micro_batch () at pipeline.c:29
(gdb) print $finding_name
$1 = "deadlock.cycle"
(gdb) print $finding_rank
$2 = 1
(gdb) ranks
3 ranks, 1 set of calls matched
   rank  state    call                       communicator  seq  where
   0     blocked  recv of 4 f32 from rank 1  world         1    pipeline.c:29
*  1     blocked  recv of 4 f32 from rank 2  world         1    pipeline.c:29
   2     blocked  recv of 4 f32 from rank 1  world         0    pipeline.c:18
(gdb) waitgraph
rank 0 waits for rank 1: recv of 4 f32 from rank 1 on world, pipeline.c:29
rank 1 waits for rank 2: recv of 4 f32 from rank 2 on world, pipeline.c:29
rank 2 waits for rank 1: recv of 4 f32 from rank 1 on world, pipeline.c:18
circle: 1 -> 2 -> 1
(gdb) rank 1
[rank 1, blocked] micro_batch () at pipeline.c:29
(gdb) rank 7
there is no rank 7; the run has ranks 0-2
(gdb) calls 3 all
rank 0: 2 calls
  0  send of 4 f32 to rank 1    world  pipeline.c:27
  1  recv of 4 f32 from rank 1  world  pipeline.c:29  not complete
rank 1: 2 calls
  0  recv of 4 f32 from rank 0  world  pipeline.c:18
  1  recv of 4 f32 from rank 2  world  pipeline.c:29  not complete
rank 2: 1 call
  0  recv of 4 f32 from rank 1  world  pipeline.c:18  not complete
$ lockstep gdb -- moe
(gdb) start
Temporary breakpoint 1 at 0x...: file examples/moe.c, line 70.
Temporary breakpoint 1, main (argc=1, argv=0x...) at examples/moe.c:70
70	    return example_spmd(argc, argv, layer, 4);
(gdb) next-collective all_to_all
#0: all_to_all of 1 u64 on world, ranks 0-3 at moe.c:43
[rank 3] layer () at moe.c:43
(gdb) next-collective reduce
#3: reduce sum of 1 f64, root 0 on world, ranks 0-3 at moe.c:62
[rank 0] layer () at moe.c:62
(gdb) ranks
4 ranks, 4 sets of calls matched
   rank  state    call                         communicator  seq  where
*  0     running  reduce sum of 1 f64, root 0  world         3    moe.c:62
   1     blocked  reduce sum of 1 f64, root 0  world         3    moe.c:62
   2     blocked  reduce sum of 1 f64, root 0  world         3    moe.c:62
   3     blocked  reduce sum of 1 f64, root 0  world         3    moe.c:62
(gdb) next-collective
the run ended before another call matched; its ranks are still here
