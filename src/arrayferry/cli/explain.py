"""`arrayferry explain`: leaf by leaf, what the wrapper does with an environment."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

import arrayferry
from arrayferry.cli.environments import add_environment, add_target, count, default_target, make
from arrayferry.cli.exits import FINE, FOUND, UsageError
from arrayferry.cli.screen import Screen

SUMMARY = "what becomes of each leaf of an environment, and why"
EXAMPLES = """\
arrayferry explain CartPole-v1 --to torch
arrayferry explain CartPole-v1 --to jax --vector 8
arrayferry explain Pendulum-v1 --to torch --dtypes float64=float32
arrayferry explain my_package:MyEnv-v0 --to jax --json"""

_COPY = {"auto": None, "always": True, "never": False}


def add_arguments(parser: ArgumentParser) -> None:
    """The environment, the framework, and the options of the wrapper."""
    add_environment(parser)
    add_target(parser)
    parser.add_argument("--copy", choices=_COPY, default="auto", help="auto is copy=None (default: auto)")
    parser.add_argument("--dtypes", metavar="OLD=NEW", action="append", help="a cast; may be repeated")
    parser.add_argument("--steps", metavar="N", type=count, default=20, help="to take (default: 20)")


def run(arguments: Namespace, screen: Screen) -> int:
    """Explain, show, and fail if a leaf is refused."""
    env = make(arguments.env_id, arguments.vector)
    try:
        explanation = arrayferry.explain(
            env,
            arguments.to or default_target(),
            arguments.device,
            copy=_COPY[arguments.copy],
            dtypes=_casts(arguments.dtypes or ()),
            steps=arguments.steps,
        )
    finally:
        env.close()
    screen.show(explanation)
    screen.result(explanation.as_dict())
    return FINE if explanation.ok else FOUND


def _casts(texts: list[str] | tuple[str, ...]) -> dict[str, str]:
    for text in texts:
        if text.count("=") != 1:
            raise UsageError(f"--dtypes {text}: write it as old=new, such as float64=float32")
    return dict(text.split("=") for text in texts)
