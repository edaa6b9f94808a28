# Calls that do not fit stop the run while every rank is in its call.
$ lockstep gdb tests/gdb/gradients.yaml
(gdb) catch finding
Breakpoint 1 at 0x...: file ranks/hooks.c, line ....
Breakpoint 2 at 0x...: file ranks/hooks.c, line ....
Breakpoint 3 at 0x...: file collectives/hooks.c, line ....
(gdb) run
finding collective.op_mismatch of rank 2 at gradients.yaml:6
all_reduce on world, call 0: op differs: rank 2 says max (tests/gdb/gradients.yaml:6), rank 0 says sum (tests/gdb/gradients.yaml:6); 1 of 4 ranks differ
  ranks 0, 1, 3 (the majority): all_reduce sum of 1024 f32 on world at tests/gdb/gradients.yaml:6
  rank 2: all_reduce max of 1024 f32 on world at tests/gdb/gradients.yaml:6
last calls of rank 2, newest last:
  all_reduce max of 1024 f32 on world (not complete) at tests/gdb/gradients.yaml:6
last calls of rank 0, newest last:
  all_reduce sum of 1024 f32 on world (not complete) at tests/gdb/gradients.yaml:6
Thread 5 "rank 3" hit Breakpoint 1, ls_gdb_hook_mismatch ...
[rank 2, blocked] at gradients.yaml:6
(gdb) ranks
4 ranks, 0 sets of calls met
   rank  state    call                        communicator  seq  where
   0     blocked  all_reduce sum of 1024 f32  world         0    gradients.yaml:6
   1     blocked  all_reduce sum of 1024 f32  world         0    gradients.yaml:6
*  2     blocked  all_reduce max of 1024 f32  world         0    gradients.yaml:6
   3     running  all_reduce sum of 1024 f32  world         0    gradients.yaml:6
(gdb) continue
FAIL  gradients         finding       sim, ... s
gradients (failed)
  collective.op_mismatch, rank 2, at tests/gdb/gradients.yaml:6
    all_reduce on world, call 0: op differs: rank 2 says max (tests/gdb/gradients.yaml:6), rank 0 says sum (tests/gdb/gradients.yaml:6); 1 of 4 ranks differ
      ranks 0, 1, 3 (the majority): all_reduce sum of 1024 f32 on world at tests/gdb/gradients.yaml:6
      rank 2: all_reduce max of 1024 f32 on world at tests/gdb/gradients.yaml:6
    last calls of rank 2, newest last:
      all_reduce max of 1024 f32 on world (not complete) at tests/gdb/gradients.yaml:6
    last calls of rank 0, newest last:
      all_reduce sum of 1024 f32 on world (not complete) at tests/gdb/gradients.yaml:6
  explain: lockstep explain collective.op_mismatch
  reproduce: lockstep run --backend sim tests/gdb/gradients.yaml
run: 0 passed, 1 failed, 0 skipped
[Inferior 1 (process ...) exited with code 01]
# The calls that follow name the defect better; the program has stopped for it once.
$ lockstep gdb scenarios/bugs/broadcast_and_reduce_swapped.yaml
(gdb) catch finding
Breakpoint 1 at 0x...: file ranks/hooks.c, line ....
Breakpoint 2 at 0x...: file ranks/hooks.c, line ....
Breakpoint 3 at 0x...: file collectives/hooks.c, line ....
(gdb) run
finding collective.kind_mismatch of rank 2 at broadcast_and_reduce_swapped.yaml:13
all_reduce on world, call 0: kind differs: rank 2 says broadcast (scenarios/bugs/broadcast_and_reduce_swapped.yaml:13), rank 0 says all_reduce (scenarios/bugs/broadcast_and_reduce_swapped.yaml:10); 1 of 3 ranks differ
  ranks 0, 1 (the majority): all_reduce sum of 8 f32 on world at scenarios/bugs/broadcast_and_reduce_swapped.yaml:10
  rank 2: broadcast of 8 f32 from rank 0 on world at scenarios/bugs/broadcast_and_reduce_swapped.yaml:13
last calls of rank 2, newest last:
  broadcast of 8 f32 from rank 0 on world (not complete) at scenarios/bugs/broadcast_and_reduce_swapped.yaml:13
