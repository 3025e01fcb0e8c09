"""Write the repository's address into README.md and pyproject.toml: `python tools/set_address.py https://...`.

The release workflow does so before it builds, since an index shows the README where its relative links lead
nowhere. In the repository, no address is written down.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from release_check import ROOT, read_version

RELATIVE = r"(?![a-z]+:|#)"


def with_absolute_links(readme: str, home: str, version: str) -> str:
    """Return the README with absolute links to the files of a version, and a badge below its title."""
    readme = re.sub(rf'(!\[[^\]]*\]\(|\b(?:src|srcset)="){RELATIVE}', rf"\1{home}/raw/v{version}/", readme)
    readme = re.sub(rf'(\]\(|\bhref="){RELATIVE}', rf"\1{home}/blob/v{version}/", readme)
    tests = f"{home}/actions/workflows/ci.yml"
    return re.sub(r"^# .*\n", rf"\g<0>\n[![Tests]({tests}/badge.svg)]({tests})\n", readme, count=1)


def with_urls(pyproject: str, home: str, version: str) -> str:
    """Return pyproject.toml with the URLs of the project."""
    pages = {
        "Source": home,
        "Documentation": f"{home}/blob/v{version}/docs/index.md",
        "Changelog": f"{home}/blob/v{version}/CHANGELOG.md",
        "Issues": f"{home}/issues",
    }
    lines = "".join(f'{name} = "{url}"\n' for name, url in pages.items())
    return pyproject.replace("[project.scripts]\n", f"[project.urls]\n{lines}\n[project.scripts]\n", 1)


def set_address(root: Path, home: str) -> None:
    """Change both files."""
    version = read_version(root)
    for name, change in {"README.md": with_absolute_links, "pyproject.toml": with_urls}.items():
        text = (root / name).read_text(encoding="utf-8")
        (root / name).write_text(change(text, home.rstrip("/"), version), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    set_address(ROOT, sys.argv[1])
