"""What fails on a device is an error with its path; nothing takes another way in silence."""

from __future__ import annotations

import gc
from dataclasses import dataclass

import numpy as np
import pytest
import torch

import arrayferry
from arrayferry import Converter, convert
from arrayferry._core import convert as convert_module
from arrayferry._core import holds
from arrayferry.errors import SharingError, TransferError, UnsupportedError
from late_device.dlpack_framework import Toy

pytestmark = pytest.mark.late


@pytest.fixture(params=["C", "Python"])
def _walk(request, monkeypatch):
    if request.param == "Python":
        monkeypatch.setattr(convert_module, "speedups", None)


WAYS = [("late:0", "torch", "late:0"), ("late:0", "torch", "late:1"), ("cpu", "torch", "late:0")]
WAYS += [("numpy", "torch", "late:0"), ("late:0", "numpy", None), ("late:0", "torch", "cpu")]


def arrays(where):
    values = np.arange(4, dtype=np.float32)
    made = values if where == "numpy" else torch.from_numpy(values).to(where)
    return {"x": [1, {"y": made}]}


@pytest.mark.usefixtures("_walk")
@pytest.mark.parametrize(("source", "to", "device"), WAYS)
def test_lost_device(late, source, to, device):
    value, converter = arrays(source), Converter(to, device)
    late.library().late_set_lost(1)
    with pytest.raises(TransferError, match=r"^value.*is lost"):
        converter(value)
    late.library().late_set_lost(0)
    converter(value)  # nothing of the failure is left


@pytest.mark.usefixtures("_walk")
@pytest.mark.parametrize(("source", "to", "device"), [way for way in WAYS if str(way[2]).startswith("late")])
def test_full_device(late, source, to, device):
    value, converter = arrays(source), Converter(to, device)
    late.library().late_limit_allocations(0)
    with pytest.raises(TransferError, match=r'^value\["x"\]\[0\]: .*out of memory') as caught:
        converter(value)
    assert isinstance(caught.value.__cause__, torch.OutOfMemoryError)
    late.reset()
    found = converter(value)["x"][1]["y"]
    late.run_all()
    assert late.peek(found).tolist() == [0, 1, 2, 3]


@pytest.mark.usefixtures("_walk")
def test_device_that_is_full_at_the_end_of_the_walk(late):
    values, converter = {"x": np.ones(2), "y": np.ones(2)}, Converter("torch", "late:0")
    late.library().late_limit_allocations(2)  # for the arrays, but not for what is sent
    with pytest.raises(TransferError, match=r"^value: in a transfer of 2: .*out of memory"):
        converter(values)


@pytest.mark.usefixtures("_walk")
@pytest.mark.parametrize(("source", "to", "device"), WAYS)
def test_graph_capture_is_refused(late, source, to, device):
    value = arrays(source)
    late.library().late_set_capturing(1)
    with pytest.raises(UnsupportedError, match=r"a graph is being captured on late:.") as caught:
        convert(value, to, device)
    assert "outside" in caught.value.hint
    assert convert(np.ones(1), "torch").tolist() == [1]  # which has no part in it


OTHER_WAYS = [("bfloat16", "numpy", {}), ("float64", "numpy", {"float64": "float32"}), ("int64", "dask", {})]


@pytest.mark.parametrize(("dtype", "to", "dtypes"), [*OTHER_WAYS, ("uint8", "toy", {})])
@pytest.mark.parametrize("copy", [None, False])
def test_graph_capture_is_refused_on_all_ways(late, dtype, to, dtypes, copy):
    arrayferry.register_framework(Toy(immutable=False), replace=True)
    value = torch.ones(3, dtype=getattr(torch, dtype), device="late")
    late.library().late_set_capturing(1)
    with pytest.raises((UnsupportedError, SharingError)) as caught, late.counting() as during:
        convert(value, to, dtypes=dtypes, copy=copy)
    assert isinstance(caught.value, SharingError) or "a graph is being captured" in caught.value.what
    assert during["kernels"] == during["waits"] == 0


@pytest.mark.usefixtures("_walk")
def test_what_came_before_an_error_is_finished(late):
    value = [torch.ones(3, device="late"), torch.ones(3).to_sparse()]
    for _ in range(3):
        with pytest.raises(UnsupportedError, match=r"value\[1\]"):
            convert(value, "numpy")
    found = convert(value[:1], "numpy")[0]
    assert found.tolist() == [1, 1, 1]
    for to in "late:0", "late:1":
        with pytest.raises(UnsupportedError, match=r"value\[1\]"):
            convert([np.ones(3), torch.ones(3).to_sparse()], "torch", to)
        found = convert([np.ones(3), np.zeros(2)], "torch", to)
        late.run_all()
        assert late.peek(found[0]).tolist() == [1, 1, 1]


@dataclass
class Computes:
    """Computes with its arrays when it is made, as anybody's code may."""

    x: object
    y: object = 1
    total: object = None

    def __post_init__(self):
        self.total = self.x.sum()


@pytest.mark.usefixtures("_walk")
@pytest.mark.parametrize(("source", "to", "device"), WAYS)
def test_code_of_containers_sees_complete_arrays(late, source, to, device):
    value = Computes(arrays(source)["x"][1]["y"], {"z": arrays(source)["x"][1]["y"]})
    found = convert({"a": value, "b": value.x}, to, device)
    late.run_all()
    totals = [found["a"].total]
    assert [float(late.peek(each)) if str(device).startswith("late") else float(each) for each in totals] == [
        6
    ]


