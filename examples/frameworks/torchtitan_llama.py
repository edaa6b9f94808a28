"""torchtitan's own trainer with its small Llama, FSDP and tensor parallelism: torchtitan_llama.py [--parallelism.tensor_parallel_degree 2]

torchtitan expects GPUs. On CPUs three things differ: torch.cpu has no statistics, attention is causal without flex attention, and FSDP divides
gradients itself, since gloo has no sum with a factor.
"""
import json
import os
import sys
import tempfile

import torch
import torch._utils
from torch.distributed.fsdp import FSDPModule
from torch.nn.functional import scaled_dot_product_attention

torch._utils._get_available_device_type = lambda: "cpu"
for name, answer in {"set_device": None, "current_device": 0, "get_device_name": "cpu", "memory_stats": {}, "empty_cache": None,
                     "reset_peak_memory_stats": None, "get_device_properties": type("Properties", (), {"total_memory": 1 << 34})}.items():
    setattr(torch.cpu, name, lambda *_, answer=answer: answer)

from torchtitan.models.common.attention import FlexAttention  # noqa: E402
from torchtitan.train import main  # noqa: E402

divide = FSDPModule.set_gradient_divide_factor


def causal(q, k, v, scale=None, enable_gqa=False, **_):
    return scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale, enable_gqa=enable_gqa), None


def divide_apart(module, factor):
    divide(module, factor)
    module.set_force_sum_reduction_for_comms(True)


def write_assets():
    """A tokenizer of bytes and texts of numbers, where torchtitan's configuration has its own."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    words = ["<|begin_of_text|>", "<|end_of_text|>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    tokenizer = Tokenizer(models.BPE({word: at for at, word in enumerate(words)}, []))
    tokenizer.add_special_tokens(words[:2])
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    os.makedirs("tests/assets/tokenizer")
    os.makedirs("tests/assets/c4_test")
    tokenizer.save("tests/assets/tokenizer/tokenizer.json")
    with open("tests/assets/tokenizer/tokenizer_config.json", "w", encoding="utf-8") as file:
        json.dump({"bos_token": words[0], "eos_token": words[1]}, file)
    with open("tests/assets/c4_test/data.json", "w", encoding="utf-8") as file:
        for at in range(200):
            file.write(json.dumps({"text": " ".join(str(at * n) for n in range(100))}) + "\n")


FlexAttention._compiled_flex_attn = staticmethod(causal)
FSDPModule.set_gradient_divide_factor = divide_apart
sys.argv[1:1] = ["--module", "llama3", "--config", "llama3_debugmodel", "--training.steps", "3", "--training.seq_len", "64", "--debug.seed", "7",
                 "--training.local_batch_size", "2", "--training.disable_cuda_graphs", "--validator.no-enable"]
with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    write_assets()
    main()
