"""How the manual is built."""

from tallyveil import __version__

project = "tallyveil"
author = "The tallyveil developers"
release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.mathjax"]
myst_enable_extensions = ["dollarmath"]  # formulas between dollars
html_theme = "furo"
html_title = f"tallyveil {release}"
exclude_patterns = ["_build"]
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the types are in the source; a page of them is hard to read
napoleon_attr_annotations = False
