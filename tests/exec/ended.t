# What ended a program where no check found anything: a process that failed, and how.
$ lockstep exec -n 3 -- sh -c 'exit $((RANK % 2 * 5))' > ended.txt; echo $?; grep error: ended.txt
> 3
>   error: the process of rank 1 ended with exit code 5
$ lockstep exec -- sh -c 'exit 5' | grep error:
>   error: the program ended with exit code 5
$ lockstep exec -n 2 -- sh -c 'test $RANK = 0 || kill -9 $$' | grep error:
>   error: a process of the program was killed
$ lockstep exec -- sh -c 'kill -9 $$' | grep error:
>   error: the program, or a process of it, was killed
