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
[rank 2, blocked] step gradients at gradients.yaml:6
(gdb) ranks
4 ranks, 0 sets of calls matched
   rank  state    call                        communicator  seq  where
   0     blocked  all_reduce sum of 1024 f32  world         0    gradients.yaml:6
   1     blocked  all_reduce sum of 1024 f32  world         0    gradients.yaml:6
*  2     blocked  all_reduce max of 1024 f32  world         0    gradients.yaml:6
   3     running  all_reduce sum of 1024 f32  world         0    gradients.yaml:6
(gdb) where
#0  step gradients () at tests/gdb/gradients.yaml:6
(gdb) info step
rank 2, blocked, step gradients at gradients.yaml:6: all_reduce max of 1024 f32 on world
(gdb) diff-ranks gradients 0 2
.send: 969 of 1024 f32 differ
  first at [0]: -0.75 on rank 0, 0.5 on rank 2 (2118123520 ulps)
  worst at [64]: -1 on rank 0, 1 on rank 2 (2130706432 ulps)
(gdb) shard gradients 5
rank 5 holds nothing named gradients; there is nothing yet
(gdb) rank 1
[rank 1, blocked] step gradients at gradients.yaml:6
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
# A divergence from the oracle stops where the stage is judged, with both values and the outputs.
$ lockstep gdb scenarios/bugs/mean_of_own_rows.yaml
(gdb) catch divergence
Breakpoint 1 at 0x...: file runner/hooks.c, line ....
(gdb) run
stage 0_mean is wrong: 0_mean/mean/-/shard, rank 0, element 0
stage 0_mean, table mean, shard, rank 0, element 0 [0]
  expected 1.33333337 (0x...), simulated 1 (0x...): 2796203 ulps apart; exactly 1.33333333, allowed difference 1.59e-07
  likely: it is 0.75 times the expected one (a mean over another number of elements)
  ours: 1
  theirs: 1.3333334
Thread 1 "lockstep" hit Breakpoint 1, ls_gdb_hook_divergence ...
(gdb) ranks
2 ranks have returned; 2 sets of calls matched
   rank  state     call                    communicator  seq  where
*  0     returned  stage 0_mean is judged                     mean_of_own_rows.yaml:12
   1     returned  stage 0_mean is judged                     mean_of_own_rows.yaml:12
(gdb) where
#0  stage 0_mean is judged () at scenarios/bugs/mean_of_own_rows.yaml:12
(gdb) shard 0_mean 1
rank 1 .mean/shard: 4 f32 = {4, 4.5, 5, 5.5}
(gdb) diff-ranks 0_mean 0 1
.mean/shard: 4 of 4 f32 differ
  first at [0]: 1 on rank 0, 4 on rank 1 (16777216 ulps)
# Tables, and a rank that has returned.
$ lockstep gdb scenarios/bugs/embedding_sizes_flipped.yaml
(gdb) catch finding
Breakpoint 1 at 0x...: file ranks/hooks.c, line ....
Breakpoint 2 at 0x...: file ranks/hooks.c, line ....
Breakpoint 3 at 0x...: file collectives/hooks.c, line ....
(gdb) run
finding rank.exited_early of rank 0 at embedding_sizes_flipped.yaml:8
rank 0 returned (status -2) while others wait for it in a call on world
rank 0: input_dist: rank 1 sends rank 0 sizes that do not match: batch 3, 68719476739 ids
rank 0 made 1 call on world, rank 1 is in its 2nd call: one step short (a step is 1 call there)
  ranks 1-3: all_to_all of i64 for input_dist lengths on world at scenarios/bugs/embedding_sizes_flipped.yaml:8
  splits of rank 1, sends {3, 3, 3, 3}, receives {3, 3, 3, 3}
  splits of rank 2, sends {3, 3, 3, 3}, receives {3, 3, 3, 3}
  splits of rank 3, sends {3, 3, 3, 3}, receives {3, 3, 3, 3}
last calls of rank 1, newest last:
  all_to_all of i64 for input_dist sizes on world, sends {3, 3, 3, 3}, receives {3, 3, 3, 3} at scenarios/bugs/embedding_sizes_flipped.yaml:8
  all_to_all of i64 for input_dist lengths on world, sends {3, 3, 3, 3}, receives {3, 3, 3, 3} (not complete) at scenarios/bugs/embedding_sizes_flipped.yaml:8
last calls of rank 0, newest last:
  all_to_all of i64 for input_dist sizes on world, sends {3, 3, 3, 3}, receives {3, 3, 3, 3} at scenarios/bugs/embedding_sizes_flipped.yaml:8
Thread 4 "rank 2" hit Breakpoint 2, ls_gdb_hook_finding ...
[rank 0, returned] its program is over, its last call at embedding_sizes_flipped.yaml:8
(gdb) diff-ranks product 1 2
11 of 12 f32 differ (block [3:6, 0:4] against [6:9, 0:4])
  first at [0]: 0 on rank 1, 0.75 on rank 2 (1061158912 ulps)
  worst at [6]: -0.75 on rank 1, 0.25 on rank 2 (2109734912 ulps)
(gdb) shard product 0
rank 0 holds nothing named product; there is nothing yet
# A name that ends with a number; findings without a run of ranks.
$ lockstep gdb scenarios/bugs/equal_buckets_swapped_in_flight.yaml
(gdb) catch finding
Breakpoint 1 at 0x...: file ranks/hooks.c, line ....
Breakpoint 2 at 0x...: file ranks/hooks.c, line ....
Breakpoint 3 at 0x...: file collectives/hooks.c, line ....
(gdb) run
finding collective.order_mismatch of rank 3 at equal_buckets_swapped_in_flight.yaml:16
the ranks make the same calls in different orders: equal calls, all_reduce sum of 8 f32 on world, match from different lines, so each gets the data of another
  ranks 0-2 (the majority): scenarios/bugs/equal_buckets_swapped_in_flight.yaml:11, then scenarios/bugs/equal_buckets_swapped_in_flight.yaml:16
  rank 3: scenarios/bugs/equal_buckets_swapped_in_flight.yaml:16, then scenarios/bugs/equal_buckets_swapped_in_flight.yaml:11
