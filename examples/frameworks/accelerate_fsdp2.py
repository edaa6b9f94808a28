"""A Llama block stack sharded by accelerate's FSDP2 plugin: clipping, gathered losses, a full state at the end."""
import torch
from accelerate import Accelerator, FullyShardedDataParallelPlugin
from accelerate.utils import set_seed
from transformers import LlamaConfig, LlamaForCausalLM


def main():
    set_seed(1)
    plugin = FullyShardedDataParallelPlugin(fsdp_version=2, auto_wrap_policy="transformer_based_wrap",
                                            transformer_cls_names_to_wrap=["LlamaDecoderLayer"])
    accelerator = Accelerator(cpu=True, fsdp_plugin=plugin)
    model = LlamaForCausalLM(LlamaConfig(vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                                         num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=32))
    tokens = torch.randint(0, 64, (32, 16), generator=torch.Generator().manual_seed(2))
    model, optimizer, loader = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=1e-3),
                                                   torch.utils.data.DataLoader(tokens, batch_size=2, shuffle=True))
    for batch, _ in zip(loader, range(4)):
        loss = model(input_ids=batch, labels=batch).loss
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses = accelerator.gather(loss.detach().reshape(1))
        print(f"rank {accelerator.process_index}: losses of the ranks {[round(value, 5) for value in losses.tolist()]}")
    accelerator.get_state_dict(model)
    accelerator.end_training()


if __name__ == "__main__":
    main()
