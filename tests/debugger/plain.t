# Steps, breakpoints, and an exception of one rank.
$ lockstep exec --debug -n 4 -- python3 plain.py
(lockstep) break work
breakpoint 1 at work
(lockstep) break 10 if rank == 3 and i == 2
breakpoint 2 at plain.py:10 if rank == 3 and i == 2
(lockstep) breaks
1  work
2  plain.py:10 if rank == 3 and i == 2
(lockstep) cont
ranks 0-3: breakpoint 1
[rank 0] work () at plain.py:15
15         a = weighted(3)
(lockstep) ranks
   rank  state    call  where
*  0     stopped        plain.py:15 work ()
   1     stopped        plain.py:15 work ()
   2     stopped        plain.py:15 work ()
   3     stopped        plain.py:15 work ()
(lockstep) next
rank 3: breakpoint 2
[rank 3] weighted () at plain.py:10
10             total += i * rank
(lockstep) ranks
   rank  state    call  where
   0     stopped        plain.py:16 work ()
   1     stopped        plain.py:16 work ()
   2     stopped        plain.py:16 work ()
*  3     stopped        plain.py:10 weighted ()
(lockstep) delete 2
(lockstep) next 3
[rank 3] weighted () at plain.py:9
9          for i in range(count):
(lockstep) each a
   rank  a
   0     0
   1     3
   2     6
*  3     NameError: name 'a' is not defined
(lockstep) step 3
[rank 3] weighted () at plain.py:11
11         return total
(lockstep) p [i * rank for i in range(4)]
[0, 3, 6, 9]
(lockstep) up
[rank 3] work () at plain.py:15
15         a = weighted(3)
(lockstep) each rank
   rank  rank
   0     0
   1     1
   2     2
*  3     3
(lockstep) p rank = 5
(lockstep) p rank
5
(lockstep) diff a
rank 3: NameError: name 'a' is not defined
rank 0: 0
rank 1: 3
rank 2: 6
(lockstep) finish
rank 2: breakpoint()
[rank 2] work () at plain.py:18
18             breakpoint()
(lockstep) until 19
[rank 2] work () at plain.py:19
19         return {"sum": a + b, "parts": [a, b]}
(lockstep) ranks
   rank  state    call  where
   0     ended
   1     stopped        plain.py:24 <module>
*  2     stopped        plain.py:19 work ()
   3     ended
(lockstep) rank 9
no rank 9: there are 0-3
(lockstep) nothing
no such command: nothing; help lists all. p EXPR prints a value
(lockstep) cont
rank 1: ValueError: no result of rank 1
[rank 1] <module> at plain.py:24
24         raise ValueError("no result of rank 1")
(lockstep) rank 2
rank 2 has ended
(lockstep) ranks
   rank  state    call  where
   0     ended
   1     stopped        plain.py:24 <module>
*  2     ended
   3     ended
(lockstep) list
no frame is selected
(lockstep) cont
FAIL  plain.py  error         sim, 0.00 s

plain.py (failed)
  error: the process of rank 1 ended with exit code 1: ValueError: no result of rank 1
  reproduce: lockstep exec -n 4 -- ... plain.py

exec: 0 passed, 1 failed, 0 skipped
# The run is ended from the prompt.
$ lockstep exec --debug -n 2 -- python3 plain.py
(lockstep) step
[rank 0] <module> at plain.py:2
2      import os
(lockstep) quit
skip  plain.py  the debugger ended it

exec: 0 passed, 0 failed, 1 skipped
