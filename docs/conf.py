"""Sphinx settings."""

import comband

project = "comband"
author = "The comband maintainers"
copyright = "2026, The comband maintainers"
version = release = comband.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.mathjax", "sphinx_copybutton"]
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence"]
autodoc_typehints = "description"
autodoc_member_order = "bysource"
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "comband"
nitpicky = False
