"""Fixtures of the command-line tests."""

from pathlib import Path

import pytest

from command_line import write_town


@pytest.fixture
def town(tmp_path: Path) -> list[str]:
    """A town of four blocks: the data and its codebook, as they are named on the command line."""
    return write_town(tmp_path)
