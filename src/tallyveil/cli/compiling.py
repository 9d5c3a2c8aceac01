"""``python -m tallyveil.cli.compiling``: compile the kernels before the first run, as a part of setting up."""


def compile_kernels() -> None:
    """Protect and evaluate a small census, so that all kernels of a run are compiled and cached."""
    from tallyveil.evaluate import epl, error, residuals
    from tallyveil.populations import census_1940
    from tallyveil.privacy import Strategy
    from tallyveil.protection.protect import protect

    census = census_1940(persons=5_000, seed=1)
    release = protect(census, Strategy.preset("e2e-2018", epsilon=1), seed=1)
    error(census, release)
    epl(residuals(census, release, level="enumdist", query="race"))


if __name__ == "__main__":
    compile_kernels()
