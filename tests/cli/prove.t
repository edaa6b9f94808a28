# Scenarios over a field: tables of all types, trained by all optimizers, and programs.
$ lockstep prove --quiet "$SOURCE"/scenarios/sharded_embedding/*.yaml "$SOURCE"/scenarios/training/*.yaml "$SOURCE"/scenarios/dtensor_example/*.yaml "$SOURCE"/scenarios/torchrec/*.yaml
> prove: 28 passed, 0 failed, 13 skipped
# What is wrong has its first element, and a factor where one explains all.
$ printf 'lockstep: 1\nname: twice\nmesh: {shape: [2]}\nprogram:\n  tensors: [{name: a, shape: [4], values: normal, placements: S(0)}]\n  steps: [{scale: {tensor: a, factor: 0.1, except: [{ranks: [1], repeat: true}]}}]\n' > twice.yaml; lockstep prove twice.yaml
>       case and stage    class             elements   differing    max ulps  of bound  order
> FAIL  twice             wrong         sim, ... s
>         0_scale         wrong                    4           2           0       inf
>         tensors         proved                   4           0           0         0
>
> twice (failed)
>   stage 0_scale is wrong: 2 of 4 elements differ
>     stage 0_scale, table a, shard, rank 1, element 0 [0]
>       expected 1799816257, simulated 2112716908, numbers of the field
>       likely: every wrong element is 1/10 times the expected one
>   reproduce: lockstep prove twice.yaml
>
> prove: 0 passed, 1 failed, 0 skipped
? 1
# The number of ranks in a gradient once too often.
$ grep -v '^expect' "$SOURCE"/scenarios/bugs/training_gradient_divided_twice.yaml > grad.yaml; lockstep prove grad.yaml > out; code=$?; grep -A 2 'stage output_dist_backward is' out; (exit $code)
>   stage output_dist_backward is wrong: 48 of 192 elements differ
>     stage output_dist_backward, table product, feature product, values of rank 0, element 24: sample 0 of rank 2, column 0; id 0 (position 0, 1 in the bag), owned by rank 0: got 122588645, expected 490354580, numbers of the field
>       likely: every wrong element is 1/4 times the expected one
? 1
# A scenario of a known bug passes when the bug is found; its corrected version is proved.
$ lockstep prove --quiet "$SOURCE"/scenarios/bugs/tail_rows_forgotten.yaml
> prove: 1 passed, 0 failed, 0 skipped
# What a field lacks is named; nothing is proved.
$ printf 'lockstep: 1\nname: largest\nmesh: {shape: [2]}\nprogram:\n  steps: [{all_reduce: {count: 4, op: max}}]\n' > max.yaml; lockstep prove max.yaml
> skip  largest           unjudged: step 0_all_reduce takes a maximum or minimum, and a field has no order
>
> prove: 0 passed, 0 failed, 1 skipped
? 5
$ printf 'lockstep: 1\nname: clipped\nmesh: {shape: [2]}\ntables: [{name: t, rows: 6, dim: 2}]\ninputs: {batch: 2}\nsteps: [forward, backward, update]\noptimizer: {type: sgd, lr: 0.1}\ntrain: {clip_norm: 1}\n' > clip.yaml; lockstep prove clip.yaml
> skip  clipped           unjudged: clip_norm compares a norm, and a field has no order
>
> prove: 0 passed, 0 failed, 1 skipped
? 5
# Sums in another order, in half precision and with uneven rows are the same formula.
$ printf 'lockstep: 1\nname: mixed\nmesh: {shape: [3]}\norder: ring\nprogram:\n  tensors: [{name: a, shape: [7], values: normal, dtype: bf16, placements: P(sum), parts: each}]\n  steps: [{redistribute: {tensor: a, to: S(0)}}, {cast: {tensor: a, dtype: f32}}, {mean: {tensor: a, dim: 0, into: m}}, {redistribute: {tensor: m, to: R}}]\n' > mixed.yaml; lockstep prove mixed.yaml --json - | python3 -c 'import sys, json; j = json.load(sys.stdin); print(j["verdict"], [(s["name"], s["class"]) for s in j["cases"][0]["stages"]])'
> pass [('tensors', 'proved'), ('0_redistribute', 'proved'), ('1_cast', 'proved'), ('2_mean', 'proved'), ('3_redistribute', 'proved')]
$ lockstep prove twice.yaml -- python3 train.py
! lockstep: error: prove takes scenario files or '-- PROGRAM [ARGUMENTS]', not both
? 2
$ lockstep prove -n 4 twice.yaml
! lockstep: error: -n, --steps, --ignore, --keep, --all and --deadline require '-- PROGRAM'; a scenario file sets its own ranks
? 2
$ lockstep prove --allow-outside -- python3 train.py
! lockstep: error: --allow-outside applies to scenario files only
? 2
