"""What the doctor says of torch and JAX in one process, for machines that are not this one."""

from __future__ import annotations

import pytest

from arrayferry.cli.accelerators import Accelerators, advice, lines, look

BOTH = Accelerators(("cuda:0",), ("cuda:0",), "12.8", "12", "91002")

ADVICE = [
    (Accelerators(), {}, ""),
    (BOTH, {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}, ""),
    (BOTH, {}, "JAX takes 75% of a GPU's memory"),
    (BOTH, {"XLA_CLIENT_MEM_FRACTION": ".4"}, "JAX takes 40% of a GPU's memory"),
    (BOTH, {"XLA_PYTHON_CLIENT_MEM_FRACTION": ".3"}, "JAX takes 30% of a GPU's memory"),
    (BOTH, {"XLA_PYTHON_CLIENT_ALLOCATOR": "platform"}, ""),
    (Accelerators(("cuda:0",)), {}, "Only torch sees an accelerator: install a build of JAX for it."),
    (
        Accelerators(jax=("cuda:0",)),
        {"CUDA_VISIBLE_DEVICES": ""},
        "install a build of torch for it; CUDA_VISIBLE_DEVICES=''.",
    ),
    (
        Accelerators(("cuda:0",), ("cuda:0", "cuda:1")),
        {},
        "They see different devices: set CUDA_VISIBLE_DEVICES",
    ),
    (Accelerators(("cuda:0",), ("cuda:0",), "12.8", "13"), {}, "different versions of CUDA"),
]


@pytest.mark.parametrize(("found", "environ", "hint"), ADVICE)
def test_advice(found, environ, hint):
    hints = [*advice(found, environ)]
    assert hint in " ".join(hints)
    assert bool(hints) == bool(hint)


def test_lines():
    assert [*lines(BOTH, {"XLA_PYTHON_CLIENT_PREALLOCATE": "0"})] == [
        "torch: cuda:0, built for CUDA 12.8, cuDNN 91002",
        "JAX: cuda:0, built for CUDA 12",
    ]


def test_this_machine(ferry):
    torch, jax = pytest.importorskip("torch"), pytest.importorskip("jax")
    found = look()
    if hasattr(torch, "accelerator"):
        assert bool(found.torch) == torch.accelerator.is_available()
    assert bool(found.jax) == (jax.default_backend() != "cpu")
    assert "\n".join(lines(found)) in ferry("doctor").out.replace("\n ", " ")
