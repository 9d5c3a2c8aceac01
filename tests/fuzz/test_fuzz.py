"""300 fuzz cases in `make test`; `make fuzz` runs 20,000. Cases that found something are kept by number."""

import pytest
from cases import KINDS, run

KEPT = {
    "readers": (
        12463,  # metadata of a Parquet file that state rows it does not have
        711061,  # a Parquet file whose columns are described wrongly: pyarrow ended the process
        712501,  # places outside a dictionary
        2006190,  # counts above 2^53 in a column without signs
    ),
    "engine": (12716, 16),  # no possible cell, and limits that cross; a table of totals as a release folder
    "numbers": (494,),  # a table as the epsilon of a Gaussian preset
    "resumed": (8,),  # nobody to count
    "ledgers": (248, 13253, 13283),  # a list as the name of a population; losses of 1/0 and of a huge power of ten
    "drafts": (102, 6717),  # names of columns that cannot be printed; an attribute named by a number
    "folders": (499, 658, 678, 679, 714589),  # damaged level tables; a measurement's column twice, or named in no text
}


@pytest.mark.parametrize("part", range(4))
def test_every_case_is_refused_in_a_line_or_right(part, tmp_path):
    accepted = 0
    for number in range(part * 75, part * 75 + 75):
        (folder := tmp_path / str(number)).mkdir()
        accepted += run(number, folder)
    assert 12 <= accepted <= 65  # cases that are all refused, or all accepted, would test little


@pytest.mark.parametrize(("kind", "number"), [(kind, number) for kind, numbers in KEPT.items() for number in numbers])
def test_a_case_that_found_something_once(kind, number, tmp_path):
    assert kind in KINDS
    run(number, tmp_path, kind)
