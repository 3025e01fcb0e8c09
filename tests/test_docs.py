"""Every example in the docs runs, none is skipped, and the import arrows hold."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import inspect
import re
from pathlib import Path
from types import ModuleType, SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest

import arrayferry
from arrayferry._core.registry import registered

ROOT = Path(__file__).resolve().parent.parent
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE

FILES = [file.relative_to(ROOT / "src").with_suffix("") for file in sorted((ROOT / "src").rglob("*.py"))]
MODULES = [".".join(file.parts).removesuffix(".__init__") for file in FILES if file.name != "__main__"]
# Subclasses of what another package has, imported when they are asked for.
ADAPTERS = {f"arrayferry.learners.{name}" for name in ("_rsl_rl", "_sb3", "_torchrl")}
ADAPTERS |= {"arrayferry.envs._parallel", "arrayferry.sanitizer.agents", "arrayferry.wrappers.pettingzoo"}
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/*.md"))]


def examples_of(module: str) -> list[doctest.DocTest]:
    try:
        found = doctest.DocTestFinder().find(importlib.import_module(module))
    except ModuleNotFoundError as error:
        if module not in ADAPTERS:
            raise
        pytest.skip(str(error))
    return [test for test in found if test.examples]


def examples_in(text: str, name: str) -> doctest.DocTest:
    text = re.sub(r"^\s*```.*$", "", text, flags=re.MULTILINE)  # a fence is no expected output
    return doctest.DocTestParser().get_doctest(text, {}, name, name, 0)


# What an example needs that is not a framework, by a word in it.
PACKAGES = {"RayVectorEnv": "ray", "tensordict_env": "tensordict", "phys2d": "flax", "ray": "ray"}
PACKAGES |= {
    "as_parallel": "pettingzoo",
    "rsl_rl_vec_env": "rsl_rl",
    "sb3_vec_env": "stable_baselines3",
    "skrl": "skrl",
}
PACKAGES |= {"tianshou": "tianshou", "torchrl_env": "torchrl"}


RERUN = "run the tool in tools/ again"


def load_tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(test: doctest.DocTest) -> None:
    missing = set(registered()) - set(arrayferry.frameworks())
    missing |= {word for word, package in PACKAGES.items() if importlib.util.find_spec(package) is None}
    source = " ".join(example.source for example in test.examples)
    if named := [name for name in missing if re.search(rf"\b{name}\b", source)]:
        pytest.skip(f"{', '.join(named)} is not installed")
    report: list[str] = []
    result = doctest.DocTestRunner(optionflags=OPTIONS).run(test, out=report.append)
    assert result.failed == 0, "".join(report)
    assert result.attempted == len(test.examples) > 0


@pytest.mark.needs("numpy>=2")  # which shows np.int64(3), not 3
@pytest.mark.parametrize(
    "module",
    [pytest.param(name, marks=pytest.mark.learners if ".learners" in name else ()) for name in MODULES],
)
def test_examples_in_docstrings(module):
    for test in examples_of(module):
        run(test)


def test_the_modules_with_examples_are_found():
    with_examples = {module for module in MODULES if module not in ADAPTERS and examples_of(module)}
    assert {
        "arrayferry",
        "arrayferry.errors",
        "arrayferry.testing",
        "arrayferry._core.convert",
    } <= with_examples


# NumPy 1 shows np.int64(3) as 3, and JAX before 0.8 has another name for its errors.
SHOWN_ANEW = {"in_jit.md": pytest.mark.needs("jax>=0.8"), "multi_agent.md": pytest.mark.needs("numpy>=2")}


def mark(page: Path) -> pytest.MarkDecorator | tuple[()]:
    is_about_learners = page.stem == "learners" or page.stem.startswith("with_")
    return pytest.mark.learners if is_about_learners else SHOWN_ANEW.get(page.name, ())


@pytest.fixture
def one_torch_thread():
    """Let torch compute in one thread: more of them only wait for each other on a busy machine."""
    if importlib.util.find_spec("torch") is None:
        yield
        return
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("one_torch_thread")
@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=mark(page)) for page in PAGES],
    ids=lambda page: page.name,
)
def test_examples_in_pages(page):
    text = page.read_text(encoding="utf-8")
    if re.search(r"^\s*>>> ", text, re.MULTILINE):
        run(examples_in(text, page.name))
    assert not re.search(r"^\s*```(python|py)\s*$", text, re.MULTILINE), "code without >>> is not run"


def test_a_wrong_example_is_found():
    with pytest.raises(AssertionError, match=r"Expected:\s+3\s+Got:\s+2"):
        run(examples_in("```pycon\n>>> 1 + 1\n3\n```\n", "page"))
    run(examples_in("```pycon\n>>> 1 + 1\n2\n```\n", "page"))


def test_a_page_lists_every_framework():
    text = (ROOT / "docs/frameworks.md").read_text(encoding="utf-8")
    listed = re.findall(r'^\| `"(\w+)"` \|', text, re.MULTILINE)
    shipped = [file.stem for file in (ROOT / "src/arrayferry/_frameworks").glob("[!_]*.py")]
    assert sorted(listed) == sorted(shipped)


def test_pages_list_every_option_of_wrap():
    options = list(inspect.signature(arrayferry.wrap).parameters)[2:-1]  # without env, to and unknown ones
    reference = (ROOT / "docs/api.md").read_text(encoding="utf-8")
    signature = re.search(r"function:: wrap\(env, to, (.*?)\)\n", reference, re.DOTALL)[1]
    assert re.findall(r"(\w+)=", signature) == options
    table = (ROOT / "docs/wrappers.md").read_text(encoding="utf-8").partition("| option | |")[2]
    rows = re.findall(r"^\| (`.*?`) \|", table.partition("\n\n")[0], re.MULTILINE)
    assert sorted(re.findall(r"`(\w+)`", " ".join(rows))) == sorted(options)


def test_readme_shows_the_line_to_add_on_its_first_screen():
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert any(line.startswith("+ ") and "arrayferry.wrap(" in line for line in lines[:15])


def changes_in(page: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(r"^```diff\n(.*?)```", text, re.MULTILINE | re.DOTALL)


def test_readme_and_front_page_show_the_same_change():
    assert changes_in("README.md")[0] == changes_in("docs/index.md")[0]


def test_the_loop_does_the_same_before_and_after_the_change():
    torch = pytest.importorskip("torch")
    change = changes_in("README.md")[0].splitlines()
    results = []
    for side in "-+":
        names = {"gym": gym, "torch": torch, "arrayferry": arrayferry, "device": "cpu", "num_steps": 200}
        names |= {"rewards": torch.zeros(200, 64), "dones": torch.zeros(200, 64)}
        names["agent"] = SimpleNamespace(act=lambda obs: (obs[:, 2] > 0).long())
        exec("\n".join(line[2:] for line in change if line.startswith((" ", side))), names)
        results.append([names[name] for name in ("obs", "rewards", "dones")])
    before, after = results
    assert all(torch.equal(*pair) for pair in zip(before, after))
    assert after[2].any()


def test_a_script_learns_the_same_before_and_after_the_change_on_its_page():
    torch = pytest.importorskip("torch")
    after = (ROOT / "examples/ppo_torch.py").read_text(encoding="utf-8")
    before = after
    text = (ROOT / "docs/with_cleanrl.md").read_text(encoding="utf-8").partition("\n## ")[0]
    for change in re.findall(r"^```diff\n(.*?)```", text, re.MULTILINE | re.DOTALL):
        lines = change.splitlines(keepends=True)
        old, new = ("".join(line[2:] for line in lines if line[0] in side) for side in (" -", " +"))
        assert before.count(new) == 1
        before = before.replace(new, old)
    assert "arrayferry.wrap(" not in before
    threads, returns = torch.get_num_threads(), []
    for script in before, after:
        names = {"__name__": "script", "device": "cpu", "np": np}
        exec(script, names)
        returns.append([mean_return for _, mean_return, _ in names["train"](20_480, seed=1)])
    torch.set_num_threads(threads)
    assert returns[0] == returns[1]
    assert returns[0][-1] > 2 * returns[0][0] > 0


def anchors_in(file: Path) -> set[str]:
    """Return the anchors of a page's headings, as Sphinx and GitHub make them."""
    text = re.sub(r"^```.*?^```", "", file.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = [heading.replace("`", "").lower() for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)]
    return {re.sub(r"[^\w -]", "", heading).strip().replace(" ", "-") for heading in headings}