last calls of rank 0, newest last:
  all_reduce sum of 8 f32 on world (not complete) at scenarios/bugs/broadcast_and_reduce_swapped.yaml:10
Thread 4 "rank 2" hit Breakpoint 1, ls_gdb_hook_mismatch ...
[rank 2, running] at broadcast_and_reduce_swapped.yaml:13
(gdb) print $finding_name
$1 = "collective.kind_mismatch"
(gdb) ranks
3 ranks, 0 sets of calls met
   rank  state    call                        communicator  seq  where
   0     blocked  all_reduce sum of 8 f32     world         0    broadcast_and_reduce_swapped.yaml:10
   1     blocked  all_reduce sum of 8 f32     world         0    broadcast_and_reduce_swapped.yaml:10
*  2     running  broadcast of 8 f32, root 0  world         0    broadcast_and_reduce_swapped.yaml:13
(gdb) continue
by the calls that came next the finding is collective.order_mismatch
all_reduce on world, call 0: kind differs: rank 2 says broadcast (scenarios/bugs/broadcast_and_reduce_swapped.yaml:13), rank 0 says all_reduce (scenarios/bugs/broadcast_and_reduce_swapped.yaml:10); 1 of 3 ranks differ
the ranks make the same calls in different orders
  ranks 0, 1 (the majority): all_reduce sum of 8 f32 on world at scenarios/bugs/broadcast_and_reduce_swapped.yaml:10
  rank 2: broadcast of 8 f32 from rank 0 on world at scenarios/bugs/broadcast_and_reduce_swapped.yaml:13
last calls of rank 2, newest last:
  broadcast of 8 f32 from rank 0 on world (not complete) at scenarios/bugs/broadcast_and_reduce_swapped.yaml:13
last calls of rank 0, newest last:
  all_reduce sum of 8 f32 on world (not complete) at scenarios/bugs/broadcast_and_reduce_swapped.yaml:10
next calls of rank 2 on world:
  all_reduce sum of 8 f32 on world at scenarios/bugs/broadcast_and_reduce_swapped.yaml:10
  barrier on world at scenarios/bugs/broadcast_and_reduce_swapped.yaml:14
next calls of rank 0 on world:
  broadcast of 8 f32 from rank 0 on world at scenarios/bugs/broadcast_and_reduce_swapped.yaml:13
  barrier on world at scenarios/bugs/broadcast_and_reduce_swapped.yaml:14
pass  broadcast before the reduction  finding       sim, ... s
broadcast before the reduction (as expected)
  collective.order_mismatch, rank 2, at scenarios/bugs/broadcast_and_reduce_swapped.yaml:13
    all_reduce on world, call 0: kind differs: rank 2 says broadcast (scenarios/bugs/broadcast_and_reduce_swapped.yaml:13), rank 0 says all_reduce (scenarios/bugs/broadcast_and_reduce_swapped.yaml:10); 1 of 3 ranks differ
    the ranks make the same calls in different orders
      ranks 0, 1 (the majority): all_reduce sum of 8 f32 on world at scenarios/bugs/broadcast_and_reduce_swapped.yaml:10
      rank 2: broadcast of 8 f32 from rank 0 on world at scenarios/bugs/broadcast_and_reduce_swapped.yaml:13
    last calls of rank 2, newest last:
      broadcast of 8 f32 from rank 0 on world (not complete) at scenarios/bugs/broadcast_and_reduce_swapped.yaml:13
    last calls of rank 0, newest last:
      all_reduce sum of 8 f32 on world (not complete) at scenarios/bugs/broadcast_and_reduce_swapped.yaml:10
    next calls of rank 2 on world:
      all_reduce sum of 8 f32 on world at scenarios/bugs/broadcast_and_reduce_swapped.yaml:10
      barrier on world at scenarios/bugs/broadcast_and_reduce_swapped.yaml:14
    next calls of rank 0 on world:
      broadcast of 8 f32 from rank 0 on world at scenarios/bugs/broadcast_and_reduce_swapped.yaml:13
      barrier on world at scenarios/bugs/broadcast_and_reduce_swapped.yaml:14
  explain: lockstep explain collective.order_mismatch
  reproduce: lockstep run --backend sim scenarios/bugs/broadcast_and_reduce_swapped.yaml
