"""The command line: the library's verbs, one file each."""

from tallyveil.cli.main import main

__all__ = ["main"]
