# What a pass must not be: a comparison with nothing, with too wide a bound, or of something else.
# A recording that is not there, and a defect that only the simulation shows.
$ printf 'lockstep: 1\nname: m\nmesh: {shape: [4]}\nprogram: {steps: [{all_reduce: {count: 4, except: [{ranks: [2], op: max}]}}]}\nexpect: {finding: collective.op_mismatch}\n' > m.yaml; lockstep compare m.yaml --real nowhere
> skip  m                 collective.op_mismatch was found in the simulation alone: a recording does not show the injected defect
>
> compare: 0 passed, 0 failed, 1 skipped
? 5
$ sed '/^expect/d; s/, except.*]}/}/; s/$/ /' m.yaml > plain.yaml; sed -i 's/count: 4}.*/count: 4}}]}/' plain.yaml; lockstep compare plain.yaml --real nowhere > out
? 2
# Nothing that is compared with anything, in each way that comes to it.
$ for steps in '' '{all_reduce: {count: 0}}' barrier '{all_reduce: {count: 0}}, barrier' '{send_recv: {count: 0, pairs: [[0, 1]]}}'; do printf "lockstep: 1\nname: n\nmesh: {shape: [2]}\nprogram: {steps: [$steps]}\n" > n.yaml; lockstep run n.yaml | head -n 1; lockstep run --quiet n.yaml > out; echo $?; done
> skip  n                 nothing was judged: no element of an output was compared with anything
> 5
> skip  n                 nothing was judged: no element of an output was compared with anything
> 5
> skip  n                 nothing was judged: no element of an output was compared with anything
> 5
> skip  n                 nothing was judged: no element of an output was compared with anything
> 5
> skip  n                 nothing was judged: no element of an output was compared with anything
> 5
$ printf "lockstep: 1\nname: off\nmesh: {shape: [2]}\ntables: [{name: t, rows: 4, dim: 2, sharding: {type: row_wise}}]\ninputs: {batch: 2}\nchecks: {oracle: 'off', real: 'off'}\n" > off.yaml; lockstep run off.yaml | grep skip; lockstep run off.yaml > out
> skip  off               nothing was judged: no element of an output was compared with anything
> run: 0 passed, 0 failed, 1 skipped
? 5
# What is not judged is counted as such, whatever was to go unnoticed; and where a check finds a defect,
# nothing else is judged.
$ count() { lockstep run --json - $1 | python3 -c 'import json, sys; case, = json.load(sys.stdin)["cases"]; print(case["verdict"], case["class"], case["judged"], [(s["name"], s["elements"], s["unjudged"]) for s in case["stages"]])'; }; printf 'faults: [{type: slow, rank: 0}]\nexpect: {unnoticed: true}\n' >> off.yaml; lockstep run off.yaml | tr -s ' ' | grep 'unjudged\|skip '; printf 'lockstep: 1\nname: leak\nmesh: {shape: [2]}\nprogram:\n  steps:\n    - all_reduce: {name: a, count: 2}\n    - all_reduce: {name: b, count: 2, async: true}\n' > leak.yaml; count leak.yaml
> skip off nothing was judged: no element of an output was compared with anything
> fail finding 0 []
# Two references of one output: each is judged, in either order.
$ python3 -c 'import struct; h = "{\"descr\": \"<f4\", \"fortran_order\": False, \"shape\": (2, 2), }"; h += " " * (117 - len(h)) + "\n"; [open(n + ".npy", "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(h)) + h.encode() + struct.pack("<4f", *v)) for n, v in (("far", (1e9, -7, float("nan"), 0)), ("near", (0.3,) * 4))]'; for files in 'far near' 'near far' 'near near'; do set -- $files; printf "lockstep: 1\nname: r\nmesh: {shape: [2]}\ntables: [{name: t, rows: 8, dim: 2, weights: {constant: 0.1}, sharding: {type: row_wise}}]\ninputs: {batch: 1, features: {t: {lengths: {constant: 3}, ids: {values: [[0, 4, 7], [1, 5, 6]]}}}}\nchecks: {reference: [{file: $1.npy}, {file: $2.npy}]}\n" > r.yaml; lockstep run r.yaml | awk '/^ *reference:/ {print $1, $2}'; lockstep run --quiet r.yaml > out; echo $?; done
> reference:output_dist wrong
> reference:output_dist bit_exact
> 1
> reference:output_dist wrong
> reference:output_dist bit_exact
> 1
> reference:output_dist bit_exact
> reference:output_dist bit_exact
> 0
# Each reference says for itself what it lets pass.
$ python3 -c 'import struct; h = "{\"descr\": \"<f4\", \"fortran_order\": False, \"shape\": (2, 2), }"; h += " " * (117 - len(h)) + "\n"; open("close.npy", "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(h)) + h.encode() + struct.pack("<4f", *(0.29999998,) * 4))'; for allow in '' ', allow: bit_exact'; do sed "s/^checks.*/checks: {reference: [{file: near.npy}, {file: close.npy$allow}]}/" r.yaml > s.yaml; lockstep run --quiet s.yaml | grep 'within_bound:\|run:'; done
> run: 1 passed, 0 failed, 0 skipped
>   stage reference:output_dist is within_bound: 4 of 4 elements differ, by up to 1 ulps (0.625 of the bound)
> run: 0 passed, 1 failed, 0 skipped
# What is injected is judged, reached and noticed, or the scenario fails.
$ for fault in 'bit_flip, rank: 1, call: 0, index: 30' 'die, rank: 1, call: 99' 'bit_flip, rank: 1, call: 7'; do printf "lockstep: 1\nname: f\nmesh: {shape: [2]}\nprogram: {steps: [{all_gather: {name: w, count: 8, values: normal}}]}\nfaults: [{type: $fault}]\n" > f.yaml; lockstep run --quiet f.yaml | grep 'is wrong:\|error:'; done
>   stage w is wrong: 2 of 32 elements differ, by up to 1,073,741,824 ulps
>   error: f.yaml:5: the fault is not injected: rank 1 does not reach it
>   error: f.yaml:5: the fault is not injected: rank 1 does not reach it
$ for step in 'all_to_all: {splits: [[1, 2], [2, 1]]}' 'barrier: {}' 'all_to_all: {count: 2}'; do printf "lockstep: 1\nname: c\nmesh: {shape: [2]}\nprogram: {steps: [{$step}]}\nfaults: [{type: wrong_count, rank: 1}]\n" > c.yaml; sed 's/wrong_count/wrong_split/' c.yaml > s.yaml; for f in c s; do lockstep run --quiet $f.yaml | tr -s '\n ' ' ' | grep -o 'error: .* reprod\|buffer[^ ]*, rank 1'; done; done
> error: c.yaml:5: the fault is not injected: call 0 of rank 1, all_to_all, has no single count; wrong_split changes its counts reprod
> buffer.too_small, rank 1
> error: c.yaml:5: the fault is not injected: call 0 of rank 1, barrier, has no count reprod
> error: s.yaml:5: the fault is not injected: call 0 of rank 1, barrier, has no count reprod
> buffer.too_small, rank 1
> buffer.too_small, rank 1
$ printf 'lockstep: 1\nname: d\nmesh: {shape: [2]}\ntables: [{name: t, rows: 4, dim: 2, sharding: {type: row_wise}}]\ninputs: {batch: 2}\nfaults: [{type: die, rank: 1, call: 0}]\n' > d.yaml; lockstep run --quiet d.yaml | grep '^  rank'
>   rank.died, rank 1, at d.yaml:4
# An expectation is of all that is found.
$ python3 -c 'import struct; h = "{\"descr\": \"<f4\", \"fortran_order\": False, \"shape\": (2, 2), }"; h += " " * (117 - len(h)) + "\n"; open("nan.npy", "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(h)) + h.encode() + struct.pack("<4f", float("nan"), 1, 2, 3))'
$ printf 'lockstep: 1\nname: e\nmesh: {shape: [2]}\nprogram:\n  steps:\n    - all_reduce: {name: a, count: 2, async: true, values: {file: nan.npy}}\nexpect: {finding: handle.leak}\n' > e.yaml; lockstep run --quiet e.yaml | grep 'error:\|^  [a-z]*\.[a-z_]*,'; sed 's/leak}/leak, also: [value.nan_first]}/' e.yaml > f.yaml; lockstep run --quiet f.yaml | tail -n 1
>   error: unexpected value.nan_first at e.yaml:6, in addition to or instead of handle.leak
>   value.nan_first, rank 0, at e.yaml:6
>   handle.leak, ranks 0, 1, at e.yaml:6
> run: 1 passed, 0 failed, 0 skipped
# A real sum that no order of its terms gives, where the terms overflow, cancel, or are few.
$ printf '%s\n' 'lockstep run --quiet --keep kept $1.yaml > out; cp -r kept/$1 changed; python3 $SOURCE/tests/cli/change_tensor.py changed/rank_0000$2.safetensors "$3" $4 $5 $6; lockstep compare --quiet $1.yaml --real changed | grep '\''^  stage'\''; lockstep compare --quiet $1.yaml --real changed > out; echo $?; rm -r changed kept' > check; printf 'lockstep: 1\nname: big\nmesh: {shape: [3]}\nprogram: {steps: [{all_reduce: {name: sum, count: 2, dtype: f16, values: {values: [[60000, 1], [-60000, 1], [60000, 1]]}}}]}\n' > big.yaml; bash check big 0 sum/-/-/recv 0 e -7
>   stage sum is wrong: 1 of 6 elements differ, by up to a sign change (1.25e+03 of the bound)
> 1
$ printf 'lockstep: 1\nname: cancel\nmesh: {shape: [3]}\nprogram: {steps: [{all_reduce: {name: sum, count: 2, dtype: f64, values: {values: [[1e+16, 1], [1, 1], [-1e+16, 1]]}}}]}\n' > cancel.yaml; bash check cancel 0 sum/-/-/recv 0 d -2; bash check cancel 0 sum/-/-/recv 0 d 2
>   stage sum is wrong: 1 of 6 elements differ, by up to 4,611,686,018,427,387,904 ulps (3 of the bound)
> 1
> 0
# A step whose name looks like a judge's is judged as every other: here every bit counts.
$ printf 'lockstep: 1\nname: prefix\nmesh: {shape: [3]}\nprogram: {steps: [{all_reduce: {name: "oracle:x", count: 4}}]}\nchecks: {real: bit_exact}\n' > prefix.yaml; bash check prefix 1 oracle:x/-/-/recv 1 f 0.75000006
>   stage oracle:x is within_bound: 1 of 12 elements differ, by up to 1 ulps (0.667 of the bound)
> 1
# NaN: the bits count where data moves.
$ printf 'lockstep: 1\nname: nan\nmesh: {shape: [2]}\nprogram: {tensors: [{name: a, shape: [2, 2], values: {file: nan.npy}, placements: S(0)}], steps: [{full: {name: all, tensor: a}}]}\n' > nan.yaml; bash check nan 1 all/a/-/full 0 I 0xffc12345; bash check nan 1 all/a/-/full 0 I 0x7fc00000
>   stage all is wrong: 1 of 8 elements differ
> 1
> 0
# An output that is no output's name, and one that is gone; the command that is shown shows it again.
$ bash check prefix 1 oracle:x/-/-/recv 0 rename -/-/-/-; lockstep run --quiet --keep kept prefix.yaml; cp -r kept/prefix c; rm -r kept; printf 'checks: {real: off}\n' >> c/scenario.yaml; sed -i '5d' c/scenario.yaml; python3 $SOURCE/tests/cli/change_tensor.py c/rank_00001.safetensors oracle:x/-/-/recv 0 drop; lockstep replay --quiet c | grep 'is wrong\|reproduce'; $(lockstep replay --quiet c | sed -n 's/^  reproduce: //p') > out
> 2
> run: 1 passed, 0 failed, 0 skipped
>   stage oracle:x is wrong: 4 of 12 elements differ
>   reproduce: lockstep replay c
? 1
# Results of others that no manifest names are told, beside some that pass and without any.
$ mkdir -p t/none; cp $SOURCE/tests/order/nccl_truth/* t; cp t/w3_all_reduce_f32_sum_798_s21_Ring_LL_1ch.bin t/more.bin 2> /dev/null || cp "$(ls t/*.bin | head -n 1)" t/more.bin; cp t/more.bin t/none/x.bin; echo '[]' > t/list.json; lockstep replay t | grep 'skip\|replay:'; lockstep replay --quiet t/none
> skip  t/unnamed         not replayed: list.json, more.bin: no manifest in the folder names it
> skip  t/none/unnamed    not replayed: x.bin: no manifest in the folder names it
> replay: 30 passed, 0 failed, 2 skipped
> replay: 0 passed, 0 failed, 1 skipped
? 5
# A step that does nothing to the step it names is refused where it stands.
$ of() { printf "lockstep: 1\nname: o\nmesh: {shape: [3]}\nprogram:\n  steps:\n    - $1\n    - $2\n" > o.yaml; lockstep run --quiet o.yaml 2>&1 | grep '^o.yaml\|run:'; }; of 'all_reduce: {name: a, count: 4}' 'wait: {step: a}'; of 'all_reduce: {name: a, count: 4, async: true, ranks: [0, 1]}' 'wait: {step: a, ranks: [0, 2]}'; of 'barrier: {name: a}' 'touch: {step: a}'; of 'send_recv: {name: a, count: 2, pairs: [[0, 1]]}' 'touch: {step: a}'; of 'all_reduce: {name: a, count: 0}' 'touch: {step: a}'; of 'broadcast: {name: a, count: 2, root: 1}' 'touch: {step: a, part: send, ranks: [0, 1]}'; of 'reduce: {name: a, count: 2, root: 1}' 'touch: {step: a, ranks: [2]}'; of 'scatter: {name: a, counts: [1, 0, 2]}' 'touch: {step: a, ranks: [0, 1]}'; of 'all_to_all: {name: a, splits: [[0, 1, 1], [0, 0, 0], [0, 1, 1]]}' 'touch: {step: a, ranks: [0, 1]}'; of 'barrier: {name: a}' 'check_replica: {step: a}'; of 'broadcast: {name: a, count: 2}' 'touch: {step: a, part: send}'; of 'all_to_all: {name: a, splits: [[0, 1, 1], [0, 0, 0], [0, 1, 1]]}' 'touch: {step: a, ranks: [1, 2]}'
> o.yaml:7:20: error: wait: step a is not asynchronous: there is nothing to wait for
> o.yaml:7:34: error: wait: rank 2 takes no part in step a
> o.yaml:7:21: error: touch: no rank has a receive buffer in step a
> o.yaml:7:21: error: touch: no rank has a receive buffer in step a
> o.yaml:7:21: error: touch: no rank has a receive buffer in step a
> o.yaml:7:44: error: touch: rank 0 has no send buffer in step a
> o.yaml:7:32: error: touch: rank 2 has no receive buffer in step a
> o.yaml:7:35: error: touch: rank 1 has no receive buffer in step a
> o.yaml:7:32: error: touch: rank 0 has no receive buffer in step a
> o.yaml:7:29: error: check_replica: step a leaves nothing that its ranks share
> run: 1 passed, 0 failed, 0 skipped
> run: 1 passed, 0 failed, 0 skipped
# The report says what each stage was held against, and how much of a case was judged.
$ printf 'lockstep: 1\nname: j\nmesh: {shape: [2]}\nprogram: {steps: [{all_reduce: {name: sum, count: 3}}, {send_recv: {name: message, count: 2, pairs: [[0, 1]]}}]}\n' > j.yaml; lockstep run --quiet --keep kept j.yaml; lockstep compare --json - j.yaml --real kept | python3 -c 'import json, sys; case, = json.load(sys.stdin)["cases"]; print(case["judged"]); [print(s["name"], s["against"], s["elements"], s["unjudged"]) for s in case["stages"]]'
> run: 1 passed, 0 failed, 0 skipped
> 16
> sum real 6 0
> message real 2 0
> oracle:sum oracle 6 0
> oracle:message oracle 2 0
# A report that cannot be written is code 3, whatever the run found.
$ for f in j e; do for o in json junit report trace; do lockstep run --quiet $f.yaml --$o /dev/full > out 2> err; echo $f $o $? $(cat err); done; lockstep run $f.yaml > /dev/full 2> err; echo $f $? $(cat err); done
> j json 3 lockstep: error: cannot write '/dev/full': No space left on device
> j junit 3 lockstep: error: cannot write '/dev/full': No space left on device
> j report 3 lockstep: error: cannot write '/dev/full': No space left on device
> j trace 3 lockstep: error: cannot write '/dev/full': No space left on device
> j 3 lockstep: error: cannot write to stdout: No space left on device
> e json 3 lockstep: error: cannot write '/dev/full': No space left on device
> e junit 3 lockstep: error: cannot write '/dev/full': No space left on device
> e report 3 lockstep: error: cannot write '/dev/full': No space left on device
> e trace 3 lockstep: error: cannot write '/dev/full': No space left on device
> e 3 lockstep: error: cannot write to stdout: No space left on device
# The simulator records what is injected, and where something is found there is no recording.
$ printf 'lockstep: 1\nname: flip\nmesh: {shape: [2]}\nprogram: {steps: [{all_gather: {name: w, count: 2}}]}\nfaults: [{type: bit_flip, rank: 1, call: 0, index: 30}]\nexpect: {class: wrong}\n' > flip.yaml; lockstep record --quiet --backend sim --out injected flip.yaml; grep -c all_gather injected/flip/rank_00001.calls.json; lockstep replay --quiet injected; lockstep compare flip.yaml --real injected | grep '^ '; lockstep record --quiet --backend sim --out none m.yaml | grep '^  [a-z.]*_'; test ! -e none
> record: 1 passed, 0 failed, 0 skipped
> 1
> replay: 1 passed, 0 failed, 0 skipped
>       case and stage    class             elements   differing       max ulps  of bound  order
>         oracle:w        wrong                    8           2  1,073,741,824       inf
>         w               bit_exact                8           0              0         0
>   collective.op_mismatch, rank 2, at m.yaml:4
# A reference that may be anything is none.
$ sed "s/^checks.*/checks: {reference: {file: far.npy, allow: off}}/" r.yaml > s.yaml; lockstep run s.yaml
! s.yaml:6:44: error: allow: unknown: off
!     6 | checks: {reference: {file: far.npy, allow: off}}
!       |                                            ^~~
!       | expected one of bit_exact, reordered, within_bound, by_design
? 2
# An empty list is not the default that no list stands for.
$ told() { printf "lockstep: 1\nname: o\nmesh: {shape: [2]}\n$1\n" > o.yaml; lockstep run --quiet o.yaml 2>&1 | grep '^o.yaml\|run:'; }; for step in 'all_reduce: {count: 2, ranks: []}' 'all_reduce: {count: 2, except: [{ranks: [], op: max}]}' 'all_reduce: {name: a, count: 2, replica: true}}, {check_replica: {step: a, ranks: []}' 'change: {tensor: a, ranks: [], value: 7}'; do told "program: {tensors: [{name: a, shape: [2], placements: R}], steps: [{$step}]}"; done; for keys in 'sharding: {type: table_wise, ranks: []}' 'sharding: {type: []}' 'sharding: {only_ranks: []}'; do told "tables: [{name: t, rows: 4, dim: 2, $keys}]\ninputs: {batch: 2}"; done; for keys in 'steps: []' 'expect: {class: wrong, stages: []}' 'expect: {finding: handle.leak, ranks: []}'; do told "tables: [{name: t, rows: 4, dim: 2}]\ninputs: {batch: 2}\n$keys"; done
> o.yaml:4:99: error: ranks: an empty list
> o.yaml:4:109: error: ranks: an empty list
> o.yaml:4:151: error: ranks: an empty list
> o.yaml:4:151: error: ranks: all members of the step's group take part in the check
> o.yaml:4:96: error: ranks: an empty list
> o.yaml:4:73: error: ranks: an empty list
> o.yaml:4:54: error: type: an empty list
> o.yaml:4:60: error: only_ranks: an empty list
> o.yaml:6:8: error: steps: an empty list
> o.yaml:6:32: error: stages: an empty list
> o.yaml:6:39: error: ranks: an empty list
# A comparison in which nothing is compared with the real run.
$ printf 'lockstep: 1\nname: p\nmesh: {shape: [2]}\nprogram: {steps: [{all_reduce: {name: a, count: 2}}]}\n' > p.yaml; lockstep run --quiet --keep real p.yaml; echo 'checks: {real: off}' >> p.yaml; python3 $SOURCE/tests/cli/change_tensor.py real/p/rank_00000.safetensors a/-/-/recv 0 f 9; lockstep compare p.yaml --real real
> run: 1 passed, 0 failed, 0 skipped
>       case and stage    class             elements   differing    max ulps  of bound  order
> skip  p                 nothing was compared with the real run: checks say real: off
>
> compare: 0 passed, 0 failed, 1 skipped
? 5
# What a recording's scenario expects is a defect that both runs have: the recording may not differ.
$ printf 'lockstep: 1\nname: b\nmesh: {shape: [2]}\nprogram: {steps: [{all_gather: {name: w, count: 2}}, {all_gather: {name: v, count: 2}}]}\nfaults: [{type: bit_flip, rank: 1, call: 0, index: 30}]\nexpect: {class: wrong, stages: [w]}\n' > b.yaml; lockstep record --quiet --backend sim --out both b.yaml; lockstep replay --quiet both; python3 $SOURCE/tests/cli/change_tensor.py both/b/rank_00000.safetensors w/-/-/recv 0 f 9; lockstep replay --quiet both | grep 'error:\|replay:'
> record: 1 passed, 0 failed, 0 skipped
> replay: 1 passed, 0 failed, 0 skipped
>   error: stage w is wrong, which was not expected
> replay: 0 passed, 1 failed, 0 skipped
# A reference in one dimension: all that the stage gives, rank by rank.
$ python3 -c 'import struct; h = "{\"descr\": \"<f4\", \"fortran_order\": False, \"shape\": (4,), }"; h += " " * (117 - len(h)) + "\n"; [open(n + ".npy", "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(h)) + h.encode() + struct.pack("<4f", *v)) for n, v in (("flat", (2, 2, 2, 2)), ("bent", (2, 2, 2, 3)))]'; for file in flat bent; do printf "lockstep: 1\nname: flat\nmesh: {shape: [2]}\nprogram: {steps: [{all_reduce: {name: a, count: 2, values: {constant: 1}}}]}\nchecks: {reference: {file: $file.npy}}\n" > flat.yaml; lockstep run --quiet flat.yaml | grep 'is wrong\|run:'; done
> run: 1 passed, 0 failed, 0 skipped
>   stage reference:a is wrong: 1 of 4 elements differ, by up to 4,194,304 ulps (8.39e+06 of the bound)
> run: 0 passed, 1 failed, 0 skipped
# What nobody uses is refused at its line: an optimizer without an update, a change that changes nothing.
$ printf 'lockstep: 1\nname: o\nmesh: {shape: [2]}\ntables: [{name: t, rows: 2, dim: 1, optimizer: {type: sgd, lr: 1}}]\ninputs: {batch: 1}\nsteps: [forward, backward]\noptimizer: {type: sgd, lr: 1}\n' > o.yaml; lockstep run o.yaml 2>&1 | grep '^o.yaml\|run:'; for value in 0.1 0.2; do printf "lockstep: 1\nname: c\nmesh: {shape: [2]}\nprogram: {tensors: [{name: a, shape: [2], values: {values: [1, 0.1]}, placements: R}], steps: [{change: {tensor: a, ranks: [0, 1], element: 1, value: $value}}]}\n" > c.yaml; lockstep run --quiet c.yaml | grep 'error:\|run:'; done
> o.yaml:4:48: error: optimizer: the steps have no update
> o.yaml:7:12: error: optimizer: the steps have no update
>   error: c.yaml:4: step 0_change: element 1 of rank 0 is 0.1 already
> run: 0 passed, 1 failed, 0 skipped
> run: 1 passed, 0 failed, 0 skipped
# Schedules and checks are of every scenario: tables and tensors run with a rank for each thread, too.
$ printf 'lockstep: 1\nname: big\nmesh: {shape: [2]}\ntables: [{name: t, rows: 2, dim: 1, dtype: f16, output_dtype: f16, weights: {constant: 50000}, sharding: {type: row_wise}}]\ninputs: {batch: 1, features: {t: {lengths: {values: [[2], [2]]}, ids: {values: [[0, 1], [1, 0]]}}}}\n' > big.yaml; lockstep run --quiet big.yaml; for options in "--checks value.*" "--explore 3 --checks value.inf_first" "--schedule delay --checks value.*"; do lockstep run --quiet $options big.yaml | grep 'big.yaml$'; done; lockstep run --backend mpi --explore 3 big.yaml
> run: 1 passed, 0 failed, 0 skipped
>   reproduce: lockstep run --backend sim --checks 'value.*' big.yaml
>   reproduce: lockstep run --backend sim --checks value.inf_first --schedule random --seed 0 big.yaml
>   reproduce: lockstep run --backend sim --schedule delay --checks 'value.*' big.yaml
! lockstep: error: --explore requires the simulator: under mpi the machine schedules the ranks
? 2
# A key with a word too many.
$ printf 'lockstep: 1\nname: v\nmesh: {shape: [2]}\ntables: [{name: t, rows: 2, dim: 1, features: u}]\ninputs: {batch: 1, features: {u: {stride_per_key_per_rank: 1}}}\n' > v.yaml; lockstep run v.yaml 2>&1 | tail -1
>       | did you mean "stride_per_rank"?
# A tensor is equal to itself.
$ printf 'lockstep: 1\nname: c\nmesh: {shape: [2]}\nprogram: {tensors: [{name: a, shape: [4], placements: S(0)}], steps: [{check_equal: {tensor: a, other: a}}]}\n' > c.yaml; lockstep run c.yaml 2>&1 | head -1
> c.yaml:4:104: error: check_equal: a is compared with itself
# What an injected split says of buffers is not looked for behind them: the members disagree, wherever their memory lies.
$ for call in 0 1 2 3; do for rank in 0 2 3; do sed "s/rank: 2, call: 3, index: 4/rank: $rank, call: $call, index: 1099511627776/; /^expect/d" "$SOURCE/scenarios/bugs/embedding_outputs_split.yaml" > s.yaml; lockstep run s.yaml | grep -o -m1 "[a-z]*[.][a-z]*_*[a-z]*, rank"; done; done | sort | uniq -c | sed 's/^ *//'
> 12 collective.split_mismatch, rank
# What an injected bit makes of a sum that was 0 rounds as the numbers that it is a sum of do, and no more.
$ printf 'lockstep: 1\nname: zero\nmesh: {shape: [2]}\ntables: [{name: t, rows: 2, dim: 1, weights: {values: [[1.1], [-1.1]]}, sharding: {type: row_wise}}]\ninputs: {batch: 1, features: {t: {lengths: {constant: 2}, ids: {values: [0, 1, 0, 1]}}}}\nfaults: [{type: bit_flip, rank: 1, call: 3, index: 20}]\nexpect: {class: wrong}\n' > zero.yaml; lockstep record --quiet zero.yaml --backend sim --out kept; for value in -0.1249998 -0.1249996; do python3 "$SOURCE/tests/cli/change_tensor.py" kept/zero/rank_00000.safetensors output_dist/t/t/values 0 f $value; lockstep compare zero.yaml --real kept | grep '^ *output_dist'; done
> record: 1 passed, 0 failed, 0 skipped
>         output_dist         within_bound             2           1             27     0.767
>         output_dist         wrong                    2           1             54      1.53
# Beside an expected finding that spares the values they are judged, and what is injected must be.
$ for call in 1 3; do printf "lockstep: 1\nname: leak\nmesh: {shape: [4]}\nprogram:\n  steps:\n    - all_reduce: {name: a, count: 8, async: true}\n    - all_reduce: {name: b, count: 8}\nfaults: [{type: bit_flip, rank: 1, call: $call, index: 29}]\nexpect: {finding: handle.leak}\n" > leak.yaml; lockstep run --quiet leak.yaml | grep 'stage b is\|not injected\|run:'; done
>   stage b is wrong: 4 of 32 elements differ, by up to 14,680,064 ulps (6.52e+06 of the bound)
> run: 0 passed, 1 failed, 0 skipped
>   error: leak.yaml:8: the fault is not injected: rank 1 does not reach it
> run: 0 passed, 1 failed, 0 skipped
# Keys that say nothing about what is expected.
$ for expect in 'class: wrong, ranks: [3]' 'class: wrong, where: zzz, also: [handle.leak]' 'finding: handle.leak, table: t, feature: f, sample: 7' 'unnoticed: true, contains: x'; do printf "lockstep: 1\nname: keys\nmesh: {shape: [4]}\ntables: [{name: t, rows: 4, dim: 2, features: [f]}]\ninputs: {batch: 2}\nfaults: [{type: bit_flip, rank: 1, call: 0, index: 20}]\nexpect: {$expect}\n" > keys.yaml; lockstep run keys.yaml 2>&1 | grep '^keys'; done
> keys.yaml:7:31: error: expect: ranks does not apply to a class
> keys.yaml:7:31: error: expect: where does not apply to a class
> keys.yaml:7:42: error: expect: also does not apply to a class
> keys.yaml:7:39: error: expect: table does not apply to a finding
> keys.yaml:7:51: error: expect: feature does not apply to a finding
> keys.yaml:7:62: error: expect: sample does not apply to a finding
> keys.yaml:7:37: error: expect: contains does not apply to what goes unnoticed
# An element that the oracle knows nothing of has the simulation's bits, as long as what it is made of has.
$ printf 'lockstep: 1\nname: unknown\nmesh: {shape: [6]}\ntables: [{name: t0, rows: 5, dim: 2, pooling: max, max_norm: 1, weights: {constant: 1}, features: [f0_0]}]\ninputs: {batch: 4, features: {f0_0: {lengths: {constant: 2}}}}\nsteps: [forward, backward, update]\noptimizer: {type: lars_sgd}\n' > unknown.yaml; bash check unknown 0 update/t0/f0_0/momentum1 3 f -5e-06
>   stage update is wrong: 1 of 120 elements differ, by up to 1,222,013 ulps
> 1
# Sums whose bound is wider than they are: equal bits and the bits of an order pass, what only lies within the bound is
# not judged, what lies beyond it is wrong. Where bits are to be equal, it fails.
$ printf 'lockstep: 1\nname: many\nmesh: {shape: [128]}\nprogram:\n  steps:\n    - all_reduce: {name: sum, count: 4, dtype: bf16, op: sum, values: normal}\n' > many.yaml; lockstep record --quiet --backend sim --out ring --order ring many.yaml; lockstep record --quiet --backend sim --out same many.yaml; change() { python3 $SOURCE/tests/cli/change_tensor.py same/many/rank_00003.safetensors sum/-/-/recv 1 H $1; }; compare() { lockstep compare $1 --real $2 --json out.json > out; echo $?; python3 -c 'import json; r = json.load(open("out.json")); print(*[c["class"] for c in r["cases"]], *[s["reason"][:83] for s in r["skips"]])'; }; compare many.yaml ring; compare many.yaml same; change 0; compare many.yaml same; change 0xc0d8; compare many.yaml same; sed 's/^program/checks: {real: bit_exact}\nprogram/' many.yaml > strict.yaml; compare strict.yaml same; change 0x7000; compare many.yaml same
> record: 1 passed, 0 failed, 0 skipped
> record: 1 passed, 0 failed, 0 skipped
> 0
> reordered
> 0
> bit_exact
> 5
> unjudged: 1 of 512 elements of sum differ within bounds too wide to prove anything;
> 5
> unjudged: 1 of 512 elements of sum differ within bounds too wide to prove anything;
> 1
> unjudged
> 1
> wrong
# Weights whose steps' bound covers them, set to 0: f32, under Adam with a rate as large as the weights.
$ printf 'lockstep: 1\nname: adam\nmesh: {shape: [2]}\ntables: [{name: t, rows: 2, dim: 2, weights: normal, sharding: {type: row_wise}}]\ninputs: {batch: 2000, features: {t: {lengths: {constant: 20}, ids: uniform}}}\nsteps: [forward, backward, update]\ntrain: {steps: 8}\noptimizer: {type: adam, lr: 1}\n' > adam.yaml; lockstep run --quiet --keep kept adam.yaml; for i in 0 1; do python3 $SOURCE/tests/cli/change_tensor.py kept/adam/rank_00000.safetensors step7.update/t/t/weights $i f 0; done; lockstep compare adam.yaml --real kept --json out.json > out; echo $?; python3 -c 'import json; print(json.load(open("out.json"))["skips"][0]["reason"][:80])'; rm -r kept
> run: 1 passed, 0 failed, 0 skipped
> 5
> unjudged: 2 of 12 elements of step7.update differ within bounds too wide to prov
