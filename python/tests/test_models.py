"""Models of transformers, built from a config with random weights and converted in place."""

import copy

import pytest
import torch
import transformers

import fusednorm

pytestmark = pytest.mark.filterwarnings("ignore")
SMALL = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
}
TOKENS = torch.randint(0, 96, (4, 24), generator=torch.Generator().manual_seed(1))


def bert():
    config = transformers.BertConfig(vocab_size=96, max_position_embeddings=32, **SMALL)
    return transformers.BertForMaskedLM(config), {"input_ids": TOKENS, "labels": TOKENS}


def gpt2():
    config = transformers.GPT2Config(vocab_size=96, n_positions=32, n_embd=64, n_layer=2, n_head=4)
    return transformers.GPT2LMHeadModel(config), {"input_ids": TOKENS, "labels": TOKENS}


def vit():
    config = transformers.ViTConfig(image_size=32, patch_size=8, num_labels=5, **SMALL)
    pixels = torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    labels = torch.tensor([0, 1, 2, 3])
    return transformers.ViTForImageClassification(config), {
        "pixel_values": pixels,
        "labels": labels,
    }


MODELS = {"bert": bert, "gpt2": gpt2, "vit": vit}


def build(name, dtype=torch.float32):
    torch.manual_seed(0)
    model, batch = MODELS[name]()
    model = model.to(dtype).eval()  # no dropout: both runs must see the same numbers
    return model, {k: v.to(dtype) if v.is_floating_point() else v for k, v in batch.items()}


def loss_and_gradients(model, batch, call=None):
    model.zero_grad()
    loss = (model if call is None else call)(**batch).loss
    loss.backward()
    return loss.detach(), {
        n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None
    }


def assert_same_gradients(left, right, relative):
    """Each gradient within `relative` of its own size: a layer's rounding, carried on."""
    assert left.keys() == right.keys()
    largest = max(g.float().norm() for g in right.values())
    for name, gradient in left.items():
        error = (gradient.float() - right[name].float()).norm()
        size = right[name].float().norm()
        assert error <= relative * (size + 1e-3 * largest), (name, error.item(), size.item())


# f32: ~10 layers of rounding at 6e-8 each, amplified by rstd; bf16: the same at 4e-3.
@pytest.mark.parametrize(
    ("dtype", "relative"), [(torch.float32, 1e-4), (torch.bfloat16, 0.1)], ids=str
)
@pytest.mark.parametrize("name", MODELS)
def test_same_loss_and_gradients_after_conversion(name, dtype, relative):
    model, batch = build(name, dtype)
    norms = sum(isinstance(m, torch.nn.LayerNorm) for m in model.modules())
    loss, gradients = loss_and_gradients(model, batch)
    fusednorm.convert(model)
    assert sum(isinstance(m, fusednorm.LayerNorm) for m in model.modules()) == norms > 0
    fused_loss, fused_gradients = loss_and_gradients(model, batch)
    torch.testing.assert_close(fused_loss, loss, rtol=relative, atol=0)
    assert_same_gradients(fused_gradients, gradients, relative)


@pytest.mark.parametrize("name", MODELS)
def test_same_compiled(name):
    torch._dynamo.reset()
    model, batch = build(name)
    fusednorm.convert(model)
    loss, gradients = loss_and_gradients(model, batch)
    compiled = torch.compile(model, backend="inductor" if name == "gpt2" else "aot_eager")
    compiled_loss, compiled_gradients = loss_and_gradients(model, batch, compiled)
    torch.testing.assert_close(compiled_loss, loss, rtol=1e-4, atol=0)
    assert_same_gradients(compiled_gradients, gradients, 1e-4)


@pytest.mark.parametrize("name", MODELS)
def test_ten_steps_of_training_lower_the_loss(name):
    native, batch = build(name)
    fused = fusednorm.convert(copy.deepcopy(native))
    losses = {}
    for label, model in (("native", native), ("fused", fused)):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        losses[label] = []
        for _ in range(10):
            optimizer.zero_grad()
            loss = model(**batch).loss
            loss.backward()
            optimizer.step()
            losses[label].append(loss.item())
    assert losses["fused"][-1] < losses["fused"][0]
    assert losses["fused"] == pytest.approx(losses["native"], rel=1e-3)
