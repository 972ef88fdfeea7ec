# SPDX-License-Identifier: Apache-2.0
"""convert() with accelerate, PEFT, timm, diffusers, FSDP2 and every norm of transformers."""

import copy
import importlib
import itertools
import re
from pathlib import Path

import pytest
import torch

import fusednorm
import model_zoo
import torch_features
from fusednorm.conversion import swap
from fusednorm.conversion.probe import probe
from model_zoo import package

pytestmark = pytest.mark.filterwarnings("ignore")


def fused(model):
    return sum(isinstance(m, swap.Fused | fusednorm.LayerNorm) for m in model.modules())


# ---- accelerate: a hook is a forward on the instance


def hook(model):
    hooks = package("accelerate.hooks")
    for module in model.modules():
        hooks.add_hook_to_module(module, hooks.ModelHook())


def unhook(model):
    package("accelerate.hooks").remove_hook_from_module(model, recurse=True)


STEPS = {"convert": fusednorm.convert, "revert": fusednorm.revert, "hook": hook, "unhook": unhook}


def orders():
    """Every order in which each step undoes one that went before it, or repeats it."""
    for steps in itertools.permutations(["convert", "revert", "hook", "unhook"]):
        if steps.index("hook") < steps.index("unhook"):
            yield steps
    yield ("hook", "convert", "convert", "unhook", "revert")
    yield ("convert", "hook", "hook", "revert", "convert", "unhook", "revert")


@pytest.mark.parametrize("steps", list(orders()), ids="-".join)
def test_any_order_of_convert_hook_unhook_and_revert(steps):
    package("accelerate")
    llama, _ = model_zoo.build("llama")
    model = torch.nn.Sequential(llama.model.norm, torch.nn.LayerNorm(64))
    x = torch.randn(3, 64)
    expected = model(x)
    converted = hooked = False
    for step in steps:
        STEPS[step](model)
        converted = {"convert": True, "revert": False}.get(step, converted)
        hooked = {"hook": True, "unhook": False}.get(step, hooked)
        assert fused(model) == (2 if converted else 0), step
        torch.testing.assert_close(model(x), expected)
        assert all(hasattr(m, "_hf_hook") == hooked for m in model)
    with torch.autograd.profiler.profile(use_kineto=False) as profile:
        model(x)
    calls = sum(e.count for e in profile.key_averages() if "fusednorm" in e.key)
    assert calls == (2 if converted else 0), "what the hook calls is what the class is"


def test_a_hooked_model_can_be_copied():
    package("accelerate")
    model, batch = model_zoo.build("llama")
    hook(model)
    other = copy.deepcopy(fusednorm.convert(model))
    assert fused(other) == 5
    assert torch.equal(other(**batch).logits, model(**batch).logits)


# ---- PEFT: modules that are trained are kept twice


def test_peft_wrappers_convert_both_copies():
    peft = package("peft")
    model, batch = model_zoo.build("llama")
    before = model(**batch).logits
    config = peft.LoraConfig(target_modules=["q_proj"], modules_to_save=["norm"])
    wrapped = peft.get_peft_model(model, config).eval()
    fusednorm.convert(wrapped)
    assert fused(wrapped) == 10, "all five have names that end in norm: each is kept twice"
    torch.testing.assert_close(wrapped(**batch).logits, before, rtol=1e-4, atol=1e-4)
    with wrapped.disable_adapter():
        torch.testing.assert_close(wrapped(**batch).logits, before, rtol=1e-4, atol=1e-4)
    wrapped(**batch).loss.backward()
    saved = [p for n, p in wrapped.named_parameters() if "modules_to_save" in n]
    assert all(p.grad is not None for p in saved)
    assert fused(fusednorm.revert(wrapped)) == 0


def test_peft_after_conversion():
    peft = package("peft")
    model, batch = model_zoo.build("llama")
    fusednorm.convert(model)
    before = model(**batch).logits
    config = peft.LoraConfig(target_modules=["q_proj"], modules_to_save=["norm"])
    wrapped = peft.get_peft_model(model, config).eval()
    assert fused(wrapped) == 10
    assert torch.equal(wrapped(**batch).logits, before)


# ---- the norms of packages, class by class


def classes_of_transformers():
    """Yield every class that is called a norm; a file that defines none is not imported."""
    root = Path(package("transformers").__file__).parent
    for path in sorted(root.glob("models/*/modeling_*.py")):
        names = re.findall(r"^class (\w+Norm)\(", path.read_text(), re.MULTILINE)
        if not names:
            continue
        try:
            module = importlib.import_module(f"transformers.models.{path.parent.name}.{path.stem}")
        except ImportError:  # needs another package
            continue
        yield from (getattr(module, name) for name in names)


def build(kind):
    for arguments in ((48,), (48, 1e-6), ()):
        try:
            module = kind(*arguments)
        except Exception:  # takes something else: a config, say
            continue
        for parameter in module.parameters():
            torch.nn.init.normal_(parameter, 0.5, 0.2)
        return module
    return None