def broken_links_in(page: Path) -> list[str]:
    text = re.sub(r"``.*?``|(?<=[ (])`[^`\n]+`", "", page.read_text(encoding="utf-8"))
    links = re.findall(r"\]\((?!\w+:)([^)\s#]*)(?:#([^)\s]+))?\)", text)
    broken = []
    for path, anchor in links:
        file = page.parent / path if path else page
        if not file.exists() or (anchor and anchor not in anchors_in(file)):
            broken.append(f"{path}#{anchor}")
    return broken


@pytest.mark.parametrize("page", [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")], ids=lambda page: page.name)
def test_links_lead_to_files_and_headings(page):
    assert broken_links_in(page) == []


def test_a_broken_link_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# A `page`: here\n[a](#a-page-here) [b](other.md) [c](page.md#there) [d](https://e.org)\n"
    )
    assert broken_links_in(page) == ["other.md#", "page.md#there"]


def test_every_program_is_on_a_page_and_in_the_gallery_with_a_picture():
    names = sorted(file.stem for file in ROOT.glob("examples/*.py"))
    pages = "".join(page.read_text(encoding="utf-8") for page in ROOT.glob("docs/*.md"))
    shown = re.findall(
        r"^\(program-(.+)\)=\n.*\n(?::open:\n)?```\{literalinclude\} ../examples/(.+).py$", pages, re.M
    )
    assert sorted(name for _, name in shown) == names
    assert all(label == name.replace("_", "-") for label, name in shown)
    gallery = (ROOT / "docs/gallery.md").read_text(encoding="utf-8")
    cards = re.findall(r":img-top: (images/gallery/(.+).svg)\n:link: program-(.+)$", gallery, re.MULTILINE)
    assert sorted(name for _, name, _ in cards) == names
    for picture, name, label in cards:
        assert (ROOT / "docs" / picture).is_file()
        assert label == name.replace("_", "-")


@pytest.mark.parametrize("tool", ["notebook", "draw_gallery"])
def test_what_tools_write_is_up_to_date(tool):
    module = load_tool(tool)
    if tool == "notebook":
        assert module.NOTEBOOK.read_text("utf-8") == module.notebook(module.PAGE.read_text("utf-8")), RERUN
    else:
        for program in module.PROGRAMS:
            picture = ROOT / f"docs/images/gallery/{program}.svg"
            assert picture.read_text("utf-8") == module.picture(program), RERUN


def skipped(text: str) -> bool:
    return re.search(r"#\s*doctest:[^\n]*\+SKIP", text) is not None


def test_no_example_is_skipped():
    folders = ["src", "docs", "tests", "examples", "tools", "benchmarks"]
    files = [
        f for folder in folders for kind in ("py", "md", "rst") for f in (ROOT / folder).rglob(f"*.{kind}")
    ]
    files += ROOT.glob("*.md")
    assert len(files) > 30
    assert [file for file in files if skipped(file.read_text(encoding="utf-8"))] == []
    assert skipped(">>> x  # doctest: +" + "SKIP")


# --- tools/check_imports.py


@pytest.fixture
def check_imports():
    return load_tool("check_imports")


def test_import_arrows_hold(check_imports):
    assert check_imports.check(ROOT / "src") == []


@pytest.mark.parametrize(
    ("file", "text", "breach"),
    [
        ("_core/tree.py", "from arrayferry._core import convert\n", None),
        ("_core/tree.py", "from arrayferry import testing\n", "the arrow points the other way"),
        ("errors.py", "def f():\n    from arrayferry._core import tree\n", "the arrow points the other way"),
        ("_core/tree.py", "# as torch does\n", "it knows no framework"),
        ("_frameworks/torch.py", "import torch\n", "imported with the module"),
        ("_frameworks/torch.py", "def f():\n    import torch\n", None),
        ("_core/tree.py", "import gymnasium\n", "imported with the module"),
        ("news.py", "", "has no height"),
        ("spaces/tree.py", 'x = "arrayferry.testing.checks"\n', "named in a string"),
        ("spaces/tree.py", 'x = "arrayferry.testing:checks"\n', "named in a string"),
        ("spaces/tree.py", 'x = "arrayferry.spaces:tree"\n', None),
        ("spaces/tree.py", "x = hasattr(object(), 'seeds_at_once')\n", "looked up by name"),
        ("spaces/tree.py", "x = getattr(object(), '_cast', None)\n", "looked up by name"),
        ("spaces/tree.py", "from arrayferry._core import _walk\n", "_walk belongs to another folder"),
        ("spaces/tree.py", "from arrayferry._core._walk import box\n", "_walk belongs to another folder"),
        ("spaces/tree.py", "from arrayferry._core.walk import box\nbox._cast\n", "_cast belongs to another"),
        ("spaces/tree.py", "class Tree:\n    def f(self):\n        return self._cast\n", None),
        ("_core/tree.py", "from arrayferry._core._walk import box\nbox._cast\n", None),
    ],
)
def test_import_arrows_can_break(check_imports, tmp_path, file, text, breach):
    package = tmp_path / "src" / "arrayferry"
    for folder in "_core", "_frameworks", "spaces":
        (package / folder).mkdir(parents=True)
        (package / folder / "__init__.py").touch()
    (package / "_core" / "walk.py").write_text("class Box:\n    seeds_at_once: int = 1\n    _cast = 2\n")
    (package / "__init__.py").touch()
    (package / "_frameworks" / "torch.py").touch()
    (package / file).write_text(text)
    found = check_imports.check(tmp_path / "src")
    assert [breach in line for line in found] == ([True] if breach else [])
