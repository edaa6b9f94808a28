# What an IDE sees over MI: the rank at fault is announced at once, frames are the program's own, and all
# ranks go on together.
$ lockstep gdb --interpreter=mi3 -- data_parallel --bug
-enable-frame-filters
^done
-interpreter-exec console "catch finding replica.*"
^done
-exec-run
~"finding replica.diverged of ranks 1-3 at data_parallel.c:35...
*stopped,reason="breakpoint-hit"...
=thread-selected,id="3",frame={level="...",func="train",...file="...data_parallel.c",...line="35"
~"[rank 1, blocked] train () at data_parallel.c:35\n"
-stack-list-frames
^done,stack=[frame={level="...",func="train",file="...data_parallel.c",line="35",...}]
-interpreter-exec console "rank 0"
=thread-selected,id="2",frame={level="...",func="train",...line="35"
^done
-stack-list-frames
^done,stack=[frame={level="...",func="train",file="...data_parallel.c",line="35",...}]
-data-evaluate-expression model[1]
^done,value="1.91294277"
-interpreter-exec console "next-all"
~"rank 1: train () at data_parallel.c:36\n"
~"rank 3: train () at data_parallel.c:36\n"
-thread-info
...name="rank 0"...line="36"...
-exec-continue
*stopped,reason="exited",exit-code="01"
# The source window follows the rank, and comes back from the library.
$ lockstep gdb -tui -- data_parallel --bug
(gdb) catch finding replica.*
(gdb) run
┌─...examples/data_parallel.c─
│  >    35      CHECK(ls_check_replica(model, 2, LS_F32, world));
[rank 1, blocked] train () at data_parallel.c:35
(gdb) delete
(gdb) goto-collective 3
│...>    30          CHECK(ls_all_reduce(grad, grad, reduced, LS_F32, LS_AVG, world));
In: train...L30
(gdb) rank 2
│...>    30          CHECK(ls_all_reduce(grad, grad, reduced, LS_F32, LS_AVG, world));
[rank 2, blocked] train () at data_parallel.c:30
(gdb) next-all
│...>    31          for (int i = 0; i < 2; i++) {
In: train...L31
rank 3: train () at data_parallel.c:31
