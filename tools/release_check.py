"""Check that a release may go out: `make release-check TAG=v1.2.3`, as the release workflow does."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def problems(tag: str, version: str, changelog: str, readme: str) -> list[str]:
    """Return what holds a release back, in words."""
    found = []
    if tag != f"v{version}":
        found.append(
            f"the tag is {tag or 'missing'}, but arrayferry.__version__ is {version}: tag v{version}"
        )
    if not re.search(rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", changelog, re.MULTILINE):
        found.append(f"CHANGELOG.md has no heading '## [{version}] - YYYY-MM-DD'")
    if "Nothing has been released yet" in changelog:
        found.append("CHANGELOG.md says that nothing has been released yet: remove that line")
    if "There is no release yet" in readme:
        found.append(
            'README.md says that there is no release yet: write `pip install "arrayferry[torch,cli]"`'
        )
    return found


def read_version(root: Path = ROOT) -> str:
    """Return the version, which is written in one place."""
    text = (root / "src/arrayferry/__init__.py").read_text(encoding="utf-8")
    [version] = re.findall('^__version__ = "(.+)"$', text, re.MULTILINE)
    return str(version)


def main() -> int:
    """Print the problems, and return 0 if there are none."""
    tag = [*sys.argv, ""][1]
    texts = [(ROOT / name).read_text(encoding="utf-8") for name in ("CHANGELOG.md", "README.md")]
    found = problems(tag, read_version(), *texts)
    print("\n".join(f"not ready: {one}" for one in found) or f"ready: {tag}")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
