# SPDX-License-Identifier: Apache-2.0
"""Sharding rules for DTensor: importing this module registers them with PyTorch.

Leading dimensions of the input may be sharded (data and sequence parallelism); the parameters are
replicated and their gradients come out as partial sums. Normalised dimensions are never sharded.

>>> import fusednorm.distributed  # then use DTensors with fusednorm as with any operator
"""

from collections.abc import Callable
from typing import Any

from torch._ops import OpOverload
from torch.distributed.tensor import Partial, Replicate, Shard
from torch.distributed.tensor.experimental import register_sharding

from fusednorm._operators import BACKWARD, FORWARD, bind

Strategies = list[tuple[list[Any], list[Any]]]

# Tensors with rows are sharded alike; every other tensor is replicated.
_ROWS = ("grad_out", "input", "output", "mean", "rstd")
_PARAMETERS = ("weight", "bias")


def _strategies(operator: OpOverload) -> Callable[..., Strategies]:
    """Return the rule: each strategy is the placements of the results and of the arguments."""

    def strategies(*values: Any) -> Strategies:
        arguments = bind(operator, values)

        def place(name: str, rows: Any) -> Any:
            if arguments[name] is None:
                return None
            return rows if name in _ROWS else Replicate() if name in _PARAMETERS else None

        def strategy(rows: Any, total: Any) -> tuple[list[Any], list[Any]]:
            inputs = [place(name, rows) for name in list(arguments)[: len(values)]]
            if "output_mask" not in arguments:
                return [rows] * len(operator._schema.returns), inputs
            wanted = arguments["output_mask"]
            outputs = [
                place if want else None
                for want, place in zip(wanted, (rows, total, total), strict=True)
            ]
            return outputs, inputs

        source = arguments["input" if "input" in arguments else "output"]
        leading = len(source.shape) - len(arguments["normalized_shape"])
        shards = [strategy(Shard(dim), Partial()) for dim in range(leading)]
        return [strategy(Replicate(), Replicate()), *shards]

    return strategies


for _operator in (*FORWARD, *BACKWARD):
    register_sharding(_operator)(_strategies(_operator))
