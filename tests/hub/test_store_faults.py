"""Failures of the store as faults: clients learn what to do, operators the place of the database as well."""

from __future__ import annotations

import pytest

from interlock.hub.store_faults import as_faults, fault_of, operator_fault_of
from interlock.store import Conflict, NotRecorded, StoreBusy, StoreError, StoreFull, StoreUnavailable
from interlock.wire.errors import ErrorDialect, Fault

PLACE = "/home/op/hub.db"
KINDS = [StoreError, Conflict, NotRecorded, StoreBusy, StoreFull, StoreUnavailable]


@pytest.mark.parametrize("kind", KINDS)
def test_clients_do_not_learn_the_place_of_the_database(kind: type[StoreError]) -> None:
    cause = kind("the database failed", operator_text=f"{PLACE}: it failed")
    for dialect in ErrorDialect:
        answer = fault_of(cause).render(dialect)
        assert answer.message == "the database failed"
        assert PLACE not in str(answer)
    with pytest.raises(Fault) as raised, as_faults():
        raise cause
    assert PLACE not in str(raised.value.render(ErrorDialect.REST))
    assert PLACE not in f"{fault_of(cause)}", "the text of the exception is for whoever asked"
    assert PLACE in fault_of(cause).for_operators
    assert PLACE in operator_fault_of(cause).message


def test_a_failure_that_names_no_place_is_the_same_for_everybody() -> None:
    cause = StoreBusy("too much is waiting to be written")
    assert (fault_of(cause).message, fault_of(cause).operator_text) == (cause.message, "")
