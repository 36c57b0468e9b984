"""A browser tab with a clock: when a slider was moved, and when its pictures were painted."""

from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, Locator, Page, TimeoutError

from tests.app.laps import next_direction

SCRIPT = Path(__file__).with_suffix(".js")
QUIET_MS = 200  # so long after the last paint and the last word of the server it is over
PATIENT_MS = 90_000
KEY_MS, NUM_TRIES = 3_000, 5
VIEWPORT = {"width": 1280, "height": 1000}
SLIDERS = "[data-testid=stSlider] input[type=range]"


@dataclass(frozen=True)
class Lap:
    """Seconds since the visitor pressed (or since the address was opened); None: it never came."""

    finished_s: float | None  # the page's script has run, and its elements stand
    first_picture_s: float | None
    all_pictures_s: float | None  # the last change of any picture is painted


class Tab:
    """A new visitor: nothing is cached in this browser context."""

    def __init__(self, browser: Browser) -> None:
        self.context = browser.new_context(viewport=VIEWPORT)
        self.context.add_init_script(path=SCRIPT)
        self.page: Page = self.context.new_page()
        self.page.set_default_timeout(PATIENT_MS)

    def open(self, address: str) -> Lap:
        """Until every picture of the page is painted; it must have one."""
        self.page.goto(address)
        self.wait("stopwatch.last !== null")
        return self._lap(0.0)

    def start(self) -> None:
        """Forget the laps before."""
        self.page.evaluate("stopwatch.start()")

    def wait(self, condition: str = "true", quiet_ms: int = QUIET_MS) -> None:
        """Until the page stands still and `condition` (JavaScript) holds."""
        self.page.wait_for_function(
            f"() => ({condition}) && stopwatch.isSettled({quiet_ms})", polling=20
        )

    def is_over(self, condition: str, quiet_ms: int = QUIET_MS) -> bool:
        """Whether `wait` would return at once."""
        return bool(self.page.evaluate(f"() => ({condition}) && stopwatch.isSettled({quiet_ms})"))

    def lap(self) -> Lap:
        """Since the key or the pointer was pressed."""
        pressed_ms = self.page.evaluate("stopwatch.pressed")
        assert pressed_ms is not None, "nothing was pressed since start()"
        return self._lap(float(pressed_ms))

    def slider_labels(self) -> list[str]:
        """Of all sliders in sight, from top to bottom."""
        return [str(each.get_attribute("aria-label")) for each in self.page.locator(SLIDERS).all()]

    def has_slider(self, label: str) -> bool:
        """Whether it is on the page just now."""
        return self._slider(label).count() > 0

    def move(self, label: str, direction: int, quiet_ms: int = QUIET_MS) -> tuple[Lap, int]:
        """One step of a slider by keyboard; the lap, and the direction in which to go on."""
        slider = self._slider(label)
        at, low, high = slider.evaluate("each => [each.value, each.min, each.max].map(Number)")
        direction = next_direction(at, low, high, direction)
        for _ in range(NUM_TRIES):
            self.start()
            slider.press("ArrowRight" if direction > 0 else "ArrowLeft")
            if self._is_heard():
                self.wait(quiet_ms=quiet_ms)
                return self.lap(), direction
        raise AssertionError(f"{label} took no key")

    def close(self) -> None:
        """Leave; the server forgets this visitor."""
        self.context.close()

    def _is_heard(self) -> bool:
        """Whether the last key reached the server; a page that is just drawn anew may lose it."""
        try:
            self.page.wait_for_function("() => stopwatch.sent !== null", timeout=KEY_MS)
        except TimeoutError:
            return False
        return True

    def _slider(self, label: str) -> Locator:
        return self.page.locator(f'{SLIDERS}[aria-label="{label}"]')

    def _lap(self, since_ms: float) -> Lap:
        times = self.page.evaluate("[stopwatch.finished, stopwatch.first, stopwatch.last]")
        return Lap(*(None if each is None else (each - since_ms) / 1e3 for each in times))
