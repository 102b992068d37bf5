"""Sphinx settings."""

from pathlib import Path

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from typer.testing import CliRunner

import comband
from comband.commands.cli import COMMANDS, app
from comband.page.declaring import markdown

project = "comband"
author = "The comband maintainers"
copyright = "2026, The comband maintainers"
version = release = comband.__version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence"]
myst_heading_anchors = 2
autodoc_typehints = "description"
autodoc_type_aliases = {"ArrayLike": "ArrayLike"}
autodoc_member_order = "bysource"
exclude_patterns = ["_build", "gallery"]
html_theme = "furo"
html_math_renderer = "mathml"
html_title = f"comband {release}"
html_static_path = ["_static"]
html_css_files = ["comband.css"]
templates_path = ["_templates"]
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/versions.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}
nitpicky = False
linkcheck_anchors = False
sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "auto_gallery",
    "filename_pattern": "/plot_",
    "image_scrapers": ("matplotlib",),
    "abort_on_example_error": True,
    "download_all_examples": False,
    "min_reported_time": 1e9,  # times are told in the benchmarks, where they are compared
    "show_memory": False,
    "ignore_repr_types": r"matplotlib",  # pictures say it themselves
    "write_computation_times": False,
    "remove_config_comments": True,
}


def command_reference() -> str:
    """Every command's own --help, so that the page cannot drift from the program."""
    page = [
        "# Commands",
        "Data go to standard output, progress and remarks to standard error. Exit codes: 0 done (`evaluate`: a "
        "candidate is decided on), 1 the input was refused, or is not valid (one sentence says why), 2 the command was "
        "not understood, 3 `evaluate` has decided nothing yet (`--exit-zero`: 0).",
    ]
    for name, summary in sorted(COMMANDS.items()):
        text = CliRunner().invoke(app, [name, "--help"], prog_name="comband", env={"TERMINAL_WIDTH": "84"}).stdout
        page += [f"## comband {name}", summary, f"```text\n{text.strip()}\n```"]
    return "\n\n".join(page) + "\n"


Path(__file__).with_name("cli.md").write_text(command_reference(), encoding="utf-8")
Path(__file__).with_name("settings.md").write_text(
    f"""# All settings of an experiment

What is said before the first visitor comes. Each setting is declared once, in `comband.certify.spec` (the page in
`Problem`), and means the same as an argument of {{py:class}}`comband.AdaptiveComband` and the other certifying
learners, in a saved file, as a field of `POST /v1/experiments` and of `[[experiments]]` in TOML
({{doc}}`howto_serve`), and as an option of `comband simulate` (`--first-epoch 500`; `n_actions`, `list_size`,
`max_rounds` and `exploration` are `--items`, `--slots`, `--rounds` and `--learner` there). What a learner or the
service cannot heed it refuses in a sentence. `learner.declared`, reports and the page of the service list what was
said.

{markdown(comband.Problem, comband.certify.CertifyingLearner.SPEC)}
""",
    encoding="utf-8",
)


def prepare(app, what, name, obj, options, lines):
    """An example is a section of its own; and |a|, the size of a set in our docstrings, would be a substitution."""
    first = next((i for i, line in enumerate(lines) if line.startswith(">>>")), None)
    if first is not None:
        lines[first:first] = ["Examples", "--------"]
    lines[:] = [line if "`" in line or ">>>" in line else line.replace("|", r"\|") for line in lines]


def mathml(translator, node):
    """Formulas as MathML, which browsers draw themselves: pages need no script of another site."""
    block = isinstance(node, nodes.math_block)
    drawn = tex2mathml(node.astext(), as_block=block)
    translator.body.append(f'<div class="formula">{drawn}</div>' if block else drawn)
    raise nodes.SkipNode


def setup(app):
    """Sphinx calls this."""
    app.add_html_math_renderer("mathml", inline_renderers=(mathml, None), block_renderers=(mathml, None))
    app.connect("autodoc-process-docstring", prepare, priority=400)  # before numpy's sections are read
