# Every rank one line on: a rank whose call waits for others stays there until they have come.
$ lockstep gdb -- kinds
(gdb) step-all
the program is not running; start it with 'run' or 'start'
(gdb) tbreak kinds.c:36 if $rank() == 0
Temporary breakpoint 1 at 0x...: file tests/gdb/kinds.c, line 36.
(gdb) run
Thread 2 "rank 0" hit Temporary breakpoint 1, program (self=0x... rank 0, running, 0 calls, arg=0x...) at tests/gdb/kinds.c:36
36          LS_TRY(ls_barrier(world));
(gdb) diff-ranks rank 0 1
rank 0 at kinds.c:36, rank 1 at threads.c:...
rank is a ls_rank *; cast it to a pointer to its elements
(gdb) next-all
[rank 0, blocked] program () at kinds.c:36
rank 0: waits in barrier at kinds.c:36
rank 1: program () at kinds.c:27
rank 2: program () at kinds.c:27
(gdb) next-all
[rank 0, blocked] program () at kinds.c:36
rank 0: waits in barrier at kinds.c:36
rank 1: program () at kinds.c:28
rank 2: program () at kinds.c:28
(gdb) next-all
[rank 0, blocked] program () at kinds.c:36
rank 0: waits in barrier at kinds.c:36
rank 1: program () at kinds.c:29
rank 2: program () at kinds.c:29
(gdb) diff-ranks rank 0 1
rank 0 at kinds.c:36, rank 1 at kinds.c:29
1 of 1 i32 differ
  first at [0]: 0 on rank 0, 1 on rank 1 (1 apart)
(gdb) next-all
[rank 0, blocked] program () at kinds.c:36
rank 0: waits in barrier at kinds.c:36
rank 1: program () at kinds.c:30
rank 2: program () at kinds.c:30
(gdb) next-all
[rank 0, blocked] program () at kinds.c:36
rank 0: waits in barrier at kinds.c:36
rank 1: program () at kinds.c:31
rank 2: program () at kinds.c:31
(gdb) ranks
3 ranks, 0 sets of calls matched
   rank  state    call     communicator  seq  where
*  0     blocked  barrier  world         0    kinds.c:36
   1     ready                                program () at kinds.c:31
   2     running                              program () at kinds.c:31
(gdb) show scheduler-locking
Mode for locking scheduler during execution is "replay".
# Structs, and what their pointers to memory of known size point to, in two or more ranks. Each of these is brought to
# its line alone: after next-all both go on at once.
(gdb) set scheduler-locking on
(gdb) rank 1
...
(gdb) advance kinds.c:36
...
36          LS_TRY(ls_barrier(world));
(gdb) rank 2
...
(gdb) advance kinds.c:36
...
36          LS_TRY(ls_barrier(world));
(gdb) set scheduler-locking replay
(gdb) diff-ranks m 0 1 2
no two ranks hold the same; compared with rank 0
rank 1:
.sgd.step: 1 of 1 i32 differ
  first at [0]: 1 on rank 0, 2 on rank 1 (1 apart)
rank 2:
.grad: 1 of 6 f32 differ
  first at [3]: 1 on rank 0, 9 on rank 2 (26214400 ulps)
(gdb) diff-ranks m.sgd 0-1
.step: 1 of 1 i32 differ
  first at [0]: 1 on rank 0, 2 on rank 1 (1 apart)
(gdb) diff-ranks m.grad all
ranks 0, 1 hold the same
rank 2:
1 of 6 f32 differ
  first at [3]: 1 on rank 0, 9 on rank 2 (26214400 ulps)
(gdb) diff-ranks rank + 1 0 1
1 of 1 i32 differ
  first at [0]: 1 on rank 0, 2 on rank 1 (1 apart)
