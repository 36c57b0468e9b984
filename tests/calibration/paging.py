"""Small models, and a loop that decodes a batch over paged KV the way a serving loop does."""

from dataclasses import dataclass, field

import numpy as np
import torch

from calibration.engine import Cycle, Engine, Outcome
from calibration.model.decoder import Decoder
from calibration.model.shape import ModelShape
from calibration.model.target import decoder_of_shape
from calibration.paged.cache import KVCache
from calibration.paged.kv import PagedKV
from calibration.paged.ledger import Ledger
from calibration.paged.plan import plan_step
from calibration.paged.query import chunk
from calibration.paged.tables import BlockTables, Holding
from calibration.proposers.tree_protocol import Asked, Draft, PromptChunk
from simcore.acceptance.topology.dynamic_tree import DynamicShape
from simcore.acceptance.tree import ROOT, DraftTree
from simcore.serving.accounts import Mode

CPU = torch.device("cpu")
TINY = ModelShape(
    family="qwen3",
    vocab_size=31,
    hidden_size=24,
    intermediate_size=40,
    num_layers=3,
    num_heads=4,
    num_kv_heads=2,
    head_dim=8,
    norm_epsilon=1e-6,
    rope_theta=10_000.0,
    max_context_tokens=512,
    has_qk_norm=True,
)
FIXTURE = DraftTree((-1, -1, 0, 1, 1))  # A1, B1; A1 -> A2; B1 -> B2, B3


def tiny_decoder(seed: int = 0, dtype: str = "float64", **changes) -> Decoder:
    shape = ModelShape(**(TINY.model_dump() | changes))
    return decoder_of_shape(shape, "tiny", dtype, "cpu", seed=seed).decoder


def whole_text_logits(decoder: Decoder, token_ids) -> torch.Tensor:
    """[S, V] of one text read at once into one large block: nothing is paged."""
    tables = BlockTables(1, max(len(token_ids), 1))
    tables.follow([Holding(0, 1)])
    kv = PagedKV(decoder.shape, 1, tables.block_size, decoder.dtype, decoder.device)
    query = chunk(0, token_ids, 0, num_scored=len(token_ids))
    return decoder.forward(plan_step([query], tables, decoder.device), kv)


def fresh_kv(decoder: Decoder, token_ids) -> tuple[torch.Tensor, torch.Tensor]:
    """Keys and values [layers, S, K, D] of a text read at once."""
    tables = BlockTables(1, len(token_ids))
    tables.follow([Holding(0, 1)])
    kv = PagedKV(decoder.shape, 1, tables.block_size, decoder.dtype, decoder.device)
    decoder.forward(plan_step([chunk(0, token_ids, 0)], tables, decoder.device), kv)
    return kv.keys[:, : len(token_ids)], kv.values[:, : len(token_ids)]


def plain_greedy(decoder: Decoder, prompt_ids, max_tokens: int, eos=frozenset()) -> list[int]:
    """Greedy text by whole passes, one a token."""
    found: list[int] = []
    while len(found) < max_tokens and not (found and found[-1] in eos):
        logits = whole_text_logits(decoder, np.array([*prompt_ids, *found]))
        found.append(int(logits[-1].argmax()))
    return found


def greedy(request: int, logits: torch.Tensor, draft: Draft) -> tuple[tuple[int, ...], int]:
    """The longest path of candidates that the target's argmax agrees with."""
    del request
    choices = logits.argmax(dim=-1).tolist()
    path: list[int] = []
    node = ROOT
    while True:
        agreeing = [
            child
            for child, parent in enumerate(draft.parents)
            if parent == node and draft.token_ids[child] == choices[node + 1]
        ]
        if not agreeing:
            return tuple(path), choices[node + 1]
        node = agreeing[0]
        path.append(node)


def mode_of(topology) -> Mode:
    if isinstance(topology, DynamicShape):
        return (topology.depth, topology.num_nodes, topology.num_proposed, 0)
    return (topology.depth, topology.num_nodes, topology.num_nodes, 0)


@dataclass
class Text:
    """One request of the loop."""

    prompt_ids: list[int]
    max_tokens: int
    emitted: list[int] = field(default_factory=list)
    read_tokens: int = 0
    accepted: list[int] = field(default_factory=list)

    @property
    def token_ids(self) -> np.ndarray:
        return np.array(self.prompt_ids + self.emitted, dtype=np.int64)


