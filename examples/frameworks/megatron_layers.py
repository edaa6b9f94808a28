"""Megatron Core's tensor parallel layers: a vocabulary-parallel embedding, a column and a row parallel layer, the parallel cross entropy."""
import torch
import torch.distributed as dist
from megatron.core import parallel_state, tensor_parallel
from megatron.core.transformer.transformer_config import TransformerConfig
from torch import nn


class Model(nn.Module):
    def __init__(self, config):
        super().__init__()
        options = {"config": config, "init_method": nn.init.normal_}
        self.embedding = tensor_parallel.VocabParallelEmbedding(64, 16, **options)
        self.up = tensor_parallel.ColumnParallelLinear(16, 32, bias=True, gather_output=False, **options)
        self.down = tensor_parallel.RowParallelLinear(32, 16, bias=True, input_is_parallel=True, skip_bias_add=False, **options)
        self.head = tensor_parallel.ColumnParallelLinear(16, 64, bias=False, gather_output=False, **options)

    def forward(self, tokens, targets):
        value = self.embedding(tokens)
        value = value + self.down(torch.relu(self.up(value)[0]))[0]
        return tensor_parallel.vocab_parallel_cross_entropy(self.head(value)[0], targets).mean()


def main():
    dist.init_process_group("gloo")
    ranks = dist.get_world_size()
    parallel_state.initialize_model_parallel(tensor_model_parallel_size=ranks)
    torch.manual_seed(1)
    model = Model(TransformerConfig(num_layers=1, hidden_size=16, num_attention_heads=2, use_cpu_initialization=True,
                                    tensor_model_parallel_size=ranks, gradient_accumulation_fusion=False))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    tokens = torch.randint(0, 64, (4, 2, 8), generator=torch.Generator().manual_seed(2))
    for batch in tokens:
        optimizer.zero_grad()
        loss = model(batch, batch.roll(-1, 1))
        loss.backward()
        optimizer.step()
        print(f"rank {dist.get_rank()}: loss {loss.item():.5f}")
    parallel_state.destroy_model_parallel()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
