# Random scenarios, the same for a seed.
$ lockstep fuzz --count 12 --quiet
> fuzz: 12 passed, 0 failed, 0 skipped
$ lockstep fuzz --print --first 3 --seed 2 > a.yaml; lockstep fuzz --print --first 3 --seed 2 | cmp - a.yaml; lockstep fuzz --print --first 3 --seed 3 | cmp -s - a.yaml
? 1
# What fails is made small, and written where --keep says; the command shows it again.
$ printf 'lockstep: 1\nname: drift\nmesh: {shape: [2, 3]}\nprogram:\n  tensors: [{name: a, shape: [4, 6], values: normal, placements: "R, R"}, {name: b, shape: [3], placements: "R, S(0)"}]\n  steps: [{full: {tensor: b}}, {change: {tensor: a, ranks: [1], element: 5, value: 7}}, {scale: {tensor: b, factor: 2}}, {full: {tensor: a}}]\n' > drift.yaml; lockstep fuzz drift.yaml --keep kept; lockstep run --quiet kept/file_0.yaml | head -n 2
> FAIL  drift.yaml        error         sim, ... s
>
> drift.yaml (failed)
>   error: as it is: replica.diverged: drift.yaml:8: step 1_full: tensor a: replicas differ:
>     element [] is 0 (bits 00000000) on rank 1, 1 (bits 3f800000) on rank 0; 1 of 1 elements
>     differ, on 1 of 2 ranks (38 runs to shrink it)
>   scenario:
>     lockstep: 1
>     name: drift
>     program:
>       tensors:
>         - {name: a, shape: [], placements: R}
>       steps:
>         - {change: {tensor: a, ranks: [0], value: 1}}
>         - {full: {tensor: a}}
>     mesh: {shape: [2]}
>   reproduce: lockstep run kept/file_0.yaml
>
> fuzz: 0 passed, 1 failed, 0 skipped
> FAIL  drift             finding       sim, ... s
>
! lockstep: note: 1 cases, 1 runs; 0 injected: 0 found, 0 change no bit, 0 within rounding, 0 without effect
! lockstep: note: ... MiB after the first cases, ... MiB after the last
# A seed of others, files and options that do not go together.
$ lockstep fuzz --seconds 0
! lockstep: error: --seconds needs a number above 0
? 2
$ lockstep fuzz --minutes -1 2>&1 | head -n 1
> lockstep: error: --minutes needs a number from 0 to 10000000, not '-1'
$ lockstep fuzz --minutes 0
! lockstep: error: --minutes needs a number above 0
? 2
$ lockstep fuzz --minutes 1 --seconds 60
! lockstep: error: --minutes and --seconds exclude each other
? 2
$ lockstep fuzz --minutes 600 --count 2 --seed 1 2>&1 | grep -c 'fuzz: 2 passed, 0 failed'
> 1
$ lockstep fuzz --seconds 1e99 2>&1 | head -n 1
> lockstep: error: --seconds needs a number from 0 to 1000000000, not '1e99'
$ lockstep fuzz drift.yaml --count 3
! lockstep: error: --count, --first and --print apply to random scenarios, not to files
? 2
$ lockstep fuzz nowhere.yaml
! nowhere.yaml: error: cannot open 'nowhere.yaml': No such file or directory
? 2
# How many are injected and what came of them, in all ways that are tried, and one of which nothing is known.
$ w() { printf "lockstep: 1\nname: x\nmesh: {shape: [2]}\nprogram: {steps: [{all_reduce: {count: $2}}]}\n$3" > $1.yaml; }; w other '4, except: [{ranks: [1], op: max}]'; w flipped 4 'faults: [{type: bit_flip, rank: 0, index: 30}]\n'; w never 4 'faults: [{type: die, rank: 0, call: 5}]\n'; w right 4; w empty 0; lockstep fuzz other.yaml flipped.yaml never.yaml right.yaml empty.yaml 2>&1
> fuzz: 4 passed, 0 failed, 1 skipped
> lockstep: note: 5 cases, ... runs; 3 injected: 2 found, 0 change no bit, 0 within rounding, 1 without effect
> lockstep: note: ... MiB after the first cases, ... MiB after the last
# An injected count that reaches beyond the buffer of a rank that is alone in its group: found by fuzz as a crash.
$ printf 'lockstep: 1\nname: alone\nmesh: {shape: [1]}\nprogram:\n  tensors: [{name: a, shape: [3, 5], dtype: i64, placements: R, source: 0}]\n  steps: [{full: {tensor: a}}]\nfaults: [{type: wrong_count, rank: 0, index: 7}]\n' > alone.yaml; lockstep run alone.yaml | grep buffer
>   buffer.too_small, rank 0, at alone.yaml:5
>     rank 0, broadcast of 22 i64 from rank 0 on world: it needs 176 bytes of send buffer, which has 120
>   explain: lockstep explain buffer.too_small
# A row of which the oracle knows nothing but the likeliest, and a max_norm that it may exceed: found as a false alarm.
$ printf 'lockstep: 1\nname: norm\nmesh: {shape: [1]}\ntables: [{name: t0, rows: 3, dim: 3, pooling: max, features: [f0_0], sharding: {type: column_wise, ranks: [0, 0]}, max_norm: 1}]\ninputs: {batch: 1, features: {f0_0: {lengths: {constant: 2}}}}\nsteps: [forward, backward, update]\noptimizer: {type: lamb}\ntrain: {steps: 3}\n' > norm.yaml; lockstep run --quiet norm.yaml
> run: 1 passed, 0 failed, 0 skipped
# What failed before the run had to end, here for want of lockstep-mpi beside it, is told.
$ cp "$(command -v lockstep)" alone; ./alone fuzz drift.yaml right.yaml --real mpi 2>/dev/null | tail -n 1
> fuzz: 0 passed, 1 failed, 0 skipped
