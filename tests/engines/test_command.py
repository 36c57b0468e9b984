"""`python -m tests.engines`: what it refuses, before anything is started."""

import sys

import pytest

from tests.engines import __main__ as command


@pytest.fixture
def refusal(monkeypatch, capsys, tmp_path):
    """What a command line is told; results are looked for in an empty folder."""

    def run(*arguments: str) -> str:
        monkeypatch.setattr(command, "RESULTS", tmp_path)
        monkeypatch.setattr(sys, "argv", ["tests.engines", *arguments])
        with pytest.raises(SystemExit) as ended:
            command.main()
        assert ended.value.code == 2
        return capsys.readouterr().err

    return run


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "the following arguments are required: command"),
        (("measure", "tiny", "foo"), "conditions ['foo'] are not of study tiny"),
        (("predict", "tiny", "off"), "predict takes no conditions"),
        (("import", "tiny"), "run `calibrate tiny` first"),
        (("predict", "smollm2"), "run `import smollm2` first"),
        (("measure", "smollm2"), "run `predict smollm2` first"),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_step_that_is_missing(refusal, arguments, message):
    assert message in refusal(*arguments)


def test_without_the_engine_nothing_is_calibrated(refusal, monkeypatch):
    monkeypatch.setattr(command, "has_engine", lambda: False)
    assert "run `make engines`" in refusal("calibrate", "tiny")
