"""Known vulnerabilities of the packages that tallyveil needs, as pip-audit finds them; skipped without a network."""

import json
import subprocess
import sys

PATIENCE = 300  # seconds; an index that takes longer does not answer
WORDS = ["--skip-editable", "--progress-spinner", "off", "--timeout", "10", "--format", "json"]
try:
    found = subprocess.run(
        [sys.executable, "-m", "pip_audit", *WORDS], capture_output=True, text=True, timeout=PATIENCE
    )
except subprocess.TimeoutExpired:
    print(f"The packages were not audited: no answer within {PATIENCE} seconds.")
    sys.exit(0)
try:
    packages = json.loads(found.stdout)["dependencies"]
except (ValueError, KeyError):
    packages = []
audited = [one for one in packages if "vulns" in one]  # the others were skipped: the index does not know them
if not audited:
    skipped = [one.get("skip_reason", "") for one in packages]
    reason = (skipped or found.stderr.strip().splitlines() or ["no answer"])[-1]
    print(f"The packages were not audited: pip-audit or its index does not answer ({reason[:200]}).")
    sys.exit(0)
unsafe = [(one["name"], one["version"], bug["id"]) for one in audited for bug in one["vulns"]]
for name, version, bug in unsafe:
    print(f"{name} {version}: {bug}")
print(f"{len(audited)} of {len(packages)} packages were audited; {len(unsafe)} known vulnerabilities.")
sys.exit(1 if unsafe else 0)
