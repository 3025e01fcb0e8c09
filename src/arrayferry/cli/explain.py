"""`arrayferry explain`: what the wrapper does with each leaf of an environment."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable
from contextlib import closing

import arrayferry
from arrayferry.cli.environments import add_environment, count, default_target, make
from arrayferry.cli.screen import Outcome
from arrayferry.errors import OptionError

SUMMARY = "show what happens to each leaf of an environment, and why"
EXAMPLES = """\
arrayferry explain CartPole-v1 --to torch
arrayferry explain CartPole-v1 --to jax --vector 8
arrayferry explain Pendulum-v1 --to torch --dtypes float64=float32
arrayferry explain my_package:MyEnv-v0 --to jax --json"""

_COPY = {"auto": None, "always": True, "never": False}


def add_arguments(parser: ArgumentParser) -> None:
    """Add the environment, the framework and the options of the wrapper."""
    add_environment(parser)
    parser.add_argument("--copy", choices=_COPY, default="auto", help="auto means copy=None (default: auto)")
    parser.add_argument("--dtypes", metavar="OLD=NEW", action="append", help="cast a dtype; may be repeated")
    parser.add_argument("--steps", metavar="N", type=count, default=20, help="steps to take (default: 20)")


def run(arguments: Namespace) -> Outcome:
    """Explain the environment."""
    to, device, steps = arguments.to or default_target(), arguments.device, arguments.steps
    copy, dtypes = _COPY[arguments.copy], _casts(arguments.dtypes or ())
    with closing(make(arguments.env, arguments.vector)) as env:
        explanation = arrayferry.explain(env, to, device, copy=copy, dtypes=dtypes, steps=steps)
    return Outcome([explanation], explanation.as_dict(), explanation.ok)


def _casts(texts: Iterable[str]) -> dict[str, str]:
    for text in texts:
        if text.count("=") != 1:
            raise OptionError(f"--dtypes {text} is not valid", "write old=new, such as float64=float32")
    return dict(text.split("=") for text in texts)
