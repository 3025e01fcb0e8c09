"""Run Gymnasium's tutorials, shortened, and otherwise changed only to import arrayferry's wrappers.

The job `gymnasium` of ci.yml does so every week.

git clone https://github.com/Farama-Foundation/Gymnasium
pip install gymnasium[box2d,mujoco,classic-control,toy-text] torch matplotlib seaborn pandas tqdm moviepy
python tools/gymnasium_tutorials.py Gymnasium
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

# Each tutorial, and the numbers in it that determine how long it trains.
TUTORIALS: dict[str, dict[str, str]] = {
    "docs/tutorials/training_agents/vector_a2c.py": {
        "n_updates": "25",
        "n_steps_per_update": "32",
        "n_showcase_episodes": "1",
    },
    "docs/tutorials/training_agents/mujoco_reinforce.py": {"total_num_episodes": "30"},
    "docs/tutorials/training_agents/blackjack_q_learning.py": {"n_episodes": "2_000"},
    "docs/tutorials/gymnasium_basics/implementing_custom_wrappers.py": {},
    "docs/introduction/record_agent.md": {"training_period": "2", "num_training_episodes": "4"},
}
WITHOUT_A_SCREEN = {"SDL_VIDEODRIVER": "dummy", "MPLBACKEND": "agg", "PYTHONWARNINGS": "ignore"}


def changed(text: str, shorter: dict[str, str]) -> str:
    """Return a tutorial with its imports changed and its numbers replaced."""
    text = re.sub(r"\b(gymnasium|gym)\.wrappers\b", "arrayferry.wrappers", text)
    for name, number in shorter.items():
        text, found = re.subn(rf"(?m)^{name} = .*$", f"{name} = {number}", text)
        if not found:
            sys.exit(f"{name} is not in the tutorial any more")
    return re.sub(r"(?m)^import gymnasium as gym$", "import arrayferry.wrappers.vector\n\\g<0>", text)


def main() -> None:
    """Run all of them, and print for each whether it ran to the end."""
    root, failed = Path(sys.argv[1]), 0
    for name, shorter in TUTORIALS.items():
        text = (root / name).read_text(encoding="utf-8")
        if name.endswith(".md"):
            blocks = re.findall(r"(?ms)^```python\n(.*?)^```", text)
            # The last block on the page logs to a service.
            text = "\n".join(block for block in blocks if "import wandb" not in block)
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "tutorial.py").write_text(changed(text, shorter), encoding="utf-8")
            command, env = [sys.executable, "tutorial.py"], {**os.environ, **WITHOUT_A_SCREEN}
            done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
        print(f"{'failed' if done.returncode else 'runs  '} {name}", flush=True)
        print("\n".join(done.stderr.splitlines()[-15:]) if done.returncode else "", end="")
        failed += bool(done.returncode)
    sys.exit(failed)


if __name__ == "__main__":
    main()
