# Tensors that are gone, shapes that differ, ranks that do not exist, two runs in two worlds.
$ lockstep gdb -- rough
(gdb) ranks
the program is not running; start it with 'run', or open a core file
(gdb) rank 0
the program is not running; start it with 'run', or open a core file
(gdb) shard tensor 0
the program is not running; start it with 'run', or open a core file
(gdb) next-collective
the program is not running; start it with 'run' or 'start'
(gdb) waitgraph
the program is not running; start it with 'run', or open a core file
(gdb) print $rank()
$1 = -1
(gdb) break stop_here
Breakpoint 1 at 0x...: file tests/gdb/rough.c, line 40.
(gdb) run
Breakpoint 1, stop_here (tensor=0x... f32 [4], S(0), on ranks 0, 1) at tests/gdb/rough.c:40
40          printf("%s", tensor == NULL ? "none\n" : "");
(gdb) ranks
no SPMD run and no group of calls is active; 0 sets of calls matched
(gdb) rank 0
no call of rank 0 is being made here
(gdb) calls
no SPMD run is active (between ls_spmd_run's begin and end)
(gdb) rank apply all print 1
no SPMD run is active (between ls_spmd_run's begin and end)
(gdb) shard tensor 0
rank 0 [0:2]: 2 f32 = {1, 2}
(gdb) shard tensor 99
rank 99 has no shard here; ranks 0, 1 have
(gdb) shard nothing 0
No symbol "nothing" in current context.
(gdb) shard tensor
usage: shard TENSOR RANK
(gdb) up
#1  0x... in tensor_that_goes () at tests/gdb/rough.c:55
55          stop_here(tensor);
(gdb) diff-ranks tensor 0 1
2 of 2 f32 differ (block [0:2] against [2:4])
  first at [0]: 1 on rank 0, 3 on rank 1 (12582912 ulps)
(gdb) continue
Breakpoint 1, stop_here (tensor=0x... <there is no tensor at 0x..., or it was freed>) at tests/gdb/rough.c:40
40          printf("%s", tensor == NULL ? "none\n" : "");
(gdb) shard tensor 0
there is no tensor at 0x..., or it was freed
(gdb) print *tensor
$2 = <there is no tensor at 0x..., or it was freed>
(gdb) delete
(gdb) break program if $rank() == 0 && self->run->rank_count == 4
Breakpoint 2 at 0x...: file tests/gdb/rough.c, line 14.
(gdb) continue
Thread ... "rank 0" hit Breakpoint 2, program (self=0x... rank 0, running, 0 calls, arg=0x...) at tests/gdb/rough.c:14
14          const int *most = arg;
(gdb) delete
(gdb) next-collective on world
#...: all_reduce max of 4 f32 on world..., ranks 0-3 at rough.c:21
[rank 3] program () at rough.c:21
(gdb) ranks
4 ranks, ... of calls matched
   rank  state    call                     communicator  seq  where
   0     blocked  all_reduce max of 4 f32  world         0    rough.c:21
   1     blocked  all_reduce max of 4 f32  world         0    rough.c:21
   2     blocked  all_reduce max of 4 f32  world         0    rough.c:21
*  3     running  all_reduce max of 4 f32  world         0    rough.c:21
(gdb) rank 4
there is no rank 4; the run has ranks 0-3
(gdb) rank -1
'-1' is not a rank: ranks are numbers from 0 on
(gdb) ranks 2-9
there is no rank 4; there are ranks 0-3
(gdb) ranks 3-1
'3-1' is not a list of ranks; write all, or for example 0-3,7
(gdb) rank apply 0,9 print 1
rank 0: $3 = 1
rank 9: there is no rank 9; the run has ranks 0-3
(gdb) rank 1
[rank 1, blocked] program () at rough.c:21
(gdb) shard sum 2
rank 2: 4 f32 = {2, 2, 2, 2}
(gdb) shard self 2
self is a ls_rank *; cast it to a pointer to its elements
(gdb) shard nothing 2
rank 2: No symbol "nothing" in current context.
(gdb) shard *sum@100000000 2
rank 2: value requires 400000000 bytes, which is more than max-value-size
(gdb) diff-ranks sum 0 9
there is no rank 9; the run has ranks 0-3
(gdb) diff-ranks *sum@2 0 1
2 of 2 f32 differ
  first at [0]: 0 on rank 0, 1 on rank 1 (1065353216 ulps)
(gdb) run
[Inferior 1 (process ...) exited normally]
(gdb) ranks
the program is not running; start it with 'run', or open a core file
(gdb) waitgraph
the program is not running; start it with 'run', or open a core file
(gdb) until-collective 1
the program is not running; start it with 'run' or 'start'
(gdb) goto-collective 99
...
the ... ended before call 99 on world matched...
# All ranks at once: they are many threads that run, and every command still reads them.
$ lockstep gdb -- rough parallel
(gdb) goto-collective 2
#2: all_reduce max of 4 f32 on world..., ranks ... at rough.c:21
[rank ...] program () at rough.c:21
(gdb) ranks 0
... ranks, ... sets of calls matched
   rank  state...
...0...
(gdb) rank 1
[rank 1, ...
(gdb) shard sum 1
rank 1: 4 f32 = {...}
(gdb) kill
# No library in the program, and one without symbols.
$ lockstep gdb -- /bin/true
(gdb) ranks
the program is not running; start it with 'run', or open a core file
(gdb) catch collective
Function "ls_gdb_hook_loaded" not defined.
Function "ls_gdb_hook_caught" not defined.
Breakpoint 1 (ls_gdb_hook_caught) pending.
Function "ls_gdb_hook_group_caught" not defined.
Breakpoint 2 (ls_gdb_hook_group_caught) pending.
(gdb) catch collective all_reduce
the program has no debug information about ls_kind: it is not linked with lockstep, or stripped, or the library is not loaded yet
(gdb) goto-collective 1
the program has no debug information about main: it is not linked with lockstep, or stripped, or the library is not loaded yet
(gdb) until-collective 1
the program is not running; start it with 'run' or 'start'
(gdb) run
[Inferior 1 (process ...) exited normally]
(gdb) ranks
the program is not running; start it with 'run', or open a core file
(gdb) print $seq()
$1 = -1
