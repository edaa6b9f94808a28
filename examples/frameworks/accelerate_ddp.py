"""A Llama of transformers trained by accelerate: gradient accumulation, clipping, gathered losses. Without a GPU accelerate uses DDP."""
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from transformers import LlamaConfig, LlamaForCausalLM


def main():
    set_seed(1)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    model = LlamaForCausalLM(LlamaConfig(vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                                         num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=32))
    tokens = torch.randint(0, 64, (32, 16), generator=torch.Generator().manual_seed(2))
    model, optimizer, loader = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=1e-3),
                                                   torch.utils.data.DataLoader(tokens, batch_size=2, shuffle=True))
    for batch in loader:
        with accelerator.accumulate(model):
            loss = model(input_ids=batch, labels=batch).loss
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        losses = accelerator.gather(loss.detach().reshape(1))
        print(f"rank {accelerator.process_index}: losses of the ranks {[round(value, 5) for value in losses.tolist()]}")
    accelerator.end_training()


if __name__ == "__main__":
    main()
