"""JSON records as claims: their figures, and the sentences that stand in them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from claims import Claim, Exact
from reading import claims_of
from statements import Statement, statements

SENTENCES = ("reading", "sentence", "words")
# figures of JSON records: their key, kind and scope
FIGURES = (
    ("epsilon", "epsilon"),
    ("rho", "rho"),
    ("pld_epsilon", "epsilon"),
    ("implied_epsilon", "implied"),
    ("zcdp_epsilon", "epsilon from rho"),
)


def json_claims(page: str, record: dict) -> Iterator[Claim]:
    """The figures of a JSON record as claims; the record says beside them for which neighbours they hold."""
    account = record.get("declared", record).get("guarantee", record)
    for key in SENTENCES:
        if isinstance(account.get(key), str):
            yield from claims_of(
                [replace(found, section=key) for found in statements(f"{page}.json", account[key] + " ")]
            )
    if "holds_for" in account:
        yield Claim("holds for", 0.0, account["holds_for"], Statement(f"{page}.json", account["holds_for"]))
    if page == "ledger":
        joint = [group["pld_epsilon"] for group in record["groups"]]
        account = {"epsilon": record["epsilon"], "pld_epsilon": joint[0]} if joint else {}
    for key, kind in FIGURES:
        if account.get(key) is not None:
            at = " at delta" if page == "ledger" or key == "pld_epsilon" else ""
            yield _figure_of(page, kind, "record", account[key], key + at)
    for part, scope in (("per_attribute", "attribute"), ("within_level", "place")):
        for name, value in (account.get(part) or {}).items():
            kind = "other attribute" if name == "*" else "epsilon"
            yield _figure_of(page, kind, f"{scope} {name}", value, part)
    if page.startswith("certificate"):
        declared = record["declared"]
        for row in declared["budget"]["queries"]:
            yield _figure_of(page, "noise", f"{row['query']}@{row['level']}", row["sd"], "budget")
        for row in declared["expected_error"]:
            yield _figure_of(page, "typical error", row["level"], row["sd"], "expected_error")
        for row in declared["budget"].get("exact", ()):
            where = f"{row['query']}@{row['level']}"
            yield Claim(
                "exact",
                0.0,
                where,
                Statement(f"{page}.json", f"exact {where}"),
                exact=(Exact(row["query"], row["level"]),),
            )
        for row in declared.get("exact_values", ()):
            number, units = (0 if row[key] == "all" else row[key] for key in ("counts", "units"))
            one = Exact(row["query"], row["level"], number, units, fixed=not row["true"])
            yield Claim("exact", 0.0, "an item", Statement(f"{page}.json", f"exact {one}"), exact=(one,))
    for row in record.get("accuracy", ()):
        yield _figure_of(page, "expected", f"{row['query']}@{row['level']}", row["sd"], "accuracy")


def _figure_of(page: str, kind: str, scope: str, value: float, key: str) -> Claim:
    source = Statement(f"{page}.json", f"{key}: {scope} {value}")
    return Claim(kind, value, scope, source, condition=frozenset({"agree", "satisfy", "no seed"}))
