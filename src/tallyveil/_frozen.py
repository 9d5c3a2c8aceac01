"""A dictionary that does not change, for mappings inside frozen data (the standard library's cannot be pickled)."""

from typing import Any, NoReturn, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Frozen(dict[K, V]):
    """A read-only dictionary.

    >>> Frozen(a=1)["a"]
    1
    >>> Frozen(a=1)["a"] = 2
    Traceback (most recent call last):
    TypeError: this mapping is frozen
    """

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("this mapping is frozen")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[type, tuple[dict[K, V]]]:
        return type(self), (dict(self),)
