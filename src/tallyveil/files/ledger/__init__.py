"""The ledger of a programme: what was measured about the same people over years, in a file that only grows."""