@pytest.mark.usefixtures("_walk")
def test_registered_functions_see_complete_arrays(late):
    class Reading:
        def __init__(self, values):
            self.values = values

    seen = []

    def convert_reading(reading, converter):
        seen.append(float(converter(reading.values).sum()))
        return seen[-1]

    arrayferry.register_leaf(Reading, convert_reading)
    value = [torch.ones(3, device="late"), Reading(torch.ones(4, device="late"))]
    assert convert(value, "numpy")[0].tolist() == [1, 1, 1]
    assert seen == [4]


def test_memory_is_not_shared_between_devices(late):
    x = torch.ones(3, device="late:1")
    assert convert(x, "torch", "late:1", copy=False) is x
    for to, device in ("torch", "late:0"), ("torch", "cpu"), ("numpy", None), ("torch", "late"):
        with pytest.raises(SharingError):
            convert(x, to, device, copy=False)
    with pytest.raises(SharingError):
        convert(np.ones(3), "torch", "late", copy=False)


def test_what_is_held_is_dropped_at_the_next_step(late):
    source = torch.ones(3, device="late")
    convert(source, "torch", "late")
    late.run_all()
    count = len(gc.get_referrers(source))
    convert(torch.ones(1, device="late"), "torch", "late")
    assert len(gc.get_referrers(source)) < count
    assert len(holds._holds) == 1


DTYPES = ["bool", "uint8", "int16", "int64", "float16", "float64", "complex64", "bfloat16", "float8_e4m3fn"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3)])
def test_values_there_and_back(late, dtype, shape):
    values = torch.arange(6.0)[: int(np.prod(shape))].reshape(shape).to(getattr(torch, dtype))
    host = convert(values, "numpy")
    for source in values, host, values.to("late:1"):
        there = convert([source, source], "torch", "late:0")[1]
        late.run_all()
        assert there.dtype == values.dtype
        for found in convert(there, "torch", "cpu"), convert(convert(there, "numpy"), "torch"):
            assert found.shape == values.shape
            assert (
                torch.equal(found.float(), values.float())
                if dtype != "complex64"
                else torch.equal(found, values)
            )


def test_odd_layouts(late):
    base = np.arange(24, dtype=">f4").reshape(4, 6)
    for array in (
        base,
        base[::-1],
        base[:, ::2],
        base.T,
        base.astype("<f8")[1:, 1:],
        base[0].view(np.recarray),
    ):
        found = convert({"x": array}, "torch", "late")["x"]
        array = np.array(array)
        late.run_all()
        assert late.peek(found).tolist() == array.tolist()
    values = torch.arange(6.0).reshape(2, 3)
    there = values.to("late")
    odd = [
        (there.t(), values.t()),
        (there[:, ::2], values[:, ::2]),
        (there.expand(2, 2, 3), values.expand(2, 2, 3)),
    ]
    for tensor, wanted in odd:
        assert convert(tensor, "numpy").tolist() == wanted.tolist()
        assert convert(tensor, "torch", "late:1").cpu().tolist() == wanted.tolist()
    z = torch.tensor([1 + 2j, 3 - 1j])
    for lazy in (lambda x: x.conj(), lambda x: x.conj().imag):
        assert (
            convert(lazy(z.to("late")), "numpy").tolist()
            == lazy(z).resolve_conj().resolve_neg().numpy().tolist()
        )
        assert convert(lazy(z), "torch", "late").cpu().tolist() == lazy(z).tolist()


def test_bools_that_are_no_zero_or_one(late):
    found = convert(np.array([0, 1, 2, 255], np.uint8).view(bool), "torch", "late")
    late.run_all()
    assert late.peek(found).view(torch.uint8).tolist() == [0, 1, 1, 1]


def test_casts(late):
    x = torch.tensor([1.5, 2.5], dtype=torch.float64)
    for source in x, x.numpy(), x.to("late"):
        for to, device in ("torch", "late"), ("numpy", None), ("torch", "cpu"):
            found = convert(source, to, device, dtypes={"float64": "float32"})
            assert str(found.dtype).endswith("float32")
            assert convert(found, "numpy").tolist() == [1.5, 2.5]


@pytest.mark.usefixtures("_walk")
@pytest.mark.parametrize(("source", "to", "device"), WAYS)
def test_default_device_of_torch_changes_nothing(late, source, to, device):
    with torch.device("late:1"):
        found = convert([arrays(source)["x"][1]["y"]] * 2, to, device)[1]
    late.run_all()
    assert (late.peek(found) if str(device).startswith("late") else found).tolist() == [0, 1, 2, 3]
    if to == "torch":
        assert str(found.device) == device


def test_gradients_and_inference_mode(late):
    x = torch.ones(3, device="late", requires_grad=True)
    for found in convert(x, "torch", "late:1"), convert(x, "torch", "cpu"), convert(x.cpu(), "torch", "late"):
        assert not found.requires_grad
    with torch.inference_mode():
        found = [convert(source, "torch", "late") for source in (np.ones(3, "f"), x, torch.ones(3))]
    for tensor in found:
        (tensor.requires_grad_() * 2).sum().backward()
        assert tensor.grad.cpu().tolist() == [2, 2, 2]
