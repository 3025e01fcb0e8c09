"""Values that break converters, and what becomes of each: the table behind R4 and R10, and of the docs."""

from __future__ import annotations

import array
import ctypes
import mmap
import os
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from multiprocessing.shared_memory import SharedMemory
from typing import Any

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=2")  # for sharded arrays

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import torch

TARGETS = ("numpy", "torch", "jax")

# What may become of a value: an array of the target; the same object; an error.
ARRAY, SAME, REFUSED = "an array", "left alone", "refused"


@dataclass(frozen=True)
class Input:
    """A value, and what becomes of it.

    Attributes:
        make: makes it; or, with `inside`, uses it: `(use)` calls `use` with the value where it exists.
        becomes: one of the three.
        but: what becomes of it in single targets.
        inside: whether it exists only inside of a transform.
        on_two_devices: whether JAX needs two devices, which this file asks for if it is imported in time.
    """

    make: Callable[..., Any]
    becomes: str = ARRAY
    but: dict[str, str] = field(default_factory=dict)
    inside: bool = False
    on_two_devices: bool = False

    def outcome(self, target: str) -> str:
        """What becomes of it in a target."""
        return self.but.get(target, self.becomes)

    def use(self, use: Callable[[Any], Any]) -> None:
        """Call `use` with the value."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # some of these are said to be in beta
            self.make(use) if self.inside else use(self.make())


F4 = np.arange(6, dtype="float32").reshape(2, 3)
NOT_IN_JAX = {"jax": REFUSED}
OWN = {"numpy": ARRAY}  # NumPy holds all of its own dtypes


def _in_file(mode: str) -> Any:
    with tempfile.NamedTemporaryFile() as file:
        np.save(file, F4)
        file.flush()
        return np.load(file.name, mmap_mode=mode)


def _in_shared_memory() -> Any:
    memory = SharedMemory(create=True, size=F4.nbytes)
    memory.unlink()
    shared = type("Shared", (np.ndarray,), {"memory": memory})(F4.shape, F4.dtype, memory.buf)
    shared[...] = F4
    return shared


def _read_only(values: Any) -> Any:
    values.flags.writeable = False
    return values


def _objects(*values: Any) -> Any:
    found = np.empty(len(values), object)
    found[:] = values
    return found


LAID_OUT = {
    "negative stride": Input(lambda: F4[0, ::-1]),
    "negative strides in both dimensions": Input(lambda: F4[::-1, ::-1]),
    "negative stride, one element": Input(lambda: F4[0, :1][::-1]),
    "every second element": Input(lambda: F4[:, ::2]),
    "broadcast": Input(lambda: np.broadcast_to(F4[0], (4, 3))),
    "overlapping": Input(lambda: np.lib.stride_tricks.as_strided(F4.copy(), (3, 2), (4, 4), writeable=True)),
    "transposed": Input(lambda: F4.T),
    "Fortran order": Input(lambda: np.asfortranarray(F4)),
    "channels moved to the front": Input(lambda: np.zeros((4, 5, 3), "uint8").transpose(2, 0, 1)),
    "read-only": Input(lambda: _read_only(F4.copy())),
    "np.memmap, mode r": Input(lambda: _in_file("r")),
    "np.memmap, mode r+": Input(lambda: _in_file("r+")),
    "np.memmap, mode c": Input(lambda: _in_file("c")),
    "mmap": Input(lambda: np.frombuffer(mmap.mmap(-1, 64), "float32")),
    "SharedMemory": Input(_in_shared_memory),
    "ctypes memory": Input(lambda: np.ctypeslib.as_array((ctypes.c_float * 4)(1, 2, 3, 4))),
    "bytes": Input(lambda: np.frombuffer(bytes(16), "float32")),
    "no elements": Input(lambda: np.zeros((0, 3), "float32")),
    "no elements, read-only": Input(lambda: _read_only(np.zeros((3, 0), "float32"))),
    "no elements, huge strides": Input(lambda: np.zeros((0, 1 << 40), "float32").T),
    "0-d": Input(lambda: np.array(1.5, "float32")),
    "32 dimensions": Input(lambda: np.zeros((1,) * 32, "float32")),
    "field of a record": Input(lambda: np.zeros(3, [("a", "u1"), ("b", "f4")])["b"]),
    "elements not aligned": Input(lambda: np.frombuffer(bytearray(17), "uint8")[1:].view("float32")),
    "bool with other bytes than 0 and 1": Input(lambda: np.array([0, 1, 2, 255], "uint8").view(bool)),
    "NaN with a payload": Input(lambda: np.array([0x7FC12345, 0xFFC00001], "uint32").view("float32")),
    "minus zero and denormals": Input(lambda: np.array([-0.0, 1e-45], "float32")),
    "np.matrix": Input(lambda: np.asmatrix(F4)),
    "subclass of np.ndarray": Input(lambda: F4.view(type("Logged", (np.ndarray,), {}))),
    "inside a list in an object array": Input(lambda: _objects([F4], {"x": F4})[0][0]),
}

OF_DTYPE = {
    "big-endian float32": Input(lambda: F4.astype(">f4")),
    "big-endian int16": Input(lambda: F4.astype(">i2")),
    "uint16": Input(lambda: F4.astype("uint16")),
    "uint32": Input(lambda: np.array([2**32 - 1], "uint32")),
    "float16": Input(lambda: F4.astype("float16")),
    "complex64": Input(lambda: F4 * np.complex64(1j)),
    "longlong": Input(lambda: np.arange(3, dtype=np.longlong)),
    "bfloat16": Input(lambda: F4.astype(ml_dtypes.bfloat16)),
    "float8_e4m3fn": Input(lambda: F4.astype(ml_dtypes.float8_e4m3fn)),
    "float8_e5m2": Input(lambda: F4.astype(ml_dtypes.float8_e5m2)),
    "int64 that fits in 32 bits": Input(lambda: np.arange(3, dtype="int64")),
    "int64, 2**40": Input(lambda: np.array([2**40]), but=NOT_IN_JAX),
    "int64, -2**31 - 1": Input(lambda: np.array([-(2**31) - 1]), but=NOT_IN_JAX),
    "uint64, 2**63 + 5": Input(lambda: np.array([2**63 + 5], "uint64"), but=NOT_IN_JAX),
    "float64 that is rounded": Input(lambda: np.array([0.1])),
    "float64, 1e300": Input(lambda: np.array([1e300]), but=NOT_IN_JAX),
    "complex128, 1e300j": Input(lambda: np.array([1e300j]), but=NOT_IN_JAX),
    "int4": Input(lambda: np.arange(3).astype(ml_dtypes.int4), SAME, {"jax": ARRAY, **OWN}),
    "longdouble": Input(lambda: np.ones(2, "longdouble"), SAME, OWN),
    "clongdouble": Input(lambda: np.ones(2, "clongdouble"), SAME, OWN),
    "datetime64": Input(lambda: np.array(["2026-01-01"], "M8[D]"), SAME, OWN),
    "timedelta64": Input(lambda: np.array([5], "m8[s]"), SAME, OWN),
    "text": Input(lambda: np.array(["a", "bc"]), SAME, OWN),
    "bytes text": Input(lambda: np.array([b"a"]), SAME, OWN),
    "StringDType": Input(lambda: np.array(["a"], np.dtypes.StringDType()), SAME, OWN),
    "structured": Input(lambda: np.zeros(2, "i4,f8"), SAME, OWN),
    "recarray": Input(lambda: np.rec.array([(1, 2.0)], dtype="i4,f8"), SAME, {"numpy": "a recarray"}),
    "void": Input(lambda: np.zeros(2, "V3"), SAME, OWN),
    "record with objects": Input(lambda: np.zeros(2, [("a", object), ("b", "f4")]), SAME, OWN),
    "masked": Input(lambda: np.ma.masked_array(F4, F4 > 2), SAME, {"numpy": "a MaskedArray"}),
    "np.ma.masked": Input(lambda: np.ma.masked, SAME),
    "float0": Input(lambda: np.zeros(2, jax.dtypes.float0), SAME, OWN),
}

SCALARS = {
    "np.float32": Input(lambda: np.float32(1.5)),
    "np.bool_": Input(lambda: np.bool_(True)),
    "np.int64": Input(lambda: np.int64(3)),
    "np.str_": Input(lambda: np.str_("a"), SAME),
    "np.datetime64": Input(lambda: np.datetime64("2026-01-01"), SAME),
    "np.void": Input(lambda: np.zeros((), "i4,f8")[()], SAME, {"numpy": "a void"}),
    "float": Input(lambda: 0.25),
    "int": Input(lambda: 3),
    "complex": Input(lambda: 1 - 2j),
    "int, 2**40": Input(lambda: 2**40, but=NOT_IN_JAX),
    "int, 2**70": Input(lambda: 2**70, REFUSED),
    "bool": Input(lambda: True, SAME),
    "str": Input(lambda: "text", SAME),
    "bytes": Input(lambda: b"bytes", SAME),
    "bytearray": Input(lambda: bytearray(b"bytes"), SAME),
    "memoryview": Input(lambda: memoryview(bytes(8)), SAME),
    "array.array": Input(lambda: array.array("d", [1, 2]), SAME),
    "None": Input(lambda: None, SAME),
    "Decimal": Input(lambda: Decimal("0.1"), SAME),
    "generator": Input(lambda: (x for x in [F4]), SAME),
}


class _Wrapping(torch.Tensor):
    @staticmethod
    def __new__(cls, inner: Any) -> Any:
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError(str(func))


class _Plain(torch.Tensor):
    pass


def _fake() -> Any:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        return torch.zeros(2)


def _in_inference_mode() -> Any:
    with torch.inference_mode():
        return torch.ones(3)


def _shrunk(size: int) -> Any:
    tensor = torch.ones(1000)
    tensor.untyped_storage().resize_(size)
    return tensor


def _masked_tensor() -> Any:
    from torch.masked import masked_tensor

    return masked_tensor(torch.ones(2), torch.tensor([True, False]))


def _within(transform: Callable[..., Any], x: Any) -> Callable[..., Any]:
    """Use the value that a function sees while it is transformed."""
    return lambda use: transform(lambda y: (use(y), y.sum())[1])(x())


TENSORS = {
    "tensor that requires grad": Input(lambda: torch.ones(2, requires_grad=True) * 2),
    "Parameter": Input(lambda: torch.nn.Parameter(torch.ones(2))),
    "conjugate": Input(lambda: torch.tensor([1 + 2j, 3 - 4j]).conj()),
    "negative bit": Input(lambda: torch.tensor([1 + 2j, 3 - 4j]).conj().imag),
    "expanded": Input(lambda: torch.arange(3.0).expand(4, 3)),
    "overlapping tensor": Input(lambda: torch.arange(4.0).as_strided((3, 2), (1, 1))),
    "channels last": Input(lambda: torch.zeros(2, 3, 4, 4).to(memory_format=torch.channels_last)),
    "bfloat16 tensor": Input(lambda: torch.ones(3).bfloat16()),
    "float8 tensor": Input(lambda: torch.ones(3).to(torch.float8_e5m2)),
    "complex32 tensor": Input(lambda: torch.ones(3).to(torch.complex32)),
    "bits8 tensor": Input(lambda: torch.empty(3, dtype=torch.bits8), REFUSED, {"torch": ARRAY}),
    "tensor of another tensor's memory": Input(lambda: torch.arange(6.0)[2:].view(2, 2)),
    "tensor in shared memory": Input(lambda: torch.ones(3).share_memory_()),
    "tensor of inference mode": Input(_in_inference_mode),
    "plain subclass of Tensor": Input(lambda: torch.ones(2).as_subclass(_Plain)),
    "tensor on read-only memory": Input(lambda: torch.frombuffer(bytearray(8), dtype=torch.float32)),
    "efficient zero tensor": Input(lambda: torch._efficientzerotensor((3,)), REFUSED),
    "sparse tensor, COO": Input(lambda: torch.eye(2).to_sparse(), REFUSED),
    "sparse tensor, CSR": Input(lambda: torch.eye(2).to_sparse_csr(), REFUSED),
    "mkldnn tensor": Input(lambda: torch.zeros(2, 2).to_mkldnn(), REFUSED),
    "quantized tensor": Input(
        lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.quint8), REFUSED
    ),
    "nested tensor": Input(lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]), REFUSED),
    "nested tensor, jagged": Input(
        lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged), REFUSED
    ),
    "meta tensor": Input(lambda: torch.zeros(2, device="meta"), REFUSED),
    "FakeTensor": Input(_fake, REFUSED),
    "MaskedTensor": Input(_masked_tensor, REFUSED),
    "subclass of Tensor that dispatches": Input(lambda: _Wrapping(torch.ones(2)), REFUSED),
    "tensor whose storage is gone": Input(lambda: _shrunk(0), REFUSED),
    "tensor whose storage is too small": Input(lambda: _shrunk(16), REFUSED),
    "tensor inside of vmap": Input(_within(torch.func.vmap, lambda: torch.ones(2, 3)), REFUSED, inside=True),
    "tensor inside of grad": Input(_within(torch.func.grad, lambda: torch.ones(3)), REFUSED, inside=True),
}


def _deleted() -> Any:
    x = jnp.arange(3.0)
    x.delete()
    return x


def _donated() -> Any:
    x = jnp.arange(3.0)
    jax.jit(lambda y: y + 1, donate_argnums=0)(x)
    return x


def _on_two(*axes: str | None) -> Any:
    mesh = jax.make_mesh((2,), ("x",))
    spec = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*axes))
    return jax.device_put(np.arange(4, dtype="float32"), spec)


class _Refusing:
    """An array of nobody's that gives its values to nobody."""

    shape, dtype = (2,), np.dtype("float32")

    def __dlpack__(self, **_: Any) -> Any:
        raise BufferError("no")

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


