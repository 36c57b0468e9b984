"""Readers of recorded requests: the right table, or one sentence that says what is wrong."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from simcore.errors import ScenarioError
from simcore.workload.files import FORMATS, read_requests
from tests.workload.conftest import HEADERS

DATA = Path(__file__).parent / "data"
EXPECTED = {
    "azure.csv": ("azure", [0.0, 1e-7, 4.541877], [374, 396, 879], [44, 109, 55]),
    "azure_2024.csv": ("azure", [0.0, 0.007405], [2162, 2399], [5, 6]),
    "burstgpt.csv": ("burstgpt", [0.0, 40.0, 40.0], [472, 1087, 417], [18, 230, 276]),
    "mooncake.jsonl": ("mooncake", [0.0, 0.0, 2.5], [1030, 700, 100], [50, 49, 7]),
    "plain.csv": ("csv", [0.0, 0.25, 2.0], [10, 20, 30], [3, 4, 5]),
    "vllm_bench.json": ("vllm_bench", [0.0, 0.25, 1.75], [34, 12, 56], [6, 5, 7]),
    "sglang_bench.jsonl": ("sglang_bench", None, [12, 34, 56], [5, 6, 7]),
}


@pytest.mark.parametrize("file", EXPECTED)
def test_every_format_is_recognised_and_read(file):
    format_name, arrival_s, prompt, output = EXPECTED[file]
    table = read_requests(DATA / file)
    assert table.equals(read_requests(DATA / file, format_name))
    assert table.column("prompt_tokens").to_pylist() == prompt
    assert table.column("output_tokens").to_pylist() == output
    if arrival_s is None:
        assert "arrival_s" not in table.column_names
    else:
        assert table.column("arrival_s").to_pylist() == pytest.approx(arrival_s, abs=1e-12)


def test_every_format_has_a_file_here():
    assert {name for name, *_ in EXPECTED.values()} == set(FORMATS)


def test_prefix_blocks_of_a_mooncake_trace_stay_with_their_request():
    table = read_requests(DATA / "mooncake.jsonl")
    assert table.column("hash_ids").to_pylist() == [[0, 1, 2], [0, 3], []]


def test_times_and_lengths_may_come_alone(tmp_path):
    times, lengths = tmp_path / "times.csv", tmp_path / "lengths.csv"
    times.write_text("arrival_s\n1\n2.5\n")
    lengths.write_text("prompt_tokens,output_tokens\n4,5\n")
    assert read_requests(times).to_pydict() == {"arrival_s": [0.0, 1.5]}
    assert read_requests(lengths).to_pydict() == {"prompt_tokens": [4], "output_tokens": [5]}


def test_windows_line_ends_a_byte_order_mark_and_spaces_do_not_matter(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"\xef\xbb\xbfarrival_s, prompt_tokens ,output_tokens\r\n0, 4,5 \r\n1,6,7")
    assert read_requests(path).to_pydict() == {
        "arrival_s": [0.0, 1.0],
        "prompt_tokens": [4, 6],
        "output_tokens": [5, 7],
    }


def test_a_file_that_changed_is_read_again(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("arrival_s\n0\n")
    assert read_requests(path).num_rows == 1
    path.write_text("arrival_s\n0\n1\n")
    assert read_requests(path).num_rows == 2


def _csv(*rows: str) -> str:
    return "\n".join(["arrival_s,prompt_tokens,output_tokens", *rows])


def _line(**changes) -> str:
    return json.dumps({"timestamp": 0, "input_length": 3, "output_length": 2} | changes)


BAD = {
    "unsorted": (_csv("1,5,5", "3,5,5", "2,5,5"), "row 3: arrives at 2 s, before row 2 at 3 s"),
    "negative time": (_csv("-1,5,5"), "row 1: arrives at -1 s; expected a time of 0 or later"),
    "NaN time": (_csv("0,5,5", "nan,5,5"), "row 2: arrives at nan s"),
    "infinite time": (_csv("0,5,5", "inf,5,5"), "row 2: arrives at inf s"),
    "no output": (_csv("0,5,5", "1,5,0"), "row 2: output of 0 tokens; expected a whole number"),
    "no prompt": (_csv("0,0,5"), "row 1: prompt of 0 tokens"),
    "half a token": (_csv("0,5,1.5"), "output of 1.5 tokens"),
    "negative tokens": (_csv("0,-5,5"), "prompt of -5 tokens"),
    "too many tokens": (_csv("0,5,99999999999999999999"), "output of 1e\\+20 tokens"),
    "missing value": (_csv("0,5,5", "1,,5"), "row 2: column 'prompt_tokens' holds ''"),
    "a word": (_csv("0,5,5", "1,5,5", "2,many,5"), "row 3: column 'prompt_tokens' holds 'many'"),
    "cut row": (_csv("0,5,5", "1,5"), "row 2 has 2 values; expected 3, one a column"),
    "long row": (_csv("0,5,5,5"), "row 1 has 4 values; expected 3"),
    "missing column": ("arrival_s,prompt_tokens\n0,5", "no column 'output_tokens'"),
    "column twice": ("arrival_s,arrival_s\n0,5", "has 2 column 'arrival_s'"),
    "unknown columns": ("a,b\n1,2", "no known format; expected one of azure: TIMESTAMP"),
    "no rows": (_csv(), "a header and no row"),
    "blank": (" \n\n", "is empty"),
    "bad date": (HEADERS["azure"] + "\nyesterday,3,4", "row 1: column 'TIMESTAMP'.*such as 2023"),
    "Azure unsorted": (
        HEADERS["azure"] + "\n2023-11-16 18:15:47,3,4\n2023-11-16 18:15:46,3,4",
        "row 2: arrives at 0 s, before row 1 at 1 s",
    ),
    "failed requests": (
        HEADERS["burstgpt"] + "\n5,GPT-4,3,0,3,API log",
        "output of 0 tokens.*remove requests that failed",
    ),
    "line cut": (_line() + '\n{"timestamp": 5, "inp', "row 2: .* expected a JSON object"),
    "line of a list": (_line() + "\n[1]", "row 2: got list; expected a JSON object"),
    "missing key": (_line() + '\n{"timestamp": 5}', "row 2: input_length is missing"),
    "text for a number": (_line(input_length="3"), "row 1: input_length is a str"),
    "yes for a number": (_line(timestamp=True), "timestamp is a bool"),
    "huge number": (_line(timestamp=10**400), "timestamp is too large"),
    "bad blocks": (_line(hash_ids=[-1]), "row 1: hash_ids"),
    "no blocks": (_line(hash_ids=3), "hash_ids is a int; expected a list"),
    "negative ms": (_line(timestamp=-5), "arrives at -0.005 s"),
    "deep": ('{"timestamp": ' + "[" * 100_000, "nested too deeply"),
    "no detail": ('{"input_lens": [1], "completed": 3}', "no known format"),
    "unequal": ('{"input_lens": [1, 2], "output_lens": [1]}', "2 input_lens, 1 output_lens"),
    "no request": ('{"input_lens": [], "output_lens": []}', "holds no request"),
    "two runs": ('{"input_lens": [1], "output_lens": [1]}\n' * 2, "more than one run"),
    "null lengths": ('{"input_lens": null, "output_lens": [1]}', "input_lens is missing"),
}


@pytest.mark.parametrize(("text", "message"), BAD.values(), ids=BAD)
def test_a_bad_file_is_one_sentence_with_its_name_and_row(tmp_path, text, message):
    path = tmp_path / "requests.txt"
    path.write_text(text)
    with pytest.raises(ScenarioError) as caught:
        read_requests(path)
    said = str(caught.value)
    assert re.search(message, said)
    assert str(path) in said
    assert "\n" not in said


def test_a_file_without_detail_says_how_to_write_it(tmp_path):
    path = tmp_path / "bench.json"
    path.write_text('{"completed": 3}')
    with pytest.raises(ScenarioError, match="--save-detailed"):
        read_requests(path, "vllm_bench")


def test_bytes_that_are_not_utf8_are_named_with_their_line(tmp_path):
    path = tmp_path / "latin.csv"
    path.write_bytes(_csv("0,5,5").encode() + b"\n1,5,5,\xe9")
    with pytest.raises(ScenarioError, match="line 3: byte 0xe9 is not UTF-8"):
        read_requests(path)


@pytest.mark.parametrize("name", ["absent.csv", "", "/dev/zero", "a\0b"])
def test_what_is_no_file_is_refused_at_once(name):
    with pytest.raises(ScenarioError, match="expected a file of recorded requests"):
        read_requests(Path(name))


# --- public traces beside the project ------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "rows", "rate", "cv"),
    [
        ("azure_llm_2023/AzureLLMInferenceTrace_conv.csv", 19_366, 5.53, 1.09),
        ("azure_llm_2023/AzureLLMInferenceTrace_code.csv", 8_819, 2.57, 13.15),
        ("mooncake_fast25/conversation_trace.jsonl", 12_031, 3.40, 3.03),
        ("mooncake_fast25/synthetic_trace.jsonl", 3_993, 3.91, 1.01),
    ],
)
def test_public_traces_have_their_published_rate_and_burstiness(shared_data, file, rows, rate, cv):
    table = read_requests(shared_data / file)
    gaps_s = np.diff(table.column("arrival_s").to_numpy())
    assert table.num_rows == rows
    assert 1 / gaps_s.mean() == pytest.approx(rate, abs=0.006)
    assert gaps_s.std() / gaps_s.mean() == pytest.approx(cv, abs=0.006)


@pytest.mark.parametrize(
    ("file", "prompt", "output"),
    [
        ("azure_llm_2023/AzureLLMInferenceTrace_conv.csv", (1155, 1020), (211, 129)),
        ("azure_llm_2023/AzureLLMInferenceTrace_code.csv", (2048, 1469), (28, 13)),
        ("mooncake_fast25/conversation_trace.jsonl", (12035, 6909), (343, 350)),
        ("mooncake_fast25/synthetic_trace.jsonl", (15325, 11587), (149, 69)),
    ],
)
def test_public_traces_have_their_published_lengths(shared_data, file, prompt, output):
    table = read_requests(shared_data / file)
    for name, (mean, median) in (("prompt_tokens", prompt), ("output_tokens", output)):
        tokens = table.column(name).to_numpy()
        assert tokens.mean() == pytest.approx(mean, abs=0.51)
        assert np.median(tokens) == pytest.approx(median, abs=0.51)


def test_the_public_mooncake_trace_shares_its_prefixes(shared_data):
    table = read_requests(shared_data / "mooncake_fast25/conversation_trace.jsonl")
    blocks = table.column("hash_ids").combine_chunks().flatten().to_numpy()
    assert 1 - len(np.unique(blocks)) / len(blocks) == pytest.approx(0.366, abs=0.001)
