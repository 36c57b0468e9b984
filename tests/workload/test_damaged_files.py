"""Whatever happens to a file of requests, the answer is right or one clear error."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcore.errors import ScenarioError
from simcore.workload.files import FORMATS, read_requests
from tests.workload.conftest import HEADERS

REQUESTS = st.lists(
    st.tuples(st.integers(0, 10_000), st.integers(1, 5000), st.integers(1, 5000)),
    min_size=1,
    max_size=20,
)


def _write(format_name: str, requests) -> str:
    """The same requests (milliseconds, prompt, output) in any format."""
    times_ms, prompt, output = (list(column) for column in zip(*requests, strict=True))
    if format_name == "mooncake":
        return "\n".join(
            json.dumps({"timestamp": t, "input_length": p, "output_length": o, "hash_ids": [t]})
            for t, p, o in requests
        )
    if format_name in ("vllm_bench", "sglang_bench"):
        run = {"input_lens": prompt, "output_lens": output, "request_rate": float("inf")}
        if format_name == "vllm_bench":
            run["start_times"] = [t / 1e3 for t in times_ms]
        return json.dumps(run)
    rows = {
        "azure": "2023-11-16 18:00:{:010.7f},{},{}",
        "burstgpt": "{},GPT-4,{},{},9,API log",
        "csv": "{},{},{}",
    }
    return "\n".join(
        [HEADERS[format_name], *(rows[format_name].format(t / 1e3, p, o) for t, p, o in requests)]
    )


def _read_or_error(path: Path, content: bytes, format_name: str):
    """The table, or None where the one sentence was raised; any other error fails the test."""
    path.write_bytes(content)
    said = ""
    try:
        table = read_requests(path, format_name)
    except ScenarioError as error:
        said = str(error)
    if said:
        assert "\n" not in said
        assert str(path) in said
        return None
    if "arrival_s" in table.column_names:
        assert (np.diff(table.column("arrival_s").to_numpy(), prepend=0.0) >= 0.0).all()
    for name in ("prompt_tokens", "output_tokens"):
        if name in table.column_names:
            assert table.column(name).to_numpy().min() >= 1
    return table


@pytest.fixture
def target(tmp_path):
    """A new file name every time: the readers know a file by name, time of change and size."""
    count = iter(range(10**9))
    return lambda: tmp_path / f"requests{next(count)}"


@pytest.mark.parametrize("format_name", FORMATS)
@given(requests=REQUESTS)
def test_requests_in_any_order_are_read_right_or_refused(target, format_name, requests):
    table = _read_or_error(target(), _write(format_name, requests).encode(), format_name)
    in_order = sorted(requests, key=lambda request: request[0])
    if format_name == "sglang_bench":
        in_order = requests
    if table is None:
        assert in_order != requests
        assert format_name not in ("vllm_bench", "sglang_bench")
        return
    assert table.column("prompt_tokens").to_pylist() == [p for _, p, _ in in_order]
    assert table.column("output_tokens").to_pylist() == [o for _, _, o in in_order]
    if "arrival_s" in table.column_names:
        expected = [(t - in_order[0][0]) / 1e3 for t, _, _ in in_order]
        assert table.column("arrival_s").to_pylist() == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("format_name", FORMATS)
@given(requests=REQUESTS, share=st.floats(0.0, 1.0))
def test_a_file_cut_anywhere_gives_its_first_requests_or_an_error(
    target, format_name, requests, share
):
    ordered = sorted(requests)
    content = _write(format_name, ordered).encode()
    kept = content[: int(share * len(content))]
    table = _read_or_error(target(), kept, format_name)
    if table is not None:
        # All but the last row are whole; its last number may have lost digits.
        prompt = table.column("prompt_tokens").to_pylist()
        assert prompt == [p for _, p, _ in ordered][: len(prompt)]
        output = table.column("output_tokens").to_pylist()
        assert output[:-1] == [o for _, _, o in ordered][: len(output) - 1]


@pytest.mark.parametrize("format_name", FORMATS)
@given(requests=REQUESTS, position=st.integers(0, 10**6), byte=st.integers(0, 255))
def test_a_damaged_byte_gives_a_table_or_an_error(target, format_name, requests, position, byte):
    content = bytearray(_write(format_name, sorted(requests)).encode())
    content[position % len(content)] = byte
    _read_or_error(target(), bytes(content), format_name)


@pytest.mark.parametrize("format_name", ["auto", *FORMATS])
@given(content=st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode)))
def test_any_bytes_give_a_table_or_an_error(target, format_name, content):
    _read_or_error(target(), content, format_name)


@pytest.mark.parametrize("format_name", ["azure", "burstgpt", "csv"])
@given(requests=REQUESTS)
def test_a_duplicated_row_is_one_more_request(target, format_name, requests):
    ordered = sorted(requests)
    table = _read_or_error(
        target(), _write(format_name, [*ordered, ordered[-1]]).encode(), format_name
    )
    assert table.num_rows == len(ordered) + 1


def test_a_very_long_row_and_very_many_rows_are_read(tmp_path):
    many = tmp_path / "many.csv"
    many.write_text("\n".join(["arrival_s", *(str(i) for i in range(200_000))]))
    assert read_requests(many).num_rows == 200_000
    long = tmp_path / "long.csv"
    long.write_text("arrival_s,note\n0," + "x" * 3_000_000 + "\n1,y\n")
    assert read_requests(long).num_rows == 2
    wide = tmp_path / "wide.csv"
    wide.write_text("arrival_s" + ",note" * 200_000 + "\n")
    with pytest.raises(ScenarioError):
        read_requests(wide)


def test_a_file_larger_than_memory_is_refused_unread(tmp_path):
    path = tmp_path / "huge.csv"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(ScenarioError, match=r"has \d+ bytes; expected at most \d+: cut it"):
        read_requests(path)
