"""How Hypothesis searches: the same cases every time in `make test`, new ones in `make test-all`."""

import os

from hypothesis import settings

settings.register_profile("same", deadline=None, derandomize=True)
settings.register_profile("new", deadline=None, max_examples=300)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))
