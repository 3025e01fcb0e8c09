"""Every page of the site in a real browser: on a desk and on a phone, in the light and in the dark."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from shutil import which
from typing import Any

import pytest

pytestmark = pytest.mark.site
sync_api = pytest.importorskip("playwright.sync_api")

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted(file.stem for file in (ROOT / "docs").glob("*.md"))
CHROMIUM = which("chromium") or which("google-chrome")

# What is wider than its page or, on a desk, than its column; and what is not there.
WIDER = "document.documentElement.scrollWidth > innerWidth"
CODE = "[...document.querySelectorAll('pre')].filter(code => code.scrollWidth > code.clientWidth)"
WIDE_CODE = f"{CODE}.map(code => code.innerText.split('\\n').sort((a, b) => b.length - a.length)[0])"
MISSING = "[...document.images].filter(image => !image.naturalWidth).map(image => image.src)"
NAMES = "[...document.querySelectorAll('article table code.short')]"
BROKEN = f"{NAMES}.filter(name => name.getClientRects().length > 1).map(name => name.innerText)"
RECORD_COPIES = "copied = []; addEventListener('copy', event => copied.push(event.target.value), true)"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site once."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-b", "html", str(ROOT / "docs"), str(folder)]
    subprocess.run(command, check=True)
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("there is no chromium: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])


def test_code_is_copied_without_prompts(site: Path, browser: Any) -> None:
    page = browser.new_page()
    try:
        page.goto(f"file://{site}/tutorial.html")
        page.wait_for_selector("button.copybtn", state="attached")
        page.evaluate(RECORD_COPIES)
        page.evaluate("document.querySelectorAll('.copybtn').forEach(button => button.click())")
        copied = page.evaluate("window.copied")
        assert len(copied) == page.locator("button.copybtn").count() > 3
        assert copied[0] == 'pip install ".[torch,cli]"'
        assert copied[1].startswith("import arrayferry, gymnasium as gym, torch\nenv = arrayferry.wrap(")
        for code in copied[1:]:
            assert ">>>" not in code
            compile(code, "copied", "exec")
        prompt = page.evaluate("getComputedStyle(document.querySelector('.gp')).userSelect")
        assert prompt == "none"  # selected by hand, it is left out, too
    finally:
        page.close()


@pytest.mark.parametrize(("system", "theme"), [("light", "dark"), ("dark", "light")])
def test_pictures_follow_the_theme_that_the_reader_chooses(
    site: Path, browser: Any, system: str, theme: str
) -> None:
    page = browser.new_page(color_scheme=system)
    try:
        page.goto(f"file://{site}/index.html")
        page.evaluate(f"document.body.dataset.theme = '{theme}'")
        assert page.evaluate("getComputedStyle(document.querySelector('img.plot')).colorScheme") == theme
    finally:
        page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("page_name", PAGES)
def test_nothing_overflows_and_nothing_is_missing(
    site: Path, browser: Any, page_name: str, width: int, scheme: str
) -> None:
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    try:
        page.goto(f"file://{site}/{page_name}.html")
        assert not page.evaluate(WIDER), "the page scrolls sideways"
        assert page.evaluate(MISSING) == []
        assert page.evaluate(BROKEN) == [], "names in tables are broken in the middle"
        if width > 1000:
            assert page.evaluate(WIDE_CODE) == []
    finally:
        page.close()
