"""Sphinx: `make docs`."""

import os

from docutils import nodes

import arrayferry

project = "arrayferry"
author = "The arrayferry authors"
copyright = "2026, The arrayferry authors"
version = release = arrayferry.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
]
exclude_patterns = ["_build"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
suppress_warnings = ["myst.header"]  # the included changelog starts at its own level

default_role = "code"  # single backticks in docstrings
add_module_names = False
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True

# Copied without prompts and without what they print.
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

pygments_style = "default"  # whose diffs are green and red
html_theme = "furo"
html_title = f"arrayferry {release}"
html_show_sphinx = False
html_static_path = ["_static"]
html_css_files = ["arrayferry.css"]
if home := os.environ.get("ARRAYFERRY_HOME"):  # the address, once the project has one
    html_theme_options = {"source_repository": home, "source_branch": "main", "source_directory": "docs/"}


def mark_short_code(app, doctree):
    """Give names in tables a class, so that they are not broken in the middle."""
    for code in doctree.findall(nodes.literal):
        if len(code.astext()) <= 24 and " " not in code.astext():
            code["classes"].append("short")


def setup(app):
    app.connect("doctree-read", mark_short_code)
