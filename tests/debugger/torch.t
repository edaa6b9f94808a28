# Each rank skips other experts: from the finding to the line that skips.
$ lockstep exec --debug --start fork -n 4 -- python3 experts.py
(lockstep) cont
finding collective.purpose_mismatch of ranks 0-1 at experts.py:22
all_gather on world, call 1: purpose differs: rank 0 says "parameters experts.1.weight, experts.1.bias" (experts.py:22), rank 2 says "parameters experts.0.weight, experts.0.bias" (experts.py:22); 2 of 4 ranks differ
  rank 0: all_gather of 68 f32 for parameters experts.1.weight, experts.1.bias on world at experts.py:22
  rank 1: all_gather of 68 f32 for parameters experts.2.weight, experts.2.bias on world at experts.py:22
  ranks 2, 3: all_gather of 68 f32 for parameters experts.0.weight, experts.0.bias on world at experts.py:22
[rank 0, waits in all_gather of 68 f32 for parameters experts.1.weight, exp...] Mixture.forward () at experts.py:22
22                 out = out.index_add(0, where, expert(x[where]) * weights[where, None])
(lockstep) ranks
   rank  state  call                                                          where
*  0     waits  all_gather of 68 f32 for parameters experts.1.weight, exp...  experts.py:22 Mixture.forward ()
   1     waits  all_gather of 68 f32 for parameters experts.2.weight, exp...  experts.py:22 Mixture.forward ()
   2     waits  all_gather of 68 f32 for parameters experts.0.weight, exp...  experts.py:22 Mixture.forward ()
   3     waits  all_gather of 68 f32 for parameters experts.0.weight, exp...  experts.py:22 Mixture.forward ()
(lockstep) each i
   rank  i
*  0     1
   1     2
   2     0
   3     0
(lockstep) each [int((chosen == e).sum()) for e in range(4)]
   rank  [int((chosen == e).sum()) for e in range(4)]
*  0     [0, 3, 1, 1]
   1     [0, 0, 3, 3]
   2     [3, 2, 3, 0]
   3     [1, 1, 4, 1]
(lockstep) list
17             out = torch.zeros_like(x)
18             for i, expert in enumerate(self.experts):
19                 where = (chosen == i).nonzero().squeeze(-1)
20                 if where.numel() == 0:
21                     continue
22  ->             out = out.index_add(0, where, expert(x[where]) * weights[where, None])
23             return out
24
25
26     dist.init_process_group("gloo")
27     mesh = init_device_mesh("cpu", (dist.get_world_size(),))
(lockstep) cont
FAIL  experts.py  finding       sim, 0.00 s
...
exec: 0 passed, 1 failed, 0 skipped
# The bias is added on every rank: the parts before the sum, and what adds it.
$ lockstep exec --debug --start fork -n 4 -- python3 row_bias.py
(lockstep) to-collective all_reduce
ranks 0-3: call 0: all_reduce on world
[rank 0] RowParallel.forward () at row_bias.py:15
15             dist.all_reduce(part)
(lockstep) each self.bias
   rank  self.bias
*  0     float32 [3]: ...
   1     float32 [3]: ...
   2     float32 [3]: ...
   3     float32 [3]: ...
(lockstep) diff self.bias
ranks 0-3 have the same 3 float32
(lockstep) list
10             self.weight = whole.weight.detach().chunk(ranks, 1)[rank]
11             self.bias = whole.bias.detach()
12
13         def forward(self, x):
14             part = nn.functional.linear(x, self.weight, self.bias)
15  ->         dist.all_reduce(part)
16             return part
17
18
19     dist.init_process_group("gloo")
20     rank, ranks = dist.get_rank(), dist.get_world_size()
(lockstep) next
[rank 0] RowParallel.forward () at row_bias.py:16
16             return part
(lockstep) diff part
ranks 0-3 have the same 6 float32
(lockstep) cont
pass  row_bias.py  checked       sim, 0.00 s
        4 calls of 4 ranks agree; no values compared

exec: 1 passed, 0 failed, 0 skipped
