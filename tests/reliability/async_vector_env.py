"""R8: vector environments in other processes work, or say at once that they would hang."""

from __future__ import annotations

from itertools import product

from reliability.goals import Goal
from reliability.libraries import Library
from reliability.trials import run_program

# Around the vector environment; around each environment in its worker; and around such an environment
# that computes with the framework itself.
WHERE = ["inside", "outside", "environment"]
CONTEXTS = ["fork", "forkserver", "spawn"]
PROGRAMS = list(product(CONTEXTS, WHERE, ["jax", "torch"]))

REFUSAL = "this process was forked after JAX had started"


def steps_or_says_why(number: int, library: Library) -> None:
    context, where, framework = PROGRAMS[number % len(PROGRAMS)]
    arguments = ["-m", "reliability.async_vector_env_program", library.name, framework, where, context]
    exit_code, said, complained = run_program(arguments, 60)
    assert exit_code is not None, f"{framework} {where}, {context}: it hangs"
    stepped = exit_code == 0 and said == "stepped\n"
    # Only what would hang may be refused.
    may_refuse = (context, framework) == ("fork", "jax") and where != "outside"
    refused = may_refuse and exit_code > 0 and REFUSAL in complained
    last = complained.splitlines()[-1:]
    assert stepped or refused, f"{framework} {where}, {context}: exit code {exit_code}: {last}"


GOALS = [
    Goal(
        name="R8",
        title="environments in other processes work, or say that they would hang",
        trial=steps_or_says_why,
        unit=f"one of {len(PROGRAMS)} programs with AsyncVectorEnv: 3 ways to start, wrapped in 3 places",
        full=10 * len(PROGRAMS),
        thin=6,
        peer=len(PROGRAMS),
        isolated=True,
        patience=200,
    )
]
