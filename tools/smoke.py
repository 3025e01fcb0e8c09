"""Try an installed arrayferry, from outside the repository: `python smoke.py numpy jax --speedups yes`."""

from __future__ import annotations

import argparse
import platform
from importlib.metadata import version
from pathlib import Path

import gymnasium as gym
import numpy as np

import arrayferry
from arrayferry._core.speedups import speedups


def main() -> None:
    """Wrap an environment and convert a structure, for each framework that was named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("to", nargs="+", help="the frameworks to convert to")
    parser.add_argument("--version", help="the version that must be installed")
    parser.add_argument("--speedups", choices=["yes", "no"], help="whether the part in C must be in use")
    arguments = parser.parse_args()

    repository = Path(__file__).resolve().parent.parent
    assert repository not in Path(arrayferry.__file__).resolve().parents, "this is not the installed one"
    assert arrayferry.__version__ == version("arrayferry") == (arguments.version or arrayferry.__version__)
    if arguments.speedups:
        assert (speedups is not None) == (arguments.speedups == "yes"), f"the part in C: {speedups}"
    for name in arguments.to:
        wrap_and_convert(name)
    versions = f"Python {platform.python_version()}, NumPy {np.__version__}"
    how = f"{'with' if speedups else 'without'} the part in C"
    print(f"arrayferry {arrayferry.__version__} works: {versions}, {how}, to {', '.join(arguments.to)}")


def wrap_and_convert(name: str) -> None:
    """Step through CartPole and convert a structure; the values must be NumPy's."""
    kind = type(arrayferry.convert(np.zeros(3), name))
    bare, env = gym.make("CartPole-v1"), arrayferry.wrap(gym.make("CartPole-v1"), name)
    want, got = bare.reset(seed=3)[0], env.reset(seed=3)[0]
    for action in 0, 1, 1:
        assert type(got) is kind, type(got)
        assert np.array_equal(np.asarray(got), want)
        want, got = bare.step(action)[0], env.step(arrayferry.convert(action, name))[0]
    image = np.arange(6, dtype=np.uint8).reshape(2, 3)[:, ::-1]
    found = arrayferry.convert({"image": image, "text": "go", "deep": [(np.float32(2),)]}, name)
    assert np.array_equal(np.asarray(found["image"]), image)
    assert found["text"] == "go"
    assert float(found["deep"][0][0]) == 2
    try:
        arrayferry.convert(np.zeros(3), "no such framework")
    except arrayferry.FerryError:
        return
    raise AssertionError("an unknown framework was accepted")


if __name__ == "__main__":
    main()
