# SPDX-License-Identifier: Apache-2.0
"""torch.func: grad, jacobians, vmap in every combination of batched arguments, jvp."""

import itertools

import pytest
import torch
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

import fusednorm

OPS = torch.ops.fusednorm
native = torch.nn.functional.layer_norm
DOUBLE = {"dtype": torch.double}


def close(left, right):
    torch.testing.assert_close(left, right, rtol=1e-9, atol=1e-9)


def efficient(x, shape, w=None, b=None):
    return OPS.layer_norm_memory_efficient_forward(x, shape, w, b)[0]


FUNCTIONS = [fusednorm.layer_norm, efficient]


def loss(function):
    return lambda x, w, b: function(x, (6,), w, b).pow(3).sum()


@pytest.mark.parametrize("function", FUNCTIONS)
def test_grad_and_jacobians(function):
    arguments = torch.randn(3, 6, **DOUBLE), torch.rand(6, **DOUBLE) + 0.5, torch.randn(6, **DOUBLE)
    every = (0, 1, 2)
    close(grad(loss(function), every)(*arguments), grad(loss(native), every)(*arguments))
    for jacobian in (jacrev, jacfwd):
        close(
            jacobian(lambda *a: function(a[0], (6,), *a[1:]), every)(*arguments),
            jacrev(lambda *a: native(a[0], (6,), *a[1:]), every)(*arguments),
        )
    # forward over reverse, and reverse over reverse
    close(hessian(loss(function))(*arguments), hessian(loss(native))(*arguments))
    close(jacrev(jacrev(loss(function)))(*arguments), hessian(loss(native))(*arguments))


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("batched", list(itertools.product([None, 0, 1], repeat=3))[1:], ids=str)
def test_vmap_and_vmap_of_grad(function, batched):
    """Any subset of input, weight and bias batched, in any position."""

    def make(shape, dim):
        return (
            (torch.rand(shape, **DOUBLE) + 0.5)
            if dim is None
            else torch.stack([torch.rand(shape, **DOUBLE) + 0.5 for _ in range(4)], dim)
        )

    x, w, b = make((3, 6), batched[0]), make((6,), batched[1]), make((6,), batched[2])
    close(
        vmap(lambda *a: function(a[0], (6,), *a[1:]), batched)(x, w, b),
        vmap(lambda *a: native(a[0], (6,), *a[1:]), batched)(x, w, b),
    )
    every = (0, 1, 2)
    close(
        vmap(grad(loss(function), every), batched)(x, w, b),
        vmap(grad(loss(native), every), batched)(x, w, b),
    )


def test_vmap_does_not_fall_back_to_a_loop(recwarn):
    x = torch.randn(5, 3, 6)
    vmap(lambda x: fusednorm.layer_norm(x, (6,)))(x)
    vmap(grad(lambda x: fusednorm.layer_norm(x, (6,)).square().sum()))(x)
    assert not [w for w in recwarn if "batching rule" in str(w.message)]


def test_nested_vmap():
    x = torch.randn(2, 5, 3, 6, **DOUBLE)
    w = torch.randn(5, 6, **DOUBLE)

    def nest(f):
        return vmap(vmap(lambda x, w: f(x, (6,), w)), (0, None))(x, w)

    close(nest(fusednorm.layer_norm), nest(native))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_jvp_and_vjp(function):
    primals = torch.randn(3, 6, **DOUBLE), torch.rand(6, **DOUBLE) + 0.5, torch.randn(6, **DOUBLE)
    tangents = tuple(torch.randn_like(p) for p in primals)

    def bind(f):
        return lambda *a: f(a[0], (6,), *a[1:])

    close(jvp(bind(function), primals, tangents), jvp(bind(native), primals, tangents))
    dy = torch.randn(3, 6, **DOUBLE)
    close(vjp(bind(function), *primals)[1](dy), vjp(bind(native), *primals)[1](dy))


def test_jvp_of_vmap_and_vmap_of_jvp():
    x, t = torch.randn(4, 3, 6, **DOUBLE), torch.randn(4, 3, 6, **DOUBLE)

    def directional(f):
        return lambda x, t: jvp(lambda x: f(x, (6,)), (x,), (t,))[1]

    expected = directional(native)(x, t)
    close(vmap(directional(fusednorm.layer_norm))(x, t), expected)
    close(jvp(vmap(lambda x: fusednorm.layer_norm(x, (6,))), (x,), (t,))[1], expected)


def test_grad_of_vmap_with_a_zero_weight():
    """The rule must not go through the memory-efficient operator, which divides by the weight."""
    x, w = torch.randn(4, 3, 6, **DOUBLE), torch.rand(6, **DOUBLE)
    w[2] = 0

    def total(f):
        return lambda x: vmap(lambda x: f(x, (6,), w))(x).pow(3).sum()

    close(grad(total(fusednorm.layer_norm))(x), grad(total(native))(x))


def test_vmap_refuses_a_weight_of_the_wrong_shape():
    with pytest.raises(RuntimeError, match="Expected weight to be of same shape"):
        vmap(lambda x, w: fusednorm.layer_norm(x, (6,), w))(torch.randn(4, 3, 6), torch.randn(4, 1))


def test_functional_call_over_an_ensemble():
    models = [torch.nn.Sequential(torch.nn.Linear(4, 6), fusednorm.LayerNorm(6)) for _ in range(3)]
    parameters, buffers = torch.func.stack_module_state(models)
    x = torch.randn(5, 4)
    y = vmap(lambda p, b: torch.func.functional_call(models[0], (p, b), (x,)))(parameters, buffers)
    torch.testing.assert_close(y, torch.stack([m(x) for m in models]))
