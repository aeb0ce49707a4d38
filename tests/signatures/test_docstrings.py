"""Descriptions come out of docstrings in three styles; an odd one is left as prose."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from interlock.signatures.docstrings import Docstring

GOOGLE = """Find a flight.

    Searches all airlines,
    also the small ones.

    Args:
        origin (str): Where it starts,
            as an airport code.
        *days: How many days: at most 9.

    Returns:
        The cheapest flight.

    Raises:
        ValueError: never read as a parameter
    """

NUMPY = """Find a flight.

    Searches all airlines,
    also the small ones.

    Parameters
    ----------
    origin : str
        Where it starts,
        as an airport code.
    days : int, optional
        How many days: at most 9.

    Returns
    -------
    Flight
        The cheapest flight.

    Raises
    ------
    ValueError
        never read as a parameter
    """

SPHINX = """Find a flight.

    Searches all airlines,
    also the small ones.

    :param str origin: Where it starts,
        as an airport code.
    :param days: How many days: at most 9.
    :type days: int
    :returns: The cheapest flight.
    :raises ValueError: never read as a parameter
    """


@each_case("text", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_every_style_says_the_same(text: str) -> None:
    assert Docstring.parse(text) == Docstring(
        "Find a flight.\n\nSearches all airlines,\nalso the small ones.",
        {"origin": "Where it starts, as an airport code.", "days": "How many days: at most 9."},
        "The cheapest flight.",
    )


@each_case("text", ["", "One line.", "Note: this is prose.", "Args: are discussed here.\nAnd here."])
def test_prose_stays_prose(text: str) -> None:
    assert Docstring.parse(text) == Docstring(text)


@given(st.text(alphabet="Args: \n-param()*Retuns", max_size=80))
def test_no_text_is_too_odd_to_read(text: str) -> None:
    assert isinstance(Docstring.parse(text).text, str)


@each_case(
    ("said", "kept"),
    [
        ("int: how many", "how many"),
        ("dict[str, list[int]]: by name", "by name"),
        ("int | None: how many", "how many"),
        ("a list of names: the best first", "a list of names: the best first"),
        ("nothing", "nothing"),
    ],
)
def test_a_type_before_what_googles_style_says_of_a_result_is_left_out(said: str, kept: str) -> None:
    assert Docstring.parse(f"Do it.\n\nReturns:\n    {said}\n").returns == kept