FAMILIES = {
    # transformers has ten classes for each of these, and more.
    "LlamaRMSNorm": ("rms_norm", "via_x", 0.0, "promoted"),
    "Qwen3RMSNorm": ("rms_norm", "via_x", 0.0, "promoted"),
    "DeepseekV3RMSNorm": ("rms_norm", "via_x", 0.0, "promoted"),
    "MambaRMSNorm": ("rms_norm", "via_x", 0.0, "promoted"),
    "Gemma2RMSNorm": ("rms_norm", "once", 1.0, "input"),
    "Gemma3RMSNorm": ("rms_norm", "once", 1.0, "input"),
    "Qwen3NextRMSNorm": ("rms_norm", "once", 1.0, "input"),
    "Olmo2RMSNorm": ("rms_norm", "once", 0.0, "input"),
    "GptOssRMSNorm": ("rms_norm", "once", 0.0, "input"),
    "HeliumRMSNorm": ("rms_norm", "once", 0.0, "input"),
    "T5LayerNorm": ("rms_norm", "via_param", 0.0, "weight"),
    "CohereLayerNorm": ("layer_norm", "once", 0.0, "input"),
    "DebertaLayerNorm": ("layer_norm", "via_x", 0.0, "promoted"),
}


def test_the_norms_of_transformers():
    """Most are recognised, each with its own rounding; the count only grows."""
    found, left = {}, {}
    for kind in classes_of_transformers():
        module = build(kind)
        if module is None:
            continue
        recipe = probe(module)
        (left if isinstance(recipe, str) else found)[kind.__name__] = recipe
    for name, wanted in FAMILIES.items():
        recipe = found[name]
        assert (recipe.operation, recipe.rounding, recipe.offset, recipe.output) == wanted, name
    print(f"\n{len(found)} classes recognised; left alone: {left}")
    assert len(found) >= 150
    assert len(left) <= 0.15 * len(found), left


ONE_OPERATOR = torch_features.NATIVE_RMS_NORM_IS_ONE_OPERATOR
NATIVE = ("once", "input") if ONE_OPERATOR else ("via_x", "promoted")  # of torch's own rms_norm


@pytest.mark.parametrize(
    ("module", "name", "arguments", "wanted"),
    [
        ("timm.layers", "LayerNorm", (48,), ("layer_norm", "once", "input")),
        ("timm.layers", "LayerNormFp32", (48,), ("layer_norm", "once", "input")),
        ("timm.layers", "RmsNorm", (48,), ("rms_norm", *NATIVE)),
        ("diffusers.models.normalization", "RMSNorm", (48, 1e-6), ("rms_norm", "via_param", None)),
        ("diffusers.models.normalization", "FP32LayerNorm", (48,), ("layer_norm", "once", "input")),
        ("torchtune.modules", "RMSNorm", (48,), ("rms_norm", "via_x", "promoted")),
        ("torchtune.modules", "Fp32LayerNorm", (48,), ("layer_norm", "once", "input")),
    ],
)
def test_the_norms_of_other_packages(module, name, arguments, wanted):
    package(module.split(".")[0])
    kind = getattr(importlib.import_module(module), name)
    recipe = probe(kind(*arguments))
    assert not isinstance(recipe, str), recipe
    found = (recipe.operation, recipe.rounding, recipe.output)
    assert found[:2] == wanted[:2]
    assert wanted[2] in (None, found[2])


def test_fsdp2_before_and_after_conversion():
    """In one process: sharded parameters, a class that FSDP2 put in front, and back."""
    import torch.distributed as dist
    from torch.distributed.fsdp import fully_shard

    torch_features.needs_events_of_cpu_streams()
    dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    try:
        mesh = dist.device_mesh.init_device_mesh("cpu", (1,))
        for first in ("convert", "shard"):
            model, batch = model_zoo.build("llama")
            expected = model(**batch)
            expected.loss.backward()
            gradients = [p.grad.clone() for p in model.parameters()]
            model.zero_grad()
            if first == "convert":
                fusednorm.convert(model)
            fully_shard(model.model.norm, mesh=mesh)
            fully_shard(model, mesh=mesh)
            if first == "shard":
                fusednorm.convert(model)
            assert fused(model) == 5
            output = model(**batch)
            torch.testing.assert_close(output.logits, expected.logits, rtol=1e-4, atol=1e-4)
            output.loss.backward()
            for parameter, gradient in zip(model.parameters(), gradients):
                full = parameter.grad.full_tensor()
                torch.testing.assert_close(full, gradient, rtol=1e-3, atol=1e-5)
            fusednorm.revert(model)
            assert fused(model) == 0
            torch.testing.assert_close(model(**batch).logits, expected.logits, rtol=0, atol=1e-6)
    finally:
        dist.destroy_process_group()
