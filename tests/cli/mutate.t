# Every kind of defect, and what noticed it.
$ lockstep mutate "$SOURCE/scenarios/sharded_embedding/row_wise.yaml" | tail -n +2
>                        injected  noticed   no effect  survived  by
> a call left out              12       12           0         0  rank.exited_early 6, collective.purpose_mismatch 6
> a call made twice            12       12           0         0  collective.extra_call 12
> a bit flipped                24       24           0         0  rank.exited_early 16, oracle 8
> something misrouted          12       12           0         0  collective.split_mismatch 12
> a rank dies                  12       12           0         0  rank.died 12
> a shard off by one            2        2           0         0  oracle 1, the plan's check 1
> mutate: 74 passed, 0 failed, 0 skipped
# A scenario whose checks are off lets defects survive: which, and what would notice them.
$ printf 'lockstep: 1\nname: unchecked\nmesh: {shape: [2]}\ntables: [{name: t, rows: 6, dim: 2, sharding: {type: row_wise, sizes: [3, 3], ranks: [0, 1]}}]\ninputs: {batch: 2, features: {t: {lengths: {constant: 2}}}}\nchecks: {oracle: "off"}\n' > off.yaml; lockstep mutate off.yaml > out; code=$?; head -n 8 out; grep -A 2 'index: 30} (failed)' out | head -n 3; (exit $code)
> off.yaml
>                        injected  noticed   no effect  survived  by
> a call left out               8        8           0         0  rank.exited_early 4, collective.purpose_mismatch 4
> a call made twice             8        8           0         0  collective.purpose_mismatch 3, collective.missing_rank 2, collective.extra_call 3
> a bit flipped                16       10           1         5  rank.exited_early 10
> a wrong count                 2        2           0         0  collective.count_mismatch 2
> something misrouted           8        8           0         0  collective.split_mismatch 7, collective.count_mismatch 1
> a rank dies                   8        8           0         0  rank.died 8
> a bit flipped: {type: bit_flip, rank: 0, call: 3, index: 30} (failed)
>   error: outputs changed but no check noticed; without its checks: the default ones would notice
>     it
? 1
# Sums hide the last bit but where they are exact.
$ printf 'lockstep: 1\nname: sum\nmesh: {shape: [2]}\nprogram: {steps: [{all_reduce: {count: 4, values: exact}}]}\n' > sum.yaml; lockstep mutate sum.yaml | grep 'flipped'; lockstep mutate --json - sum.yaml | python3 -c 'import json, sys; print([case["noticed_by"] for case in json.load(sys.stdin)["cases"] if "root" in case["name"] or "operation" in case["name"]])'
> a bit flipped                 4        2           2         0  oracle 2
> skip  a bit flipped: {type: bit_flip, rank: 0, call: 0, index: 0}  it changes no bit of any output
> skip  a bit flipped: {type: bit_flip, rank: 1, call: 0, index: 0}  it changes no bit of any output
> ['collective.op_mismatch']
# A last bit that rounding hides, and that a field shows.
$ lockstep mutate "$SOURCE/scenarios/dtensor_example/blocks_redistributed.yaml" | grep -A 1 '(failed)'
> a bit flipped: {type: bit_flip, rank: 0, call: 2, index: 0} (failed)
>   error: outputs changed but no check noticed; `lockstep prove` would notice it
# One that has a defect already, one that is none, and a number of defects.
$ lockstep mutate "$SOURCE/scenarios/bugs/all_reduce_max_on_one_rank.yaml"
! lockstep: error: $SOURCE/scenarios/bugs/all_reduce_max_on_one_rank.yaml: it has a defect or expects one already
? 2
$ lockstep mutate
! lockstep: error: an argument is missing: FILE...
! usage: lockstep mutate [options] FILE...
! 'lockstep mutate --help' lists the options
? 2
$ lockstep mutate --count 3 --quiet sum.yaml
> mutate: 3 passed, 0 failed, 0 skipped
# What each step's ranks could do otherwise, and what training could: injected where it is something else.
$ printf 'lockstep: 1\nname: group\nmesh: {shape: [3]}\nprogram: {steps: [{broadcast: {count: 2, root: 1, ranks: [2, 0, 1]}}, {all_reduce: {count: 2, op: avg, dtype: f64}}]}\n' > group.yaml; printf 'lockstep: 1\nname: trained\nmesh: {shape: [2]}\ntables: [{name: t, rows: 7, dim: 2, sharding: {type: row_wise}}]\ninputs: {batch: 2, features: {t: {lengths: {constant: 2}}}}\nsteps: [forward, backward, update]\noptimizer: {type: adagrad}\ntrain: {steps: 2}\n' > trained.yaml; lockstep mutate --json - group.yaml trained.yaml | python3 -c 'import json, sys; [print(case["name"], "-", case.get("noticed_by")) for case in json.load(sys.stdin)["cases"] if "call" not in case["name"]]'
> another root: step 0 (broadcast): ranks: [1], root: 0 - collective.root_mismatch
> another type: step 0 (broadcast): ranks: [1], dtype: "f64" - collective.dtype_mismatch
> another order: step 0 (broadcast): ranks: [1], swap: true - deadlock.cross_communicator
> two ranks swapped: step 0 (broadcast): ranks: [1], group: [0, 2, 1] - collective.group_mismatch
> another operation: step 1 (all_reduce): ranks: [2], op: "max" - collective.op_mismatch
> a wrong divisor: step 1 (all_reduce): ranks: [2], op: "sum" - collective.op_mismatch
> another type: step 1 (all_reduce): ranks: [2], dtype: "f32" - collective.dtype_mismatch
> a stale buffer: step 1 (all_reduce): ranks: [2], unwritten: true - buffer.uninitialised
> a shard off by one: the first block of table 0 has 3 - oracle
> a shard off by one: the first block of table 0 has 5 - the plan's check
> a wrong divisor: {type: gradient_divided_twice, rank: 0} - oracle
> an early update: {type: early_update, rank: 0} - oracle
> a wrong divisor: {type: gradient_divided_twice, rank: 1} - oracle
> duplicates dropped: {type: duplicate_counted_once, rank: 1} - oracle
> an early update: {type: early_update, rank: 1} - oracle