OF_JAX = {
    "jax.Array on the second device": Input(
        lambda: jax.device_put(F4, jax.devices()[1]), on_two_devices=True
    ),
    "sharded over two devices": Input(lambda: _on_two("x"), on_two_devices=True),
    "replicated on two devices": Input(lambda: _on_two(None), on_two_devices=True),
    "weakly typed": Input(lambda: jnp.asarray(1.5)),
    "result that is not ready": Input(lambda: jnp.ones((300, 300)) @ jnp.ones((300, 300))),
    "on memory of NumPy's": Input(lambda: jax.device_put(F4)),
    "bfloat16 of JAX": Input(lambda: jnp.ones(3, jnp.bfloat16)),
    "int4 of JAX": Input(lambda: jnp.ones(3, jnp.int4), SAME, {"jax": ARRAY}),
    "typed PRNG key": Input(lambda: jax.random.key(0), SAME),
    "ShapeDtypeStruct": Input(lambda: jax.ShapeDtypeStruct((2,), "float32"), SAME),
    "deleted array": Input(_deleted, REFUSED),
    "donated array": Input(_donated, REFUSED),
    "jax.Ref": Input(lambda: jax.new_ref(jnp.ones(2)), REFUSED),
    "tracer of jit": Input(_within(jax.jit, lambda: jnp.ones(3)), REFUSED, inside=True),
    "tracer of grad": Input(_within(jax.grad, lambda: jnp.ones(3)), REFUSED, inside=True),
    "tracer of vmap": Input(_within(jax.vmap, lambda: jnp.ones((2, 3))), REFUSED, inside=True),
}


def _cycle() -> Any:
    loop: list[Any] = [1]
    loop.append({"again": loop})
    return loop


OTHERS = {
    "list that contains itself": Input(_cycle, REFUSED),
    "array of another library that gives no values": Input(_Refusing, REFUSED),
}

INPUTS: dict[str, Input] = {**LAID_OUT, **OF_DTYPE, **SCALARS, **TENSORS, **OF_JAX, **OTHERS}
REFUSALS = [
    (name, target) for name, one in INPUTS.items() for target in TARGETS if one.outcome(target) == REFUSED
]
