"""Long work beside the page: it goes on while its visitor looks elsewhere, and can be cancelled."""

import logging
import threading
import weakref
from collections.abc import Callable
from typing import Any

import streamlit as st

from app.errors import FAULT, show_error
from simcore.errors import SpecplanError

Advance = Callable[[int, int], None]  # done, of all
Work = Callable[[Advance], Any]
POLL_S = 0.4
SHORT_S = 0.5
LOG = logging.getLogger(__name__)
STARTING = (
    "Starting. On first use the simulator compiles its kernels (about 15 s, then kept on disk)."
)


class CancelledError(Exception):
    """Raised inside the work at its next sign of progress."""


class _Run:
    """What the thread holds: no Job, so that one that nobody holds any more can end it."""

    def __init__(self) -> None:
        self.done, self.total = 0, 0
        self.result: Any = None
        self.error: str | None = None
        self.cancelled = threading.Event()

    def do(self, work: Work) -> None:
        try:
            self.result = work(self._advance)
        except CancelledError:
            pass
        except SpecplanError as error:
            self.error = str(error)
        except Exception:
            LOG.exception("work of the dashboard failed")
            self.error = FAULT

    def _advance(self, done: int, total: int) -> None:
        self.done, self.total = done, total
        if self.cancelled.is_set():
            raise CancelledError


class Job:
    """One piece of work in a thread of its own, with its progress and how it ended.

    It is cancelled when it is forgotten: with the session of a visitor who has left.
    """

    def __init__(self, work: Work, asked: Any, unit: str) -> None:
        self.asked = asked  # the inputs that it was started with
        self.unit = unit
        self._run = _Run()
        self._thread = threading.Thread(target=self._run.do, args=(work,), daemon=True)
        self._thread.start()
        weakref.finalize(self, self._run.cancelled.set)

    @property
    def done(self) -> int:
        return self._run.done

    @property
    def total(self) -> int:
        return self._run.total

    @property
    def result(self) -> Any:
        return self._run.result

    @property
    def error(self) -> str | None:
        return self._run.error

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    @property
    def is_cancelled(self) -> bool:
        return self._run.cancelled.is_set()

    def cancel(self) -> None:
        """End at the next sign of progress; nothing is kept."""
        self._run.cancelled.set()

    def wait(self, timeout_s: float | None = None) -> None:
        """Until it has ended, or so long."""
        self._thread.join(timeout_s)


def start_job(key: str, work: Work, asked: Any, *, unit: str = "simulations") -> Job:
    """Begin `work` under `key` of this session, in place of what ran or ended there.

    Short work is over when this returns: its page is then drawn once, without a progress bar.
    """
    before: Job | None = st.session_state.get(key)
    if before is not None:
        before.cancel()
    job = Job(work, asked, unit)
    st.session_state[key] = job
    job.wait(SHORT_S)
    return job


def finished_job(key: str) -> Job | None:
    """The job under `key` once it has a result; until then its progress and a Cancel button.

    An error is shown as a sentence; a cancelled job says so.
    """
    job: Job | None = st.session_state.get(key)
    if job is None:
        return None
    if job.is_running and not job.is_cancelled:
        _watch(key)
        return None
    if job.is_cancelled:
        st.info("Cancelled; nothing was kept.")
        return None
    if job.error is not None:
        show_error(job.error)
        return None
    return job


@st.fragment(run_every=POLL_S)  # type: ignore[untyped-decorator]  # streamlit is not followed
def _watch(key: str) -> None:
    """Redraws itself alone; the page runs again when the job has ended."""
    job: Job | None = st.session_state.get(key)
    if job is None or not job.is_running or job.is_cancelled:
        st.rerun()
        return
    share = min(job.done / job.total, 1.0) if job.total else 0.0
    text = f"{job.done:,} of about {job.total:,} {job.unit}" if job.total else STARTING
    st.progress(share, text=text)
    st.button("Cancel", key=f"{key}.cancel", on_click=job.cancel)
