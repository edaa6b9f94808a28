# Communicators have numbers of their own: going to one of them, its completion, and what is wrong.
$ lockstep gdb -- comms
(gdb) until-collective 0 on world
the program is not running; start it with 'run' or 'start'
(gdb) start
Temporary breakpoint 1 at 0x...: file tests/gdb/comms.c, line 76.
Temporary breakpoint 1, main () at tests/gdb/comms.c:76
76          int status = controller();
(gdb) complete until-collective 0 on 
(gdb) next-collective on pair
no communicator pair exists yet; there is none
#0: all_reduce sum of 1 i32 on pair, ranks 0, 1 at comms.c:100
controller () at comms.c:36
(gdb) next-collective on #1
#0: all_reduce sum of 1 i32 on pair, ranks 2, 3 at comms.c:101
controller () at comms.c:36
(gdb) next-collective on pair
2 communicators are named pair: write #0 (ranks 0, 1), #1 (ranks 2, 3)
(gdb) complete next-collective on 
next-collective on #0
next-collective on #1
(gdb) ranks
a controller makes 2 calls for its ranks; 2 sets of calls matched
   rank  state  call                     communicator  seq  where
   2     calls  all_reduce sum of 1 i32  pair          0    comms.c:101
   3     calls  all_reduce sum of 1 i32  pair          0    comms.c:101
(gdb) until-collective 1 on #0
#1: all_reduce sum of 1 i32 on pair, ranks 0, 1 at comms.c:102
controller () at comms.c:36
(gdb) until-collective 0 on #0
call 0 on #0 was made by all its ranks already; 'goto-collective 0 on #0' goes back
(gdb) until-collective 1 on world
no communicator world exists yet; there is pair
#1: all_reduce max of 1 i32 on world, ranks 0-3 at comms.c:55
[rank 2] program () at comms.c:55
(gdb) complete until-collective 2 on h
(gdb) complete until-collective 2 on world/
until-collective 2 on world/0 #3
until-collective 2 on world/1 #4
(gdb) complete next-collective b
next-collective barrier
next-collective broadcast
(gdb) complete next-collective broadcast 
next-collective broadcast on
(gdb) complete catch collective broadcast on gp
catch collective broadcast on gpu[0]
catch collective broadcast on gpu[1]
(gdb) next-collective broadcast on gpu[1]
#0: broadcast of 1 i32, root 0 on gpu[1], ranks 2, 3 at comms.c:57
[rank 3] program () at comms.c:57
(gdb) until-collective 0 on gpu[1]
call 0 on gpu[1] was made by all its ranks already; 'goto-collective 0 on gpu[1]' goes back
(gdb) goto-collective 0 on gpu[1]
#0: broadcast of 1 i32, root 0 on gpu[1], ranks 2, 3 at comms.c:57
[rank 3] program () at comms.c:57
(gdb) goto-collective 2 on gpu[0]
#2: broadcast of 1 i32, root 0 on gpu[0], ranks 0, 1 at comms.c:57
[rank 1] program () at comms.c:57
(gdb) next-collective recv
#3: message of 1 i32 from rank 2 to rank 3 on gpu[1], ranks 2, 3 at comms.c:66
[rank 2] program () at comms.c:66
(gdb) goto-collective 0 on world
#1: all_reduce max of 1 i32 on world, ranks 0-3 at comms.c:55
[rank 2] program () at comms.c:55
(gdb) goto-collective 1 on world
#1: all_reduce max of 1 i32 on world, ranks 0-3 at comms.c:55
[rank 2] program () at comms.c:55
(gdb) catch collective broadcast on gpu[0] if $rank() == 1
Breakpoint 2 at 0x...: file ranks/hooks.c, line ....
Breakpoint 3 at 0x...: file collectives/hooks.c, line ....
(gdb) continue
Thread 3 "rank 1" hit Breakpoint 2, ls_gdb_hook_caught ...
(gdb) print *request
$1 = broadcast of 1 i32, root 0 on gpu[0] (rank 1, call 0, comms.c:57), posted
(gdb) info breakpoints
Num     Type           Disp Enb Address            What
2       breakpoint     keep y   0x... in ls_gdb_hook_caught at ranks/hooks.c: ...
        breakpoint already hit 1 time
