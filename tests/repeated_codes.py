"""Random trees in which codes repeat under parents, have slashes, and any letters."""

from hypothesis import assume
from hypothesis import strategies as st

from tallyveil import Spine

Tree = tuple[tuple[str, ...], list[tuple[str, ...]]]


@st.composite
def relative_trees(draw: st.DrawFn) -> Tree:
    """Names of levels, and the path of every leaf, in no order; no two paths are the same text."""
    codes = st.text("1a/é京 ", min_size=1, max_size=3).filter(str.strip)
    paths: list[tuple[str, ...]] = [("top",)]
    for _ in range(draw(st.integers(1, 3))):
        paths = [(*path, code) for path in paths for code in draw(st.lists(codes, min_size=1, max_size=3, unique=True))]
        assume(len({"/".join(path) for path in paths}) == len(paths))
    return tuple(f"level {i}" for i in range(len(paths[0]))), draw(st.permutations(paths))


def relative_spine(tree: Tree) -> Spine:
    levels, paths = tree
    columns = {level: [path[i] for path in paths] for i, level in enumerate(levels)}
    return Spine.from_columns(columns, relative=True)
