"""No input ends the process, at run time or at exit, and the values are right where there are any.

A process of its own runs the cases and prints the name of each when it has survived it. For many more
inputs, R4 and R10 in reliability/deaths.py look whether the process survives and what is refused.
"""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("jax")

START = """
import sys, tempfile, warnings
from multiprocessing import shared_memory
import numpy as np, torch, jax, jax.numpy as jnp
import arrayferry
from arrayferry import convert, Converter
from arrayferry.errors import UnsupportedError
from arrayferry.testing import at_offset, bits, edges, overwrite

def refused(value, target, copy=None):
    try:
        convert([value], target, copy=copy)
    except UnsupportedError as error:
        assert error.hint and error.where == "value[0]"
    else:
        raise AssertionError(f"{type(value)} was converted to {target}")

def everywhere(value, wanted):
    for target in "numpy", "torch", "jax":
        result = convert([value], target)[0]
        assert bits(result) == wanted.tobytes(), (target, result, wanted)
        overwrite(result)
"""

CASES = {
    # torch.from_dlpack aborts: https://github.com/pytorch/pytorch/issues/188023
    "flipped": """
image = np.arange(12, dtype="float32").reshape(2, 2, 3)
for flipped in image[::-1], image[:, ::-1], image[..., ::-1], image[:1][::-1], np.flip(image):
    everywhere(flipped, flipped)
""",
    "memory-mapped": """
with tempfile.TemporaryDirectory() as folder:
    np.save(f"{folder}/a.npy", np.arange(6.0, dtype="float32"))
    for mode in "r", "r+", "c":
        source = np.load(f"{folder}/a.npy", mmap_mode=mode)
        for leaf in source, np.asarray(source), source[::2], source.view(np.ndarray):
            everywhere(leaf, np.array(leaf))
        del source, leaf
    assert np.load(f"{folder}/a.npy").tolist() == [0, 1, 2, 3, 4, 5]
""",
    "shared memory that is closed": """
memory = shared_memory.SharedMemory(create=True, size=4096)
source = np.ndarray(1024, "float32", memory.buf)
source[:] = 5
results = [convert(source, target) for target in ("numpy", "torch", "jax")]
results += [convert({"x": source[::2]}, target)["x"] for target in ("numpy", "torch", "jax")]
del source
memory.close()
memory.unlink()
assert all(float(result[100]) == 5 for result in results)
""",
    "negative bit, conjugate": """
conjugate = torch.tensor([1 + 2j, 3 - 4j]).conj()
everywhere(conjugate, np.array([1 - 2j, 3 + 4j], "complex64"))
everywhere(conjugate.imag, np.array([-2, 4], "float32"))
everywhere(conjugate.imag[::1][1:], np.array([4], "float32"))
""",
    "tensor of zeros without memory": """
zeros = torch._efficientzerotensor((3,))
for target in "numpy", "torch", "jax":
    try:
        assert bits(convert(zeros, target)) == bytes(12)
    except arrayferry.FerryError as error:
        assert error.hint
""",
    "freed storage": """
for target in "numpy", "torch", "jax":
    for copy in None, True, False:
        tensor = torch.ones(1000)
        part = tensor[10:]
        tensor.untyped_storage().resize_(0)
        refused(tensor, target, copy)
        refused(part, target, copy)
""",
    "tensor that is resized afterwards": """
tensor = torch.full((1024,), 5.0)
results = [convert(tensor, target) for target in ("numpy", "torch", "jax")]
try:
    tensor.resize_(1 << 20).fill_(7)
except RuntimeError as error:  # torch itself refuses, once NumPy has looked at the memory
    assert "not resizable" in str(error)
assert all(float(result[100]) == 5 for result in results)
""",
    "overlapping and expanded memory": """
overlapping = np.lib.stride_tricks.as_strided(np.arange(4.0, dtype="float32"), (3, 2), (4, 4))
everywhere(overlapping, np.array(overlapping))
everywhere(torch.arange(3.0).expand(4, 3), np.tile(np.arange(3, dtype="float32"), (4, 1)))
everywhere(torch.arange(4.0).as_strided((3, 2), (1, 1)), np.array(overlapping))
""",
    "not aligned": """
for dtype in "float64", "complex128", "int16", "bfloat16":
    for offset in 1, 3, 7:
        source = at_offset(edges(dtype), offset)
        with (jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64)(True):
            everywhere(source, source)
""",
    "very deep": """
value = leaf = np.zeros(3)
for _ in range(20_000):
    value = [value]
result = convert(value, "torch")
loop = []
for _ in range(20_000):
    loop = [loop]
inner = loop
while inner:
    inner = inner[0]
inner.append(loop)
try:
    convert(loop, "torch")
except arrayferry.errors.CircularError as error:
    assert str(error)
else:
    raise AssertionError("a cycle was converted")
inner.clear()
while value is not leaf:
    value, result = value[0], result[0]
assert result.tolist() == [0, 0, 0]
""",
    "donated and deleted": """
for target in "numpy", "torch", "jax":
    source = jnp.arange(1024.0)
    results = [convert(source, target), convert(source, target, copy=True)]
    jax.jit(lambda x: x * 0 - 1, donate_argnums=0)(source).block_until_ready()
    assert all(float(result[100]) == 100 for result in results)
    refused(source, target)
""",
    "huge strides and empty": """
empty = np.zeros((0, 1 << 40), "float32")
for source in empty, empty.T, np.zeros((3, 0))[::-1], np.broadcast_to(np.float32(1), (0, 5)):
    for target in "numpy", "torch", "jax":
        assert tuple(convert(source, target).shape) == source.shape
""",
}


RUN_ALL = """
for name, case in {cases!r}.items():
    try:
        exec(case, globals())
        print(name, flush=True)
    except BaseException as error:
        print(f"{{name}}: {{type(error).__name__}}: {{error}}", flush=True)
"""


def test_no_case_ends_the_process(run_python):
    code = START + RUN_ALL.format(cases=CASES)
    assert run_python(code, timeout=240).splitlines() == list(CASES)


def test_a_dead_process_is_noticed(run_python):
    with pytest.raises(AssertionError, match="exit code -"):
        run_python("import os; os.abort()")


# --- at exit: of what is not shared, see R5 in reliability/exits.py

SHARED = """
kept = [convert(at_offset(np.ones(1 << 19, "f4"), 0), "jax", copy=False) for _ in range(20)]
kept += [convert(torch.ones(1 << 19), "jax", copy=False) for _ in range(20)]
kept += [convert(array, "numpy", copy=False) for array in kept]
print("left")
"""


def test_exit_with_shared_memory_is_clean(run_python):
    assert run_python(START + SHARED) == "left\n"
