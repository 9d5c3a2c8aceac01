"""``python -m tallyveil`` is the program ``tallyveil``."""

from tallyveil.cli import main

main()
