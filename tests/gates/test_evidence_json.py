"""Evidence goes to disk and comes back as it was."""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
import typing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testigo.errors import VerificationFailed
from testigo.gates import (
    BackwardEvidence,
    BalanceEvidence,
    ClassesEvidence,
    DataEvidence,
    DuplicateEvidence,
    Evidence,
    ExportEvidence,
    ForwardEvidence,
    MemoryEvidence,
    OverfitEvidence,
    ProcessesEvidence,
    ResumeEvidence,
    SplitEvidence,
    UpdateEvidence,
    ValidationEvidence,
    from_json,
    to_json,
)

KINDS = typing.get_args(Evidence)
records = st.one_of([st.from_type(kind) for kind in KINDS])


def there_and_back(given_records: tuple[Evidence, ...]) -> tuple[Evidence, ...]:
    return from_json(json.loads(json.dumps(to_json(given_records), allow_nan=False)))


@given(st.lists(records, max_size=4))
def test_any_evidence_comes_back_as_it_was(many: list[Evidence]) -> None:
    back = there_and_back(tuple(many))

    assert sorted(map(repr, back)) == sorted(map(repr, many))


def test_nan_and_infinity_survive_strict_json() -> None:
    (back,) = there_and_back((ForwardEvidence(loss=math.nan, loss_fp32=math.inf),))

    assert isinstance(back, ForwardEvidence)
    assert math.isnan(back.loss or 0)
    assert back.loss_fp32 == math.inf


def test_tuples_and_whole_floats_keep_their_types() -> None:
    evidence = UpdateEvidence(learning_rate_expected=(0.0, 1.0), trained=("a",))

    (back,) = from_json(json.loads('{"UpdateEvidence": {"learning_rate_expected": [0, 1], "trained": ["a"]}}'))

    assert back == evidence
    assert isinstance(back, UpdateEvidence)
    assert isinstance((back.learning_rate_expected or ())[1], float)


def test_several_records_of_one_kind_stay_several() -> None:
    both = (MemoryEvidence(phase="forward", failed=False), MemoryEvidence(phase="update", failed=True))

    assert there_and_back(both) == both


@pytest.mark.parametrize(
    "document",
    [
        {"OtherEvidence": {}},
        {"DataEvidence": {"n_rowz": {}}},
        {"DataEvidence": {"maximum_length": "long"}},
        {"MemoryEvidence": {"phase": "forward"}},
    ],
)
def test_evidence_of_another_version_is_refused(document: dict[str, object]) -> None:
    with pytest.raises(VerificationFailed):
        from_json(document)


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_is_documented_and_may_be_unmeasured(kind: type) -> None:
    source = inspect.getsource(kind)
    for field in dataclasses.fields(kind):
        after = source.split(f"    {field.name}: ", 1)[1].split("\n", 2)[1]
        assert after.strip().startswith('"""'), field.name
        assert kind is MemoryEvidence or field.default is None


def test_all_kinds_are_exported() -> None:
    assert set(KINDS) == {
        BackwardEvidence,
        BalanceEvidence,
        ClassesEvidence,
        DataEvidence,
        DuplicateEvidence,
        ExportEvidence,
        ForwardEvidence,
        MemoryEvidence,
        OverfitEvidence,
        ProcessesEvidence,
        ResumeEvidence,
        SplitEvidence,
        UpdateEvidence,
        ValidationEvidence,
    }
