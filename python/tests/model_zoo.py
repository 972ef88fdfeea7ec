# SPDX-License-Identifier: Apache-2.0
"""Models of transformers, diffusers, timm and torchvision, small, with random weights.

Each builder returns a model and the arguments of a call that returns something with a loss.
"""

import importlib

import pytest
import torch

SMALL = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
}
CAUSAL = {**SMALL, "vocab_size": 96, "num_key_value_heads": 2, "max_position_embeddings": 128}
CAUSAL |= {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": None}
TOKENS = torch.randint(2, 96, (4, 24), generator=torch.Generator().manual_seed(1))


def package(name):
    """Import a package, or skip the test and say which one is missing."""
    return pytest.importorskip(name, reason=f"{name} is not installed: tools/requirements.txt")


def pixels(size=32):
    return torch.randn(4, 3, size, size, generator=torch.Generator().manual_seed(1))


class WithLoss(torch.nn.Module):
    """Gives a model that returns a tensor the loss that the tests look at."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, **arguments):
        result = self.model(**arguments)
        result = getattr(result, "sample", result)
        return type("Output", (), {"logits": result, "loss": result.float().square().mean()})


def causal(config, kind, **changed):
    transformers = package("transformers")
    settings = getattr(transformers, config)(**{**CAUSAL, **changed})
    model = getattr(transformers, kind)(settings)
    return model, {"input_ids": TOKENS, "labels": TOKENS}


def llama():
    return causal("LlamaConfig", "LlamaForCausalLM")


def qwen3():
    return causal("Qwen3Config", "Qwen3ForCausalLM", head_dim=16)


def gemma3():
    return causal("Gemma3TextConfig", "Gemma3ForCausalLM", head_dim=16)


def olmo2():
    return causal("Olmo2Config", "Olmo2ForCausalLM")


def gpt_oss():
    experts = {"num_local_experts": 4, "num_experts_per_tok": 2, "head_dim": 16}
    return causal("GptOssConfig", "GptOssForCausalLM", **experts)


def gpt2():
    transformers = package("transformers")
    config = transformers.GPT2Config(
        vocab_size=96, n_positions=128, n_embd=64, n_layer=2, n_head=4, bos_token_id=1,
        eos_token_id=None, pad_token_id=0,
    )  # fmt: skip
    return transformers.GPT2LMHeadModel(config), {"input_ids": TOKENS, "labels": TOKENS}


def t5():
    transformers = package("transformers")
    config = transformers.T5Config(
        vocab_size=96, d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4, pad_token_id=0,
        decoder_start_token_id=0, eos_token_id=None,
    )  # fmt: skip
    return transformers.T5ForConditionalGeneration(config), {
        "input_ids": TOKENS,
        "labels": TOKENS,
    }


def bert():
    transformers = package("transformers")
    config = transformers.BertConfig(vocab_size=96, max_position_embeddings=32, **SMALL)
    return transformers.BertForMaskedLM(config), {"input_ids": TOKENS, "labels": TOKENS}


def deberta():
    transformers = package("transformers")
    config = transformers.DebertaConfig(vocab_size=96, max_position_embeddings=32, **SMALL)
    return transformers.DebertaForMaskedLM(config), {"input_ids": TOKENS, "labels": TOKENS}


def vit():
    transformers = package("transformers")
    config = transformers.ViTConfig(image_size=32, patch_size=8, num_labels=5, **SMALL)
    model = transformers.ViTForImageClassification(config)
    return model, {"pixel_values": pixels(), "labels": torch.tensor([0, 1, 2, 3])}


def convnext():
    transformers = package("transformers")
    sizes = {"hidden_sizes": [16, 24, 32, 48], "depths": [1, 1, 2, 1], "num_labels": 5}
    model = transformers.ConvNextForImageClassification(transformers.ConvNextConfig(**sizes))
    return model, {"pixel_values": pixels(64), "labels": torch.tensor([0, 1, 2, 3])}


def timm_vit():
    timm = package("timm")
    model = timm.create_model(
        "vit_tiny_patch16_224", img_size=32, patch_size=8, embed_dim=48, depth=2, num_heads=4,
        num_classes=5, qk_norm=True,
    )  # fmt: skip
    return WithLoss(model), {"x": pixels()}


def timm_convnext():
    timm = package("timm")
    model = timm.create_model(
        "convnext_tiny", depths=(1, 1, 2, 1), dims=(16, 24, 32, 48), num_classes=5
    )
    return WithLoss(model), {"x": pixels(64)}


def torchvision_convnext():
    package("torchvision")
    convnext = importlib.import_module("torchvision.models.convnext")
    blocks = [convnext.CNBlockConfig(16, 32, 1), convnext.CNBlockConfig(32, None, 2)]
    return WithLoss(convnext.ConvNeXt(blocks, num_classes=5)), {"x": pixels()}


def dit():
    diffusers = package("diffusers")
    model = diffusers.DiTTransformer2DModel(
        num_attention_heads=4, attention_head_dim=16, in_channels=4, num_layers=2, sample_size=8,
        patch_size=2, num_embeds_ada_norm=10,
    )  # fmt: skip
    generator = torch.Generator().manual_seed(1)
    return WithLoss(model), {
        "hidden_states": torch.randn(2, 4, 8, 8, generator=generator),
        "timestep": torch.tensor([1, 5]),
        "class_labels": torch.tensor([0, 3]),
    }


# How many norms each has, and how many of them convert() changes.
NORMS = {
    "llama": (5, 5),
    "qwen3": (9, 9),
    "gemma3": (13, 13),
    "olmo2": (9, 9),
    "gpt_oss": (5, 5),
    "gpt2": (5, 5),
    "t5": (12, 12),
    "bert": (6, 6),
    "deberta": (6, 6),
    "vit": (5, 5),
    "convnext": (10, 6),
    "timm_vit": (9, 9),
    "timm_convnext": (10, 6),
    "torchvision_convnext": (6, 3),
    "dit": (5, 5),
}
GENERATORS = ("llama", "qwen3", "gemma3", "olmo2", "gpt_oss", "gpt2", "t5")


def build(name, dtype=torch.float32):
    """Return a model, without dropout so that two runs see the same numbers, and its arguments."""
    torch.manual_seed(0)
    model, batch = globals()[name]()
    model = model.to(dtype).eval()
    for parameter in model.parameters():  # weights of one say nothing about a weight
        if parameter.dim() == 1:
            torch.nn.init.normal_(parameter, parameter.float().mean().item(), 0.2)
    return model, {k: v.to(dtype) if v.is_floating_point() else v for k, v in batch.items()}
