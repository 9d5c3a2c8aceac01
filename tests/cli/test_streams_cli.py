"""A run does not depend on whether its messages can be written, nor the line on when Ctrl-C is pressed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import run

PROTECT = [sys.executable, "-m", "tallyveil", "protect"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux")
@pytest.mark.parametrize("redirected", ["2>/dev/full", "2>&-"])
def test_a_log_on_a_full_disk_or_no_log_at_all_does_not_end_a_run(town, tmp_path, redirected):
    words = [*PROTECT, *town, "--epsilon", "1", "--seed", "1", "-o", str(tmp_path / "out")]
    shell = f'{{ "$@"; echo $? >{tmp_path}/code; }} {redirected}'
    subprocess.run(["sh", "-c", shell, "sh", *words], check=False, stdout=subprocess.DEVNULL)
    assert (tmp_path / "code").read_text() == "0\n"
    assert (tmp_path / "out" / "certificate.json").exists()


def test_a_pipe_is_refused_as_a_table_because_it_can_be_read_only_once(town, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    done = run("protect", str(tmp_path / "pipe"), *town[1:], "--epsilon", "1", "--plan")
    line = f"tallyveil: {tmp_path}/pipe: a pipe or device, not a file. Save the table to a file, and give that.\n"
    assert (done.returncode, done.stderr) == (2, line)


def test_ctrl_c_while_the_program_is_loaded_is_a_line_too():
    code = "import sys\nclass Stop:\n def find_spec(self, name, *_):\n  if name == 'typer': raise KeyboardInterrupt\n"
    code += "sys.meta_path.insert(0, Stop())\nimport tallyveil.cli"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "tallyveil: interrupted; nothing was left half-written.\n")
