# Paths that a scenario names stay in its folder, the order's too; what they name is a plain file.
$ mkdir in out; printf 'lockstep: 1\nname: t\nmesh: {shape: [2]}\nprogram: {steps: [{all_reduce: {count: 4}}]}\norder: measured:ORDER\n' > in/t.yaml; echo '{}' > out/o.json; ln -s ../out/o.json in/link; mkfifo in/fifo; mkdir in/folder; ln -s /dev/null in/device
$ for order in "$PWD/out/o.json" ../out/o.json link device fifo folder missing; do sed "s|ORDER|$order|" in/t.yaml > in/x.yaml; timeout 20 lockstep run in/x.yaml 2>&1 | grep -o 'x.yaml:5:8: error.*' | sed "s|$PWD|HERE|g"; done
> x.yaml:5:8: error: order: leaves the scenario's folder, which takes --allow-outside: measured:HERE/out/o.json
> x.yaml:5:8: error: order: leaves the scenario's folder, which takes --allow-outside: measured:../out/o.json
> x.yaml:5:8: error: order: leaves the scenario's folder, which takes --allow-outside: measured:link
> x.yaml:5:8: error: order: leaves the scenario's folder, which takes --allow-outside: measured:device
> x.yaml:5:8: error: order: not a regular file: measured:fifo
> x.yaml:5:8: error: order: not a regular file: measured:folder
> x.yaml:5:8: error: order: No such file or directory: measured:missing
# Those of weights and values go the same way.
$ for path in ../out/o.json link fifo folder; do printf "lockstep: 1\nname: t\nmesh: {shape: [2]}\nprogram: {steps: [{all_reduce: {count: 4, values: {file: $path}}}]}\n" > in/x.yaml; timeout 20 lockstep run in/x.yaml 2>&1 | grep -o 'x.yaml:4:.*'; done
> x.yaml:4:58: error: file: leaves the scenario's folder, which takes --allow-outside: ../out/o.json
> x.yaml:4:58: error: file: leaves the scenario's folder, which takes --allow-outside: link
> x.yaml:4:58: error: file: not a regular file: fifo
> x.yaml:4:58: error: file: not a regular file: folder
# With leave, and on the command line, a path goes where it likes; what is wrong with it is told first.
$ sed "s|ORDER|../out/o.json|" in/t.yaml > in/x.yaml; lockstep run --allow-outside in/x.yaml 2>&1 | grep -o '"lockstep_order": 1 is missing'
> "lockstep_order": 1 is missing
$ sed 5d in/t.yaml > in/x.yaml; lockstep run --order measured:out/o.json in/x.yaml
! lockstep: error: measured order out/o.json: "lockstep_order": 1 is missing
? 2
$ lockstep run --order nonsense in/x.yaml
! lockstep: error: order "nonsense": expected rank, ring[:KEYS], tree[:KEYS], symmetric[:KEYS] or measured:FILE
? 2
# All that a file can tell is told at once, before anything runs.
$ printf 'lockstep: 1\nname: t\nmesh: {shape: [2]}\nprogram:\n  tensors: [{name: a, shape: [4], placements: P(premul_sum)}]\n  steps:\n    - all_reduce: {name: x, count: 4, values: {values: [[1, 2, 3], [1, 2, 3, 4]]}}\n    - all_gather: {name: x, count: 4}\n    - all_gather: {name: "a/b", count: 4}\n    - all_gather: {name: "a\\nb", count: 4, dim: 1}\n    - all_gather: {counts: [1, 2], count: 4}\norder: ring:proto=loud\n' > many.yaml; lockstep run many.yaml 2>&1 | grep error
> many.yaml:5:47: error: placements: P(premul_sum) needs factors, which a placement lacks
> many.yaml:8:26: error: step x: the name is given twice
> many.yaml:9:26: error: "a/b" cannot be part of a stage output's name
> many.yaml:10:26: error: "a?b" cannot be part of a stage output's name
> many.yaml:10:49: error: dim: applies to a collective on a tensor
> many.yaml:11:43: error: count: excluded by counts
> many.yaml:12:8: error: order: proto=loud: expected ll, ll128, simple
$ lockstep run many.yaml 2> /dev/null
? 2
# Values: a file of the wrong kind, type or size, and lists that are too short.
$ python3 $SOURCE/tests/cli/arrays.py; for f in good short flat cut text empty words; do printf "lockstep: 1\nname: t\nmesh: {shape: [2]}\nprogram: {steps: [{all_reduce: {count: 4, values: {file: $f.npy}}}]}\n" > v.yaml; lockstep run --quiet v.yaml 2>&1 | grep -o '^v.yaml.*\|run: .*'; done
> run: 1 passed, 0 failed, 0 skipped
> v.yaml:4:58: error: values: 3 for the 4 elements that member 0 sends
> v.yaml:4:58: error: values: the first dimension of the file is not the 2 members
> v.yaml:4:58: error: values: '...cut.npy': the shape needs 32 bytes of data, the file has 31
> v.yaml:4:58: error: values: '...text.npy': elements of type <U4 are not supported
> v.yaml:4:58: error: values: '...empty.npy' ends early
> v.yaml:4:58: error: values: '...words.npy' is not a .npy file
$ lockstep run v.yaml > /dev/null 2>&1
? 2
# The same for tables: weights, lengths and ids.
$ for k in 'weights good' 'lengths real' 'lengths good' 'lengths minus' 'ids real' 'lengths ones, ids flat' 'lengths fewer' 'lengths ones, ids fewer' 'ids ones' 'ids words'; do printf 'lockstep: 1\nname: t\nmesh: {shape: [2]}\ntables: [{name: p, rows: 4, dim: 4, sharding: {type: row_wise}WEIGHTS}]\ninputs: {batch: 2, features: {p: {INPUTS}}}\n' > v.yaml; case "$k" in weights*) sed -i "s/WEIGHTS/, weights: {file: ${k#* }.npy}/; s/INPUTS//" v.yaml;; *) sed -i "s/WEIGHTS//; s/INPUTS/$(echo $k | sed 's/ \([a-z]*\)/: {file: \1.npy}/; s/, ids \(.*\)/, ids: {file: \1.npy}/')/" v.yaml;; esac; lockstep run --quiet v.yaml 2>&1 | grep -o '^v.yaml.*\|run: .*'; done
> v.yaml:4:81: error: weights: the file has shape [2, 4], expected [4, 4]
> v.yaml:5:51: error: lengths: the elements of the file are f32
> v.yaml:5:51: error: lengths: the elements of the file are f32
> v.yaml:5:51: error: lengths: -1 for sample 0 of rank 1
> v.yaml:5:47: error: ids: the elements of the file are f32
> v.yaml:5:74: error: ids: the elements of the file are f32
> v.yaml:5:51: error: lengths: 3 lengths for 4 samples in all
> v.yaml:5:74: error: ids: 3 ids where the lengths add up to 4
> run: 1 passed, 0 failed, 0 skipped
> v.yaml:5:47: error: ids: '...words.npy' is not a .npy file
# As many numbers in another shape are others; those of one dimension state none. Of a tensor of a program the same.
$ for dims in '2 4' '4 2' '8 1' '1 8' '8 2'; do set -- $dims; printf "lockstep: 1\nname: t\nmesh: {shape: [2]}\ntables: [{name: p, rows: $1, dim: $2, weights: {file: good.npy}, sharding: {type: row_wise}}]\ninputs: {batch: 2}\n" > v.yaml; lockstep run --quiet v.yaml 2>&1 | grep -o '^v.yaml.*\|run: .*'; sed -i 's/good/flat/' v.yaml; lockstep run --quiet v.yaml 2>&1 | grep -o '^v.yaml.*\|run: .*'; printf "lockstep: 1\nname: t\nmesh: {shape: [2]}\nprogram: {tensors: [{name: a, shape: [$1, $2], values: {file: good.npy}, placements: S(0)}], steps: [{full: {tensor: a}}]}\n" > v.yaml; lockstep run --quiet v.yaml 2>&1 | grep -o '^v.yaml.*\|run: .*'; done
> run: 1 passed, 0 failed, 0 skipped
> run: 1 passed, 0 failed, 0 skipped
> run: 1 passed, 0 failed, 0 skipped
> v.yaml:4:53: error: weights: the file has shape [2, 4], expected [4, 2]
> run: 1 passed, 0 failed, 0 skipped
> v.yaml:4:61: error: values: the file has shape [2, 4], expected [4, 2]
> v.yaml:4:53: error: weights: the file has shape [2, 4], expected [8, 1]
> run: 1 passed, 0 failed, 0 skipped
> v.yaml:4:61: error: values: the file has shape [2, 4], expected [8, 1]
> v.yaml:4:53: error: weights: the file has shape [2, 4], expected [1, 8]
> run: 1 passed, 0 failed, 0 skipped
> v.yaml:4:61: error: values: the file has shape [2, 4], expected [1, 8]
> v.yaml:4:53: error: weights: the file has shape [2, 4], expected [8, 2]
> v.yaml:4:53: error: weights: the file has shape [8], expected [8, 2]
> v.yaml:4:61: error: values: the file has shape [2, 4], expected [8, 2]
# A plan and a reference, too.
$ printf 'lockstep_plan: 2\n' > p.yaml; printf 'lockstep: 1\nname: t\nmesh: {shape: [2]}\ntables: [{name: p, rows: 4, dim: 4, sharding: {plan: p.yaml}}]\ninputs: {batch: 2}\nchecks: {reference: [{file: cut.npy}]}\n' > v.yaml; lockstep run v.yaml 2>&1 | grep error
> v.yaml:4:54: error: plan: ...p.yaml:1:16: error: expected 1
> v.yaml:6:29: error: reference: '...cut.npy': the shape needs 32 bytes of data, the file has 31
# What the kind of a step has no use for is refused where it stands, not passed over.
$ except() { printf "lockstep: 1\nname: t\nmesh: {shape: [4]}\nprogram:\n  steps:\n    - all_reduce: {name: a, count: 4, async: true}\n    - $1: {$2, except: [{ranks: [1], $3}]}\n    - wait: {name: w, step: a}\n" > e.yaml; lockstep run --quiet e.yaml 2>&1 | grep -o '^e.yaml.*error.*'; }; for f in 'repeat: true' 'call: all_gather' 'counts: [1, 2, 3, 4]' 'overlap: 1' 'op: max' 'root: 1' 'group: [0]' 'skip: false' 'count: 3' 'reverse: true' 'poke: nan' 'room: 1'; do except send_recv 'pairs: [[0, 1], [1, 0]], count: 4' "$f"; done
> e.yaml:7:84: error: except: repeat changes nothing in send_recv
> e.yaml:7:82: error: except: call changes nothing in send_recv
> e.yaml:7:84: error: except: counts changes nothing in send_recv
> e.yaml:7:85: error: except: overlap changes nothing in send_recv
> e.yaml:7:80: error: except: op changes nothing in send_recv
> e.yaml:7:82: error: except: root changes nothing in send_recv
> e.yaml:7:83: error: except: group changes nothing in send_recv without ranks
> e.yaml:7:63: error: except: it gives no difference for these ranks
? 1
$ except() { printf "lockstep: 1\nname: t\nmesh: {shape: [4]}\nprogram:\n  steps:\n    - all_reduce: {name: a, count: 4, async: true}\n    - $1: {$2, except: [{ranks: [1], $3}]}\n    - wait: {name: w, step: a}\n" > e.yaml; lockstep run --quiet e.yaml 2>&1 | grep -o '^e.yaml.*error.*'; }; except touch 'step: a' 'skip: true'; except wait 'step: a' 'count: 3'; except check_replica 'step: a' 'repeat: true'; except barrier 'ranks: [0, 1]' 'count: 3'; except barrier 'ranks: [0, 2]' 'skip: true'; except all_gather 'count: 4' 'op: max'; except all_reduce 'count: 4' 'reverse: true'; except all_reduce 'count: 4, dtype: i32' 'poke: inf'; except all_reduce 'count: 4' 'skip: true, count: 3'; except all_gather 'counts: [1, 2, 3, 4]' 'count: 3'; except all_reduce 'count: 4' 'call: barrier, dtype: f16'; except all_reduce 'count: 4' 'call: broadcast, root: 2'
> e.yaml:7:52: error: except: skip changes nothing in touch
> e.yaml:7:52: error: except: count changes nothing in wait
> e.yaml:7:62: error: except: repeat changes nothing in check_replica
> e.yaml:7:61: error: except: count changes nothing in barrier
> e.yaml:7:50: error: except: rank 1 takes no part in this step
> e.yaml:7:56: error: except: op changes nothing in all_gather
> e.yaml:7:61: error: except: reverse changes nothing in all_reduce
> e.yaml:7:70: error: except: poke: i32 has neither NaN nor infinity
> e.yaml:7:71: error: except: count changes nothing in all_reduce, which they skip
> e.yaml:7:71: error: except: count changes nothing in all_gather beside counts or splits
> e.yaml:7:74: error: except: dtype changes nothing in all_reduce
? 1
# So are keys of a fault that its type ignores, and classes that no case can end well in.
$ for f in 'die, index: 3' 'slow, seconds: 2' 'bit_flip, index: -1' 'allocation' 'allocation, index: 1, call: 2' 'wrong_count, index: -1'; do printf "lockstep: 1\nname: t\nmesh: {shape: [2]}\nprogram: {steps: [{all_reduce: {count: 4}}]}\nfaults: [{rank: 1, type: $f}]\n" > f.yaml; lockstep run f.yaml 2>&1 | grep -A 3 'f.yaml.*error' | grep -v '|.*[\^:]'; done
> f.yaml:5:38: error: index: it has no meaning in a fault of this type
> f.yaml:5:32: error: unknown key: seconds
> f.yaml:5:43: error: index: only a wrong count may be smaller than the right one
> f.yaml:5:10: error: index: missing, so no allocation is selected
> f.yaml:5:54: error: call: an allocation is selected by its index, not by a call
? 1
$ for c in finding error; do printf "lockstep: 1\nname: t\nmesh: {shape: [2]}\nprogram: {steps: [{all_reduce: {count: 4}}]}\nexpect: {class: $c}\n" > f.yaml; lockstep run f.yaml; done
! f.yaml:5:17: error: class: unknown: finding
!     5 | expect: {class: finding}
!       |                 ^~~~~~~
!       | expected wrong
! f.yaml:5:17: error: class: unknown: error
!     5 | expect: {class: error}
!       |                 ^~~~~
!       | expected wrong
? 2
# One mistake, one error.
$ sed 's/^tables/tabels/' v.yaml > one.yaml; lockstep run one.yaml; printf -- '- lockstep: 1\n- name: t\n' > one.yaml; lockstep run one.yaml; sed 's/rows/row/; s/cut/good/; s/{plan: p.yaml}/{type: row_wise}/' v.yaml > one.yaml; lockstep run one.yaml
! one.yaml:4:1: error: unknown key: tabels
!     4 | tabels: [{name: p, rows: 4, dim: 4, sharding: {plan: p.yaml}}]
!       | ^~~~~~
!       | expected a key of scenario: lockstep, name, description, seed, machine, mesh, tables, torchrec_quirks, inputs, steps, optimizer, train, checkpoint, pipeline, program, order, checks, faults, expect
!       | did you mean "tables"?
! one.yaml:6:29: error: reference: '...cut.npy': the shape needs 32 bytes of data, the file has 31
!     6 | checks: {reference: [{file: cut.npy}]}
!       |                             ^~~~~~~
! one.yaml:1:1: error: scenario: not a mapping: a list
!     1 | - lockstep: 1
!       | ^
!       | expected exactly a key of scenario: lockstep, name, description, seed, machine, mesh, tables, torchrec_quirks, inputs, steps, optimizer, train, checkpoint, pipeline, program, order, checks, faults, expect
! one.yaml:4:20: error: unknown key: row
!     4 | tables: [{name: p, row: 4, dim: 4, sharding: {type: row_wise}}]
!       |                    ^~~
!       | expected a key of table: name, module, rows, dim, dtype, quantise, output_dtype, pooling, weighted, mean_divisor, features, weights, padding_id, max_norm, norm_type, optimizer, sharding
!       | did you mean "rows"?
? 2
# A GPU that is not there: nothing runs on the host instead.
$ CUDA_VISIBLE_DEVICES= lockstep run "$SOURCE/scenarios/dtensor_example/every_collective.yaml" --device cuda 2> error; echo $?; grep -c '^lockstep: error: ' error
> 3
> 1
# Names are printed without what a terminal might obey, and can be pasted into a shell.
$ f=$(printf 'a\033[31m b.yaml'); echo 'lockstep: 2' > "$f"; lockstep run "$f" 2>&1 | head -n 1; lockstep run "$(printf 'no\033]0;x')"
> a?[31m b.yaml:1:1: error: the key name is missing
! no?]0;x: error: cannot open 'no?]0;x': No such file or directory
? 2
$ cp $SOURCE/scenarios/bugs/all_reduce_max_on_one_rank.yaml '$(touch here)'"'"'s.yaml'; sed -i '/^expect/d' '$(touch here)'"'"'s.yaml'; lockstep run --quiet '$(touch here)'"'"'s.yaml' | grep reproduce
>   reproduce: lockstep run --backend sim '$(touch here)'\''s.yaml'
# On tensors, what a step does by itself is not for an exception to change; each is refused at its line.
$ on() { printf "lockstep: 1\nname: t\nmesh: {shape: [4]}\nprogram:\n  tensors: [{name: a, shape: [8], placements: R}]\n  steps:\n    - $1: {tensor: a, $2except: [{ranks: [1], $3}]}\n" > e.yaml; lockstep run --quiet e.yaml 2>&1 | grep -o '^e.yaml.*error.*'; }; for f in 'count: 3' 'dtype: f64' 'counts: [1, 2, 3, 4]' 'call: barrier' 'group: [0]' 'room: 1' 'unwritten: true' 'overlap: 1' 'poke: nan' 'reverse: true' 'root: 1' 'swap: true' 'skip: true, op: max'; do on all_reduce '' "$f"; done; on broadcast '' 'op: max'; on broadcast '' 'root: 4'; on redistribute 'to: S(0), ' 'op: max'; on full '' 'count: 2'; on scale 'factor: 2, ' 'poke: inf'; on scale 'factor: 2, ' 'skip: false'
> e.yaml:7:60: error: except: count changes nothing in all_reduce on a tensor
> e.yaml:7:60: error: except: dtype changes nothing in all_reduce on a tensor
> e.yaml:7:61: error: except: counts changes nothing in all_reduce on a tensor
> e.yaml:7:59: error: except: call changes nothing in all_reduce on a tensor
> e.yaml:7:60: error: except: group changes nothing in all_reduce on a tensor
> e.yaml:7:59: error: except: room changes nothing in all_reduce on a tensor
> e.yaml:7:64: error: except: unwritten changes nothing in all_reduce on a tensor
> e.yaml:7:62: error: except: overlap changes nothing in all_reduce on a tensor
> e.yaml:7:59: error: except: poke changes nothing in all_reduce on a tensor
> e.yaml:7:62: error: except: reverse changes nothing in all_reduce on a tensor
> e.yaml:7:59: error: except: root changes nothing in all_reduce on a tensor
> e.yaml:7:59: error: except: swap changes nothing in all_reduce, the last step
> e.yaml:7:69: error: except: op changes nothing in all_reduce, which they skip
> e.yaml:7:56: error: except: op changes nothing in broadcast on a tensor
> e.yaml:7:58: error: root: 4 of only 4
> e.yaml:7:69: error: except: op changes nothing in redistribute on a tensor
> e.yaml:7:54: error: except: count changes nothing in full on a tensor
> e.yaml:7:65: error: except: poke changes nothing in scale on a tensor
> e.yaml:7:46: error: except: it gives no difference for these ranks
# The others do change it, and are found.
$ on() { printf "lockstep: 1\nname: t\nmesh: {shape: [4]}\nprogram:\n  tensors: [{name: a, shape: [8], placements: S(0)}, {name: b, shape: [8], placements: R}]\n  steps:\n    - $1: {tensor: $2, except: [{ranks: [1], $3}]}\n    - all_reduce: {tensor: b}\n" > e.yaml; lockstep run --quiet e.yaml 2>&1 | grep -o '^  [a-z]*[.][a-z_]*, .*'; }; for f in 'skip: true' 'repeat: true' 'exit: true' 'swap: true'; do on all_gather 'a' "$f"; done; on all_reduce b 'op: max'; on broadcast b 'root: 2'; on full a 'skip: true'; on redistribute 'a, to: R' 'swap: true'
>   collective.kind_mismatch, rank 1, at e.yaml:8
>   collective.kind_mismatch, rank 1, at e.yaml:7
>   rank.exited_early, rank 1, at e.yaml:7
>   collective.kind_mismatch, rank 1, at e.yaml:8
>   collective.op_mismatch, rank 1, at e.yaml:7
>   collective.root_mismatch, rank 1, at e.yaml:7
>   collective.kind_mismatch, rank 1, at e.yaml:8
>   collective.kind_mismatch, rank 1, at e.yaml:8
# Names in any script, of one to four bytes a character; and what is none.
$ printf 'lockstep: 1\nname: "a \302\265 \342\210\221 \360\237\230\200"\nmesh: {shape: [2]}\nprogram: {steps: [{all_reduce: {count: 2}}]}\n' > signs.yaml; lockstep run signs.yaml | grep -o 'a \S* \S* \S*' | head -n 1
> a µ ∑ 😀
$ for bytes in '\360\237\230' '\300\200' '\340\200\200' '\355\240\200' '\360\200\200\200' '\364\220\200\200' '\365\200\200\200' '\200'; do printf "lockstep: 1\nname: a $bytes\nmesh: {shape: [2]}\n" > signs.yaml; lockstep run signs.yaml 2>&1 | head -n 1; done
> signs.yaml:2:9: error: the byte 0xf0 is not UTF-8
> signs.yaml:2:9: error: the byte 0xc0 is not UTF-8
> signs.yaml:2:9: error: the byte 0xe0 is not UTF-8
> signs.yaml:2:9: error: the byte 0xed is not UTF-8
> signs.yaml:2:9: error: the byte 0xf0 is not UTF-8
> signs.yaml:2:9: error: the byte 0xf4 is not UTF-8
> signs.yaml:2:9: error: the byte 0xf5 is not UTF-8
> signs.yaml:2:9: error: the byte 0x80 is not UTF-8
# A version of .npy that nobody has written yet.
$ printf '\223NUMPY\004\000v\000{}' > four.npy; printf 'lockstep: 1\nname: four\nmesh: {shape: [2]}\nprogram: {steps: [{all_reduce: {count: 2, values: {file: four.npy}}}]}\n' > four.yaml; lockstep run four.yaml
! four.yaml:4:58: error: values: '...four.npy': .npy version 4 is not supported
!     4 | program: {steps: [{all_reduce: {count: 2, values: {file: four.npy}}}]}
!       |                                                          ^~~~~~~~
? 2
# A plan file that cannot be used is told once, however many tables it places, with the rows at fault; what is
# wrong for one table alone, at that table. Shards may stand in any order.
$ printf 'lockstep: 1\nname: t\nmesh: {shape: [2]}\ntables:\n  - {name: a, rows: 10, dim: 4, sharding: {plan: p.plan}}\n  - {name: b, rows: 10, dim: 4, sharding: {plan: p.plan}}\n  - {name: c, rows: 10, dim: 4, sharding: {plan: p.plan}}\ninputs: {batch: 2}\n' > planned.yaml
$ plan() { printf 'lockstep_plan: 1\nranks: %s\ntables:\n' $1; for t in a b c; do printf '  - {name: %s, rows: 10, columns: 4, sharding: row_wise, shards: [{rank: 0, offset: [0, 0], size: [%s, 4]}, {rank: 1, offset: [%s, 0], size: [%s, 4]}]}\n' $t $2 $3 $4; shift 3; done; }; plan 2 5 5 5 5 5 5 5 5 5 > p.plan; lockstep run --quiet planned.yaml; for p in '2 5 5 5 5 6 4 5 5 5' '2 5 5 5 6 5 5 5 5 5' '3 5 5 5 5 5 5 5 5 5' '2 5 5 5 5 5 2 5 5 5'; do plan $p > p.plan; lockstep run planned.yaml 2>&1 | grep error: | sed "s|$PWD/||g"; done; plan 2 5 5 5 5 5 5 5 5 5 | sed 's/name: b/name: d/; s/shards: \[\(.*}\), \({rank: 1.*}\)\]}/shards: [\2, \1]}/' > p.plan; lockstep run planned.yaml 2>&1 | grep error: | sed "s|$PWD/||g"
> run: 1 passed, 0 failed, 0 skipped
> planned.yaml:5:50: error: plan: p.plan:5:5: error: plan: table b: row 5 is on no rank: shard 1 on rank 1 begins at row 6, expected 5
> planned.yaml:5:50: error: plan: p.plan:5:5: error: plan: table b: row 5 is in two shards: shard 1 on rank 1 begins at row 5, expected 6
> planned.yaml:5:50: error: plan: the plan p.plan is for 3 ranks, 3 a host, not 2, 2 a host
> planned.yaml:5:50: error: plan: p.plan:5:5: error: plan: table b: rows 7 to 9 are on no rank
> planned.yaml:6:50: error: table b: the plan p.plan has no such table
# The dimension called host is found behind others of size 1.
$ printf 'lockstep: 1\nname: t\nmesh: {shape: [1, 2, 2], names: [replica, host, gpu]}\ntables: [{name: a, rows: 10, dim: 4, sharding: {type: table_row_wise, host: 1}}]\ninputs: {batch: 2}\n' > host.yaml; lockstep run --quiet host.yaml
> run: 1 passed, 0 failed, 0 skipped
