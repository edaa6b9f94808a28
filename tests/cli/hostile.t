# A file that a scenario names is unusable: exit 2, its place in the scenario, and nothing written.
$ printf 'lockstep: 1\nname: t\nmesh: {shape: [2]}\ntables:\n  - {name: p, rows: 4, dim: 2, pooling: sum, features: [p], weights: {file: w.npy}, sharding: {type: row_wise}}\ninputs:\n  batch: 2\n  features:\n    p: {lengths: {uniform: [0, 5]}, ids: {zipf: 1.05}}\n' > f.yaml; printf 'no array' > w.npy; lockstep run --quiet f.yaml --json j.json; code=$?; test ! -e j.json; echo $code $?
> 2 0
! f.yaml:5:77: error: weights: '...w.npy' is not a .npy file
! ...
# So is a pipe that nobody writes, as weights and as the scenario: nothing waits.
$ rm w.npy; mkfifo w.npy p.yaml; timeout 20 lockstep run --quiet f.yaml
! f.yaml:5:77: error: file: not a regular file: w.npy
!     5 |   - {name: p, rows: 4, dim: 2, pooling: sum, features: [p], weights: {file: w.npy}, sharding: {type: row_wise}}
!       |                                                                             ^~~~~
!       | expected the path of a file in the scenario's folder
? 2
$ timeout 20 lockstep run p.yaml
! p.yaml: error: 'p.yaml' is not a regular file
? 2
# A folder whose manifest is none fails, naming it; one that holds no recording at all: nothing ran.
$ rm w.npy p.yaml; mkdir e; mkfifo e/manifest.json; timeout 20 lockstep replay e | grep error:
>   error: 'e/manifest.json' is not a regular file
$ rm e/manifest.json; lockstep replay e
> replay: 0 passed, 0 failed, 0 skipped
? 5
# What a terminal might obey in a name reaches neither stdout nor a trace, and drawings stay XML.
$ printf 'lockstep: 1\nname: "a\\e[31m<b>"\nmesh: {shape: [2]}\ntables: [{name: "t\\e[31m", rows: 4, dim: 2, sharding: {type: row_wise}}]\ninputs: {batch: 2, features: {"t\\e[31m": {ids: {values: [0, 1, 2, 3]}}}}\n' > esc.yaml; for c in traffic plan "plan --validate" show run; do lockstep $c esc.yaml; done | tr -cd '\033' | wc -c; lockstep traffic esc.yaml | head -n 1; lockstep plan esc.yaml | grep -c '^t?\[31m'
> 0
> a?[31m<b>: bytes from the rank of the row to the rank of the column
> 1
$ lockstep run --quiet --trace t.txt esc.yaml > /dev/null; head -n 1 t.txt; lockstep traffic --quiet --svg t.svg esc.yaml; python3 -c 'import xml.dom.minidom as x; print(x.parse("t.svg").getElementsByTagName("title")[0].firstChild.data.isprintable())'
> a?[31m<b>: 2 ranks
> True
$ lockstep run --quiet --checkpoint saved esc.yaml > /dev/null; lockstep plan --quiet --out p.plan esc.yaml; lockstep reshard saved cut --plan p.plan | head -n 1
> t?[31m  4 x 2  row_wise, 2 shards -> row_wise, 2 shards  (weights)
# A file of numbers of another type: integers where floats belong are refused, at their place; a conversion that loses something is noted, an exact one is not.
$ for d in i4 i8 f2 f4 f8; do for s in npy safetensors; do python3 $SOURCE/tests/cli/npy.py $d 4,2 $d.$s; done; done; table() { printf "lockstep: 1\nname: m\nmesh: {shape: [2]}\ntables: [{name: t, rows: 4, dim: 2, dtype: $1, weights: {file: $2}}]\ninputs: {batch: 2, features: {t: {lengths: {constant: 2}}}}\nsteps: [forward]\n" > m.yaml; lockstep run m.yaml 2>&1 | grep 'error:\|note:\|run:'; }; for s in npy safetensors; do for d in i8 i4 f2 f4 f8; do table f32 $d.$s; done; done; table f16 f4.npy; table f64 f4.npy; lockstep run --json - m.yaml | grep -c '"note"'; table f16 f4.npy; lockstep run --json - --junit j.xml --report r.html m.yaml | grep '"note"'; grep -o 'note: [^<]*' j.xml r.html
> m.yaml:4:65: error: weights: the elements of the file are i64, expected f32
> m.yaml:4:65: error: weights: the elements of the file are i32, expected f32
> run: 1 passed, 0 failed, 0 skipped
> run: 1 passed, 0 failed, 0 skipped
>         note: weights of table t: f64 of f8.npy, rounded to f32
> run: 1 passed, 0 failed, 0 skipped
> m.yaml:4:65: error: weights: the elements of the file are i64, expected f32
> m.yaml:4:65: error: weights: the elements of the file are i32, expected f32
> run: 1 passed, 0 failed, 0 skipped
> run: 1 passed, 0 failed, 0 skipped
>         note: weights of table t: f64 of f8.safetensors, rounded to f32
> run: 1 passed, 0 failed, 0 skipped
>         note: weights of table t: f32 of f4.npy, rounded to f16
> run: 1 passed, 0 failed, 0 skipped
> run: 1 passed, 0 failed, 0 skipped
> 0
>         note: weights of table t: f32 of f4.npy, rounded to f16
> run: 1 passed, 0 failed, 0 skipped
>       "note": "weights of table t: f32 of f4.npy, rounded to f16",
> j.xml:note: weights of table t: f32 of f4.npy, rounded to f16
> r.html:note: weights of table t: f32 of f4.npy, rounded to f16
$ tensors() { printf "lockstep: 1\nname: p\nmesh: {shape: [2]}\nprogram:\n  tensors:\n    - {name: a, shape: [4, 2], dtype: $1, placements: S(0), values: {file: $2}}\n  steps: [{full: {name: all, tensor: a}}, {all_reduce: {dtype: $1, count: 2, values: {file: $3}}}]\n" > p.yaml; lockstep run p.yaml 2>&1 | grep 'error:\|note:\|run:'; }; for d in i8 i4 f4 f8; do python3 $SOURCE/tests/cli/npy.py $d 2,2 two.npy; tensors i32 $d.npy two.npy; tensors f32 $d.npy two.npy; done
>         note: values of tensor a: i64 of i8.npy, narrowed to i32; values of step 1_all_reduce: i64 of two.npy, narrowed to i32
> run: 1 passed, 0 failed, 0 skipped
> p.yaml:6:77: error: values: the elements of the file are i64, expected f32
> p.yaml:7:94: error: values: the elements of the file are i64, expected f32
> run: 1 passed, 0 failed, 0 skipped
> p.yaml:6:77: error: values: the elements of the file are i32, expected f32
> p.yaml:7:94: error: values: the elements of the file are i32, expected f32
> p.yaml:6:77: error: values: the elements of the file are f32, expected i32
> p.yaml:7:94: error: values: the elements of the file are f32, expected i32
> run: 1 passed, 0 failed, 0 skipped
> p.yaml:6:77: error: values: the elements of the file are f64, expected i32
> p.yaml:7:94: error: values: the elements of the file are f64, expected i32
>         note: values of tensor a: f64 of f8.npy, rounded to f32; values of step 1_all_reduce: f64 of two.npy, rounded to f32
> run: 1 passed, 0 failed, 0 skipped
$ printf 'lockstep: 1\nname: w\nmesh: {shape: [2]}\ntables: [{name: t, rows: 4, dim: 2, weighted: true}]\ninputs: {batch: 2, features: {t: {lengths: {constant: 2}, weights: {file: eight.npy}}}}\nsteps: [forward, backward]\ntrain: {gradients: {file: grads.npy}}\n' > w.yaml; for d in i8 f4 f8; do python3 $SOURCE/tests/cli/npy.py $d 8 eight.npy; python3 $SOURCE/tests/cli/npy.py $d 8 grads.npy; lockstep run w.yaml 2>&1 | grep 'error:\|note:\|run:'; done
> w.yaml:5:75: error: weights: the elements of the file are i64, expected f32
> w.yaml:7:27: error: gradients: the elements of the file are i64, expected f32
> run: 1 passed, 0 failed, 0 skipped
>         note: weights of feature t: f64 of eight.npy, rounded to f32; gradients: f64 of grads.npy, rounded to f32
> run: 1 passed, 0 failed, 0 skipped
