# A real run that summed in another order: compare finds the order of each call and names it.
$ printf 'lockstep: 1\nname: sums\nmesh: {shape: [4]}\nprogram:\n  steps:\n    - all_reduce: {name: gradients, count: 1024, values: normal}\n    - reduce_scatter: {name: scattered, count: 300, values: normal}\n    - reduce: {name: total, count: 777, root: 2, values: normal}\n    - all_reduce: {name: means, count: 4096, op: avg, dtype: bf16, values: normal}\n' > sums.yaml
$ cat > try.sh <<< 'rm -rf kept; lockstep record --quiet --backend sim --order $1 --out kept sums.yaml > out; lockstep compare sums.yaml --real kept | grep -v oracle: | grep -o "  \(gradients\|scattered\|total\|means\) .*" | sed "s/ [ 0-9,.]* / /"'
$ bash try.sh ring:proto=ll
>  gradients         reordered            4,096       1,352         512         1  ring:proto=simple
>  scattered         reordered            1,200         391          64         1  ring:proto=simple
>  total             reordered              777         336         256     0.875  ring:proto=simple
>  means             reordered           16,384       5,192      14,848     0.645  ring:proto=simple
$ bash try.sh tree:proto=ll
>  gradients         reordered            4,096       1,780         208      0.97  tree:proto=simple
>  scattered         reordered            1,200         391          64         1  tree:proto=simple
>  total             reordered              777         336         256     0.875  tree:proto=simple
>  means             reordered           16,384       7,168      15,104      0.69  tree:proto=simple
$ bash try.sh ring:rings=0-2-1-3
>  gradients         reordered            4,096       1,528         512         1  ring:proto=simple,rings=0-2-1-3
>  scattered         reordered            1,200         466         128         1  ring:proto=simple,rings=0-2-1-3
>  total             reordered              777         322         256         1  ring:proto=simple,rings=0-2-1-3
>  means             reordered           16,384       6,292      14,976     0.667  ring:proto=simple,rings=0-2-1-3
$ bash try.sh rank
>  gradients         bit_exact            4,096           0           0         0
>  scattered         bit_exact            1,200           0           0         0
>  total             bit_exact              777           0           0         0
>  means             bit_exact           16,384           0           0         0
# One element of one rank, one bit off and within its bound: wrong at that element. All ranks'
# results of an all_reduce are looked at, and the others' calls stay reordered.
$ cat > spoil.py <<< 'import json, struct, sys; path, name, at = "kept/sums/rank_0000%s.safetensors" % sys.argv[1], sys.argv[2], int(sys.argv[3]); d = bytearray(open(path, "rb").read()); n, = struct.unpack("<Q", d[:8]); t = json.loads(d[8:8 + n])[name + "/-/-/recv"]; d[8 + n + t["data_offsets"][0] + at * {"F32": 4, "BF16": 2}[t["dtype"]]] ^= 1; open(path, "wb").write(d)'
$ bash try.sh ring:proto=ll > out; for where in '0 gradients 17' '1 gradients 17' '3 scattered 33' '2 total 600'; do cp -r kept whole; python3 spoil.py $where; lockstep compare sums.yaml --real kept | grep -A 1 'is wrong'; rm -r kept; mv whole kept; done
>   stage gradients is wrong: 1 of 4,096 elements differ, by up to 1 ulps (0.762 of the bound)
>     stage gradients, recv, rank 0, element 17 [17]
>   stage gradients is wrong: 1 of 4,096 elements differ, by up to 1 ulps (0.762 of the bound)
>     stage gradients, recv, rank 1, element 17 [17]
>   stage scattered is wrong: 1 of 1,200 elements differ, by up to 1 ulps (0.5 of the bound)
>     stage scattered, recv, rank 3, element 33 [33]
>   stage total is wrong: 1 of 777 elements differ, by up to 1 ulps (1.21 of the bound)
>     stage total, recv, rank 2, element 600 [600]
$ python3 spoil.py 2 means 4000; lockstep compare sums.yaml --real kept | grep -A 3 'is wrong'; lockstep compare sums.yaml --real kept > out
>   stage means is wrong: 1 of 16,384 elements differ, by up to 1 ulps (0.462 of the bound)
>     stage means, recv, rank 2, element 4000 [4000]
>       simulated -0.66796875 (0xbf2b), recording -0.6640625 (0xbf2a): 1 ulps apart; exactly -0.667724609, allowed difference 0.00793
>       the other elements match ring:proto=simple bit for bit, and no similar order gives this element
? 1
# A mean does not show the sum that it is of: common orders are tried on the whole.
$ printf 'lockstep: 1\nname: mean\nmesh: {shape: [4]}\ntables:\n  - {name: p, rows: 40, dim: 8, pooling: mean, sharding: {type: row_wise}}\ninputs:\n  batch: 16\n  features: {p: {lengths: {uniform: [0, 9]}}}\n' > mean.yaml; lockstep record --quiet --backend sim --order ring --out n mean.yaml; lockstep compare mean.yaml --real n | grep -v oracle: | grep -o 'output_dist .*' | sed 's/ [ 0-9,.]* / /'
> record: 1 passed, 0 failed, 0 skipped
> output_dist reordered              512          51          24     0.329  ring:proto=simple
# Sums of one element each, and the sentence that says what the order differs in.
$ (printf 'lockstep: 1\nname: one\nmesh: {shape: [4]}\nprogram:\n  steps:\n'; for i in 1 2 3 4 5 6; do echo "    - all_reduce: {name: one$i, count: 1, values: normal}"; done) > one.yaml; lockstep record --quiet --backend sim --order ring --out o one.yaml; lockstep compare --json - one.yaml --real o | python3 -c 'import json, sys; [print(s["name"], s["class"], s.get("divergence")) for s in json.load(sys.stdin)["cases"][0]["stages"][:6]]'
> record: 1 passed, 0 failed, 0 skipped
> one1 bit_exact None
> one2 bit_exact None
> one3 bit_exact None
> one4 bit_exact None
> one5 reordered another algorithm or protocol: ring:proto=simple instead of rank
> one6 reordered another algorithm or protocol: ring:proto=simple instead of rank
# Ranks whose results show different orders: no single order is proven, so that none of them is called wrong.
$ printf 'lockstep: 1\nname: two\nmesh: {shape: [4]}\nprogram: {steps: [{all_reduce: {name: a, count: 500, values: normal}}]}\n' > two.yaml; for order in ring tree; do lockstep record --quiet --backend sim --order $order --out $order two.yaml; done; for rank in 0 1 3; do cp -r ring both; cp tree/two/rank_0000$rank.safetensors both/two; lockstep compare two.yaml --real both | grep -o ' a  *[a-z_]*' | tr -s ' '; rm -r both; done
> record: 1 passed, 0 failed, 0 skipped
> record: 1 passed, 0 failed, 0 skipped
>  a within_bound
>  a within_bound
>  a within_bound
# What follows such a call may have had other inputs: a bit off is not proven wrong there.
$ printf 'lockstep: 1\nname: next\nmesh: {shape: [4]}\nprogram: {steps: [{all_reduce: {name: a, count: 500, values: normal}}, {all_reduce: {name: b, count: 500, values: normal}}]}\n' > next.yaml; for order in ring tree; do lockstep record --quiet --backend sim --order $order --out next_$order next.yaml; done
> record: 1 passed, 0 failed, 0 skipped
> record: 1 passed, 0 failed, 0 skipped
$ python3 -c 'import json, struct; read = lambda order: bytearray(open("next_%s/next/rank_00001.safetensors" % order, "rb").read()); d, e = read("ring"), read("tree"); n, = struct.unpack("<Q", d[:8]); t = json.loads(d[8:8 + n]); a, b = (8 + n + t[k + "/-/-/recv"]["data_offsets"][0] for k in "ab"); d[a:a + 2000] = e[a:a + 2000]; d[b + 68] ^= 1; open("next_ring/next/rank_00001.safetensors", "wb").write(d)'; lockstep compare next.yaml --real next_ring | grep -o ' [ab]  *[a-z_]*' | tr -s ' '
>  a within_bound
>  b within_bound
# Every other element of rank 0's is far off: the order shows in the others' results, which are right.
$ python3 -c 'import json, struct; path = "next_tree/next/rank_00000.safetensors"; d = bytearray(open(path, "rb").read()); n, = struct.unpack("<Q", d[:8]); a = 8 + n + json.loads(d[8:8 + n])["a/-/-/recv"]["data_offsets"][0]; d[a + 3:a + 2000:8] = bytes(byte ^ 1 for byte in d[a + 3:a + 2000:8]); open(path, "wb").write(d)'; lockstep compare next.yaml --real next_tree | grep 'is wrong'
>   stage a is wrong: 250 of 2,000 elements differ, by up to 16,777,216 ulps (3.33e+07 of the bound)
# The first calls of several communicators, some of which show no other order; and what is proven of one says nothing of another.
$ printf 'lockstep: 1\nname: axes\nmesh: {shape: [2, 4], names: [host, gpu]}\nprogram: {steps: [{all_reduce: {name: a, axis: gpu, count: 500, values: normal}}, {all_reduce: {name: b, count: 500, values: normal}}, {all_reduce: {name: c, axis: host, count: 500, values: normal}}]}\n' > axes.yaml; for order in ring tree; do lockstep record --quiet --backend sim --order $order --out axes_$order axes.yaml; done; lockstep compare axes.yaml --real axes_ring | grep -o ' [abc]  *[a-z_]*' | tr -s ' '
> record: 1 passed, 0 failed, 0 skipped
> record: 1 passed, 0 failed, 0 skipped
>  a reordered
>  b reordered
>  c bit_exact
$ cp axes_tree/axes/rank_00005.safetensors axes_ring/axes; lockstep compare axes.yaml --real axes_ring | grep -o ' [abc]  *[a-z_]*' | tr -s ' '
>  a within_bound
>  b within_bound
>  c bit_exact
# A zero has a zero's bits in any type, and is no part of a sum of another one.
$ printf 'lockstep: 1\nname: zeros\nmesh: {shape: [4]}\nprogram: {steps: [{all_reduce: {name: counts, count: 1, dtype: i32, values: {constant: 0}}}, {all_reduce: {name: a, count: 500, dtype: f8e4m3, values: normal}}]}\n' > zeros.yaml; lockstep record --quiet --backend sim --order ring:rings=0-2-1-3 --out z zeros.yaml; lockstep compare zeros.yaml --real z | grep -o ' a  .*'
> record: 1 passed, 0 failed, 0 skipped
>  a               reordered            2,000         804          35     0.817  ring:proto=simple,rings=0-2-1-3
# A result whose parts are two equal outputs.
$ printf 'lockstep: 1\nname: equal\nseed: 3\nmesh: {shape: [4]}\ntables: [{name: t, rows: 40, dim: 64, features: [f, g], weights: normal, sharding: {type: row_wise}}]\ninputs: {batch: 1, features: {f: &same {lengths: {constant: 4}, ids: {values: [[0, 11, 22, 33], [1, 12, 23, 34], [2, 13, 24, 35], [3, 14, 25, 36]]}}, g: {lengths: {constant: 4}, ids: {values: [[0, 11, 22, 33], [1, 12, 23, 34], [2, 13, 24, 35], [3, 14, 25, 36]]}}}}\n' > equal.yaml; lockstep record --quiet --backend sim --order ring --out e equal.yaml; lockstep compare equal.yaml --real e | grep -v oracle: | awk '/_dist|lookup/ {print $1, $2}'
> record: 1 passed, 0 failed, 0 skipped
> input_dist bit_exact
> lookup bit_exact
> output_dist reordered
# An order that a recording tells, and that no search would find: one bit off it is wrong.
$ printf 'lockstep: 1\nname: told\nmesh: {shape: [5]}\nprogram: {steps: [{all_reduce: {name: a, count: 300, values: normal}}]}\n' > told.yaml; order='tree:proto=simple,trees=3(1(4)+0(2))'; lockstep record --quiet --backend sim --order $order --out d told.yaml; lockstep compare told.yaml --real d | grep -o ' a  *[a-z_]*' | tr -s ' '; sed -i "s/\"seq\": 0,/&\"order\": \"$order\",/" d/told/*.calls.json; lockstep compare told.yaml --real d | grep -o ' a  *[a-z_]*' | tr -s ' '; python3 $SOURCE/tests/cli/change_tensor.py d/told/rank_00002.safetensors a/-/-/recv 7 I 0x40856761; lockstep compare told.yaml --real d | grep 'is wrong\|bit for bit'
> record: 1 passed, 0 failed, 0 skipped
>  a within_bound
>  a bit_exact
>   stage a is wrong: 1 of 1,500 elements differ, by up to 1 ulps (0.45 of the bound)
>       the other elements match tree:proto=simple,trees=3(1(4)+0(2)) bit for bit, and no similar order gives this element
# The number of channels that a recording tells: what was allowed is found from it.
$ printf 'lockstep: 1\nname: channels\nmesh: {shape: [4]}\nprogram: {steps: [{all_reduce: {name: a, count: 100000, values: normal}}]}\n' > c.yaml; for allowed in 1 2; do lockstep record --quiet --backend sim --order ring:proto=simple,allowed=$allowed --out c$allowed c.yaml; for told in 1 2; do cp -r c$allowed c; sed -i "s/\"seq\": 0,/&\"order\": \"ring:proto=simple\",\"channels\": $told,/" c/channels/*.calls.json; lockstep compare c.yaml --real c | grep -o ' a  *[a-z_]*' | tr -s ' '; rm -r c; done; done
> record: 1 passed, 0 failed, 0 skipped
>  a bit_exact
>  a reordered
> record: 1 passed, 0 failed, 0 skipped
>  a reordered
>  a bit_exact
# An order that is known is found again by probing, and gives its bits.
$ printf 'lockstep: 1\nname: probed\nmesh: {shape: [4]}\nprogram: {steps: [{all_reduce: {name: a, count: 20011, values: normal}}]}\n' > probed.yaml; lockstep calibrate --quiet --backend sim --order ring:proto=ll,rings=0-2-1-3 --out machine.json; lockstep record --quiet --backend sim --order ring:proto=ll,rings=0-2-1-3 --out probed probed.yaml; lockstep compare probed.yaml --real probed --order measured:machine.json | grep '  a '; head -n 4 machine.json
> record: 1 passed, 0 failed, 0 skipped
>         a               bit_exact           80,044           0           0         0
> {
>  "lockstep_order": 1,
>  "ranks": 4,
>  "backend": "sim",
# Two groups that sum the same parts, of one of which no order is found: with the other's the replicas would differ, so that
# nothing is explained, and the case does not end for it.
$ printf 'lockstep: 1\nname: full\nmesh: {shape: [3, 2]}\nprogram:\n  tensors: [{name: t, shape: [40, 8], values: normal, placements: "P(avg), S(0)"}]\n  steps: [{full: {tensor: t}}]\n' > full.yaml; lockstep record --quiet --backend sim --order ring --out full full.yaml; lockstep compare full.yaml --real full | grep -v oracle: | grep -o '0_full  *[a-z_]*' | tr -s ' '
> record: 1 passed, 0 failed, 0 skipped
> 0_full reordered
$ for rank in 1 3 5; do python3 -c 'import json, struct, sys; path = sys.argv[1]; d = bytearray(open(path, "rb").read()); n, = struct.unpack("<Q", d[:8]); a, b = (8 + n + at for at in json.loads(d[8:8 + n])["0_full/t/-/full"]["data_offsets"]); d[a:b:8] = bytes(byte ^ 1 for byte in d[a:b:8]); open(path, "wb").write(d)' full/full/rank_0000$rank.safetensors; done; lockstep compare full.yaml --real full | grep -v oracle: | grep -o '0_full  *[a-z_]*\|error:.*' | tr -s ' '
> 0_full within_bound
