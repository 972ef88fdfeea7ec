# SPDX-License-Identifier: Apache-2.0
"""Sharding rules for DTensor: importing this module registers them with PyTorch.

Leading dimensions of the input may be sharded (data and sequence parallelism); the parameters are
replicated and their gradients come out as partial sums. Where every head has its own parameters
(weight ``[H, D]`` for input ``[..., H, D]``) the heads may be sharded, and the parameters and their
gradients with them. Normalised dimensions are never sharded.

>>> import fusednorm.distributed  # then use DTensors with fusednorm as with any operator
"""

from collections.abc import Callable
from typing import Any

from torch._ops import OpOverload
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor._op_schema import RuntimeSchemaInfo
from torch.distributed.tensor.experimental import register_sharding

from fusednorm._operators import BACKWARD, FORWARD, IN_PLACE, bind, saved_name

Strategies = list[tuple[list[Any], list[Any]]]

# Tensors with rows are sharded alike.
_ROWS = ("grad_out", "grad_sum", "input", "residual", "sum", "output", "mean", "rstd")
_PARAMETERS = ("weight", "bias")


def _strategies(operator: OpOverload) -> Callable[..., Strategies]:
    """Return the rule: each strategy is the placements of the results and of the arguments."""

    def strategies(*values: Any, **named: Any) -> Strategies:
        arguments = bind(operator, values, **named)
        given = [*list(arguments)[: len(values)], *named]
        saved = arguments[saved_name(arguments)]
        leading = len(saved.shape) - len(arguments["normalized_shape"])
        parameters = [arguments[name] for name in _PARAMETERS if arguments[name] is not None]
        # The first dimension that the parameters have too: a head.
        heads = len(saved.shape) - len(parameters[0].shape) if parameters else leading

        def strategy(rows: Any, parameter: Any, total: Any) -> tuple[list[Any], list[Any]]:
            placements = dict.fromkeys(_ROWS, rows) | dict.fromkeys(_PARAMETERS, parameter)
            inputs = [None if arguments[name] is None else placements.get(name) for name in given]
            if "output_mask" not in arguments:
                return [rows] * len(operator._schema.returns), inputs
            wanted = arguments["output_mask"]
            gradients = [*[rows] * (len(wanted) - 2), total, total]
            return [
                gradient if want else None for want, gradient in zip(wanted, gradients, strict=True)
            ], inputs

        shards = [
            strategy(Shard(dim), Replicate(), Partial())
            if dim < heads
            else strategy(Shard(dim), Shard(dim - heads), Shard(dim - heads))
            for dim in range(leading)
        ]
        return [strategy(Replicate(), Replicate(), Replicate()), *shards]

    return strategies


def _register(operator: OpOverload) -> None:
    """Register the rule, and that every argument which is no tensor belongs to DTensor's cache key.

    PyTorch's own choice of that key knows only ``int`` arguments; a placement found for one
    normalized_shape, output_mask or rounding would be reused for another.
    """
    register_sharding(operator)(_strategies(operator))
    arguments = operator._schema.arguments
    first = next(i for i, argument in enumerate(arguments) if argument.name == "normalized_shape")
    named = [argument.name for argument in arguments if argument.kwarg_only]
    information = RuntimeSchemaInfo(first, named or None, needs_pytree=True)
    DTensor._op_dispatcher.sharding_propagator.op_to_schema_info[operator] = information


for _operator in (*FORWARD, *IN_PLACE, *BACKWARD):
    _register(_operator)
