"""plan.json read back: equal where it is whole, one sentence where it is not."""

import json

import pytest

from simcore import PlanError, read_plan
from simcore.planner.plan import make_plan
from tests.factories import make_scenario


@pytest.fixture(scope="module")
def plan(recorded_profile):
    scenario = make_scenario(
        recorded_profile, **{"workload.num_requests": 40, "speculation.proposer": "ngram"}
    )
    return make_plan(scenario, stored=recorded_profile, num_replications=2)


@pytest.fixture
def written(plan, tmp_path):
    """Write the plan, changed by these fields, or this text in its place; the path."""

    def write(text: str | bytes | None = None, **changes: object):
        path = tmp_path / "plan.json"
        if text is None:
            text = json.dumps(json.loads(plan.model_dump_json()) | changes)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return write


def refusal(path) -> str:
    with pytest.raises(PlanError) as raised:
        read_plan(path)
    message = str(raised.value)
    assert "\n" not in message
    assert str(path) in message
    return message


def test_a_plan_comes_back_equal_from_its_file_and_from_its_folder(plan, written):
    path = written()
    assert read_plan(path) == plan
    assert read_plan(str(path.parent)) == plan


@pytest.mark.parametrize("version", [0, 2, "1", None, True])
def test_another_schema_version_is_named(written, version):
    message = refusal(written(schema_version=version))
    assert f"plan schema version {version!r}" in message
    assert "make the plan again" in message


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[1, 2", '{"decision": 1, "decision": 2}', b"\xff\xfe\x00", b"\x80abc"),
        *("[" * 100_000, "1" * 5000),
    ],
    ids=["empty", "cut", "cut list", "repeated key", "utf-16", "latin-1", "deep", "huge number"],
)
def test_what_is_no_json_cannot_be_read(written, text):
    assert "cannot read" in refusal(written(text))


@pytest.mark.parametrize("text", ["null", "[]", "{}", '"plan"', '{"schema_version": 1}'])
def test_json_of_something_else_holds_no_plan(written, text):
    assert "holds no plan" in refusal(written(text))


def test_a_file_that_is_missing_is_named(tmp_path):
    assert "No such file" in refusal(tmp_path / "plan.json")


def test_an_unknown_or_damaged_field_is_named(written):
    assert "surprise: unknown field" in refusal(written(surprise=1))
    assert "caveats: got 'none'" in refusal(written(caveats="none"))
    assert "no valid plan" in refusal(written(origin={"x": float("nan")}, speedup=float("nan")))


def test_a_plan_that_names_what_it_does_not_hold_is_refused(plan, written):
    raw = json.loads(plan.model_dump_json())
    assert "ngram γ=99" in refusal(
        written(break_even=raw["break_even"] | {"num_speculative_tokens": 99})
    )
    assert "off" in refusal(written(candidates=raw["candidates"][1:]))
