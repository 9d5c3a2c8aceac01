"""``tallyveil codebook``: draft a codebook by looking at a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tallyveil.errors import InputError, one_line

if TYPE_CHECKING:
    from tallyveil.files.tables.draft import Draft
    from tallyveil.files.tables.form import FileForm

FROM_DATA = (
    "Labels and units were taken from the data, so they can tell about single people: what is released with this "
    "codebook is stamped. Check them, list every label that can occur, give --units FILE, then remove labels_from and "
    "units_from."
)
UNITS_FROM_DATA = (
    "Units were taken from the data, so they can tell about single people: what is released with this codebook is "
    "stamped. Check them, give --units FILE, then remove units_from."
)
DRAFTED = "# Drafted from "  # the first words of a draft
INCOMPLETE = 1  # exit code: a draft was made, but it cannot be used before it is completed


def codebook(
    data: Annotated[Path, typer.Argument(help="CSV, Parquet or Excel (.xlsx) file of people or counts.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="File for the codebook (default: print it). A draft with FILL_IN is replaced."
        ),
    ] = None,
    levels: Annotated[
        str | None,
        typer.Option(metavar="A,B,C", help="Columns of the geographic levels, coarse to fine (default: inferred)."),
    ] = None,
    attributes: Annotated[
        str | None,
        typer.Option(
            metavar="X,Y",
            help="Columns of the attributes; or the names of the attributes in the names of columns, in their order.",
        ),
    ] = None,
    count: Annotated[str | None, typer.Option(metavar="N", help="Column with the count (default: inferred).")] = None,
    persons: Annotated[
        bool, typer.Option("--persons", help="One row is one person, whatever numbers the table has.")
    ] = False,
    dictionary: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Table with columns attribute, code and label: the words that are published for codes."
        ),
    ] = None,
    sheet: Annotated[
        str | None, typer.Option(metavar="NAME", help="Sheet of an Excel file (default: the one with the most rows).")
    ] = None,
    encoding: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Encoding of a text file, such as cp1250 (default: the one its letters suggest)."
        ),
    ] = None,
) -> None:
    """Draft a codebook for a table, and summarise what is read with it.

    The levels are inferred from the data: a column is above another if each value of the finer one lies in one value
    of the coarser one. Column names can be in any language. Columns of no use are listed under ignore with the reason,
    and each doubt is a comment beside the line that it concerns.

    The labels and units of a draft come from the data, which makes them depend on the people. The draft says so
    (labels_from, units_from), and releases made with it are stamped until someone has checked the lists against a
    public source and removed these lines.

    Nothing is guessed that would change how many people are counted. If it is not clear which numbers are counts, or
    which rows and columns are totals of others, the draft has FILL_IN in that place and a comment on what to write. The
    command then exits with code 1, as it does if no geography is found or a value cannot be read.

    [bold]Examples[/bold]

      tallyveil codebook blocks.parquet

      tallyveil codebook schools.csv --levels region,district,school --count pupils -o schools.toml

      tallyveil codebook persons.xlsx --dictionary codes.csv -o persons.toml
    """
    from tallyveil.files.tables.draft import draft_table, read_dictionary
    from tallyveil.files.tables.write import write_text

    if output is not None and output.exists() and not _is_incomplete_draft(output):
        raise InputError(f"{output} exists. Name a new file; nothing is overwritten.")
    drafted = draft_table(
        data,
        levels=_listed(levels),
        attributes=_listed(attributes),
        count=count,
        persons=persons,
        dictionary=None if dictionary is None else read_dictionary(dictionary),
        sheet=sheet,
        encoding=encoding,
    )
    text = f"{DRAFTED}{data.name}. Check the order of levels and the names and order of labels.\n"
    text += drafted.to_toml()
    if output is None:
        typer.echo(text, nl=False)
    else:
        write_text(text, output)
    complete = _summarise(data, drafted, output, guessed=encoding is None)
    raise typer.Exit(0 if complete else INCOMPLETE)


def _is_incomplete_draft(output: Path) -> bool:
    """Whether a file is a draft that still has FILL_IN, which no command can use: a new draft may replace it."""
    from tallyveil.files.tables.codebook import FILL_IN

    if not output.is_file():
        return False
    text = output.read_text(encoding="utf-8", errors="replace")
    return text.startswith(DRAFTED) and f'"{FILL_IN}"' in text


def _summarise(data: Path, drafted: Draft, output: Path | None, *, guessed: bool) -> bool:
    """Say on stderr what the draft reads and what it lacks. Returns whether it reads the table.

    ``guessed`` says that the user named no encoding.
    """
    from tallyveil.cli.reading import outline
    from tallyveil.files.tables.read import read_counts

    for line in _form_in_words(drafted.book.form, guessed=guessed):
        _tell(line)
    if drafted.book.ignore:
        _tell(f"columns that are not used: {', '.join(drafted.book.ignore)}")
    for words in drafted.missing:
        _tell(f"{data}: the draft is incomplete: {words}")
    if drafted.missing:
        return False
    try:
        people = read_counts(data, drafted.book)
    except InputError as problem:
        _tell(f"the draft does not read the table yet: {problem}")
        return False
    typer.echo(one_line(f"{people.total():,} persons; {outline(people)}"), err=True)
    typer.echo(FROM_DATA if drafted.book.labels_from else UNITS_FROM_DATA, err=True)
    if output is not None:
        command = f"tallyveil protect {data} --codebook {output} --epsilon 1 --plan"
        typer.echo(f"{output}: a draft. Read it, and correct it where it is wrong. Next: {command}", err=True)
    return True


def _form_in_words(form: FileForm, *, guessed: bool) -> list[str]:
    """What the file has beside its table, and how it is read."""
    from tallyveil.files.tables.codebook import FILL_IN

    around = [(form.title_rows, "above it"), (form.note_rows, "below it")]
    rows = [f"{number} {'row' if number == 1 else 'rows'} {where}" for number, where in around if number]
    marked = {column: [repr(v) for v in values if v != FILL_IN] for column, values in form.total_rows.items()}
    marks = [f"{column} {', '.join(values)}" for column, values in marked.items() if values]
    remedy = "; if letters are wrong, draft again with --encoding NAME" if guessed else ""
    lines = [f"the file is not UTF-8, and read as {form.encoding}{remedy}"] if form.encoding else []
    lines += [f"not part of the table: {', '.join(rows)}"] if rows else []
    lines += [f"names of columns stand in {form.header_rows} rows"] if form.header_rows > 1 else []
    lines += [f"rows of totals that are left out: {'; '.join(marks)}"] if marks else []
    lines += [f"empty cells have the value above: {', '.join(form.fill_down)}"] if form.fill_down else []
    lines += [f"read as 0: {', '.join(map(repr, form.zeros))}"] if form.zeros else []
    lines += ["spaces around values are removed"] if form.strip else []
    return lines + ([f"thousands are separated by {form.thousands!r}"] if form.thousands else [])


def _tell(message: str) -> None:
    """Print a message, which may quote anything in a table, in one printable line."""
    typer.echo(f"tallyveil: {one_line(message)}", err=True)


def _listed(text: str | None) -> tuple[str, ...]:
    """The names in a list with commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip()) if text else ()