(gdb) diff-ranks m.name 0 1
rank 0: the size of what m.name points at is not known; write *m.name@COUNT
(gdb) diff-ranks m 0
usage: diff-ranks TENSOR A B [C ...]
(gdb) shard m.sgd 1
rank 1 .rate: 1 f64 = {0.5}
rank 1 .step: 1 i32 = {2}
# The last rank comes to the barrier, and all go on; a wait, splits, a group that is open, its end.
(gdb) next-all
[rank 2, ready] program () at kinds.c:37
rank 0: program () at kinds.c:37
rank 1: program () at kinds.c:37
rank 2: program () at kinds.c:37
(gdb) next-all
[rank 2, running] program () at kinds.c:38
rank 0: program () at kinds.c:38
rank 1: program () at kinds.c:38
rank 2: program () at kinds.c:38
(gdb) next-all
[rank 2, running] program () at kinds.c:39
rank 0: program () at kinds.c:39
rank 1: program () at kinds.c:39
rank 2: program () at kinds.c:39
(gdb) ranks
3 ranks, 2 sets of calls matched
   rank  state    call           communicator  seq  where
   0     ready    after 2 calls                     program () at kinds.c:39
   1     ready    after 2 calls                     program () at kinds.c:39
*  2     running  after 2 calls                     program () at kinds.c:39
(gdb) print $
The history is empty.
(gdb) kill
# Waits, splits, an open group and its end.
$ lockstep gdb -- kinds
(gdb) tbreak kinds.c:37 if $rank() == 0
Temporary breakpoint 1 at 0x...: file tests/gdb/kinds.c, line 37.
(gdb) run
Thread 2 "rank 0" hit Temporary breakpoint 1, program (self=0x... rank 0, running, 1 call, last at kinds.c:36, arg=0x...) at tests/gdb/kinds.c:37
37          ls_request *request = NULL;
(gdb) ranks
3 ranks, 1 set of calls matched
   rank  state    call                                                  communicator  seq  where
*  0     running  after 1 call                                                             program () at kinds.c:37
   1     ready    barrier                                               world         0    kinds.c:36
   2     blocked  wait for all_reduce sum of 6 f32, made at kinds.c:38  world         1    kinds.c:39
(gdb) tbreak kinds.c:46 if $rank() == 2
Temporary breakpoint 2 at 0x...: file tests/gdb/kinds.c, line 46.
(gdb) continue
Thread 4 "rank 2" hit Temporary breakpoint 2, program (self=0x... rank 2, running, 3 calls, last at kinds.c:45, arg=0x...) at tests/gdb/kinds.c:46
46          LS_TRY(ls_group_start(self));
(gdb) ranks
3 ranks, 4 sets of calls matched
   rank  state    call                                                         communicator  seq  where
   0     blocked  end of group: recv of 2 f32 from rank 2, made at kinds.c:48  world         4    kinds.c:49
   1     blocked  end of group: send of 2 f32 to rank 2, made at kinds.c:47    world         3    kinds.c:49
*  2     running  after 3 calls                                                                   program () at kinds.c:46
(gdb) diff-ranks rank 0 2
these ranks are at different steps: rank 2 after 3 calls, rank 0 after 4 calls
rank 0 at kinds.c:49, rank 2 at kinds.c:46
1 of 1 i32 differ
  first at [0]: 0 on rank 0, 2 on rank 2 (2 apart)
(gdb) calls 2 0,2
rank 0: 5 calls
  3  send of 2 f32 to rank 1    world  kinds.c:47
  4  recv of 2 f32 from rank 2  world  kinds.c:48  not complete
rank 2: 3 calls
  1  all_reduce sum of 6 f32                                 world  kinds.c:38
  2  all_to_all of f32, sends {1, 2, 2}, receives {0, 1, 2}  world  kinds.c:45
(gdb) tbreak kinds.c:48 if $rank() == 2
Temporary breakpoint 3 at 0x...: file tests/gdb/kinds.c, line 48.
(gdb) continue
Thread 4 "rank 2" hit Temporary breakpoint 3, program (self=0x... rank 2, running, 4 calls, last at kinds.c:47, arg=0x...) at tests/gdb/kinds.c:48
48          LS_TRY(ls_recv(out, 2, LS_F32, (rank + ranks - 1) % ranks, world));
(gdb) ranks
3 ranks, 4 sets of calls matched
   rank  state    call                                                         communicator  seq  where
   0     blocked  end of group: recv of 2 f32 from rank 2, made at kinds.c:48  world         4    kinds.c:49
   1     blocked  end of group: send of 2 f32 to rank 2, made at kinds.c:47    world         3    kinds.c:49
