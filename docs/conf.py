"""How the manual is built: pages that load nothing from elsewhere."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from pygments.lexers.shell import BashSessionLexer
from sphinx.application import Sphinx

from tallyveil import __version__

project = "tallyveil"
author = project_copyright = "The tallyveil developers"
release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["dollarmath"]  # formulas between dollars
smartquotes_action = "qe"  # quotes and ellipses; "--units" in prose stays an option
html_theme = "furo"
html_title = f"tallyveil {release}"
html_static_path = ["_static"]
html_css_files = ["manual.css"]
html_show_sourcelink = False
html_copy_source = False
html_math_renderer = "mathml"
exclude_patterns = ["_build"]
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the types are in the source; a page of them is hard to read
napoleon_attr_annotations = False


class Console(BashSessionLexer):
    """Commands after a dollar and what they print; a line of output that begins with # is no command of root's."""

    _ps1rgx = re.compile(r"^(\$ )(.*\n?)")


def setup(app: Sphinx) -> None:
    """Formulas are MathML, which browsers draw by themselves; the usual renderer would load a script."""
    app.add_lexer("console", Console)
    app.add_html_math_renderer("mathml", inline_renderers=(_inline, None), block_renderers=(_block, None))


def _inline(translator: Any, node: nodes.math) -> None:
    translator.body.append(convert(node.astext()))
    raise nodes.SkipNode


def _block(translator: Any, node: nodes.math_block) -> None:
    text, _, tag = node.astext().partition(r"\tag{")
    number = f'<span class="eqno">({tag.rstrip().removesuffix("}")})</span>' if tag else ""
    translator.body.append(f'<div class="math">{convert(text, display="block")}{number}</div>')
    raise nodes.SkipNode
