# SPDX-License-Identifier: Apache-2.0
"""How many bytes a contestant moves, and in how many steps.

PyTorch's dispatcher shows every operator with its tensors. An operator is taken to read each of its
inputs once and to write each of its outputs once; views cost nothing, a broadcast tensor counts as
stored. That is a floor: an operator that passes over an input twice inside moves more. For
torch.compile the compiler's own count of what its kernels read and write is taken.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from fusednorm.measure.quiet import no_cuda_remarks

# Whose kernels the dispatcher sees; the others call theirs behind its back.
DISPATCHED = ("2019", "native", "unfused", "fusednorm")


@dataclass
class Traffic:
    """Bytes read and written, and the operators or kernels that did it."""

    bytes: int = 0
    operators: int = 0


def _stored_bytes(tensor: Tensor) -> int:
    elements = 1
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        elements *= size if stride else min(size, 1)
    return elements * tensor.element_size()


def _tensors(tree: Any) -> dict[int, Tensor]:
    """Return each memory once, however often it is passed."""
    return {t.data_ptr(): t for t in tree_leaves(tree) if isinstance(t, Tensor)}


class _Counter(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.traffic = Traffic()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        outputs = func(*args, **kwargs)
        schema = func._schema
        view = any(r.alias_info is not None and not r.alias_info.is_write for r in schema.returns)
        read = _tensors((args, kwargs))
        if not view and read and "empty" not in schema.name:
            written = _tensors(outputs)
            self.traffic.bytes += sum(map(_stored_bytes, [*read.values(), *written.values()]))
            self.traffic.operators += 1
        return outputs


def dispatched(action: Any) -> Traffic:
    """Count one call of ``action``."""
    with _Counter() as counter:
        action()
    return counter.traffic


@contextmanager
def compiled() -> Iterator[Traffic]:
    """Count what the compiler generates inside; zeros where this torch does not tell.

    The compiler counts only while its log of metrics is on, and caches its answers.
    """
    traffic = Traffic()
    try:
        import torch._functorch.config as functorch
        import torch._inductor.config as inductor
        from torch._inductor import compile_fx, metrics

        log: logging.Logger = compile_fx.inductor_metrics_log
        # Without its cache the compiler counts anew; named kernels are rows of a profile.
        caches = inductor.patch({"fx_graph_cache": False, "cpp.enable_kernel_profile": True})
        # A backward pass that is repeated must not overwrite what it reads.
        kept = functorch.patch(enable_autograd_cache=False, donated_buffer=False)
    except (ImportError, AttributeError):
        yield traffic
        return
    no_cuda_remarks()
    before = (log.level, log.propagate)
    silence = logging.NullHandler()
    log.addHandler(silence)
    log.setLevel(logging.INFO)
    log.propagate = False
    handlers, log.handlers = log.handlers, [silence]
    metrics.reset()
    try:
        with caches, kept:
            yield traffic
        traffic.bytes = int(metrics.num_bytes_accessed)
    finally:
        log.handlers = [h for h in handlers if h is not silence]
        log.level, log.propagate = before


def kernels_launched(action: Any) -> int:
    """Count the kernels of one call on the CUDA device."""
    from torch.profiler import ProfilerActivity, profile

    from fusednorm.measure.quiet import stderr_closed

    with (
        stderr_closed(),
        profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler,
    ):
        action()
        torch.cuda.synchronize()
    return sum(
        1
        for event in profiler.events()
        if event.device_type == torch.autograd.DeviceType.CUDA and not event.name.startswith("Mem")
    )
