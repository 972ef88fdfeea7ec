# SPDX-License-Identifier: Apache-2.0
"""The norms as functions, with the signatures of ``torch.nn.functional`` where it has them."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.jit._builtins import _register_builtin

_ops = torch.ops.fusednorm
# Looked up once: it is most of a tiny call.
_layer_norm = _ops.layer_norm
_layer_norm_rounded = _ops.layer_norm_rounded
_rms_norm = _ops.rms_norm
_add_rms_norm = _ops.add_rms_norm
_add_rms_norm_ = _ops.add_rms_norm_
_add_layer_norm = _ops.add_layer_norm
_add_layer_norm_ = _ops.add_layer_norm_


def _check_types(function: str, arguments: dict[str, Any]) -> None:
    """Raise the TypeError that native raises, where the dispatcher has only a RuntimeError."""

    def refuse(name: str, wanted: str, found: str) -> None:
        raise TypeError(f"{function}(): argument '{name}' must be {wanted}, {found}")

    may_be_none = ("weight", "bias", "eps", "dtype")
    kinds: dict[str, tuple[Any, str]] = {
        **dict.fromkeys(("input", "residual", "weight", "bias"), (Tensor, "a Tensor")),
        "normalized_shape": (list | tuple, "a tuple of ints"),
        **dict.fromkeys(("eps", "offset"), (int | float | torch.SymFloat, "a float")),
        "rounding": (str, "a str"),
        "dtype": (torch.dtype, "a torch.dtype"),
    }
    for name, value in arguments.items():
        kind, wanted = kinds[name]
        if not isinstance(value, kind) and not (value is None and name in may_be_none):
            refuse(name, wanted, f"not {type(value).__name__}")
    for size in arguments["normalized_shape"]:
        if not isinstance(size, int | torch.SymInt):
            found = f"but holds {size!r} of type {type(size).__name__}"
            refuse("normalized_shape", "a tuple of ints", found)


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    *,
    offset: float = 0.0,
    rounding: str = "once",
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Normalise ``input`` over its last dimensions, as ``torch.nn.functional.layer_norm`` does.

    ``weight`` and ``bias`` are each optional; they have the dtype of ``input`` or are float32, and
    may have a row for every head: shape ``[H, D]`` for ``input`` ``[..., H, D]``. The result has
    the dtype of ``input``; all arithmetic is in float32 (float64 for float64). ``offset``,
    ``rounding`` and ``dtype`` are as for :func:`rms_norm`; TorchScript has them in
    ``torch.ops.fusednorm.layer_norm_rounded``.

    >>> x = torch.tensor([[1.0, 2.0, 3.0]])
    >>> layer_norm(x, (3,), weight=torch.tensor([1.0, 10.0, 1.0]), eps=0.0)
    tensor([[-1.2247,  0.0000,  1.2247]])
    """
    try:
        if offset == 0.0 and rounding == "once" and dtype is None:
            return _layer_norm(input, normalized_shape, weight, bias, eps)
        return _layer_norm_rounded(
            input,
            normalized_shape,
            weight,
            bias,
            eps,
            offset=offset,
            rounding=rounding,
            dtype=dtype,
        )
    except RuntimeError:
        _check_types("layer_norm", locals())
        raise


