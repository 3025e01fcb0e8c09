"""Draw the pictures of docs/gallery.md: which environments meet which agent in each program of examples/.

python tools/draw_gallery.py [folder]
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Program: the scene, how many of it, what it is written in; the agent, and what it is written in.
PROGRAMS = {
    "demo": ("cart", 16, "NumPy", "PPO", "torch"),
    "ppo_torch": ("cart", 16, "NumPy", "PPO", "torch"),
    "ppo_jax": ("cart", 16, "NumPy", "PPO", "JAX"),
    "gymnax_torch": ("cart", 256, "JAX", "REINFORCE", "torch"),
    "ppo_in_jit": ("cart", 8, "MuJoCo", "PPO in jax.jit", "JAX"),
    "double_buffering": ("halves", 1, "NumPy", "actor-critic", "torch"),
    "ppo_async": ("ready", 1, "NumPy", "PPO", "torch"),
    "mjlab_ppo": ("cart", 64, "mjlab", "PPO", "torch"),
    "sb3_ppo": ("cart", 64, "JAX", "Stable-Baselines3", "NumPy"),
    "torchrl_ppo": ("cart", 64, "JAX", "TorchRL", "torch"),
    "skrl_ppo": ("cart", 64, "JAX", "skrl", "torch"),
    "rsl_rl_ppo": ("cart", 256, "JAX", "rsl_rl", "torch"),
    "rllib_ppo": ("cart", 1, "JAX", "RLlib", "NumPy"),
    "rllib_jax": ("cart", 1, "JAX", "RLlib, Ray", "NumPy"),
    "tianshou_ppo": ("cart", 8, "JAX", "tianshou", "NumPy"),
    "pettingzoo_torch": ("agents", 1, "NumPy", "actor-critic", "torch"),
    "dm_control_torch": ("cart", 1, "MuJoCo", "random search", "torch"),
    "every_package": ("packages", 1, "any", "your agent", "torch"),
}
COLOURS = {"NumPy": "#4d77cf", "JAX": "#9a5fc4", "torch": "#e0653f", "MuJoCo": "#3a9d6e", "mjlab": "#3a9d6e"}
PICTURE = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 360 150" role="img" aria-label="{label}">
<style>
.page {{ fill: #fff }} .stage {{ fill: #f1f3f5 }}
text {{ font: 600 16px system-ui, sans-serif; fill: #1b1b1b; text-anchor: middle }}
.small {{ font-size: 14px; font-weight: 400; fill: #555 }}
.ink {{ fill: #39424e }} .line {{ fill: none; stroke: #39424e; stroke-width: 2 }}
.pole {{ stroke-width: 6; stroke: #d1953f }}
@media (prefers-color-scheme: dark) {{
  .page {{ fill: #161b22 }} .stage {{ fill: #222a33 }} text {{ fill: #eee }} .small {{ fill: #b5bcc4 }}
  .ink {{ fill: #c3cbd3 }} .line {{ stroke: #c3cbd3 }} .pole {{ stroke: #d1953f }}
}}
</style>
<rect class="page" width="360" height="150" rx="6"/>
{parts}
</svg>
"""


def cart(x: float, y: float, lean: float = 18, size: float = 1) -> str:
    """Return a cart on its track, with a pole that leans to the right."""
    return (
        f'<g transform="translate({x},{y}) scale({size})"><path class="line" d="M-48 10H48"/>'
        f'<rect class="ink" x="-20" y="-8" width="40" height="18" rx="3"/>'
        f'<path class="line pole" d="M0 -6L{lean} -54"/></g>'
    )


def scene(kind: str) -> Iterable[str]:
    """Yield the drawing of an environment, in the left half."""
    if kind == "cart":
        yield cart(85, 88)
    elif kind == "halves":
        yield cart(52, 84, 14, 0.65)
        yield cart(120, 84, -14, 0.65)
        yield '<path class="line" stroke-dasharray="4 4" d="M86 34V98"/>'
    elif kind == "ready":  # some are there, others still under way
        for index, lean in enumerate((12, -8, 16)):
            yield cart(40 + 45 * index, 78 + 6 * (index % 2), lean, 0.42)
        yield '<circle class="line" cx="85" cy="42" r="11"/><path class="line" d="M85 35V42H91"/>'
    elif kind == "agents":
        for x, y in ((50, 60), (92, 86), (122, 48)):
            yield f'<circle class="ink" cx="{x}" cy="{y}" r="11"/>'
            yield f'<circle class="line" cx="{x + 14}" cy="{y - 14}" r="5"/>'
    else:
        for index in range(6):
            x, y = 38 + 34 * (index % 3), 40 + 32 * (index // 3)
            yield f'<rect class="ink" x="{x}" y="{y}" width="26" height="24" rx="4"/>'


def badge(x: float, text: str) -> str:
    """Return the name of a framework, in its colour."""
    colour = COLOURS.get(text, "#68737d")
    return (
        f'<rect x="{x - 38}" y="116" width="76" height="22" rx="11" fill="{colour}"/>'
        f'<text style="fill: #fff; font-size: 14px" x="{x}" y="132">{escape(text)}</text>'
    )


def picture(program: str) -> str:
    """Return the picture of one program, as SVG."""
    kind, count, env, agent, framework = PROGRAMS[program]
    small = ' class="small"' if len(agent) > 12 else ""
    parts = ['<rect class="stage" x="12" y="14" width="146" height="92" rx="8"/>', *scene(kind)]
    if count > 1:
        parts.append(f'<text class="small" x="132" y="34">x {count}</text>')
    parts += [
        '<path class="line" d="M172 50H200M193 44L200 50L193 56M200 74H172M179 68L172 74L179 80"/>',
        '<rect class="stage" x="214" y="14" width="134" height="92" rx="8"/>',
        f'<text{small} x="281" y="66">{escape(agent)}</text>',
        badge(85, env),
        badge(281, framework),
    ]
    label = f"environments in {env} meet an agent in {framework}: {agent}"
    return PICTURE.format(label=escape(label, quote=True), parts="\n".join(parts))


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs/images/gallery"
    folder.mkdir(parents=True, exist_ok=True)
    for program in PROGRAMS:
        (folder / f"{program}.svg").write_text(picture(program), encoding="utf-8")
