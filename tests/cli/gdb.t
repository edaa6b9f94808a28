# What gdb is asked to do wrong.
$ lockstep gdb
! lockstep: error: gdb needs a scenario file, or a program after '--'
? 2
$ lockstep gdb one.yaml two.yaml
! lockstep: error: gdb takes one scenario file; a program and its arguments go after '--'
? 2
$ lockstep gdb nowhere.yaml
! lockstep: error: nowhere.yaml: there is no such file, or it cannot be read
? 2
$ lockstep gdb --
! lockstep: error: gdb needs a scenario file, or a program after '--'
? 2
$ LOCKSTEP_GDB=/nowhere/gdb lockstep gdb $SOURCE/scenarios/bugs/id_clamped.yaml
! lockstep: error: cannot start /nowhere/gdb: No such file or directory; Debian and Ubuntu: apt-get install gdb
? 3
# What gdb is started with: the extension, its options, the program.
$ LOCKSTEP_GDB=echo lockstep gdb $SOURCE/scenarios/bugs/id_clamped.yaml -- -batch -ex ranks
> -q -iex add-auto-load-safe-path ... -iex source .../lockstep-gdb.py -iex set breakpoint pending on -batch -ex ranks --args .../lockstep run ...id_clamped.yaml
$ LOCKSTEP_GDB=echo lockstep run --break-on-finding --seed 3 $SOURCE/scenarios/bugs/id_clamped.yaml
> -q ... -ex catch finding -ex catch divergence -ex run --args .../lockstep run --seed 3 ...id_clamped.yaml
$ LOCKSTEP_GDB=echo lockstep compare --real mpi --stop-at-divergence $SOURCE/scenarios/bugs/id_clamped.yaml
> -q ... -ex catch divergence -ex run --args .../lockstep compare --real mpi ...id_clamped.yaml
# A process that waits says how to reach it.
$ timeout 1 lockstep run --wait-for-debugger $SOURCE/scenarios/bugs/id_clamped.yaml
! lockstep: process ... waits for a debugger: gdb -p ... -iex 'source .../lockstep-gdb.py'
? 124
# Options of gdb's own, those with a value too, before the file or the program.
$ LOCKSTEP_GDB=echo lockstep gdb -tui -ex 'info threads' $SOURCE/scenarios/bugs/id_clamped.yaml
> -q ... -tui -ex info threads --args .../lockstep run ...id_clamped.yaml
$ LOCKSTEP_GDB=echo lockstep gdb --interpreter=mi -x commands -- ./train --lr 0.1
> -q ... --interpreter=mi -x commands --args ./train --lr 0.1
