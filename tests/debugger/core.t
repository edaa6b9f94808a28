# A post-mortem of an exception. The file's values are data: no expression of the program is evaluated.
$ lockstep exec --core kept -n 3 -- python3 post.py
$ lockstep gdb --core kept
(lockstep) ranks
   rank  state    call  where
   0     stopped        post.py:1... compute ()
*  1     stopped        post.py:21 <module>
   2     stopped        post.py:1... compute ()
(lockstep) each settings["rate"]
   rank  settings["rate"]
   0     0.0
*  1     0.5
   2     1.0
(lockstep) p settings["sizes"][0]
1
(lockstep) p settings
{'rate': 0.5, 'sizes': [1, 2]}
(lockstep) p settings["rate"] * 2 + 1
2.0
(lockstep) p __import__("os")
a post-mortem has variables, their parts and elements: x, self.bias, x[0, 3], and + - * / of numbers
(lockstep) list
16             counter.count = 3
17             time.sleep(0.01)
18
19
20     if rank == 1:
21  ->     raise ValueError("no result of rank 1")
22     compute(Counter())
(lockstep) rank 2
[rank 2] compute () at post.py:1...
1...
(lockstep) where
* #0  compute () at post.py:1...
  #1  <module> at post.py:22
(lockstep) p counter.count
3
(lockstep) up
[rank 2] <module> at post.py:22
22     compute(Counter())
(lockstep) diff rank
rank 0: 0
rank 1: 1
rank 2: 2
(lockstep) next
the run is over: a post-mortem has only variables
(lockstep) break 3
the run is over: a post-mortem has only variables
(lockstep) quit