def rms_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
    *,
    bias: Tensor | None = None,
    offset: float = 0.0,
    rounding: str = "once",
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Divide by the root of the mean square, as ``torch.nn.functional.rms_norm`` does.

    ``eps`` is the epsilon of the compute type where it is left out, whatever torch is installed.
    ``weight`` and ``bias`` have the dtype of ``input``, or float32 beside 16-bit input, or 16 bits
    beside float32 input. ``offset`` is added to ``weight`` in the compute type: 1 for weights that
    are stored around zero (Gemma). ``rounding`` says where values are rounded on the way to the
    result, and its dtype:

    - ``"once"``, at the end: the dtype of ``input``
    - ``"via_x"``, the normalised values to the dtype of ``input``, then their product with
      ``weight`` (Llama): the dtype that ``input`` and ``weight`` promote to
    - ``"via_param"``, the same with the dtype of ``weight`` (T5, apex): that of ``weight``

    ``dtype``, that of ``input`` or ``weight``, makes the result one of these.

    >>> rms_norm(torch.tensor([[3.0, 4.0]]), (2,), torch.tensor([0.0, 1.0]), offset=1.0)
    tensor([[0.8485, 2.2627]])
    """
    try:
        return _rms_norm(
            input,
            normalized_shape,
            weight,
            eps,
            bias,
            offset=offset,
            rounding=rounding,
            dtype=dtype,
        )
    except RuntimeError:
        _check_types("rms_norm", locals())
        raise


def add_rms_norm(
    input: Tensor,
    residual: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
    *,
    bias: Tensor | None = None,
    offset: float = 0.0,
    rounding: str = "once",
) -> tuple[Tensor, Tensor]:
    """Return ``rms_norm(input + residual)`` and the sum, in one pass over memory.

    ``residual`` has the dtype of ``input`` or is float32 beside 16-bit input. The sum has the dtype
    of ``residual`` and is normalised as it is stored: the bits are those of an addition followed by
    :func:`rms_norm`. The output has the dtype that ``rounding`` gives it for ``input``.

    >>> y, total = add_rms_norm(torch.tensor([[1.0, 4.0]]), torch.tensor([[2.0, 0.0]]), (2,))
    >>> y, total
    (tensor([[0.8485, 1.1314]]), tensor([[3., 4.]]))
    """
    try:
        return _add_rms_norm(
            input,
            residual,
            normalized_shape,
            weight,
            eps,
            bias,
            offset=offset,
            rounding=rounding,
        )
    except RuntimeError:
        _check_types("add_rms_norm", locals())
        raise


def add_rms_norm_(
    input: Tensor,
    residual: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
    *,
    bias: Tensor | None = None,
    offset: float = 0.0,
    rounding: str = "once",
) -> None:
    """Do as :func:`add_rms_norm` in place: ``input`` becomes the output, ``residual`` the sum.

    For inference: it has no derivative, and raises where one is needed.

    >>> x, residual = torch.tensor([[1.0, 4.0]]), torch.tensor([[2.0, 0.0]])
    >>> add_rms_norm_(x, residual, (2,))
    >>> x, residual
    (tensor([[0.8485, 1.1314]]), tensor([[3., 4.]]))
    """
    try:
        _add_rms_norm_(
            input,
            residual,
            normalized_shape,
            weight,
            eps,
            bias,
            offset=offset,
            rounding=rounding,
        )
    except RuntimeError:
        _check_types("add_rms_norm_", locals())
        raise


def add_layer_norm(
    input: Tensor,
    residual: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    *,
    offset: float = 0.0,
    rounding: str = "once",
) -> tuple[Tensor, Tensor]:
    """Return ``layer_norm(input + residual)`` and the sum, as :func:`add_rms_norm` does.

    >>> y, total = add_layer_norm(torch.tensor([[1.0, 4.0]]), torch.tensor([[2.0, 0.0]]), (2,))
    >>> total
    tensor([[3., 4.]])
    """
    try:
        return _add_layer_norm(
            input,
            residual,
            normalized_shape,
            weight,
            bias,
            eps,
            offset=offset,
            rounding=rounding,
        )
    except RuntimeError:
        _check_types("add_layer_norm", locals())
        raise


def add_layer_norm_(
    input: Tensor,
    residual: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    *,
    offset: float = 0.0,
    rounding: str = "once",
) -> None:
    """Do as :func:`add_layer_norm` in place; see :func:`add_rms_norm_`.

    >>> x, residual = torch.tensor([[1.0, 4.0]]), torch.tensor([[2.0, 0.0]])
    >>> add_layer_norm_(x, residual, (2,), eps=0.0)
    >>> x, residual
    (tensor([[-1.,  1.]]), tensor([[3., 4.]]))
    """
    try:
        _add_layer_norm_(
            input,
            residual,
            normalized_shape,
            weight,
            bias,
            eps,
            offset=offset,
            rounding=rounding,
        )
    except RuntimeError:
        _check_types("add_layer_norm_", locals())
        raise


# TorchScript knows no try: there each function is the operator itself.
for _function in (
    layer_norm,
    rms_norm,
    add_rms_norm,
    add_rms_norm_,
    add_layer_norm,
    add_layer_norm_,
):
    _register_builtin(_function, f"fusednorm::{_function.__name__}")


def memory_efficient_layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Do as :func:`layer_norm`, but keep the output for the backward pass instead of the input.

    Saves a copy of the activations where the output is kept anyway, as by a following linear layer,
    and the input is not. The backward pass divides by ``weight``: no element of it may be zero.

    >>> x = torch.randn(4, 8, requires_grad=True)
    >>> y = memory_efficient_layer_norm(x, (8,))
    >>> y.sum().backward()
    >>> x.grad.shape
    torch.Size([4, 8])
    """
    return _ops.layer_norm_memory_efficient_forward(input, normalized_shape, weight, bias, eps)[0]


def memory_efficient_rms_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
    *,
    bias: Tensor | None = None,
    offset: float = 0.0,
    rounding: str = "once",
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Do as :func:`rms_norm`, but keep the output for the backward pass instead of the input.

    The backward pass divides by ``weight + offset``: no element of it may be zero. After
    ``rounding`` other than ``"once"`` the gradients carry the roundings of the output.

    >>> x = torch.randn(4, 8, requires_grad=True)
    >>> y = memory_efficient_rms_norm(x, (8,), torch.zeros(8), offset=1.0)
    >>> y.sum().backward()
    >>> x.grad.shape
    torch.Size([4, 8])
    """
    return _ops.rms_norm_memory_efficient_forward(
        input,
        normalized_shape,
        weight,
        eps,
        bias,
        offset=offset,
        rounding=rounding,
        dtype=dtype,
    )[0]
