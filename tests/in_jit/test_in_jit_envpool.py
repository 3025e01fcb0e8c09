"""EnvPool and compiled code: it has its own functions for that, which `in_jit` names."""

from __future__ import annotations

import pytest

import arrayferry

pytest.importorskip("jax")
envpool = pytest.importorskip("envpool")
pytestmark = pytest.mark.packages


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("options", [{}, {"batch_size": 2}], ids=str)
def test_envpool_is_refused_and_its_own_functions_are_named(options):
    env = envpool.make("CartPole-v1", env_type="gymnasium", num_envs=4, **options)
    with pytest.raises(arrayferry.FerryError, match=r"has its own functions[\s\S]*env\.xla\(\)"):
        arrayferry.in_jit(env)
