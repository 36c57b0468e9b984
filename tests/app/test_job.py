"""Work beside the page: progress, results, errors, cancelling."""

import gc
import threading

import pytest

pytest.importorskip("streamlit")

from app.job import CancelledError, Job
from simcore.errors import ScenarioError


def test_a_job_keeps_its_result_and_what_it_was_asked():
    job = Job(lambda advance: advance(2, 2) or "made", asked=("a", 1), unit="runs")
    job.wait()
    assert (job.result, job.asked, job.error) == ("made", ("a", 1), None)
    assert (job.done, job.total) == (2, 2)


def test_a_cancelled_job_ends_at_its_next_progress_and_keeps_nothing():
    begun, go_on = threading.Event(), threading.Event()

    def work(advance):
        advance(1, 2)
        begun.set()
        go_on.wait(10)
        advance(2, 2)
        return "made"

    job = Job(work, asked=None, unit="runs")
    assert begun.wait(10)
    job.cancel()
    go_on.set()
    job.wait()
    assert job.result is None
    assert job.error is None
    assert (job.is_cancelled, job.done) == (True, 2)


def test_a_refusal_is_its_sentence_and_a_fault_points_at_the_log(caplog):
    def refuse(_advance):
        raise ScenarioError("got 3; expected 4")

    def fail(_advance):
        raise ZeroDivisionError("secret")

    refused, failed = Job(refuse, None, "runs"), Job(fail, None, "runs")
    refused.wait()
    failed.wait()
    assert refused.error == "got 3; expected 4"
    assert "secret" not in failed.error
    assert "log" in failed.error
    assert "secret" in caplog.text


def test_the_work_of_a_visitor_who_has_left_ends_at_its_next_progress():
    begun, go_on, ended = threading.Event(), threading.Event(), []

    def work(advance):
        try:
            advance(1, 2)
            begun.set()
            go_on.wait(10)
            advance(2, 2)
            ended.append("went on")
        except CancelledError:
            ended.append("ended")
            raise

    job = Job(work, asked=None, unit="runs")
    assert begun.wait(10)
    thread = job._thread
    del job
    gc.collect()
    go_on.set()
    thread.join(10)
    assert ended == ["ended"]
