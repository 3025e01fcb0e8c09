"""JAX with eight devices of the host; and what it does with those of a GPU, on devices that count as such."""

from __future__ import annotations

import pytest

pytest.importorskip("jax")

EIGHT_DEVICES = """
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from arrayferry import Converter, convert, explain, frameworks
from arrayferry.testing import bits

devices = jax.devices()
assert frameworks()["jax"].devices == tuple(f"cpu:{i}" for i in range(8))
batch = np.arange(16, dtype="float32").reshape(8, 2)
for i, device in enumerate(devices):
    there = convert({"x": batch, "y": 1.5}, "jax", f"cpu:{i}")
    assert there["x"].devices() == there["y"].devices() == {device}
    moved = convert(there, "jax", devices[-1 - i])
    assert moved["x"].devices() == {devices[-1 - i]}
    assert bits(convert(moved["x"], "numpy")) == bits(convert(there["x"], "numpy")) == batch.tobytes()
for shape, names, spec in [
    ((8,), ("env",), PartitionSpec("env")),
    ((4, 2), ("env", "model"), PartitionSpec("env", "model")),
    ((2, 4), ("env", "model"), PartitionSpec(None, None)),
    ((2, 4), ("env", "model"), PartitionSpec(("env", "model"))),
]:
    sharding = NamedSharding(Mesh(np.array(devices).reshape(shape), names), spec)
    for source in batch, convert(batch, "jax", "cpu:3"), convert(batch, "torch"):
        there = convert({"x": source}, "jax", sharding)["x"]
        assert there.sharding == sharding
        for to in "numpy", "torch", "jax":
            assert bits(convert(there, to)) == batch.tobytes()
        assert convert(there, "jax", "cpu:5").devices() == {devices[5]}
        again = Converter("jax", sharding)
        assert bits(again(there)) == batch.tobytes()
print("fine")
"""

LIKE_A_GPU = """
import jax, numpy as np
from arrayferry import convert
from arrayferry._core import holds
from arrayferry._frameworks import _jax_shardings, jax as ours

# The devices from the second on count as those of a GPU, whose memory NumPy cannot see.
is_on_cpu = lambda sharding: not any(device.id for device in sharding.device_set)
_jax_shardings.is_on_cpu = ours._jax_private.is_on_cpu = is_on_cpu
ours.speedups = None  # which reads what is in truth on the host
complete, finish = [], ours.complete_fetches
ours.complete_fetches = lambda tasks: (complete.append(len(tasks)), finish(tasks))[1]

values = {"x": np.arange(6, dtype="float32"), "y": [np.ones((2, 3), bool), np.int32(7)]}
there = convert(values, "jax", "cpu:1")
assert not holds._holds

# To the host: sent all at once, then copied to memory of its own.
found = convert(there, "numpy")
assert complete == [3]
assert found["x"].tolist() == [0, 1, 2, 3, 4, 5] and found["y"][0].all() and found["y"][1] == 7
assert all(array.flags.owndata and array.flags.writeable for array in (found["x"], found["y"][0]))
assert convert(there, "torch")["x"].tolist() == [0, 1, 2, 3, 4, 5]

# On the device: held until the copies are ready, nothing is waited for.
copy = convert(there, "jax")
assert copy["x"].devices() == there["x"].devices() and len(holds._holds) == 1
there["x"].delete()
assert copy["x"].tolist() == [0, 1, 2, 3, 4, 5]
holds.release()
assert not holds._holds
gone = convert(copy, "jax")
for array in (gone["x"], copy["y"][1], gone["y"][1]):
    array.delete()  # as donating does, before anybody knows that it is ready
del copy["y"]
moved = convert(copy, "jax", "cpu:2")
assert len(holds._holds) in (1, 2)
holds.release()
assert moved["x"].devices() == {jax.devices()[2]}

# What a copy reads is held until it is ready, and a copy that was donated is ready when the next one is.
class Copy:
    ready, deleted, waits = False, False, 0
    def is_ready(self): return self.ready
    def is_deleted(self): return self.deleted
    def block_until_ready(self): self.waits += 1

source, copies = there["y"][0], [Copy(), Copy()]
ours.hold_sources([(copy, source) for copy in copies])
(hold,) = holds._holds
copies[0].ready = True
assert not hold.is_done()
copies[1].deleted = True
tasks = [(copies[1], source)]
assert [type(copy) for copy in ours._still_there(tasks)] == [type(source)]
assert tasks[0][0] is not source
holds.release()
assert copies[1].waits == 0 and not holds._holds
ours.hold_sources([(waited := Copy(), source)])
holds.release()
assert waited.waits == 1

sent, send = [], type(source).copy_to_host_async
type(source).copy_to_host_async = lambda array: (sent.append(array), send(array))[1]
found = convert({"x": source, "y": moved["x"]}, "numpy")
assert len(sent) == 2 and complete[-1] == 2
type(source).copy_to_host_async = send
big = convert(np.ones(1 << 20), "jax", "cpu:1")  # large ones are not waited for
assert big.sum() == 1 << 20
for wrong in jax.random.key(0), jax.device_put(jax.random.key(0), jax.devices()[1]):
    assert convert(wrong, "numpy") is wrong
deleted = jax.device_put(np.ones(3), jax.devices()[1])
deleted.delete()
try:
    convert({"x": deleted}, "numpy")
except TypeError as error:
    assert "deleted" in str(error) and error.where == 'value["x"]'
else:
    raise AssertionError
print("fine")
"""


@pytest.mark.parametrize("code", [EIGHT_DEVICES, LIKE_A_GPU], ids=["eight", "like a GPU"])
def test_devices(run_python, code):
    pytest.importorskip("torch")
    flags = "--xla_force_host_platform_device_count=8"
    assert run_python(code, XLA_FLAGS=flags, JAX_PLATFORMS="cpu").endswith("fine\n")