*  2     running  after 4 calls, in a group of 1 call opened at kinds.c:46                        program () at kinds.c:48
(gdb) diff-ranks rank 0 1
1 of 1 i32 differ
  first at [0]: 0 on rank 0, 1 on rank 1 (1 apart)
(gdb) bt
#0  program (self=0x... rank 2, running, 4 calls, last at kinds.c:47, arg=0x...) at tests/gdb/kinds.c:48
(gdb) rank 1
[rank 1, blocked] program () at kinds.c:49
(gdb) bt
#... 0x... in program (self=0x... rank 1, blocked, 5 calls, last at kinds.c:49, arg=0x...) at tests/gdb/kinds.c:49
# Into a function of the program; a breakpoint of one's own on the way.
$ lockstep gdb -- kinds
(gdb) tbreak kinds.c:50 if $rank() == 1
Temporary breakpoint 1 at 0x...: file tests/gdb/kinds.c, line 50.
(gdb) run
Thread 3 "rank 1" hit Temporary breakpoint 1, program (self=0x... rank 1, running, 5 calls, last at kinds.c:49, arg=0x...) at tests/gdb/kinds.c:50
50          float grown = grow(out[0]);
(gdb) step-all
[rank 1, running] grow () at kinds.c:22
rank 1: grow () at kinds.c:22
(gdb) break kinds.c:22 if $rank() == 1
Breakpoint 2 at 0x...: file tests/gdb/kinds.c, line 22.
(gdb) step-all
[rank 1, running] grow () at kinds.c:23
rank 1: grow () at kinds.c:23
(gdb) delete
(gdb) next-all
[rank 1, running] grow () at kinds.c:24
rank 1: grow () at kinds.c:24
(gdb) next-all
[rank 1, running] program () at kinds.c:51
rank 1: program () at kinds.c:51
(gdb) next-all
[rank 1, running] program () at kinds.c:52
rank 1: program () at kinds.c:52
(gdb) next-all
[rank 1, running] program () at kinds.c:55
rank 1: program () at kinds.c:55
(gdb) next-all
[rank 1, running] program () at kinds.c:56
rank 1: program () at kinds.c:56
(gdb) next-all
[rank 1, returned] its program is over, its last call at kinds.c:49
rank 1: returned
(gdb) next-all
the program of every rank has ended
(gdb) ranks
3 ranks, 6 sets of calls matched
   rank  state     call    communicator  seq  where
   0     returned  with 0                     kinds.c:49
*  1     returned  with 0                     kinds.c:49
   2     returned  with 0                     kinds.c:49
(gdb) next-all
the program of every rank has ended
# The end: the ranks are still there when something is found.
$ lockstep gdb -- kinds
(gdb) catch finding
Breakpoint 1 at 0x...: file ranks/hooks.c, line ....
Breakpoint 2 at 0x...: file ranks/hooks.c, line ....
Breakpoint 3 at 0x...: file collectives/hooks.c, line ....
(gdb) run
finding handle.leak of rank 1 at kinds.c:30
rank 1 never freed the 24 bytes that it allocated at tests/gdb/kinds.c:30
Thread 1 "kinds" hit Breakpoint 2, ls_gdb_hook_finding ...
[rank 1, returned] its program is over, its last call at kinds.c:49
(gdb) ranks
3 ranks, 6 sets of calls matched
   rank  state     call    communicator  seq  where
   0     returned  with 0                     kinds.c:49
*  1     returned  with 0                     kinds.c:49
   2     returned  with 0                     kinds.c:49
(gdb) rank 2
[rank 2, returned] its program is over, its last call at kinds.c:49
(gdb) calls 1 all
rank 0: 5 calls
  4  recv of 2 f32 from rank 2  world  kinds.c:48
rank 1: 5 calls
  4  recv of 2 f32 from rank 0  world  kinds.c:48
rank 2: 5 calls
  4  recv of 2 f32 from rank 1  world  kinds.c:48
(gdb) next-all
the program of every rank has ended
(gdb) diff-ranks m 0 1
rank 0 has returned: its program holds nothing any more
(gdb) continue
ended with -12, 1 findings
[Inferior 1 (process ...) exited normally]