run: 1 passed, 0 failed, 0 skipped
[Inferior 1 (process ...) exited normally]
# One that names the later finding alone.
$ lockstep gdb scenarios/bugs/broadcast_and_reduce_swapped.yaml
(gdb) catch finding collective.order_mismatch
Breakpoint 1 at 0x...: file ranks/hooks.c, line ....
Breakpoint 2 at 0x...: file ranks/hooks.c, line ....
Breakpoint 3 at 0x...: file collectives/hooks.c, line ....
(gdb) run
finding collective.order_mismatch of rank 2 at broadcast_and_reduce_swapped.yaml:13
all_reduce on world, call 0: kind differs: rank 2 says broadcast (scenarios/bugs/broadcast_and_reduce_swapped.yaml:13), rank 0 says all_reduce (scenarios/bugs/broadcast_and_reduce_swapped.yaml:10); 1 of 3 ranks differ
the ranks make the same calls in different orders
  ranks 0, 1 (the majority): all_reduce sum of 8 f32 on world at scenarios/bugs/broadcast_and_reduce_swapped.yaml:10
  rank 2: broadcast of 8 f32 from rank 0 on world at scenarios/bugs/broadcast_and_reduce_swapped.yaml:13
last calls of rank 2, newest last:
  broadcast of 8 f32 from rank 0 on world (not complete) at scenarios/bugs/broadcast_and_reduce_swapped.yaml:13
last calls of rank 0, newest last:
  all_reduce sum of 8 f32 on world (not complete) at scenarios/bugs/broadcast_and_reduce_swapped.yaml:10
next calls of rank 2 on world:
  all_reduce sum of 8 f32 on world at scenarios/bugs/broadcast_and_reduce_swapped.yaml:10
  barrier on world at scenarios/bugs/broadcast_and_reduce_swapped.yaml:14
next calls of rank 0 on world:
  broadcast of 8 f32 from rank 0 on world at scenarios/bugs/broadcast_and_reduce_swapped.yaml:13
  barrier on world at scenarios/bugs/broadcast_and_reduce_swapped.yaml:14
Thread 1 "lockstep" hit Breakpoint 2, ls_gdb_hook_finding ...
[rank 2, returned] its program is over, its last call at broadcast_and_reduce_swapped.yaml:14
(gdb) kill
# The way to a call that never matches ends at the finding, or at the end of the run.
$ lockstep gdb scenarios/bugs/gradients_reduced_twice.yaml
(gdb) goto-collective 9
finding collective.redundant_reduce of ranks 0-3 at gradients_reduced_twice.yaml:16
all_reduce sum of 64 f32 on world at scenarios/bugs/gradients_reduced_twice.yaml:16 reduces what is reduced already: all ranks bring the same bits, which the all_reduce at scenarios/bugs/gradients_reduced_twice.yaml:16 gave them
last calls of rank 0, newest last:
  all_reduce sum of 64 f32 on world at scenarios/bugs/gradients_reduced_twice.yaml:16
  all_reduce sum of 64 f32 on world (not complete) at scenarios/bugs/gradients_reduced_twice.yaml:16
[rank 0, blocked] at gradients_reduced_twice.yaml:16
the program stopped at the finding, before call 9 on world met
(gdb) goto-collective 0
#0: all_reduce sum of 64 f32 on world, ranks 0-3 at gradients_reduced_twice.yaml:16
[rank 3] at gradients_reduced_twice.yaml:16
(gdb) goto-collective 1
#1: all_reduce sum of 64 f32 on world, ranks 0-3 at gradients_reduced_twice.yaml:16
[rank 2] at gradients_reduced_twice.yaml:16
(gdb) kill
$ lockstep gdb scenarios/bugs/ring_of_sends_clean.yaml
(gdb) goto-collective 99
the run ended before call 99 on world met; its ranks are still here
(gdb) ranks
4 ranks, 4 sets of calls met
   rank  state     call    communicator  seq  where
   0     returned  with 0                     ring_of_sends_clean.yaml:10
   1     returned  with 0                     ring_of_sends_clean.yaml:10
   2     returned  with 0                     ring_of_sends_clean.yaml:10
   3     returned  with 0                     ring_of_sends_clean.yaml:10
