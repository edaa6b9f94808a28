# Every public type, live, then the same from a core file.
$ lockstep gdb -- types
(gdb) break look_at_types
Breakpoint 1 at 0x...: file tests/gdb/types.c, line 8.
(gdb) run
Breakpoint 1, look_at_types () at tests/gdb/types.c:8
8	}
(gdb) up
#1  0x... in main () at tests/gdb/types.c:57
57	    look_at_types();
(gdb) print shape
$1 = [6, 4]
(gdb) print block
$2 = [2:5, 0:4]
(gdb) print mesh
$3 = mesh [host=2, gpu=2]
(gdb) print placements
$4 = (S(0), R)
(gdb) print partial.at[0]
$5 = P(sum)
(gdb) print dtype
$6 = bf16
(gdb) print op
$7 = premul_sum
(gdb) print kind
$8 = reduce_scatter
(gdb) print code
$9 = LS_ERR_DEADLOCK
(gdb) print finding
$10 = collective.op_mismatch, ranks 1, 2, 5, train.c:7
sum and max
(gdb) print finding.id
$11 = collective.op_mismatch
(gdb) print fault
$12 = bit_flip of rank 2 at call 4, amount 17
(gdb) print call
$13 = broadcast of 9 i64, root 1 on pair (rank 3, call 2, y.c:12)
(gdb) print comm
$14 = 0x... pair: 2 ranks, 1, 3
(gdb) print world
$15 = 0x... world of 4 ranks, mesh [2, 2], 4 held, seed 3
(gdb) print backend
$16 = 0x... backend sim, 1 communicators made
(gdb) print sizes
$17 = 0x... {3, 3, 3, 3}
(gdb) print tensor
$18 = 0x... f32 [6, 4], S(0), R, on ranks 0-3
(gdb) print *tensor
$19 = f32 [6, 4], S(0), R, on ranks 0-3 = {rank 0 [0:3, 0:4] = {0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5, ...}, rank 1 [0:3, 0:4] = {0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5, ...}, rank 2 [3:6, 0:4] = {6, 6.5, 7, 7.5, 8, 8.5, 9, 9.5, ...}, rank 3 [3:6, 0:4] = {6, 7.5, 7, 7.5, 8, 8.5, 9, 9.5, ...}}
(gdb) print *half
$20 = bf16 [4], P(sum), P(sum), on ranks 0-3 = {rank 0 [0:4] = {1, 2, -3, nan}, rank 1 [0:4] = {0, 0, 0, 0}, rank 2 [0:4] = {0, 0, 0, 0}, rank 3 [0:4] = {0, 0, 0, 0}}
(gdb) shard tensor 3
rank 3 [3:6, 0:4]: 12 f32 = {6, 7.5, 7, 7.5, 8, 8.5, 9, 9.5, 10, 10.5, 11, 11.5}
(gdb) diff-ranks tensor 2 3
1 of 12 f32 differ
  first at [1]: 6.5 on rank 2, 7.5 on rank 3 (2097152 ulps)
(gdb) diff-ranks tensor 0 9
rank 9 has no shard here; ranks 0-3 have
(gdb) generate-core-file core.types
(gdb) kill
(gdb) core-file core.types
Program terminated with signal SIGTRAP, Trace/breakpoint trap.
#0  look_at_types () at tests/gdb/types.c:8
8	}
(gdb) frame function main
#1  0x... in main () at tests/gdb/types.c:57
57	    look_at_types();
(gdb) print *tensor
$21 = f32 [6, 4], S(0), R, on ranks 0-3 = {rank 0 [0:3, 0:4] = {0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5, ...}, rank 1 [0:3, 0:4] = {0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5, ...}, rank 2 [3:6, 0:4] = {6, 6.5, 7, 7.5, 8, 8.5, 9, 9.5, ...}, rank 3 [3:6, 0:4] = {6, 7.5, 7, 7.5, 8, 8.5, 9, 9.5, ...}}
(gdb) print call
$22 = broadcast of 9 i64, root 1 on pair (rank 3, call 2, y.c:12)
(gdb) diff-ranks tensor 2 3
1 of 12 f32 differ
  first at [1]: 6.5 on rank 2, 7.5 on rank 3 (2097152 ulps)
# A core file of ranks.
$ lockstep gdb -- tensor_parallel_mlp
(gdb) tbreak tensor_parallel_mlp.c:54 if $rank() == 1
Temporary breakpoint 1 at 0x...: file examples/tensor_parallel_mlp.c, line 54.
(gdb) run
Thread 3 "rank 1" hit Temporary breakpoint 1, forward (self=0x... rank 1, running, 1 call, last at tensor_parallel_mlp.c:53, arg=0x...) at examples/tensor_parallel_mlp.c:54
54	    for (int b = 0; b < BATCH && rank == 0; b++) {
(gdb) generate-core-file core.ranks
(gdb) kill
(gdb) core-file core.ranks
Program terminated with signal SIGTRAP, Trace/breakpoint trap.
#0  forward (self=0x... rank 1, running, 1 call, last at tensor_parallel_mlp.c:53, arg=0x...) at examples/tensor_parallel_mlp.c:54
54	    for (int b = 0; b < BATCH && rank == 0; b++) {
(gdb) ranks
4 ranks, 1 set of calls matched
   rank  state     call                      communicator  seq  where
   0     returned  with 0                                       tensor_parallel_mlp.c:53
*  1     running   after 1 call                                 forward () at tensor_parallel_mlp.c:54
   2     ready     all_reduce sum of 12 f32  world         0    tensor_parallel_mlp.c:53
   3     returned  with 0                                       tensor_parallel_mlp.c:53
(gdb) rank 2
[rank 2, ready] forward () at tensor_parallel_mlp.c:53
(gdb) print self
$1 = 0x... rank 2, ready, 1 call, last at tensor_parallel_mlp.c:53
(gdb) print *self->main.current
$2 = all_reduce sum of 12 f32 on world (rank 2, call 0, tensor_parallel_mlp.c:53), done
(gdb) waitgraph
no rank waits
(gdb) calls 1 all
ranks 0-3: 1 call
  0  all_reduce sum of 12 f32  world  tensor_parallel_mlp.c:53
(gdb) diff-ranks hidden 0 3
rank 0 has returned: its program holds nothing any more
(gdb) next-collective
a core file cannot continue
