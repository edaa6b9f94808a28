# The options that every command takes, where the commands' text and JSON are their own.
$ for c in run compare record replay plan show bench doctor; do for o in json junit report seed quiet color help; do lockstep $c --help | grep -q -e "--$o" || echo "$c lacks --$o"; done; done
$ lockstep doctor --junit - | python3 -c 'import sys, xml.etree.ElementTree as e; s = e.parse(sys.stdin).getroot()[0]; print(s.get("name"), s.get("failures"), [c.get("name") for c in s if c.get("classname") == "build"])'
> lockstep doctor 0 ['lockstep']
# A missing tool is reported with its purpose, a program beside lockstep with its own report.
$ l=$(which lockstep); PATH=/nowhere $l doctor | grep ^tool
> tool     gdb            no   not in PATH; for lockstep gdb: apt-get install gdb
> tool     valgrind       no   not in PATH; for the memcheck tests: apt-get install valgrind
$ mkdir -p tree/gdb; l=$(which lockstep); PATH=$PWD/tree $l doctor | grep '^tool *gdb'; rmdir tree/gdb tree
> tool     gdb            no   not in PATH; for lockstep gdb: apt-get install gdb
$ mkdir own && cp $(which lockstep) own && printf '#!/bin/sh\nprintf "%%-8s %%-14s %%-4s %%s\\n" backend nccl no "no GPUs" device cuda yes "made up"\n' > own/lockstep-cuda && chmod +x own/lockstep-cuda && own/lockstep doctor --color never | grep lockstep-cuda; rm -r own
> backend  nccl           no   lockstep-cuda: no GPUs
> device   cuda           yes  lockstep-cuda: made up
$ lockstep doctor --quiet --seed 3 --report d.html; grep -c '<h1>lockstep doctor' d.html
> 1
$ lockstep show "$SOURCE/scenarios/dtensor_example/row_wise_uneven.yaml" --json - --only table | python3 -c 'import sys, json; j = json.load(sys.stdin); print(j["command"], j["ranks"], [(b["rank"], b["offset"], b["size"]) for b in j["tensors"][0]["blocks"]])'
> show 4 [(0, [0, 0], [1, 16]), (1, [1, 0], [3, 16]), (2, [4, 0], [1, 16]), (3, [5, 0], [3, 16])]
$ lockstep show "$SOURCE/scenarios/dtensor_example/row_wise_uneven.yaml" --quiet --junit s.xml; grep -c '<testcase name="tensor' s.xml
> ...
$ lockstep show "$SOURCE/scenarios/dtensor_example/row_wise_uneven.yaml" --json - --junit -
! lockstep: error: two outputs go to '-'
? 2
$ lockstep show "$SOURCE/scenarios/dtensor_example/row_wise_uneven.yaml" --json - --svg -
! lockstep: error: two outputs go to '-'
? 2
$ lockstep plan "$SOURCE/scenarios/sharding_tutorial/mixed.yaml" --quiet --out a.plan --junit p.xml; grep -c 'failures="0"' p.xml
> 1
$ lockstep plan --diff a.plan a.plan --json - | python3 -c 'import sys, json; j = json.load(sys.stdin); print(j["verdict"], j["differing"])'
> pass 0
# A full disk is said, and nothing is left behind.
$ lockstep doctor --quiet --json /dev/full
! lockstep: error: cannot write '/dev/full': No space left on device
? 3
# A link that leads nowhere is refused, and so is an output that is an input or another output.
$ ln -s nowhere link; lockstep doctor --quiet --json link; code=$?; readlink link; test ! -e nowhere; echo $code $?
> nowhere
> 2 0
! lockstep: error: cannot write 'link': it is a link to nothing
$ cp $SOURCE/scenarios/sharded_embedding/row_wise.yaml in.yaml; ln in.yaml hard.yaml; ln -s in.yaml soft.yaml; for f in in.yaml ./in.yaml hard.yaml soft.yaml; do lockstep run in.yaml --json $f; done; cmp in.yaml $SOURCE/scenarios/sharded_embedding/row_wise.yaml
! lockstep: error: 'in.yaml' would overwrite an input of this call
! lockstep: error: './in.yaml' would overwrite an input of this call
! lockstep: error: 'hard.yaml' would overwrite an input of this call
! lockstep: error: 'soft.yaml' would overwrite an input of this call
$ echo > a.json; lockstep run in.yaml --json a.json --junit ./a.json
! lockstep: error: two outputs go to './a.json'
? 2
# The same of each command's own outputs, and of inputs that options name; nothing is written.
$ cp in.yaml own.yaml; echo > m.json; for o in out svg lp torchrec "measured sim --keep"; do lockstep plan --$o own.yaml ./own.yaml; done; for c in traffic show; do lockstep $c --svg=./own.yaml own.yaml; done; lockstep plan --machine=m.json --lp m.json own.yaml; lockstep plan --measured sim --machine ./m.json --keep m.json own.yaml; lockstep run --order measured:m.json --json m.json own.yaml; lockstep reshard a b --plan m.json --json m.json; lockstep spmd --json m.json ./m.json:main; cmp own.yaml in.yaml; wc -c < m.json
> 1
! lockstep: error: 'own.yaml' would overwrite an input of this call
! lockstep: error: 'own.yaml' would overwrite an input of this call
! lockstep: error: 'own.yaml' would overwrite an input of this call
! lockstep: error: 'own.yaml' would overwrite an input of this call
! lockstep: error: 'own.yaml' would overwrite an input of this call
! lockstep: error: './own.yaml' would overwrite an input of this call
! lockstep: error: './own.yaml' would overwrite an input of this call
! lockstep: error: 'm.json' would overwrite an input of this call
! lockstep: error: 'm.json' would overwrite an input of this call
! lockstep: error: 'm.json' would overwrite an input of this call
! lockstep: error: 'm.json' would overwrite an input of this call
! lockstep: error: 'm.json' would overwrite an input of this call
# Two outputs are one where nothing is yet, too: by the folder that they would lie in.
$ ln -s . here; lockstep plan --lp x --svg x own.yaml; lockstep plan --out x --torchrec here/x own.yaml; lockstep run --json x --trace ./x own.yaml; lockstep run --json "$PWD/x" --keep x/ own.yaml; lockstep run --keep x --checkpoint ./x own.yaml; lockstep reshard a x --plan own.yaml --json here/./x; test ! -e x
! lockstep: error: two outputs go to 'x'
! lockstep: error: two outputs go to 'here/x'
! lockstep: error: two outputs go to './x'
! lockstep: error: two outputs go to '...'
! lockstep: error: two outputs go to './x'
! lockstep: error: two outputs go to 'x'
# What is no path, and outputs of one name in two folders, are left alone.
$ mkdir f; lockstep show --quiet --only weight --svg weight --json f/weight in.yaml; test -s weight -a -s f/weight
# What would not fit into memory is refused before it runs; the limit can be said.
$ sed 's/batch: .*/batch: 16777216/' in.yaml > big.yaml; grep -c 16777216 big.yaml; lockstep run --memory 8G big.yaml
> 1
! lockstep: error: big.yaml: a run would need about ... GiB, the limit is 8 GiB (--memory)
? 2
$ lockstep run --quiet --memory 64M in.yaml; lockstep run --memory 1M in.yaml 2>&1 | grep -c 'the limit is'
> run: 1 passed, 0 failed, 0 skipped
> 1
$ printf 'lockstep: 1\nname: t\nmesh: {shape: [65536]}\ntables: [{name: p, rows: 10, dim: 4, sharding: {type: row_wise}}]\ninputs: {batch: 1}\n' > wide.yaml; lockstep run --memory 64G wide.yaml
! lockstep: error: wide.yaml: a run would need about ... GiB, the limit is 64 GiB (--memory)
? 2
# A limit below what any run needs is refused the same way, by all commands that take one.
$ lockstep run --memory 1K in.yaml; lockstep run --memory 0 in.yaml; lockstep compare --real mpi --memory 1K in.yaml; lockstep record --backend mpi --out kept --memory 1K in.yaml; test ! -e kept && lockstep run --memory 1K in.yaml
! lockstep: error: in.yaml: a run would need about ... MiB, the limit is 1 KiB (--memory)
! lockstep: error: in.yaml: a run would need about ... MiB, the limit is 0 bytes (--memory)
! lockstep: error: in.yaml: a run would need about ... MiB, the limit is 1 KiB (--memory)
! lockstep: error: in.yaml: a run would need about ... MiB, the limit is 1 KiB (--memory)
! lockstep: error: in.yaml: a run would need about ... MiB, the limit is 1 KiB (--memory)
? 2
$ lockstep run --quiet --keep held in.yaml && lockstep replay --memory 1K held | grep -o 'the limit is .*'
> run: 1 passed, 0 failed, 0 skipped
> the limit is 1 KiB (--memory)
$ lockstep replay --quiet --memory 1K held > /dev/null
? 2
$ lockstep replay --quiet --memory 1G held
> replay: 1 passed, 0 failed, 0 skipped
$ lockstep run --memory 16Q in.yaml
! lockstep: error: --memory needs a number of bytes such as 16G, not '16Q'
? 2
