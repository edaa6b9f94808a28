# A program of one's own, its words, and what is asked wrong.
$ lockstep spmd --quiet $(dirname $(which lockstep))/tests/cli/libspmd_program.so -- hello
> spmd: 1 passed, 0 failed, 0 skipped
! hello: 8
$ lockstep spmd --mesh host=3,gpu=2 $(dirname $(which lockstep))/tests/cli/libspmd_program.so:leaves | grep -v exited
> FAIL  ...
> 
> ... (failed)
>     rank 2 returned (status 0) while others wait for it in a call on world
>     rank 2 made 0 calls on world, rank 0 is in its 1st call
>       ranks 0, 1, 3-5: barrier on world at ...spmd_program.c:29
>     last calls of rank 0, newest last:
>       barrier on world (not complete) at ...spmd_program.c:29
>     rank 2 has made no call
>   reproduce: lockstep spmd --ranks 6 --mesh host=3,gpu=2 --schedule round-robin --seed 0 .../libspmd_program.so:leaves
> 
> spmd: 0 passed, 1 failed, 0 skipped
$ lockstep spmd $(dirname $(which lockstep))/tests/cli/libspmd_program.so:exits
> FAIL  ...
> 
> ... (failed)
>   rank.died, rank 1
>     rank 1 called exit(0) before its first call: a rank is a thread, and must end by returning
>     rank 1 has made no call
>   explain: lockstep explain rank.died
>   reproduce: ...
> 
> spmd: 0 passed, 1 failed, 0 skipped
? 1
# Of a forked child a leak checker sees one thread alone.
$ ASAN_OPTIONS=detect_leaks=0 lockstep spmd --quiet $(dirname $(which lockstep))/tests/cli/libspmd_program.so:has_child
> spmd: 1 passed, 0 failed, 0 skipped
$ lockstep spmd --quiet --explore 20 --checks all $(dirname $(which lockstep))/tests/cli/libspmd_program.so
> spmd: 1 passed, 0 failed, 0 skipped
! lockstep: note: explored 20 schedules: all interleavings of ranks that share nothing but their calls: 1 class
$ lockstep spmd --quiet --explore 1 $(dirname $(which lockstep))/tests/cli/libspmd_program.so:tests
> spmd: 1 passed, 0 failed, 0 skipped
! lockstep: note: explored 1 schedule: 9 steps of the program depend on the schedule, so there may be others
$ lockstep spmd --quiet --faults die@1:0 $(dirname $(which lockstep))/tests/cli/libspmd_program.so | grep -c "rank.died, "
> 1
$ lockstep spmd --faults dye@1:0 $(dirname $(which lockstep))/tests/cli/libspmd_program.so
! lockstep: error: there is no fault 'dye'; did you mean 'die'?
? 2
$ lockstep spmd --mesh 2xy $(dirname $(which lockstep))/tests/cli/libspmd_program.so
! lockstep: error: a dimension of a mesh needs a number, not 'y'
? 2
$ lockstep spmd $(dirname $(which lockstep))/tests/cli/libspmd_program.so:nowhere
! lockstep: error: .../libspmd_program.so has no function nowhere; name another as .../libspmd_program.so:FUNCTION
? 2
$ for program in :leaves here.so:; do lockstep spmd $program; done
! lockstep: error: ':leaves' is not PROGRAM.so[:FUNCTION]
! lockstep: error: 'here.so:' is not PROGRAM.so[:FUNCTION]
? 2
$ lockstep spmd
! lockstep: error: an argument is missing: PROGRAM.so[:FUNCTION] [-- ARGUMENTS]
! usage: lockstep spmd [options] PROGRAM.so[:FUNCTION] [-- ARGUMENTS]
! 'lockstep spmd --help' lists the options
? 2
