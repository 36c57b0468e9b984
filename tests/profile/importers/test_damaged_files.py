"""Whatever happens to a file of an engine, the answer is right or one clear sentence."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcore.errors import EngineFileError
from simcore.profile.import_summary import describe_reading, missing_to_plan, summary_lines
from simcore.profile.importers import IMPORTERS, ImportOptions, read_files
from simcore.profile.importers.engine_file import EngineFile, open_files
from simcore.profile.importers.kinds import recognise
from simcore.profile.store import load_profile
from simcore.profile.tables import to_arrow
from tests.profile.importers.conftest import INVENTED, REAL
from tests.profile.importers.test_traces_and_steps import HEADER, SHAPES, _parquet, _rows

# kind -> (content, options) of a good file
GOOD = {
    "vllm_prometheus": ((REAL / "vllm_draft_after.prom").read_bytes(), {}),
    "vllm_log": ((REAL / "vllm.log").read_bytes()[-9000:], {}),
    "vllm_bench": ((REAL / "vllm_bench.json").read_bytes(), {}),
    "vllm_requests": ((REAL / "vllm_ngram_requests.jsonl").read_bytes(), {}),
    "sglang_log": ((INVENTED / "sglang.log").read_bytes(), {"gamma": 3}),
    "sglang_meta_info": ((INVENTED / "sglang_meta_info.jsonl").read_bytes(), {"gamma": 3}),
    "sglang_bench": ((INVENTED / "sglang_bench.jsonl").read_bytes(), {}),
    "trtllm_stats": ((INVENTED / "trtllm_stats.json").read_bytes(), {"proposer": "eagle"}),
    "trtllm_prometheus": ((INVENTED / "trtllm.prom").read_bytes(), {}),
    "llamacpp_timings": ((REAL / "llamacpp_timings.jsonl").read_bytes(), {"gamma": 3}),
    "llamacpp_log": ((REAL / "llamacpp.log").read_bytes(), {}),
    "llamacpp_prometheus": ((REAL / "llamacpp_after.prom").read_bytes(), {}),
    "guidellm": ((REAL / "guidellm.json").read_bytes(), {}),
    "aiperf": ((INVENTED / "aiperf_vllm.jsonl").read_bytes(), {}),
    "acceptance_trace": (
        b'{"domain": "a", "gamma": 3, "temp": 0, "acc": [3, 0, 2], "prop": [3, 0, 2]}\n' * 3,
        {},
    ),
    "step_cost_csv": ((HEADER + _rows(SHAPES)).encode(), {}),
}


def _total(reading) -> int:
    return sum(c.num_accepted_tokens for r in reading.records for c in r.counts.values())


def _read_or_error(kind, content, options):
    """The reading, sound, or None where one sentence was raised; other errors fail the test."""
    said = None
    try:
        _, reading = read_files(kind, [EngineFile("file", content)], ImportOptions(**options))
    except EngineFileError as error:
        said = str(error)
    if said is not None:
        assert "\n" not in said
        assert len(said) < 1000
        return None
    for record in reading.records:
        for gamma, counts in record.counts.items():
            counts.check(record.kind, gamma)
        if record.rows is not None:
            to_arrow("requests", record.rows.assign(record=0))
        if record.traces is not None:
            to_arrow("traces", record.traces.assign(record=0))
    if reading.samples is not None:
        seconds = to_arrow("cost", reading.samples).column("median_s").to_numpy()
        assert (np.isfinite(seconds) & (seconds > 0.0)).all()
    described = describe_reading(kind, reading)
    json.dumps(described, allow_nan=False)
    assert summary_lines(described, missing_to_plan(reading, None))
    return reading


def test_every_kind_is_fuzzed():
    assert set(GOOD) == set(IMPORTERS)


@pytest.mark.parametrize("kind", GOOD)
def test_a_good_file_is_recognised_and_read(kind):
    content, options = GOOD[kind]
    assert recognise(EngineFile("file", content)) == kind
    assert _read_or_error(kind, content, options) is not None


@pytest.mark.parametrize("kind", GOOD)
@given(share=st.floats(0.0, 1.0))
def test_a_file_cut_anywhere_never_holds_more_than_the_whole(kind, share):
    content, options = GOOD[kind]
    cut = content[: int(share * len(content))]
    reading = _read_or_error(kind, cut, options)
    if reading is not None:
        assert _total(reading) <= _total(_read_or_error(kind, content, options))


@pytest.mark.parametrize("kind", GOOD)
@given(order=st.randoms(use_true_random=False))
def test_lines_in_another_order_give_the_same_counts_or_an_error(kind, order):
    content, options = GOOD[kind]
    lines = content.splitlines(keepends=True)
    order.shuffle(lines)
    reading = _read_or_error(kind, b"".join(lines), options)
    if reading is not None:
        assert _total(reading) == _total(_read_or_error(kind, content, options))


COUNTED_AGAIN = {"acceptance_trace", "llamacpp_timings", "vllm_bench"}  # no name tells them apart


@pytest.mark.parametrize("kind", GOOD)
@given(data=st.data())
def test_a_repeated_line_is_not_counted_twice_where_it_can_be_told(kind, data):
    content, options = GOOD[kind]
    lines = content.splitlines(keepends=True)
    index = data.draw(st.integers(0, len(lines) - 1))
    reading = _read_or_error(kind, b"".join([*lines[: index + 1], *lines[index:]]), options)
    if reading is not None and kind not in COUNTED_AGAIN:
        assert _total(reading) == _total(_read_or_error(kind, content, options))


@pytest.mark.parametrize("kind", GOOD)
@given(position=st.integers(0, 10**6), byte=st.integers(0, 255))
def test_a_damaged_byte_gives_a_sound_reading_or_an_error(kind, position, byte):
    content, options = GOOD[kind]
    damaged = bytearray(content)
    damaged[position % len(damaged)] = byte
    _read_or_error(kind, bytes(damaged), options)


@pytest.mark.parametrize("kind", ["auto", *GOOD])
@given(content=st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode)))
def test_any_bytes_give_a_sound_reading_or_an_error(kind, content):
    _read_or_error(kind, content, {})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


OF_OBJECTS = {kind for kind, (content, _) in GOOD.items() if content[:2] in (b'{"', b"[\n")}


def _keys(value) -> list:
    """Every (container, key) of a JSON value."""
    if isinstance(value, dict):
        return [(value, key) for key in value] + [p for v in value.values() for p in _keys(v)]
    if isinstance(value, list):
        return [(value, i) for i in range(len(value))] + [p for v in value for p in _keys(v)]
    return []


@pytest.mark.parametrize("kind", [k for k in GOOD if k in OF_OBJECTS])
@given(data=st.data(), value=JSON)
def test_any_value_in_any_place_of_an_object_gives_a_sound_reading_or_an_error(kind, data, value):
    content, options = GOOD[kind]
    found = json.loads(content if content[:1] == b"[" else content.splitlines()[0])
    container, key = data.draw(st.sampled_from(_keys(found)))
    container[key] = value
    _read_or_error(kind, json.dumps(found).encode(), options)


@pytest.mark.parametrize("kind", sorted(set(GOOD) - {"acceptance_trace"}))
def test_bytes_of_another_coding_are_refused_by_line(kind):
    content, options = GOOD[kind]
    said = None
    try:
        read_files(kind, [EngineFile("file", content + b"\n\xff\n")], ImportOptions(**options))
    except EngineFileError as error:
        said = str(error)
    assert said is not None
    assert "0xff is not UTF-8" in said


LONG = {
    "a very long line": b"x" * 3_000_000,
    "very many lines": b"nothing to see\n" * 200_000,
    "a deep list": b"[" * 200_000,
    "a long number": b'{"metrics": ' + b"9" * 100_000 + b"}",
    "many objects": b'{"a": 1}\n' * 50_000,
}


@pytest.mark.parametrize("content", LONG.values(), ids=LONG)
@pytest.mark.parametrize("kind", ["auto", *GOOD])
def test_very_long_input_gives_an_error_in_no_time(kind, content):
    assert _read_or_error(kind, content, {}) is None


def test_many_good_lines_are_read():
    line = (INVENTED / "sglang_meta_info.jsonl").read_text().splitlines()[0]
    many = "\n".join(line.replace('"a"', f'"{number}"') for number in range(20_000))
    reading = _read_or_error("sglang_meta_info", many.encode(), {})
    assert _total(reading) == 60 * 20_000


@given(share=st.floats(0.0, 1.0))
def test_a_cut_parquet_file_is_damaged(share):
    content = _parquet(acc=[[1, 2, 0]], gamma=[3])
    cut = content[: int(share * (len(content) - 1))]
    assert _read_or_error("acceptance_trace", cut or b"PAR1", {}) is None


def test_a_file_larger_than_memory_is_refused_unread(tmp_path):
    path = tmp_path / "huge.log"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(EngineFileError, match=r"has \d+ bytes; expected at most \d+: cut it"):
        open_files([path])


@pytest.mark.parametrize(
    ("line", "engine", "advice"),
    [
        ('vllm:generation_tokens_total{engine="0"} 1000.0', "vLLM", "with speculation on"),
        ("vllm:spec_decode_draft_acceptance_rate 0.6", "vLLM", "a recent engine counts them"),
        ("sglang:spec_accept_length 2.4", "SGLang", "meta_info"),
        ("llamacpp:tokens_predicted_total 5", "llama.cpp", "with speculation on"),
    ],
)
def test_a_metrics_page_without_counts_of_drafts_is_told_from_an_unknown_file(line, engine, advice):
    text = f"# TYPE it counter\n{line}\n"
    with pytest.raises(EngineFileError, match=f"metrics page of {engine} without .*{advice}"):
        recognise(EngineFile("metrics", text.encode()))


def test_files_with_nothing_to_store_lack_something_however_whole_the_profile():
    file = EngineFile("guidellm.json", (REAL / "guidellm.json").read_bytes())
    _, reading = read_files("auto", [file], ImportOptions())
    whole = load_profile("smollm2_135m_cpu").profile
    assert any("anything to store" in each for each in missing_to_plan(reading, whole))
