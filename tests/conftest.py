"""How Hypothesis searches (the same cases in `make test`, new ones in `make test-all`), and shared fixtures."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("same", deadline=None, derandomize=True)
settings.register_profile("new", deadline=None, max_examples=300)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


def pytest_configure(config):
    """Forget kernels compiled from older sources, once: not in the processes that pytest-xdist starts."""
    if not hasattr(config, "workerinput"):
        from tallyveil.engine.kernels import forget_stale_kernels

        forget_stale_kernels()


@pytest.fixture
def no_noise(monkeypatch):
    """Any noise drawn is an error."""

    def fail(*_, **__):
        raise AssertionError("noise was drawn")

    monkeypatch.setattr("tallyveil.mechanisms.unit_answers.draw", fail)


@pytest.fixture
def town(tmp_path: Path) -> list[str]:
    """A town of four blocks: the data and its codebook, as they are named on the command line."""
    from command_line import write_town

    return write_town(tmp_path)
