"""Fixtures of several files."""

import pytest


@pytest.fixture
def no_noise(monkeypatch):
    """Any noise drawn is an error."""

    def fail(*_, **__):
        raise AssertionError("noise was drawn")

    monkeypatch.setattr("tallyveil.mechanisms.measure.draw", fail)
