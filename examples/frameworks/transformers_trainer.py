"""A small GPT-2 trained by transformers' Trainer on synthetic tokens, with gradient accumulation and an evaluation."""
import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed


def main():
    set_seed(1)
    tokens = torch.randint(0, 64, (32, 16), generator=torch.Generator().manual_seed(2))
    samples = [{"input_ids": row, "labels": row} for row in tokens]
    model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=16, n_embd=32, n_layer=2, n_head=2))
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(output_dir=folder, max_steps=4, per_device_train_batch_size=2, gradient_accumulation_steps=2,
                                      learning_rate=1e-3, use_cpu=True, save_strategy="no", report_to=[], disable_tqdm=True,
                                      logging_steps=1, ddp_find_unused_parameters=False)
        trainer = Trainer(model=model, args=arguments, train_dataset=samples, eval_dataset=samples[:8])
        trainer.train()
        print(f"rank {arguments.process_index}: evaluation loss {trainer.evaluate()['eval_loss']:.5f}")


if __name__ == "__main__":
    main()
