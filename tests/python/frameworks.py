"""The purposes and places of frameworks' calls: frameworks.py LOCKSTEP FRAMEWORK runs it on two ranks."""
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.abspath(__file__)
LINEAR = "0.weight, 0.bias, 2.weight, 2.bias"
PURPOSES = {
    "deepspeed": {
        ("broadcast", "parameters 0.weight"),
        ("all_reduce", f"gradients of {LINEAR}"),  # without ZeRO, and of its stages 1 and 2
        ("all_reduce", "gradients of 2.bias, 2.weight, 0.bias, 0.weight"),
        ("all_gather", "updated parameters"),
        ("all_reduce", "norm of gradients"),
        ("all_gather", "parameters 0.weight, 0.bias"),  # of stage 3
        ("reduce_scatter", f"gradients of {LINEAR}"),
        ("broadcast", "order of parameters"),
    },
    "megatron": {
        ("all_reduce", "activations of embedding"),
        ("all_reduce", "activations of layers.0.second"),
        ("all_reduce", "gradients of activations"),
        ("all_reduce", "logits of the cross entropy"),
    },
    "accelerate": {
        ("all_gather", "accelerate gather"),
        ("all_reduce", "accelerate reduce"),
        ("broadcast", "accelerate broadcast"),
    },
    "pytorch_lightning": {
        ("all_reduce", "gradients of net.0.weight, net.0.bias"),
        ("all_reduce", "logged loss"),
        ("all_reduce", "logged epoch"),
    },
}


def of_deepspeed():
    import deepspeed
    import torch
    from torch import nn

    deepspeed.init_distributed(dist_backend="gloo")
    for zero in ({"stage": 0}, {"stage": 1}, {"stage": 2},
                 {"stage": 3, "stage3_param_persistence_threshold": 0}):
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))
        engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config={
            "train_micro_batch_size_per_gpu": 2, "zero_optimization": zero, "gradient_clipping": 1.0,
            "optimizer": {"type": "Adam", "params": {"lr": 1e-2, "torch_adam": True}},
            "zero_allow_untested_optimizer": True})
        for _ in range(2):
            loss = engine(torch.ones(2, 4)).sum()
            engine.backward(loss)
            engine.step()


def of_megatron():
    import torch
    import torch.distributed as dist
    from megatron.core import parallel_state, tensor_parallel
    from megatron.core.transformer.transformer_config import TransformerConfig
    from torch import nn

    dist.init_process_group("gloo")
    parallel_state.initialize_model_parallel(tensor_model_parallel_size=2)
    config = TransformerConfig(num_layers=1, hidden_size=8, num_attention_heads=2, use_cpu_initialization=True,
                               tensor_model_parallel_size=2, gradient_accumulation_fusion=False)
    options = {"config": config, "init_method": nn.init.normal_}

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = tensor_parallel.ColumnParallelLinear(8, 16, bias=True, gather_output=False, **options)
            self.second = tensor_parallel.RowParallelLinear(16, 8, bias=True, input_is_parallel=True,
                                                            skip_bias_add=False, **options)

        def forward(self, value):
            return value + self.second(torch.relu(self.first(value)[0]))[0]

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = tensor_parallel.VocabParallelEmbedding(16, 8, **options)
            self.layers = nn.ModuleList([Layer()])
            self.out = tensor_parallel.ColumnParallelLinear(8, 16, bias=False, gather_output=False, **options)

        def forward(self, ids):
            value = self.embedding(ids)
            for layer in self.layers:
                value = layer(value)
            return tensor_parallel.vocab_parallel_cross_entropy(self.out(value)[0], ids).mean()

    Model()(torch.zeros(2, 4, dtype=torch.int64)).backward()
    dist.destroy_process_group()


def of_accelerate():
    import torch
    from accelerate import Accelerator, utils

    accelerator = Accelerator(cpu=True)
    accelerator.gather(torch.ones(2))
    accelerator.reduce(torch.ones(2))
    utils.broadcast(torch.ones(2))
    accelerator.end_training()


def of_pytorch_lightning():
    import pytorch_lightning as lightning
    import torch
    from torch import nn

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(4, 4))

        def training_step(self, batch, _):
            loss = self.net(batch).sum()
            self.log("loss", loss, sync_dist=True, on_step=True)
            self.log("epoch", loss, sync_dist=True, on_step=False, on_epoch=True)
            return loss

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.1)

    trainer = lightning.Trainer(accelerator="cpu", devices=2, strategy="ddp", max_epochs=1, logger=False,
                                enable_progress_bar=False, enable_checkpointing=False, use_distributed_sampler=False)
    trainer.fit(Model(), torch.utils.data.DataLoader(torch.ones(4, 4), batch_size=2))


def main(lockstep, framework):
    path = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"  # DeepSpeed compiles with the ninja in that folder
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.json")
        done = subprocess.run([lockstep, "exec", "-n", "2", "--json", report, "--", sys.executable, HERE, "--program",
                               framework], cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False)
        with open(report, encoding="utf-8") as file:
            case = json.load(file)["cases"][0]
    rows = case.get("calls", [])
    calls = {(row["call"], row["purpose"]) for row in rows}
    elsewhere = {row["where"] for row in rows if not row["where"].startswith(f"{HERE}:")}
    if done.returncode == 0 and not case["findings"] and PURPOSES[framework] <= calls and not elsewhere:
        return 0
    print(done.stdout, done.stderr, f"missing: {PURPOSES[framework] - calls}", f"calls: {calls}",
          f"places outside of the program: {elsewhere}", sep="\n")
    return 1


if __name__ == "__main__":
    if sys.argv[1] == "--program":
        globals()[f"of_{sys.argv[2]}"]()
    else:
        sys.exit(main(os.path.abspath(sys.argv[1]), sys.argv[2]))
