"""Many cases in one test. Each that fails is told by its name, and the others run all the same.

`pytest.mark.parametrize` makes a test of each case. Every worker collects all of them, and reports each in three parts,
which takes longer than a case that only calls a function.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

from _pytest.mark import ParameterSet


def each_case(
    names: str | tuple[str, ...], values: Iterable[Any], *, ids: Iterable[Any] | Callable[[Any], Any] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Like `pytest.mark.parametrize`, for tests without fixtures and without anything to clean up."""
    arguments = tuple(name.strip() for name in names.split(",")) if isinstance(names, str) else names
    single = isinstance(names, str) and len(arguments) == 1
    sets = [ParameterSet.extract_from(value, force_tuple=single) for value in values]
    named = ids if ids is None or callable(ids) else list(ids)

    def name_of(number: int, case: ParameterSet) -> str:
        if case.id is not None:
            return str(case.id)
        if isinstance(named, list):
            return str(named[number])
        return "-".join(repr(value if named is None else named(value))[:300] for value in case.values)

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(**others: Any) -> None:
            failures: list[Exception] = []
            for number, case in enumerate(sets):
                assert not case.marks, "a case here has no marks of its own"
                try:
                    test(**others, **dict(zip(arguments, case.values, strict=True)))
                except Exception as failure:
                    failure.add_note(f"in the case {name_of(number, case)}")
                    failures.append(failure)
            assert sets, "there is no case"
            if len(failures) == 1:
                raise failures[0]
            if failures:
                raise ExceptionGroup(f"{len(failures)} of {len(sets)} cases failed", failures)

        assert not inspect.iscoroutinefunction(test), f"nobody would await {test.__name__}"
        taken = inspect.signature(test).parameters
        missing = set(arguments) - set(taken)
        assert not missing, f"{test.__name__} does not take {missing}"
        left = [parameter for name, parameter in taken.items() if name not in arguments]
        run.__signature__ = inspect.Signature(left)  # type: ignore[attr-defined]
        return run

    return decorate
