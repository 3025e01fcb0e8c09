"""What `torch.compile` is told: to call our functions, and what they call, instead of tracing them.

It is what `torch.compiler.disable` does, without importing the compiler, which takes seconds, and without a
wrapper around each call. Torch has no public function for that; where the private one is missing, there are
more graph breaks, and nothing else is different.
"""

from __future__ import annotations

from contextlib import suppress

from arrayferry._core.eager import FUNCTIONS

_REASON = "arrayferry converts outside of graphs; compile the code around it: see its page Devices"


def break_graphs() -> None:
    """Make each call of an eager function one graph break; with `fullgraph=True`, an error that says why."""
    for function in FUNCTIONS:
        if "_torchdynamo_disable" not in vars(function):
            vars(function).update(_torchdynamo_disable=True, _torchdynamo_disable_msg=_REASON)
            with suppress(ImportError, AttributeError):  # torch before 2.7
                from torch._C._dynamo import eval_frame

                skip = eval_frame._FrameAction.SKIP  # its own frame, and those of what it calls
                strategy = eval_frame._FrameExecStrategy(skip, skip)
                eval_frame.set_code_exec_strategy(function.__code__, strategy)
