"""Draft a codebook from a table: what its columns show, and every doubt as a comment beside the line it concerns."""

from tallyveil.files.tables.draft.dictionary import read_dictionary
from tallyveil.files.tables.draft.table import Draft, draft_codebook, draft_table

__all__ = ["Draft", "draft_codebook", "draft_table", "read_dictionary"]
