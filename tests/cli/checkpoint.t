# A scenario of STEPS steps: NAME RANKS SHARDING_OF_A OPTIMIZER STEPS MORE.
$ printf 'printf "lockstep: 1\\nname: t\\nseed: 5\\nmesh: {shape: [$2]}\\ntables:\\n  - {name: a, rows: 10, dim: 8, max_norm: 0.6, sharding: $3}\\n  - {name: b, rows: 6, dim: 4, dtype: f16, sharding: {type: data_parallel}}\\ninputs: {batch: $((12 / $2)), features: {a: {lengths: {uniform: [0, 4]}}}}\\nsteps: [forward, backward, update]\\noptimizer: $4\\ntrain: {steps: $5, clip_norm: 1}\\n$6" > $1.yaml\n' > make
# Two steps and two more from their checkpoint leave what four steps leave, byte by byte, under every optimizer and form, and the oracle agrees.
$ for form in fused dense; do for type in sgd adagrad rowwise_adagrad adam adamw partial_rowwise_adam lamb partial_rowwise_lamb lars_sgd; do rm -rf two four more; o="{type: $type, form: $form, lr: 0.02}"; c="{type: column_wise, columns: 4, ranks: [1, 2]}"; sh make two 3 "$c" "$o" 2; sh make four 3 "$c" "$o" 4; sh make more 3 "$c" "$o" 2 'checkpoint: two\n'; for run in two four more; do lockstep run $run.yaml --checkpoint $run --quiet > out || cat out; done; diff -r four more || echo $type $form; done; done
# So with two batches in flight, with weights that are rounded by chance, and where no weight is updated.
$ o='{type: adam}'; t='optimizer: {type: adagrad, stochastic_rounding: true}, sharding: {type: data'; rm -rf two four more; for run in two four more; do case $run in four) n=4;; *) n=2;; esac; case $run in more) m='checkpoint: two\n';; *) m=;; esac; sh make $run 3 '{type: row_wise}' "$o" $n "pipeline: true\n$m"; sed -i "s/sharding: {type: data/$t/" $run.yaml; lockstep run $run.yaml --checkpoint $run --quiet; done; diff -r four more && echo the same
> run: 1 passed, 0 failed, 0 skipped
> run: 1 passed, 0 failed, 0 skipped
> run: 1 passed, 0 failed, 0 skipped
> the same
$ for steps in '[forward]' '[forward, backward]'; do sed "s/^steps.*/steps: $steps/; /^optimizer/d; s/, clip_norm: 1//; s/optimizer: {[^}]*}, //" more.yaml > only.yaml; lockstep run only.yaml --quiet; done
> run: 1 passed, 0 failed, 0 skipped
> run: 1 passed, 0 failed, 0 skipped
# Another plan: each element of adam is updated alike, wherever it is.
$ o='{type: adam}'; rm -rf two four more; sh make two 3 '{type: row_wise}' "$o" 2; sh make four 3 '{type: row_wise}' "$o" 4; sh make more 3 '{type: column_wise, columns: 2, ranks: [0, 1, 2, 1]}' "$o" 2 'checkpoint: two\n'; for run in two four more; do sed -i 's/, clip_norm: 1//; s/max_norm: 0.6, //' $run.yaml; lockstep run $run.yaml --checkpoint $run --quiet; done; lockstep diff four more --exact | grep ' a\.' | tr -s ' '
> run: 1 passed, 0 failed, 0 skipped
> run: 1 passed, 0 failed, 0 skipped
> run: 1 passed, 0 failed, 0 skipped
>  a.weights bit_exact 80 0 0 0
>  a.momentum1 bit_exact 80 0 0 0
>  a.momentum2 bit_exact 80 0 0 0
# Another number of ranks, fed the same samples: an owner adds them up in the same order.
$ printf 'printf "lockstep: 1\nname: t\nmesh: {shape: [$2]}\ntables: [{name: a, rows: 5, dim: 2, sharding: {type: $3}}]\ninputs: {batch: $((4 / $2)), features: {a: {lengths: {values: [2, 1, 0, 3]}, ids: {values: [4, 1, 1, 3, 1, 0]}}}}\nsteps: [forward, backward, update]\noptimizer: {type: $4}\ntrain: {steps: $5, gradient_division: none, gradients: {values: [0.1, 0.7, -0.3, 0.9, 1.1, 0.2, 0.6, -0.8]}}\n$6" > $1.yaml\n' > feed
$ for type in adagrad rowwise_adagrad adam; do rm -rf two four more; sh feed two 4 row_wise $type 2; sh feed four 4 row_wise $type 4; sh feed more 2 table_wise $type 2 'checkpoint: two\n'; for run in two four more; do lockstep run $run.yaml --checkpoint $run --quiet > out || cat out; done; lockstep diff four more | grep ' step \| a\.\|diff:' | tr -s ' ' | cut -d ' ' -f 2,3; done
> step bit_exact
> a.weights bit_exact
> a.momentum1 bit_exact
> 1 passed,
> step bit_exact
> a.weights bit_exact
> a.momentum1 bit_exact
> 1 passed,
> step bit_exact
> a.weights bit_exact
> a.momentum1 bit_exact
> a.momentum2 bit_exact
> 1 passed,
# Resharded before, it is the same.
$ lockstep plan more.yaml --out more.plan > /dev/null; lockstep reshard two cut --plan more.plan --quiet; sed 's/checkpoint: two/checkpoint: cut/' more.yaml > cut.yaml; lockstep run cut.yaml --checkpoint again --quiet; diff -r more again && echo the same
> run: 1 passed, 0 failed, 0 skipped
> the same
# A state or a weight that is changed in the checkpoint shows in what is trained from it.
$ for array in momentum1 momentum2 weights; do rm -rf bad out; cp -r two bad; python3 $SOURCE/tests/cli/change_tensor.py bad/rank_00000.safetensors a/$array/0_0 2 f 0; sed 's/checkpoint: two/checkpoint: bad/' more.yaml > bad.yaml; lockstep run bad.yaml --checkpoint out --quiet; lockstep diff more out | grep -o 'FAIL.*wrong'; done
> run: 1 passed, 0 failed, 0 skipped
> FAIL  out (1 ranks) against more (1)  wrong
> run: 1 passed, 0 failed, 0 skipped
> FAIL  out (1 ranks) against more (1)  wrong
> run: 1 passed, 0 failed, 0 skipped
> FAIL  out (1 ranks) against more (1)  wrong
# So does the step that adam's corrections divide by.
$ rm -rf bad out; cp -r two bad; sed -i 's/"step": 2/"step": 3/' bad/index.json; lockstep run bad.yaml --checkpoint out --quiet; lockstep diff more out | grep -o 'FAIL.*wrong'
> run: 1 passed, 0 failed, 0 skipped
> FAIL  out (1 ranks) against more (1)  wrong
# The checkpoint is kept with a recording, and is a part of what the scenario means.
$ lockstep record --quiet --backend sim --out kept more.yaml; ls kept/t/inputs/two; cp -r two safe; lockstep compare --quiet more.yaml --real kept; rm -r two; lockstep replay --quiet kept; cp -r bad two; lockstep compare more.yaml --real kept | tr -s '\n ' ' ' | grep -o 'it has checkpoint: index.json'; rm -r two; mv safe two
> record: 1 passed, 0 failed, 0 skipped
> index.json
> plan.yaml
> rank_00000.safetensors
> rank_00001.safetensors
> rank_00002.safetensors
> compare: 1 passed, 0 failed, 0 skipped
> replay: 1 passed, 0 failed, 0 skipped
> it has checkpoint: index.json
# What cannot be is reported at its place.
$ try() { sed "$1" more.yaml > no.yaml; lockstep run no.yaml 2>&1 | grep error; }; try 's/: two/: none/'; try 's/: two/: more.yaml/'; try 's/: two/: \/tmp/'; try 's/: two/: ./'
> no.yaml:9:13: error: checkpoint: No such file or directory: none
> no.yaml:9:13: error: checkpoint: not a folder: more.yaml
> no.yaml:9:13: error: checkpoint: leaves the scenario's folder, which takes --allow-outside: /tmp
> no.yaml:9:13: error: checkpoint: leaves the scenario's folder, which takes --allow-outside: .
$ try() { sed "$1" more.yaml > no.yaml; lockstep run no.yaml 2>&1 | grep error; }; try 's/name: a/name: b, features: a/'; try 's/dim: 2/dim: 4/'; try 's/rows: 5/rows: 6/'; try 's/dim: 2/dim: 2, dtype: f16/'; try 's/dim: 2/dim: 2, dtype: f64/'
> no.yaml:4:10: error: checkpoint: the checkpoint has no table b
> no.yaml:4:10: error: checkpoint: table a is 5 x 4, in the checkpoint 5 x 2
> no.yaml:4:10: error: checkpoint: table a is 6 x 2, in the checkpoint 5 x 2
> no.yaml:4:10: error: checkpoint: table a: weights is f16, in the checkpoint f32
> no.yaml:4:10: error: checkpoint: table a: weights is f64, in the checkpoint f32
$ try() { sed "$1" more.yaml > no.yaml; lockstep run no.yaml 2>&1 | grep error; }; try 's/type: adam/type: adamw/'; try 's/type: adam/type: sgd/'; try 's/dim: 2/dim: 2, optimizer: {type: rowwise_adagrad}/'; try 's/dim: 2/dim: 2, weights: exact/'; try 's/steps: .forward.*/steps: [forward]/; /^optimizer/d; /^train/d; s/dim: 2/dim: 2, quantise: {to: int8}/'
> no.yaml:4:10: error: checkpoint: table a: the optimizer is adamw, the checkpoint has the states of adam
> no.yaml:4:10: error: checkpoint: table a: the optimizer is sgd, the checkpoint has the states of adam
> no.yaml:4:10: error: checkpoint: table a: the optimizer is rowwise_adagrad, the checkpoint has the states of adam
> no.yaml:4:46: error: table a: weights exclude a checkpoint, which has them
> no.yaml:4:47: error: table a: quantised rows cannot start from a checkpoint
$ rm -rf bad; sed 's/^steps.*//; /^optimizer/d; /^train/d; /^checkpoint/d' more.yaml > plain.yaml; lockstep run plain.yaml --checkpoint bad --quiet; lockstep run bad.yaml
> run: 1 passed, 0 failed, 0 skipped
! bad.yaml:4:10: error: checkpoint: table a: the checkpoint has no momentum1; it was trained by another optimizer, or not at all
!     4 | tables: [{name: a, rows: 5, dim: 2, sharding: {type: table_wise}}]
!       |          ^
? 2
$ harm() { rm -rf bad; cp -r two bad; eval "$1"; lockstep run bad.yaml 2>&1 | grep error; }; harm 'truncate -s -4 bad/rank_00001.safetensors'; harm 'rm bad/rank_00001.safetensors'; harm 'rm bad/index.json'; harm 'echo 1 > bad/plan.yaml'; harm 'sed -i s/f32/f16/ bad/index.json'; harm 'sed -i s/\"adam\"/1/ bad/index.json'; harm 'sed -i "s/.step.: 2/\"step\": 2147483647/" bad/index.json'
> bad.yaml:9:13: error: checkpoint: '...bad/rank_00001.safetensors': tensor "a/momentum2/2_0": its data_offsets are outside the file
> bad.yaml:9:13: error: checkpoint: cannot open '...bad/rank_00001.safetensors': No such file or directory
> bad.yaml:9:13: error: checkpoint: cannot open '...bad/index.json': No such file or directory
> bad.yaml:9:13: error: checkpoint: ...bad/plan.yaml:1:1: error: expected keys and values
> bad.yaml:9:13: error: checkpoint: checkpoint '...bad': rank 0: tensor "a/weights/0_0" is not f16 [2, 2]
> bad.yaml:9:13: error: checkpoint: '...bad/index.json': table "a": the optimizer is not a name
> bad.yaml:9:13: error: checkpoint: step 2147483647 is too large
$ mkdir in; cp bad.yaml in; rm -rf bad; cp -r two bad; mkdir in/bad; for file in bad/*; do ln -s ../../$file in/bad; done; lockstep run in/bad.yaml 2>&1 | grep error; lockstep run in/bad.yaml --allow-outside --quiet; rm -r in/bad; ln -s ../bad in/bad; lockstep run in/bad.yaml 2>&1 | grep error; lockstep run in/bad.yaml --allow-outside --quiet
> in/bad.yaml:9:13: error: checkpoint: index.json is not a regular file, which takes --allow-outside: bad
> run: 1 passed, 0 failed, 0 skipped
> in/bad.yaml:9:13: error: checkpoint: leaves the scenario's folder, which takes --allow-outside: bad
> run: 1 passed, 0 failed, 0 skipped
$ printf 'lockstep: 1\nname: t\nmesh: {shape: [2]}\ncheckpoint: two\nprogram: {steps: [{all_reduce: {count: 4}}]}\n' > no.yaml; lockstep run no.yaml
! no.yaml:4:13: error: checkpoint: applies to tables, not to a program
!     4 | checkpoint: two
!       |             ^~~
? 2
