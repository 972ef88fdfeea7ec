"""Sharding rules for DTensor: importing this module registers them with PyTorch.

Leading dimensions of the input may be sharded (data and sequence parallelism); the parameters are
replicated and their gradients come out as partial sums. Normalised dimensions are never sharded.

>>> import fusednorm.distributed  # then use DTensors with fusednorm as with any operator
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.distributed.tensor import Partial, Replicate, Shard
from torch.distributed.tensor.experimental import register_sharding

_ops = torch.ops.fusednorm
Strategies = list[tuple[list[Any], list[Any]]]


def _strategies(
    input: Any,
    normalized_shape: Sequence[int],
    rule: Callable[[Any, Any], tuple[list[Any], list[Any]]],
) -> Strategies:
    """Apply ``rule(rows, sum)``: placements of what has rows, and of sums over rows."""
    leading = len(input.shape) - len(normalized_shape)
    shards = [rule(Shard(dim), Partial()) for dim in range(leading)]
    return [rule(Replicate(), Replicate()), *shards]


def _parameter(parameter: Any) -> Any:
    return None if parameter is None else Replicate()


def _forward(outputs: int) -> Callable[..., Strategies]:
    def strategies(
        input: Any,
        normalized_shape: Sequence[int],
        weight: Any = None,
        bias: Any = None,
        *rest: Any,
    ) -> Strategies:
        parameters = [_parameter(weight), _parameter(bias)]

        def rule(rows: Any, _: Any) -> tuple[list[Any], list[Any]]:
            return [rows] * outputs, [rows, None, *parameters, *([None] * len(rest))]

        return _strategies(input, normalized_shape, rule)

    return strategies


def _outputs(mask: Sequence[bool], rows: Any, total: Any) -> list[Any]:
    return [rows if mask[0] else None, *(total if wanted else None for wanted in mask[1:])]


def _backward(
    grad_out: Any,
    input: Any,
    normalized_shape: Sequence[int],
    mean: Any,
    rstd: Any,
    weight: Any,
    bias: Any,
    output_mask: Sequence[bool],
) -> Strategies:
    parameters = [_parameter(weight), _parameter(bias)]

    def rule(rows: Any, total: Any) -> tuple[list[Any], list[Any]]:
        inputs = [rows, rows, None, rows, rows, *parameters, None]
        return _outputs(output_mask, rows, total), inputs

    return _strategies(input, normalized_shape, rule)


def _memory_efficient_backward(
    grad_out: Any,
    output: Any,
    normalized_shape: Sequence[int],
    rstd: Any,
    weight: Any,
    bias: Any,
    output_mask: Sequence[bool],
    *rest: Any,
) -> Strategies:
    parameters = [_parameter(weight), _parameter(bias)]

    def rule(rows: Any, total: Any) -> tuple[list[Any], list[Any]]:
        inputs = [rows, rows, None, rows, *parameters, None, *([None] * len(rest))]
        return _outputs(output_mask, rows, total), inputs

    return _strategies(output, normalized_shape, rule)


register_sharding(_ops.layer_norm.default)(_forward(1))
register_sharding(_ops.layer_norm_forward.default)(_forward(3))
register_sharding(_ops.layer_norm_memory_efficient_forward.default)(_forward(2))
register_sharding(_ops.layer_norm_backward.default)(_backward)
register_sharding(_ops.layer_norm_memory_efficient_backward.default)(_memory_efficient_backward)
