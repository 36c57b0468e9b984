"""A load client: streams completions, and notes when which token came.

HTTP by hand over asyncio: one POST a connection, chunked server-sent events. Times are this
process's monotonic clock; `timings` are the engine's own.
"""

import asyncio
import json
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Prompt:
    """What one request asks for."""

    ids: tuple[int, ...]
    output_tokens: int
    seed: int
    extra: dict[str, Any] = field(default_factory=dict)  # further fields of the request

    def body(self) -> dict[str, Any]:
        """llama.cpp's /completion: greedy, of known length, nothing taken from a cache."""
        return {
            "prompt": list(self.ids),
            "n_predict": self.output_tokens,
            "ignore_eos": True,
            "temperature": 0,
            "samplers": ["temperature"],  # at 0: greedy, and nothing else is sorted
            "cache_prompt": False,
            "stream": True,
            "seed": self.seed,
            **self.extra,
        }


@dataclass(frozen=True)
class Answer:
    """When a request was sent and answered, and what the engine says of it."""

    sent_s: float
    first_s: float
    last_s: float
    output_tokens: int
    timings: dict[str, float]
    by_token: tuple[dict[str, float], ...]  # timings at every token, where asked for

    @property
    def ttft_s(self) -> float:
        """From sending to the first token."""
        return self.first_s - self.sent_s

    @property
    def e2e_s(self) -> float:
        """From sending to the end."""
        return self.last_s - self.sent_s

    @property
    def tpot_s(self) -> float:
        """After the first token, a token."""
        return (self.last_s - self.first_s) / (self.output_tokens - 1)


def run_load(address: str, prompts: Sequence[Prompt], arrival_s: Sequence[float]) -> list[Answer]:
    """Send each prompt at its time from now, whatever became of those before."""
    return asyncio.run(_run_load(address, prompts, arrival_s))


def scrape(address: str) -> str:
    """/metrics as it is."""
    with urllib.request.urlopen(address + "/metrics") as answer:
        return str(answer.read().decode())


async def _run_load(
    address: str, prompts: Sequence[Prompt], arrival_s: Sequence[float]
) -> list[Answer]:
    start_s = perf_counter()
    return await asyncio.gather(
        *(
            _send_at(address, prompt, start_s + at_s)
            for prompt, at_s in zip(prompts, arrival_s, strict=True)
        )
    )


async def _send_at(address: str, prompt: Prompt, at_s: float) -> Answer:
    await asyncio.sleep(max(0.0, at_s - perf_counter()))
    return await _stream(address, prompt)


async def _stream(address: str, prompt: Prompt) -> Answer:
    where = urlsplit(address)
    body = json.dumps(prompt.body()).encode()
    head = (
        f"POST /completion HTTP/1.1\r\nHost: {where.netloc}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    sent_s = perf_counter()
    reader, writer = await asyncio.open_connection(where.hostname, where.port, limit=1 << 22)
    try:
        writer.write(head.encode() + body)
        return await _read_events(reader, sent_s)
    finally:
        writer.close()


async def _read_events(reader: asyncio.StreamReader, sent_s: float) -> Answer:
    status = await reader.readline()
    assert b" 200 " in status, status
    first_s, by_token = 0.0, []
    async for line in reader:
        if not line.startswith(b"data: "):
            continue
        now_s = perf_counter()
        event = json.loads(line.removeprefix(b"data: "))
        assert "error" not in event, event
        if event["stop"]:
            return Answer(
                sent_s,
                first_s or now_s,
                now_s,
                event["tokens_predicted"],
                event["timings"],
                tuple(by_token),
            )
        first_s = first_s or now_s
        if "timings" in event:
            by_token.append(event["timings"])
    raise ConnectionError("the stream ended before its last event")
