# With --json - stdout is JSON and nothing else.
$ lockstep doctor --json - | python3 -c 'import json, sys; print(json.load(sys.stdin)["command"])'
> doctor
# A file appears whole; the text report still goes to stdout.
$ lockstep doctor --json out.json | head -n 1
> build    lockstep       yes  ...
$ python3 -c 'import json; print(json.load(open("out.json"))["format"])'
> 1
$ lockstep doctor --json same.json --quiet; ls
> out.json
> same.json
# Unwritable outputs are noticed before any work, and what exists is left as it was.
$ lockstep doctor --json nowhere/out.json
! lockstep: error: cannot write 'nowhere/out.json': No such file or directory
? 2
$ mkdir folder; lockstep doctor --json folder
! lockstep: error: cannot write 'folder': it is a folder
? 2
$ lockstep doctor --json ''
! lockstep: error: --json needs a value that is not empty
! usage: lockstep doctor [options]
! 'lockstep doctor --help' lists the options
? 2
$ lockstep doctor --json out.json/x
! lockstep: error: cannot write 'out.json/x': Not a directory
? 2
# A full device is an error, not a success.
$ lockstep doctor --json - > /dev/full
! lockstep: error: cannot write to stdout: No space left on device
? 3
$ lockstep doctor --quiet --json /dev/full
! lockstep: error: cannot write '/dev/full': No space left on device
? 3
# A device is written to, not replaced.
$ lockstep doctor --quiet --json /dev/null; test -c /dev/null
