"""Tensors without values, or without one array of them, are refused with what to call instead."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest
from gymnasium import spaces

from arrayferry import Converter, convert
from arrayferry._core.speedups import speedups
from arrayferry._frameworks import torch as torch_file
from arrayferry.errors import FerryError, UnsupportedError
from arrayferry.spaces import member_caster
from frameworks.refused import refused, targets


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@targets
@pytest.mark.filterwarnings("ignore:Sparse.*beta state")
def test_sparse_tensor(torch, target):
    for layout in "coo", "csr":
        tensor = getattr(torch.eye(2), f"to_sparse_{layout}", torch.eye(2).to_sparse)()
        refused(tensor, target, f"torch.sparse_{layout}", ".to_dense()")


@targets
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_nested_tensor(torch, target):
    parts = [torch.zeros(2), torch.zeros(3)]
    refused(torch.nested.nested_tensor(parts), target, "nested", ".unbind()")
    jagged = torch.nested.nested_tensor(parts, layout=torch.jagged)
    refused(jagged, target)


@targets
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_quantized_tensor(torch, target):
    tensor = torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.quint8)
    refused(tensor, target, "quantized", ".dequantize()")


@targets
def test_meta_tensor(torch, target):
    refused(torch.zeros(2, device="meta"), target, "meta", "no values")


@targets
def test_mkldnn_tensor(torch, target):
    refused(torch.zeros(2, 2).to_mkldnn(), target, "mkldnn", ".to_dense()")


def test_an_action_in_freed_memory_is_refused(run_python):
    pytest.importorskip("torch")
    printed = run_python(
        "import arrayferry, gymnasium, torch\n"
        "env = arrayferry.wrap(gymnasium.make('CartPole-v1'), 'torch')\n"
        "env.reset()\n"
        "actions = torch.ones(4, dtype=torch.int64)\n"
        "for action in actions[1], actions[0]:\n"
        "    actions.untyped_storage().resize_(0)\n"  # torch's own `item()` ends the process
        "    try: env.step(action)\n"
        "    except TypeError: print('refused')\n"
    )
    assert printed == "refused\n" * 2


@targets
def test_fake_tensor(torch, target):
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        tensor = torch.zeros(2)
    refused(tensor, target, "FakeTensor")


@targets
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_tensor_in_fake_tensor_mode(torch, target, dtype):
    from torch._subclasses.fake_tensor import FakeTensorMode

    tensor = torch.arange(3).to(getattr(torch, dtype))
    # Refused, or read from its own memory: `numpy()` shows memory that nobody has written to.
    with FakeTensorMode(allow_non_fake_inputs=True), suppress(FerryError):
        [result] = convert([tensor], target)
        assert [float(x) for x in result] == [0, 1, 2]
    assert convert(tensor, "numpy").tolist() == [0, 1, 2]


@targets
def test_subclass_that_dispatches(torch, target):
    class Wrapper(torch.Tensor):
        @staticmethod
        def __new__(cls, inner):
            return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            raise NotImplementedError(str(func))

    refused(Wrapper(torch.ones(2)), target, "Wrapper", "convert what it wraps")


@targets
@pytest.mark.filterwarnings("ignore:The PyTorch API of MaskedTensors")
def test_masked_tensor(torch, target):
    from torch.masked import masked_tensor

    refused(masked_tensor(torch.ones(2), torch.tensor([True, False])), target, "MaskedTensor")


@targets
@pytest.mark.parametrize("transform", ["vmap", "grad", "functionalize"])
def test_tensor_inside_a_transform(torch, target, transform):
    seen = []

    def look(x):
        try:
            convert({"x": x}, target)
        except UnsupportedError as error:
            seen.append(error.where)
        return x.sum()

    getattr(torch.func, transform)(look)(torch.ones(2))
    assert seen == ['value["x"]']


@targets
def test_plain_subclass_is_an_array(torch, target):
    class Named(torch.Tensor):
        pass

    for tensor in torch.ones(2).as_subclass(Named), torch.nn.Parameter(torch.ones(2)):
        assert [float(x) for x in convert(tensor, target)] == [1, 1]


@targets
def test_gradient_conjugate_and_negative_bit_are_resolved(torch, target):
    attached = torch.ones(2, requires_grad=True) * 2
    result = convert(attached, target)
    assert [float(x) for x in result] == [2, 2]
    assert not getattr(result, "requires_grad", False)
    conjugate = torch.tensor([1 + 2j, 3 - 4j]).conj()
    assert conjugate.is_conj()
    assert [complex(x) for x in convert(conjugate, target)] == [1 - 2j, 3 + 4j]
    negative = conjugate.imag
    assert negative.is_neg()
    assert [float(x) for x in convert(negative, target)] == [-2, 4]
    whole = torch._neg_view(torch.arange(3))
    assert whole.is_neg()
    assert [int(x) for x in convert(whole, target)] == [0, -1, -2]


def test_an_action_with_the_negative_bit_is_resolved(torch):
    space = spaces.Discrete(5, start=-2)
    action = torch._neg_view(torch.tensor(2))
    assert member_caster(space, Converter("numpy"))(action) == -2


def test_tensor_made_in_inference_mode_can_be_trained_on(torch):
    weight = torch.ones(2, requires_grad=True)
    with torch.inference_mode():
        inside = torch.ones(2)
        results = [convert(value, "torch") for value in (np.ones(2, "f4"), inside, [1.0])]
    results.append(convert(inside, "torch"))
    for result in results:
        tensor = result[0] if isinstance(result, list) else result
        assert not tensor.is_inference()
        (weight * tensor).sum().backward()


def test_torch_default_device_is_not_followed(torch):
    with torch.device("meta"):
        results = [
            convert(value, "torch") for value in (1.5, np.ones(2), np.float32(1), torch.ones(1, device="cpu"))
        ]
    assert [result.device.type for result in results] == ["cpu"] * 4


def test_view_into_a_shrunk_storage_is_refused(run_python):
    pytest.importorskip("torch")
    printed = run_python(
        "import torch, arrayferry\n"
        "t = torch.zeros(50_000_000)[-4:]; t.untyped_storage().resize_(4096)\n"
        "try: arrayferry.convert(t, 'numpy')\n"
        "except TypeError: print('refused')\n"
    )
    assert printed == "refused\n"


def test_private_function_that_counts_modes_is_there(torch):
    """Without it, tensors are made by `torch.from_numpy`, which is slower."""
    if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
        pytest.skip("torch before 2.10")
    from torch._subclasses.fake_tensor import FakeTensorMode

    assert torch._C._len_torch_dispatch_stack() == 0
    with FakeTensorMode():
        assert torch._C._len_torch_dispatch_stack() == 1


def test_plain_tensors_are_copied_within_torch_by_the_walk_in_c(torch, monkeypatch):
    """And what it is in doubt about, by torch: other strides and dtypes, lazy values, no values."""
    if speedups is None:
        pytest.skip("the part in C is not built, or switched off")
    calls = []
    monkeypatch.setattr(torch_file, "copy_to", lambda *arguments: calls.append(arguments))
    to_torch = Converter("torch")
    plain = [
        torch.ones(2, 3),
        torch.arange(4),
        torch.tensor(True),
        torch.ones(3, requires_grad=True),
    ]
    for tensor in plain:
        copy = to_torch(tensor)
        assert torch.equal(copy, tensor)
        assert copy.dtype == tensor.dtype
        assert not copy.requires_grad
        assert copy.data_ptr() != tensor.data_ptr()
    assert calls == []
    conjugate = torch.ones(2, dtype=torch.complex64).conj()
    for tensor in torch.ones(2, 3).T, torch.ones(2).bfloat16(), conjugate, torch.ones(0, 2):
        assert to_torch(tensor) is tensor  # kept: the stand-in returns None
    assert len(calls) == 4
    Converter("torch", dtypes={"float32": "float64"})(torch.ones(2))
    Converter("torch", copy=False)(torch.ones(2))
    assert len(calls) == 5