class Loop:
    """Ledger, cache and engine together; numbers follow counts after every operation."""

    def __init__(
        self,
        target: Decoder,
        proposer_of,
        topology=None,
        *,
        draft: ModelShape | None = None,
        own_pool: bool = True,
        num_blocks: int = 96,
        block_size: int = 4,
        lookahead_tokens: int = 0,
        chunk_tokens: int = 7,
        max_requests: int = 8,
        eos=frozenset(),
        verify=greedy,
    ) -> None:
        has_pool = draft is not None and own_pool
        self.ledger = Ledger.new(
            max_requests,
            num_blocks,
            block_size,
            modes=[mode_of(topology)] if topology is not None else [],
            lookahead_tokens=lookahead_tokens,
            draft_blocks=num_blocks if has_pool else 0,
            draft_block_size=block_size if has_pool else 0,
        )
        self.cache = KVCache(
            target.shape,
            num_blocks,
            block_size,
            dtype=target.dtype,
            device=target.device,
            draft=draft,
            draft_blocks=num_blocks if has_pool else None,
        )
        self.engine = Engine(target, self.cache, proposer_of(self.cache) if proposer_of else None)
        self.topology = topology
        self.chunk_tokens = chunk_tokens
        self.eos = eos
        self.verify = verify
        self.texts: dict[int, Text] = {}
        self.num_steps = 0

    def follow(self) -> None:
        self.cache.follow(self.ledger.state, self.ledger.running)

    def add(self, prompt_ids, max_tokens: int = 24) -> int:
        request = len(self.texts)
        self.texts[request] = Text(list(map(int, prompt_ids)), max_tokens)
        self.ledger.enter(request, len(prompt_ids), max_tokens=max_tokens)
        return request

    def run(self) -> list[list[int]]:
        while self.ledger.running:
            self.step()
        return [text.emitted for text in self.texts.values()]

    def step(self) -> list[Outcome]:
        chunks, cycles = self._reserve()
        self.follow()
        self.num_steps += 1
        outcomes = self.engine.step(chunks, cycles, self.verify)
        read = {part.request: len(part.token_ids) for part in chunks}
        for outcome in outcomes:
            self._commit(outcome, read.get(outcome.request))
        self.follow()
        return outcomes

    def _reserve(self):
        chunks, cycles = [], []
        for request in self.ledger.running:
            text, left = self.texts[request], self.ledger.prefill_left_tokens(request)
            if left > 0:
                tokens = min(left, self.chunk_tokens)
                assert self.ledger.reserve_prefill(request, tokens)
                begin = self.ledger.committed_tokens(request)
                ids = text.token_ids[begin : begin + tokens]
                chunks.append(PromptChunk(request, ids, begin, tokens == left))
            else:
                mode = int(self.topology is not None)
                assert self.ledger.reserve_cycle(request, mode)
                cycles.append(Cycle(request, text.token_ids, self._asked(request, mode)))
        return chunks, cycles

    def _asked(self, request: int, mode: int) -> Asked | None:
        if mode == 0:
            return None
        generator = torch.Generator().manual_seed(request)
        return Asked(request, self.texts[request].token_ids, self.topology, generator)

    def _commit(self, outcome: Outcome, chunk_tokens: int | None) -> None:
        request, text = outcome.request, self.texts[outcome.request]
        tokens = list(outcome.token_ids)
        room = text.max_tokens - len(text.emitted)
        tokens = tokens[:room]
        ends = [place for place, token in enumerate(tokens) if token in self.eos]
        if ends:
            tokens = tokens[: ends[0] + 1]
            self.ledger.end_output(request, len(text.emitted) + len(tokens))
        is_resumed = chunk_tokens is not None and len(text.emitted) > 0
        emitted = self.ledger.commit(request, outcome.draft.num_candidates, len(outcome.path))
        if not is_resumed:
            assert emitted == len(tokens)
            text.emitted += tokens
        if chunk_tokens is None:
            text.accepted.append(len(outcome.path))
        if len(text.emitted) == text.max_tokens or bool(ends):
            self.leave(request)

    def leave(self, request: int) -> None:
        self.ledger.leave(request)
        if self.engine.proposer is not None:
            self.engine.proposer.forget(request)
        self.follow()

    def committed_kv(self, request: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values [layers, committed, K, D] that the request's table leads to."""
        places = np.arange(self.ledger.committed_tokens(request))
        return kv_at(self.cache.target, request, places)


def kv_at(namespace, request: int, places) -> tuple[torch.Tensor, torch.Tensor]:
    slots = torch.from_numpy(namespace.tables.slots(request, places))
    return namespace.kv.keys[:, slots], namespace.kv.values[:, slots]
