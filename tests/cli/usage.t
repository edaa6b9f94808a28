# Without a command: the help on stderr, and a usage error.
$ lockstep 2>&1 >/dev/null | head -n 1
> usage: lockstep COMMAND [options] [arguments]
$ lockstep >/dev/null 2>&1
? 2
$ lockstep --help
> usage: lockstep COMMAND [options] [arguments]
>
> Runs and checks every rank of an SPMD program on one machine, and compares the results
> with real runs bit for bit.
>
> commands:
> ...
>   doctor       List what this build and this machine can do, with the reason for each missing part
> ...
>
> 'lockstep COMMAND --help' explains a command, 'lockstep --version' names this build.
>
> environment:
> ...
>
> exit codes:
>   0 all checks passed; 1 a finding; 2 the command line or an input file is unusable; 3 the
>   environment failed; 5 nothing ran
$ test "$(lockstep --version)" = "lockstep $(cat "$SOURCE/VERSION")"
# Completions for three shells; bash where none is named.
$ lockstep --completion | head -n 1
> # bash completion for lockstep
$ lockstep --completion zsh | head -n 1
> #compdef lockstep
$ lockstep --completion fish | head -n 1
> # fish completion for lockstep
$ lockstep --completion tcsh
! lockstep: error: no completion for the shell 'tcsh'; bash, zsh or fish
? 2
# Near misses are named; nothing goes to stdout.
$ lockstep doctr
! lockstep: error: unknown command 'doctr'; did you mean 'doctor'?
? 2
$ lockstep explain collective.op_mismach
! lockstep: error: there is no finding named "collective.op_mismach"; did you mean "collective.op_mismatch"?
? 2
$ lockstep explain frobnicate
! lockstep: error: there is no finding named "frobnicate"; 'lockstep explain' lists them
? 2
$ lockstep frobnicate
! lockstep: error: unknown command 'frobnicate'; 'lockstep --help' lists the commands
? 2
$ lockstep --versoin
! lockstep: error: unknown option '--versoin'; did you mean '--version'?
? 2
$ lockstep doctor --jsn x
! lockstep: error: unknown option '--jsn'; did you mean '--json'?
! usage: lockstep doctor [options]
! 'lockstep doctor --help' lists the options
? 2
$ lockstep doctor --color purple
! lockstep: error: --color needs one of auto, always, never, not 'purple'
! usage: lockstep doctor [options]
! 'lockstep doctor --help' lists the options
? 2
$ lockstep doctor --color
! lockstep: error: --color needs a value: --color WHEN
! usage: lockstep doctor [options]
! 'lockstep doctor --help' lists the options
? 2
$ lockstep doctor extra
! lockstep: error: unexpected argument 'extra'
! usage: lockstep doctor [options]
! 'lockstep doctor --help' lists the options
? 2
$ lockstep bench --repetitions 0
! lockstep: error: --repetitions needs a whole number from 1 to 10000, not '0'
! usage: lockstep bench [options]
! 'lockstep bench --help' lists the options
? 2
# A lookup of rows of one type, and what is measured of no other.
$ for type in f32 bf16 int8 f64; do lockstep bench --lookup --dtype $type --rows 100 --dim 4 --bags 8 --length 2 --threads 1 --repetitions 1 --color never | awk 'NR > 1 {print $1, $2}'; done
> lookup f32,
> lookup bf16,
> lookup int8,
! lockstep: error: --dtype: 'f64' is not a type that bench measures
$ lockstep bench --dtype int8; for o in --planner --only=ranks --ranks=2 --count=3; do lockstep bench --lookup $o; done; lockstep bench --planner --only ranks
! lockstep: error: --dtype: 'int8' is not a type that bench measures
! lockstep: error: --lookup excludes --planner, --only, --ranks and --count
! lockstep: error: --lookup excludes --planner, --only, --ranks and --count
! lockstep: error: --lookup excludes --planner, --only, --ranks and --count
! lockstep: error: --lookup excludes --planner, --only, --ranks and --count
! lockstep: error: --planner and --only exclude each other
? 2
$ lockstep bench --only nothing
! lockstep: error: no benchmark is named 'nothing'
? 2
$ lockstep help doctr
! lockstep: error: unknown command 'doctr'; did you mean 'doctor'?
? 2
# Every command explains itself, by --help and by help.
$ lockstep help doctor | head -n 3
> usage: lockstep doctor [options]
>
> List what this build and this machine can do, with the reason for each missing part.
$ lockstep doctor --help | diff - <(lockstep help doctor)
# A command takes only the common options that mean something to it.
$ lockstep doctor --trace x
! lockstep: error: unknown option '--trace'
! usage: lockstep doctor [options]
! 'lockstep doctor --help' lists the options
? 2
# A simulation that is spread holds nothing that needs all of its ranks, and processes are counted there alone.
$ lockstep run --on mpi --checkpoint out x.yaml
! lockstep: error: --on spreads the simulation over processes: --checkpoint does not go with it
? 2
$ lockstep run --on mpi --backend nccl --processes x.yaml
! lockstep: error: --on spreads the simulation over processes: --backend does not go with it
? 2
$ lockstep compare --real nccl --processes 3 x.yaml
! lockstep: error: --processes takes a number only with --on mpi: elsewhere each rank has its own process
? 2
# What moves the data is said once.
$ lockstep exec --simulate --observe -- true
! lockstep: error: --simulate and --observe exclude each other
? 2
$ lockstep exec --compare gloo --observe -- true
! lockstep: error: --compare excludes --observe, --payload, --hash and --capture
? 2
$ lockstep exec --debug --observe -- true; lockstep exec --debug --core new -- true; lockstep exec --core . -- true
! lockstep: error: --debug excludes --observe and --compare: the time-outs of other libraries end a stopped run
! lockstep: error: --debug and --core exclude each other
! lockstep: error: --core .: it exists; name a new folder
? 2
# Two letters that are swapped, the version after a command, and a program that is not there.
$ lockstep rnu; lockstep run --version; lockstep exec -- no-such-program; lockstep exec -n 2 -- ./missing
> lockstep 0.2.0
! lockstep: error: unknown command 'rnu'; did you mean 'run'?
! lockstep: error: cannot start 'no-such-program': no such program in PATH
! lockstep: error: cannot start './missing': No such file or directory
? 2
# A manual page for each command, with the sections of the program's own.
$ lockstep --man-page doctor | grep -E '^\.(TH|SH)'; lockstep --man-page | grep -c '^.BR lockstep'; lockstep --man-page nothing
> .TH LOCKSTEP-DOCTOR 1 "" "lockstep 0.2.0"
> .SH NAME
> .SH SYNOPSIS
> .SH DESCRIPTION
> .SH OPTIONS
> .SH EXAMPLES
> .SH EXIT STATUS
> .SH ENVIRONMENT
> .SH FILES
> .SH SEE ALSO
> 25
! lockstep: error: unknown command 'nothing'; 'lockstep --help' lists the commands
? 2
# No choice is listed twice, and no sentence of the schema has two commas.
$ lockstep run --help | grep -A1 -e --device; (lockstep run --explain-schema; lockstep run --help) | grep -c ',,'
>       --device NAME       Device of the simulator: host (default), or cuda with all ranks on one
>                           GPU
> 0
? 1
