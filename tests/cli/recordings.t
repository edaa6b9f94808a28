# The simulator's stage outputs as a recording: for a model of one's own, and for compare and replay.
$ printf 'lockstep: 1\nname: sums\nseed: 5\nmesh: {shape: [3]}\nprogram:\n  steps:\n    - all_reduce: {name: sum, count: 4, values: arange}\n    - all_gather: {name: gather, count: 2, values: normal}\n' > sums.yaml; lockstep run --quiet sums.yaml --keep kept; ls kept
> run: 1 passed, 0 failed, 0 skipped
> sums
$ python3 -c 'import json, struct; d = open("kept/sums/rank_00001.safetensors", "rb").read(); n, = struct.unpack("<Q", d[:8]); t = json.loads(d[8:8 + n])["sum/-/-/recv"]; a, b = t["data_offsets"]; print(t["dtype"], t["shape"], struct.unpack("<4f", d[8 + n + a:8 + n + b]))'
> F32 [4] (0.0, 3.0, 6.0, 9.0)
$ lockstep compare --quiet sums.yaml --real kept; lockstep replay --quiet kept; lockstep record --quiet --backend sim --out again sums.yaml; cmp kept/sums/rank_00002.safetensors again/sums/rank_00002.safetensors && cmp kept/sums/rank_00002.calls.json again/sums/rank_00002.calls.json
> compare: 1 passed, 0 failed, 0 skipped
> replay: 1 passed, 0 failed, 0 skipped
> record: 1 passed, 0 failed, 0 skipped
# Another run, another seed, kept and replayed with it.
$ lockstep record --quiet --backend sim --seed 9 --out nine sums.yaml; lockstep replay --quiet nine; lockstep compare sums.yaml --real nine > out; echo $?; lockstep replay --seed 3 nine > out
> record: 1 passed, 0 failed, 0 skipped
> replay: 1 passed, 0 failed, 0 skipped
> 2
? 2
# A recording of another scenario is refused, whatever in it differs; how it is judged may differ.
$ check() { sed "$1" sums.yaml > other.yaml; lockstep compare other.yaml --real kept/sums | tr -s '\n ' ' ' | grep -o 'it has .* this one has.* reproduce\|1 passed'; }; check 's/name: sums/name: sum/'; check 's/seed: 5/seed: 6/'; check 's/shape: .3./shape: [4]/'; check 's/count: 4/count: 5/'; check 's/arange/exact/'; check '$d'; printf 'order: ring\nchecks: {real: bit_exact}\ndescription: x\n' > tail; check '$r tail'
> it has name: "sums"; this one has name: "sum" reproduce
> it has seed: 5; this one has seed: 6 reproduce
> it has mesh.shape: 3; this one has mesh.shape: 4 reproduce
> it has steps[0].all_reduce.count: 4; this one has steps[0].all_reduce.count: 5 reproduce
> it has steps[0].all_reduce.values.arange; this one has steps[0].all_reduce.values.exact: reproduce
> it has steps: 2; this one has steps: 1 reproduce
> 1 passed
# So is one whose tables, plan or inputs are others, be it in a file that the scenario names.
$ printf 'lockstep: 1\nname: t\nmesh: {shape: [2]}\ntables:\n  - {name: p, rows: 4, dim: 2, weights: {file: w.npy}, sharding: {type: row_wise}}\ninputs:\n  batch: 2\n  features: {p: {lengths: {uniform: [0, 5]}}}\n' > t.yaml; weights() { python3 -c 'import struct, sys; h = "{\"descr\": \"<f4\", \"fortran_order\": False, \"shape\": (4, 2), }"; h += " " * (117 - len(h)) + "\n"; sys.stdout.buffer.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(h)) + h.encode() + struct.pack("<8f", *[float(sys.argv[1]) + i for i in range(8)]))' $1 > w.npy; }; weights 1; lockstep record --quiet --backend sim --out tables t.yaml; lockstep compare --quiet t.yaml --real tables; weights 2; lockstep compare t.yaml --real tables | tr -s '\n ' ' ' | grep -o 'it has tables.*weights.file: a file of 160 bytes'; lockstep replay --quiet tables
> record: 1 passed, 0 failed, 0 skipped
> compare: 1 passed, 0 failed, 0 skipped
> it has tables[0].weights.file: a file of 160 bytes with hash ... this one has tables[0].weights.file: a file of 160 bytes
> replay: 1 passed, 0 failed, 0 skipped
$ cp tables/t/inputs/w.npy w.npy; other() { sed "$1" t.yaml > u.yaml; lockstep compare u.yaml --real tables | tr -s '\n ' ' ' | grep -o 'it has .* reproduce'; }; other 's/row_wise/column_wise/'; other 's/0, 5/0, 6/'; other 's/batch: 2/batch: [2, 3]/'
> it has tables[0].sharding.type: row_wise; this one has tables[0].sharding.type: column_wise reproduce
> it has inputs.features.p.lengths.uniform: 0 to 5; this one has inputs.features.p.lengths.uniform: 0 to 6 reproduce
> it has inputs.batch: [2, 2]; this one has inputs.batch: [2, 3] reproduce
# Recorded calls are held against the simulated ones, for a recording of the same scenario too.
$ cp -r kept/sums c; sed -i 's/"op": "sum"/"op": "max"/' c/rank_00001.calls.json; lockstep replay c | grep -A 3 'calls is wrong'; lockstep replay c > out
>   stage calls is wrong: 1 of 6 elements differ...
>     rank 1, call 0
>       simulated: all_reduce sum of 4 f32, as member 1 of 3 of world, its call 0 there
>       recorded: all_reduce max of 4 f32, as member 1 of 3 of world, its call 0 there
? 1
$ for r in 0 1 2; do echo '[]' > c/rank_0000$r.calls.json; done; lockstep compare sums.yaml --real c > out
? 1
# What a recording's own scenario says of checks does not count, and its outputs must be there.
$ rm -r c; cp -r kept/sums c; echo 'checks: {real: off, oracle: off}' >> c/scenario.yaml; lockstep replay --quiet c; python3 -c 'import struct; h = b"{}      "; open("c/rank_00001.safetensors", "wb").write(struct.pack("<Q", len(h)) + h)'; lockstep replay c | grep -A 3 'sum is wrong'; lockstep replay c > out
> replay: 1 passed, 0 failed, 0 skipped
>   stage sum is wrong: 4 of 12 elements differ...
>     stage sum, recv, rank 1
>       simulated has shape [4], recording has no such output
>   stage gather is wrong...
? 1
# A recorded order reads no file.
$ rm -r c; cp -r kept/sums c; touch o.json; sed -i 's/"line"/"order": "measured:o.json", "line"/' c/rank_00000.calls.json; lockstep compare sums.yaml --real c | tr -s '\n ' ' ' | grep -o 'c/rank.*a file,'; lockstep compare sums.yaml --real c > out
> c/rank_00000.calls.json': call 0: its order names a file,
? 2
# Everything below a folder is replayed, however deep, or is told: a manifest or a scenario that is
# gone, ranks that are too many, a folder that no one can read. The others are replayed all the same.
$ rm -r c; mkdir -p all/1/2/3/4/5/6/7/8 all/inputs; for d in 1/2/3/4/5/6/7/8/deep inputs/in a b c d .hidden; do cp -r kept/sums all/$d; done; rm all/a/manifest.json all/b/scenario.yaml; cp all/c/rank_00000.calls.json all/c/rank_00003.calls.json; echo '{"lockstep_recording": 1' > all/d/manifest.json; lockstep replay all | grep -o '^\(pass\|FAIL\|skip\) *[^ ]*'; lockstep replay all > out
> pass  sums
> pass  sums
> FAIL  all/a
> FAIL  all/b
> FAIL  all/c
> FAIL  all/d
> pass  sums
? 2
$ lockstep replay nowhere | grep error:; lockstep replay nowhere > out
>   error: cannot read 'nowhere': No such file or directory
? 2
# Links: a folder is replayed once, and a circle ends.
$ rm -r all; mkdir all; cp -r kept/sums all/a; ln -s a all/b; for i in 1 2 3 4 5 6 7 8 9; do ln -s . all/l$i; done; ln -s gone all/z; lockstep replay all 2> notes | tail -n 1; wc -l < notes; head -n 1 notes
> replay: 1 passed, 1 failed, 0 skipped
> 10
> lockstep: note: all/b: this folder was already replayed
# Two scenarios whose recordings would share a folder: refused before anything runs; a recording is
# not replaced by one of another name, and a failed record leaves no folder behind.
$ sed 's/name: sums/name: "sums!"/' sums.yaml > loud.yaml; lockstep record --backend sim --out both sums.yaml loud.yaml; echo $?; test ! -e both
> 2
! lockstep: error: the recordings of sums.yaml and loud.yaml would both be "both/sums": their names must differ in a letter, a digit, '.' or '_'
$ lockstep record --quiet --backend sim --out both loud.yaml; lockstep record --quiet --backend sim --out both sums.yaml | tail -n 1; lockstep replay both | grep -o 'pass  sums!'
> record: 1 passed, 0 failed, 0 skipped
> record: 0 passed, 1 failed, 0 skipped
> pass  sums!
$ for c in 'record --backend sim --out' 'run --keep' 'compare --real kept --keep'; do lockstep $c left missing.yaml 2> /dev/null; echo $?; test ! -e left || ls -d left; done
> 2
> 2
> 2
# A record that is killed leaves no folder that it made, and leaves one that was there.
$ printf 'lockstep: 1\nname: slow\nmesh: {shape: [4]}\ntables: [{name: t, rows: 200000, dim: 64, sharding: {type: row_wise}}]\ninputs: {batch: 20000, features: {t: {lengths: {constant: 20}}}}\n' > slow.yaml; mkdir own; for d in made own; do for s in TERM KILL; do lockstep record --backend sim --out $d slow.yaml > /dev/null & p=$!; for i in $(seq 100); do ls $d/slow.part-* > /dev/null 2>&1 && break; sleep 0.05; done; kill -$s $p; { wait $p; } 2> /dev/null; for i in $(seq 100); do ls $d/slow.part-* > /dev/null 2>&1 || test $d$(ls -d made 2> /dev/null) = mademade || break; sleep 0.05; done; ls -A $d 2> /dev/null; test -d $d; echo $d $s $?; done; done
> made TERM 1
> made KILL 1
> own TERM 0
> own KILL 0
# Stages that fail come first, integers differ by a number, and an element of a table has a row and no position.
$ printf 'lockstep: 1\nname: w\nmesh: {shape: [2]}\ntables: [{name: t, rows: 6, dim: 2, sharding: {type: row_wise}}]\ninputs: {batch: 2, features: {t: {lengths: {constant: 2}}}}\nsteps: [forward, backward, update]\noptimizer: {type: sgd, lr: 0.5}\n' > w.yaml; lockstep run --quiet --keep rows w.yaml; python3 $SOURCE/tests/cli/change_tensor.py rows/w/rank_00001.safetensors update/t/t/weights 3 f 9; python3 $SOURCE/tests/cli/change_tensor.py rows/w/rank_00001.safetensors input_dist/t/t/ids 1 q 5; lockstep compare w.yaml --real rows | grep -A 3 'FAIL\|stage update, \|stage input_dist '; lockstep compare w.yaml --real rows --json - | grep '"max_[a-z]*": [^0]'
> run: 1 passed, 0 failed, 0 skipped
> FAIL  w                              wrong         sim against recording, ...
>         input_dist                   wrong                   16           1      4 (int)       inf
>         update                       wrong                   12           1  sign change  7.07e+07
>         lookup                       bit_exact               16           0            0         0
> --
>   stage input_dist is wrong: 1 of 16 elements differ, by up to 4
>     stage input_dist, table t, feature t, ids, rank 1, element 1 [1]
>       simulated 1, recording 5: 4 apart where every bit must match
>       sample 1 of rank 0, id 4 at position 1, whose row rank 1 holds
> --
>     stage update, table t, feature t, weights, rank 1, element 3 [1, 1]
>       simulated -0.112619936 (0xbde6a548), recording 9 (0x41100000): sign change; exactly -0.112619936, allowed difference 1.29e-07, row 4 of the table, which rank 1 holds
>   reproduce: lockstep compare --real rows w.yaml
>
>           "max_difference": 4,
>           "max_ulps": "sign change",
