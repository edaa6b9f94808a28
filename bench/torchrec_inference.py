#!/usr/bin/env python3
"""TorchRec's quantised inference beside lockstep's: torchrec_inference.py [LOCKSTEP]

Needs torch, torchrec and fbgemm-gpu-cpu (pip); lockstep itself needs none of them. TorchRec quantises
a collection and looks it up unsharded; lockstep quantises the same weights, shards them in every way,
over 1 to 4 ranks, and is held to TorchRec's outputs: bit by bit where rows only move, else within the
bound of the sum (FBGEMM adds up in another order). Ends with 1 where one of them fails.
"""
import json
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import torch
    from torch.ao.quantization import PlaceholderObserver, QConfig
    from torchrec.inference.modules import quantize_embeddings
    from torchrec.modules.embedding_configs import (EmbeddingBagConfig, EmbeddingConfig, PoolingType)
    from torchrec.modules.embedding_modules import EmbeddingBagCollection, EmbeddingCollection
    from torchrec.quant.embedding_modules import EmbeddingCollection as QuantEmbeddingCollection
    from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

    import tensor_files
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

ROWS, DIM, BATCH = 101, 24, 12
ELEMENTS = {"int8": torch.qint8, "int4": torch.quint4x2, "f16": torch.float16}
SHARDINGS = {
    1: ["{type: table_wise, ranks: 0}"],
    2: ["{type: row_wise}", "{type: column_wise, ranks: [1, 0], sizes: [7, 17]}"],
    3: ["{type: row_wise}", "{type: data_parallel}", "{type: table_wise, ranks: 2}"],
    4: ["{type: row_wise}", "{type: table_row_wise, host: 1}", "{type: grid, columns: 12}",
        "{type: table_column_wise, ranks: [2, 3]}"],
}
MESH = {1: "{shape: [1]}", 2: "{shape: [2]}", 3: "{shape: [3]}",
        4: "{shape: [2, 2], names: [host, gpu]}"}


def ask_torchrec(pooling, element, weights, lengths, ids, output):
    if pooling == "none":
        model = EmbeddingCollection(tables=[EmbeddingConfig(
            name="t", num_embeddings=ROWS, embedding_dim=DIM, feature_names=["f"])])
        table = model.embeddings["t"]
    else:
        model = EmbeddingBagCollection(tables=[EmbeddingBagConfig(
            name="t", num_embeddings=ROWS, embedding_dim=DIM, feature_names=["f"],
            pooling=PoolingType.SUM if pooling == "sum" else PoolingType.MEAN)])
        table = model.embedding_bags["t"]
    table.weight.data.copy_(torch.from_numpy(weights))
    if pooling == "none":  # which quantize_embeddings leaves as it is
        dtypes = [PlaceholderObserver.with_args(dtype=d) for d in (output, ELEMENTS[element])]
        model.qconfig = QConfig(activation=dtypes[0], weight=dtypes[1])
        quantised = QuantEmbeddingCollection.from_float(model)
    else:  # only collections inside of a model are quantised
        quantised = quantize_embeddings(torch.nn.Sequential(model), dtype=ELEMENTS[element],
                                        inplace=False, output_dtype=output)
    found = quantised(KeyedJaggedTensor(keys=["f"], values=torch.from_numpy(ids),
                                        lengths=torch.from_numpy(lengths)))
    return (found["f"].values() if pooling == "none" else found["f"]).detach()


def scenario(ranks, sharding, pooling, element, lengths, ids):
    batch = [BATCH // ranks + (r < BATCH % ranks) for r in range(ranks)]
    return f"""lockstep: 1
name: {element} {pooling} {ranks} ranks
mesh: {MESH[ranks]}
tables:
  - name: t
    rows: {ROWS}
    dim: {DIM}
    pooling: {pooling}
    features: f
    weights: {{file: in.safetensors, tensor: weights}}
    quantise: {{to: {element}}}
    sharding: {sharding}
inputs:
  batch: {batch}
  features: {{f: {{lengths: {{values: {lengths.tolist()}}}, ids: {{values: {ids.tolist()}}}}}}}
checks: {{reference: {{file: in.safetensors, tensor: wanted, table: t}}}}
"""


def main():
    program = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build/lockstep")
    random, failed, tried = np.random.default_rng(7), 0, 0
    for pooling in ("sum", "mean", "none"):
        for element in ELEMENTS:
            weights = random.normal(0, 0.1, (ROWS, DIM)).astype(np.float32)
            lengths = random.integers(0, 6, BATCH).astype(np.int64)
            ids = random.integers(0, ROWS, lengths.sum()).astype(np.int64)
            wanted = ask_torchrec(pooling, element, weights, lengths, ids, torch.float32).numpy()
            for ranks, ways in SHARDINGS.items():
                for sharding in ways:
                    if pooling == "none" and ("grid" in sharding or "table_row" in sharding):
                        continue
                    with tempfile.TemporaryDirectory() as folder:
                        tensor_files.write(os.path.join(folder, "in.safetensors"),
                                           {"weights": weights, "wanted": wanted})
                        path = os.path.join(folder, "s.yaml")
                        with open(path, "w", encoding="utf-8") as file:
                            file.write(scenario(ranks, sharding, pooling, element, lengths, ids))
                        done = subprocess.run([program, "run", path, "--json", "-"],
                                              capture_output=True, text=True, check=False)
                    case = json.loads(done.stdout)["cases"][0] if done.stdout else {}
                    stage = next((s for s in case.get("stages", [])
                                  if s.get("against") == "reference"), None)
                    ok = done.returncode == 0 and stage is not None
                    tried, failed = tried + 1, failed + (not ok)
                    print(f"{'pass' if ok else 'FAIL'}  {element:5} {pooling:5} {ranks} ranks "
                          f"{sharding:48} " + (f"{stage['class']}, {stage['differing']} of "
                                               f"{stage['elements']} differ" if stage else
                                               done.stderr or str(case)))
    print(f"{tried} shardings, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