calls of rank 3 on world, in its order:
  all_reduce sum of 8 f32 on world at scenarios/bugs/equal_buckets_swapped_in_flight.yaml:16 (others at another line)
  all_reduce sum of 8 f32 on world at scenarios/bugs/equal_buckets_swapped_in_flight.yaml:11 (others at another line)
  all_reduce sum of 8 f32 on world at scenarios/bugs/equal_buckets_swapped_in_flight.yaml:17
calls of rank 0 on world, in its order:
  all_reduce sum of 8 f32 on world at scenarios/bugs/equal_buckets_swapped_in_flight.yaml:11 (others at another line)
  all_reduce sum of 8 f32 on world at scenarios/bugs/equal_buckets_swapped_in_flight.yaml:16 (others at another line)
  all_reduce sum of 8 f32 on world at scenarios/bugs/equal_buckets_swapped_in_flight.yaml:17
Thread 1 "lockstep" hit Breakpoint 2, ls_gdb_hook_finding ...
[rank 3, returned] its program is over, its last call at equal_buckets_swapped_in_flight.yaml:20
(gdb) shard bucket 0 1
rank 1 .recv: 8 f32 = {-1.375, 2, 0, 0.25, 1.25, -1, 0.375, -1.25}
(gdb) diff-ranks bucket 0 0 1
ranks 0 and 1 hold the same 8 f32
$ lockstep gdb scenarios/bugs/id_out_of_range.yaml
(gdb) catch finding
Breakpoint 1 at 0x...: file ranks/hooks.c, line ....
Breakpoint 2 at 0x...: file ranks/hooks.c, line ....
Breakpoint 3 at 0x...: file collectives/hooks.c, line ....
(gdb) run
finding input.id_out_of_range of rank 1 at id_out_of_range.yaml:15
table user, feature user: rank 1, sample 1, position 0: id 10 is not among the table's 10 rows (set inputs.ids_out_of_range to clamp or wrap to let such ids pass)
Breakpoint 2, ls_gdb_hook_finding ...
(gdb) ranks
2 ranks are in a controller; 0 sets of calls matched
   rank  state  call         communicator  seq  where
   0     calls  the finding                     id_out_of_range.yaml:15
*  1     calls  the finding                     id_out_of_range.yaml:15
(gdb) where
#0  the finding () at scenarios/bugs/id_out_of_range.yaml:15
(gdb) shard user 1
rank 1 [5:10, 0:4]: 20 f32 = {0.29130355, 0.12420589, -0.18465059, -0.14330369, -0.043611664, 0.2567822, 0.007023548, 0.21151696, -0.20564644, 0.16959836, 0.082484104, -0.0026065984, -0.0006080597, -0.02385733, 0.08238082, -0.2799576, 0.109249085, 0.10684729, 0.25674027, -0.038603302}
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
[rank 2, running] step 1_broadcast at broadcast_and_reduce_swapped.yaml:13
(gdb) print $finding_name
$1 = "collective.kind_mismatch"
(gdb) ranks
3 ranks, 0 sets of calls matched
   rank  state    call                        communicator  seq  where
   0     blocked  all_reduce sum of 8 f32     world         0    broadcast_and_reduce_swapped.yaml:10
   1     blocked  all_reduce sum of 8 f32     world         0    broadcast_and_reduce_swapped.yaml:10
*  2     running  broadcast of 8 f32, root 0  world         0    broadcast_and_reduce_swapped.yaml:13
(gdb) continue
after the calls that followed, the finding is collective.order_mismatch
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
all_reduce sum of 64 f32 on world at scenarios/bugs/gradients_reduced_twice.yaml:16 reduces data that is already reduced: all ranks send the same bits, the result of the all_reduce at scenarios/bugs/gradients_reduced_twice.yaml:16
last calls of rank 0, newest last:
  all_reduce sum of 64 f32 on world at scenarios/bugs/gradients_reduced_twice.yaml:16
  all_reduce sum of 64 f32 on world (not complete) at scenarios/bugs/gradients_reduced_twice.yaml:16
[rank 0, blocked] step gradients at gradients_reduced_twice.yaml:16
the program stopped at the finding, before call 9 on world matched
(gdb) goto-collective 0
#0: all_reduce sum of 64 f32 on world, ranks 0-3 at gradients_reduced_twice.yaml:16
[rank 3] at gradients_reduced_twice.yaml:16
(gdb) goto-collective 1
#1: all_reduce sum of 64 f32 on world, ranks 0-3 at gradients_reduced_twice.yaml:16
[rank 2] at gradients_reduced_twice.yaml:16
(gdb) kill
$ lockstep gdb scenarios/bugs/ring_of_sends_clean.yaml
(gdb) goto-collective 99
the run ended before call 99 on world matched; its ranks are still here
(gdb) ranks
4 ranks, 4 sets of calls matched
   rank  state     call    communicator  seq  where
   0     returned  with 0                     ring_of_sends_clean.yaml:10
   1     returned  with 0                     ring_of_sends_clean.yaml:10
   2     returned  with 0                     ring_of_sends_clean.yaml:10
   3     returned  with 0                     ring_of_sends_clean.yaml:10
