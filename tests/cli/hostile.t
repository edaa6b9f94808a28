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
