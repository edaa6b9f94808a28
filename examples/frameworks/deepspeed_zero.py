"""DeepSpeed's ZeRO on the CPU: deepspeed_zero.py [STAGE], 0 to 3."""
import os
import sys

import deepspeed
import torch
from torch import nn


def main():
    stage = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    torch.manual_seed(1)
    deepspeed.init_distributed(dist_backend="gloo")
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config={
        "train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": stage}, "gradient_clipping": 1.0,
        "optimizer": {"type": "Adam", "params": {"lr": 1e-2, "torch_adam": True}}, "zero_allow_untested_optimizer": True})
    random = torch.Generator().manual_seed(2)
    inputs, targets = torch.randn(4, ranks * 4, 16, generator=random), torch.randn(4, ranks * 4, 4, generator=random)
    for batch, target in zip(inputs, targets):
        loss = nn.functional.mse_loss(engine(batch.chunk(ranks)[rank]), target.chunk(ranks)[rank])
        engine.backward(loss)
        engine.step()
        print(f"rank {rank}: loss {loss.item():.5f}")
    engine.destroy()


if __name__ == "__main__":
    main()
