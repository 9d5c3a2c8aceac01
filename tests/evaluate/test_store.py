"""A folder of arrays for work that can be taken up again."""

import json

import numpy as np
import pandas as pd
import pytest
from test_audit import MOVED, PEOPLE, tree

from tallyveil.errors import InputError
from tallyveil.evaluate.audit.audit import audit
from tallyveil.runs.batches import Execution
from tallyveil.runs.store import FolderStore, FrameStore


def test_arrays_are_kept_by_name_and_found_again(tmp_path):
    store = FolderStore(tmp_path / "runs", job={"seed": 1})
    store["b-1"], store["a"] = np.arange(6).reshape(2, 3), np.array([0.5])
    again = FolderStore(tmp_path / "runs", job={"seed": 1})
    assert list(again) == ["a", "b-1"]
    assert len(again) == 2
    assert again["b-1"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert "c" not in again
    with pytest.raises(KeyError):
        again["c"]
    del again["a"]
    assert list(store) == ["b-1"]
    with pytest.raises(KeyError):
        del again["a"]


def test_a_folder_of_another_job_is_refused_with_what_differs(tmp_path):
    FolderStore(tmp_path / "runs", job={"seed": 1, "mechanism": "topdown", "views": [1, 2]})
    FolderStore(tmp_path / "runs", job={"seed": 1, "mechanism": "topdown", "views": (1, 2)})
    with pytest.raises(InputError, match=r"made for another job \(seed was 1, is now 2; query was None, is now 'a'\)"):
        FolderStore(tmp_path / "runs", job={"seed": 2, "mechanism": "topdown", "views": [1, 2], "query": "a"})


def test_a_folder_with_other_things_is_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(InputError, match=r"not empty, and it holds no work to resume \(no job\.json\)"):
        FolderStore(tmp_path, job={})
    (tmp_path / "job.json").write_text("{")
    with pytest.raises(InputError, match=r"job\.json: not readable"):
        FolderStore(tmp_path, job={})
    assert sorted(file.name for file in tmp_path.iterdir()) == ["job.json", "thesis.txt"]
    with pytest.raises(InputError, match=r"cannot be used"):
        FolderStore(tmp_path / "thesis.txt", job={})


def test_names_that_could_leave_the_folder_and_broken_files_are_refused(tmp_path):
    store = FolderStore(tmp_path / "runs", job={})
    for name in ("../a", ".a", "", "a/b"):
        with pytest.raises(InputError, match=r"cannot name a file"):
            store[name] = np.zeros(1)
    store["a"] = np.zeros(100)
    (tmp_path / "runs" / "a.npy").write_bytes((tmp_path / "runs" / "a.npy").read_bytes()[:200])
    with pytest.raises(InputError, match=r"a\.npy: not readable\. Delete it"):
        store["a"]


def test_an_array_that_cannot_be_written_leaves_nothing_behind(tmp_path):
    store = FolderStore(tmp_path / "runs", job={})
    with pytest.raises(ValueError, match="Object arrays cannot be saved"):
        store["a"] = np.array([object()])
    assert [file.name for file in (tmp_path / "runs").iterdir()] == ["job.json"]


def test_frames_are_kept_too(tmp_path):
    FrameStore(tmp_path / "runs", job={})["a"] = pd.DataFrame({"level": ["us"], "value": [0.5]})
    again = FrameStore(tmp_path / "runs", job={})
    assert again["a"].to_dict("list") == {"level": ["us"], "value": [0.5]}
    (tmp_path / "runs" / "a.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match=r"a\.parquet: not readable"):
        again["a"]


def test_an_audit_in_a_folder_is_taken_up_again_and_extended(tmp_path):
    asked = []

    def run(people, runs):
        asked.append(runs)
        return tree(7)(people, runs)

    def store():
        return FolderStore(tmp_path / "audit", job={"seed": 7})

    first = audit(run, PEOPLE, MOVED, runs=400, execution=Execution(batch=100, store=store()))
    assert audit(run, PEOPLE, MOVED, runs=400, execution=Execution(batch=100, store=store())) == first
    assert len(asked) == 8
    more = audit(run, PEOPLE, MOVED, runs=600, execution=Execution(batch=100, store=store()))
    assert len(asked) == 12
    assert more == audit(tree(7), PEOPLE, MOVED, runs=600)
    assert json.loads((tmp_path / "audit" / "job.json").read_text()) == {"seed": 7}
