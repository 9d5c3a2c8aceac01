"""The command line: the library's verbs, one file each."""

import sys

try:
    from tallyveil.cli.main import main
except KeyboardInterrupt:  # Ctrl-C while the commands are loaded
    sys.stderr.write("tallyveil: interrupted; nothing was left half-written.\n")
    sys.exit(130)

__all__ = ["main"]