3       breakpoint     keep y   0x... in ls_gdb_hook_group_caught at collectives/hooks.c: ...
(gdb) delete
(gdb) catch collective on nowhere
no communicator nowhere exists yet; there is world, gpu[0], gpu[1], world/0 #3, world/1 #4
Breakpoint 4 at 0x...: file ranks/hooks.c, line ....
Breakpoint 5 at 0x...: file collectives/hooks.c, line ....
(gdb) catch collective barrier on
'on' needs the name of a communicator
(gdb) catch collective barrier if nonsense
Breakpoint 6 at 0x...: file ranks/hooks.c, line ....
cannot set a breakpoint: No symbol "nonsense" in current context.
(gdb) info breakpoints
Num     Type           Disp Enb Address            What
4       breakpoint     keep y   0x... in ls_gdb_hook_caught at ranks/hooks.c: ...
5       breakpoint     keep y   0x... in ls_gdb_hook_group_caught at collectives/hooks.c: ...
(gdb) delete
(gdb) until-collective on world
'on world' is not the number of a call
(gdb) until-collective 2 on
'on' needs the name of a communicator
(gdb) until-collective -1 on world
-1 is not the number of a call
(gdb) until-collective 0 on a name of a communicator that is longer than any can be
'a name of a communicator that is longer than any can be' is too long for the name of a communicator
(gdb) next-collective sideways on world
'sideways' is not a kind of call; there are all_reduce, reduce, broadcast, all_gather, reduce_scatter, all_to_all, gather, scatter, scan, exscan, barrier, send, recv
(gdb) until-collective 9 on wolrd
no communicator wolrd exists yet; there is world, gpu[0], gpu[1], world/0 #3, world/1 #4
the run ended before call 9 on wolrd matched; its ranks are still here
# Catches set before the program runs hold in each of its runs; a deleted one frees its place.
$ lockstep gdb -- comms
(gdb) catch collective on pair if $rank() == 3
Breakpoint 1 at 0x...: file ranks/hooks.c, line ....
Breakpoint 2 at 0x...: file collectives/hooks.c, line ....
(gdb) catch collective barrier if request->call.seq == 1 && $rank() == 2
Breakpoint 3 at 0x...: file ranks/hooks.c, line ....
(gdb) run
Breakpoint 2, ls_gdb_hook_group_caught ...
(gdb) rank
rank 3
(gdb) continue
Breakpoint 2, ls_gdb_hook_group_caught ...
(gdb) continue
Thread 4 "rank 2" hit Breakpoint 3, ls_gdb_hook_caught ...
(gdb) delete 1
(gdb) delete 2
(gdb) run
Thread 4 "rank 2" hit Breakpoint 3, ls_gdb_hook_caught ...
(gdb) print *request
$1 = barrier on world/0 #3 (rank 2, call 1, comms.c:60), posted
(gdb) kill
(gdb) python print(len(lockstep_gdb.catches.Slots.taken))
1
(gdb) delete
(gdb) python print(len(lockstep_gdb.catches.Slots.taken))
0
# The same where the library is a shared one, which is not there yet when the breakpoint is set.
$ lockstep gdb -- shared 4
(gdb) catch collective barrier on world if $rank() == 2 && request->call.seq == 2
Function "ls_gdb_hook_loaded" not defined.
Function "ls_gdb_hook_caught" not defined.
Breakpoint 1 (ls_gdb_hook_caught) pending.
(gdb) catch finding
Function "ls_gdb_hook_mismatch" not defined.
Breakpoint 2 (ls_gdb_hook_mismatch) pending.
Function "ls_gdb_hook_finding" not defined.
Breakpoint 3 (ls_gdb_hook_finding) pending.
Function "ls_gdb_hook_refused" not defined.
Breakpoint 4 (ls_gdb_hook_refused) pending.
(gdb) run
Thread 4 "rank 2" hit Breakpoint 1, ls_gdb_hook_caught ...
(gdb) print *request
$1 = barrier on world (rank 2, call 2, many.c:22), posted
(gdb) run
Thread 4 "rank 2" hit Breakpoint 1, ls_gdb_hook_caught ...
(gdb) print *request
$2 = barrier on world (rank 2, call 2, many.c:22), posted
(gdb) goto-collective 1 on world
#1: barrier on world, ranks 0-3 at many.c:22
[rank 2] program () at many.c:22
(gdb) continue
Thread 4 "rank 2" hit Breakpoint 1, ls_gdb_hook_caught ...
(gdb) print *request
$3 = barrier on world (rank 2, call 2, many.c:22), posted
(gdb) ranks
4 ranks, 2 sets of calls matched
   rank  state    call           communicator  seq  where
   0     ready    barrier        world         1    many.c:22
   1     ready    barrier        world         1    many.c:22
*  2     running  after 3 calls                     program () at many.c:22
   3     ready    barrier        world         1    many.c:22
(gdb) kill
