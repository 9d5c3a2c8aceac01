"""Messages and progress on stderr never end a run: whoever reads them may be gone, or the disk of a log may be full."""

from __future__ import annotations

import io
import os
import sys
from typing import Any


class _Lasting(io.FileIO):
    """A file to which writing never fails; what cannot be written is lost."""

    def write(self, data: Any, /) -> int:  # typing has no name for what has a buffer before Python 3.12
        try:
            return super().write(data)
        except OSError:
            return len(data)


def keep_stderr() -> None:
    """Let stderr last as long as the process. Names of files and labels need not fit the terminal's encoding."""
    if sys.stderr is None:  # closed by whoever started the program
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 (until the end of the process)
    elif isinstance(sys.stderr, io.TextIOWrapper) and sys.stderr.fileno() == 2:
        out = io.BufferedWriter(_Lasting(2, "w", closefd=False))
        sys.stderr = io.TextIOWrapper(out, sys.stderr.encoding, "backslashreplace", line_buffering=True)
