# SPDX-License-Identifier: Apache-2.0
"""What newer releases of PyTorch have and older ones lack, as far as a test asks for it.

Types and operators are asked, not versions. A test without its feature is skipped with the name of
it, or expects what PyTorch does without; results of fusednorm's own depend on none of them.
"""

import pytest
import torch

# Before it, native rms_norm was a chain of operators: in 16-bit each of them rounds, and autocast
# treats each by its own rule. convert gives a module the behaviour that it has, so there another.
NATIVE_RMS_NORM_IS_ONE_OPERATOR = hasattr(torch.ops.aten, "_fused_rms_norm")


def needs_events_of_cpu_streams() -> None:
    """Skip a test of FSDP2 on the CPU where it fails inside PyTorch (2.6)."""
    if not hasattr(torch.cpu.Stream, "record_event"):
        pytest.skip("fully_shard on the CPU needs torch.cpu.Stream.record_event, not in this torch")


def needs_dtensor_for_operators_without_results() -> None:
    """Skip an in-place operator on DTensors where PyTorch reads its first result (2.6)."""
    from torch.distributed.tensor._op_schema import OpSchema

    try:
        OpSchema(torch.ops.aten._foreach_zero_.default, (), {}).return_type_tensor()
    except IndexError:
        pytest.skip("DTensor of this torch refuses operators that return nothing (add_rms_norm_)")
    except AttributeError:
        pass  # a newer torch asks in another way


def needs_the_flag_of_exports() -> None:
    """Skip compiling a model of transformers where its masks ask what this PyTorch lacks (2.6)."""
    if not hasattr(torch.compiler, "is_exporting"):
        pytest.skip("compiled transformers need torch.compiler.is_exporting, not in this torch")
