"""``make audit``: known vulnerabilities fail it, and being offline does not."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / ".ci" / "audit.py"
BUG = {"id": "CVE-2026-1", "fix_versions": [], "aliases": [], "description": ""}
SAFE, UNSAFE = ({"name": "numpy", "version": "2.0", "vulns": bugs} for bugs in ([], [BUG]))
UNKNOWN = {"name": "zipp", "skip_reason": "Dependency not found on PyPI"}


@pytest.mark.parametrize(
    ("answer", "code", "words"),
    [
        ({"dependencies": [SAFE, UNKNOWN]}, 0, "1 of 2 packages were audited; 0 known vulnerabilities."),
        ({"dependencies": [SAFE, UNSAFE]}, 1, "numpy 2.0: CVE-2026-1\n2 of 2 packages were audited; 1 known"),
        ({"dependencies": [UNKNOWN]}, 0, "not audited: pip-audit or its index does not answer (Dependency not found"),
        (None, 0, "not audited: pip-audit or its index does not answer (no route to host)"),
    ],
    ids=["safe", "unsafe", "unknown", "offline"],
)
def test_the_audit_fails_for_known_vulnerabilities_and_says_what_it_did_not_look_at(tmp_path, answer, code, words):
    told = "sys.exit('no route to host')" if answer is None else f"print({json.dumps(json.dumps(answer))})"
    (tmp_path / "pip_audit.py").write_text(f"import sys\n{told}\n")
    done = subprocess.run(
        [sys.executable, str(SCRIPT)],
        env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (code, "")
    assert words in done.stdout
