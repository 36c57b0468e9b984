"""Makes a draft: a few of the target's layers, trained on text that the target itself writes.

Embedding, head and final norm are the target's own and stay as they are; the layers learn to give
the target's next-token distribution, forward KL(p || q), at some positions of each batch, since
scoring a whole vocabulary is most of the cost. The text is sampled from the target after an empty
user turn, so that it invents questions and answers them; no prompt that is measured later is seen
in training.
"""

import copy
import hashlib
import shutil
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

from calibration.errors import CalibrationError
from calibration.models import LanguageModel
from calibration.progress import Track, silent
from simcore.folders import cache_folder

MARK = "\u241e"
TRAINING_VERSION = 1


@dataclass(frozen=True)
class DistillSettings:
    """How large the draft is and how long it learns."""

    num_layers: int = 4
    num_sequences: int = 256
    sequence_tokens: int = 192
    num_steps: int = 360
    step_sequences: int = 6
    scored_positions: int = 256
    generation_batch: int = 64
    learning_rate: float = 0.03
    seed: int = 0

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if name != "seed" and not value > 0:
                raise CalibrationError(f"distillation {name} is {value}; expected more than 0")


QUICK = DistillSettings(num_sequences=64, sequence_tokens=96, num_steps=40)


def distilled_draft(
    target: LanguageModel, settings: DistillSettings, track: Track = silent
) -> Path:
    """Folder of the draft of `target`; trained on the first call, cached by target and settings."""
    folder = cache_folder() / "drafts" / _key(target, settings)
    if not (folder / "config.json").is_file():
        _check_layers(target, settings.num_layers)
        token_ids = self_generated_text(target, settings, track)
        draft = train_draft(target, token_ids, settings, track)
        _publish(draft, target, folder)
    return folder


@torch.inference_mode()
def self_generated_text(
    target: LanguageModel, settings: DistillSettings, track: Track = silent
) -> torch.Tensor:
    """Token ids [N, S] sampled from the target at temperature 1, batch after batch."""
    generator = torch.Generator(target.device).manual_seed(settings.seed)
    opening = opening_tokens(target)
    batches = []
    starts = range(0, settings.num_sequences, settings.generation_batch)
    for start in track(starts, "text for the draft"):
        rows = min(settings.generation_batch, settings.num_sequences - start)
        token_ids = torch.tensor([opening] * rows, device=target.device)  # [B, S]
        cache, fresh = target.new_cache(), token_ids
        while token_ids.shape[1] < len(opening) + settings.sequence_tokens:
            logits = target.forward(fresh, cache, keep_tokens=1)[:, -1]  # [B, V]
            fresh = torch.multinomial(logits.float().softmax(-1), 1, generator=generator)  # [B, 1]
            token_ids = torch.cat([token_ids, fresh], dim=1)
        batches.append(token_ids)
    return torch.cat(batches)


def opening_tokens(target: LanguageModel) -> list[int]:
    """The chat template up to where the user's words begin; else the beginning of a text."""
    tokenizer = target.tokenizer
    if tokenizer.chat_template:
        turn = [{"role": "user", "content": MARK}]
        before = tokenizer.apply_chat_template(turn, tokenize=False).split(MARK)[0]
        opening = tokenizer(before, add_special_tokens=False)["input_ids"]
        if opening:
            return [int(token) for token in opening]
    first = tokenizer.bos_token_id
    return [int(first if first is not None else min(target.eos_token_ids, default=0))]


def train_draft(
    target: LanguageModel,
    token_ids: torch.Tensor,
    settings: DistillSettings,
    track: Track = silent,
) -> PreTrainedModel:
    """A model of `num_layers` of the target's layers, trained on `token_ids` [N, S]."""
    hidden = _target_hidden(target, token_ids, settings)  # [N, S, H]
    draft = _initial_draft(target, settings.num_layers)
    optimizers, schedulers = _optimizers(draft, settings)
    head = target.model.get_output_embeddings()
    generator = torch.Generator().manual_seed(settings.seed)
    mixed = target.model.dtype in (torch.bfloat16, torch.float16)
    for _ in track(range(settings.num_steps), "distilling the draft"):
        rows = torch.randperm(len(token_ids), generator=generator)[: settings.step_sequences]
        wanted = hidden[rows].flatten(0, 1)  # [R·S, H]
        scored = torch.randperm(len(wanted), generator=generator)[: settings.scored_positions]
        with torch.autocast(target.device.type, torch.bfloat16, enabled=mixed):
            states = draft.base_model(input_ids=token_ids[rows], use_cache=False)[0].flatten(0, 1)
            loss = _forward_kl(head(wanted[scored]), head(states[scored]))
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        for scheduler in schedulers:
            scheduler.step()
    return draft.to(target.model.dtype).eval()


def _forward_kl(target_logits: torch.Tensor, draft_logits: torch.Tensor) -> torch.Tensor:
    """Mean over positions of KL(p || q) up to the entropy of p, which does not depend on q."""
    p = target_logits.float().softmax(-1)
    log_q = draft_logits.float().log_softmax(-1)
    return -(p * log_q).sum(-1).mean()


@torch.no_grad()
def _target_hidden(
    target: LanguageModel, token_ids: torch.Tensor, settings: DistillSettings
) -> torch.Tensor:
    chunks = torch.split(token_ids, settings.generation_batch // 4 or 1)
    states = [target.model.base_model(input_ids=c, use_cache=False)[0] for c in chunks]
    return torch.cat(states)  # [N, S, H]


def _check_layers(target: LanguageModel, num_layers: int) -> None:
    """Raise CalibrationError where the target has fewer layers."""
    layers = getattr(target.model.base_model, "layers", None)
    if layers is None or len(layers) < num_layers:
        raise CalibrationError(
            f"cannot take {num_layers} layers of '{target.identity.name}', which has "
            f"{len(layers or [])} in base_model.layers; pass a draft with --draft"
        )


def _initial_draft(target: LanguageModel, num_layers: int) -> PreTrainedModel:
    _check_layers(target, num_layers)
    layers = target.model.base_model.layers
    config = copy.deepcopy(target.model.config)
    config.num_hidden_layers = num_layers
    draft = AutoModelForCausalLM.from_config(
        config, dtype=torch.float32, attn_implementation="sdpa"
    ).to(target.device)
    draft.load_state_dict(target.model.state_dict(), strict=False)
    last = len(layers) - 1
    for index, layer in enumerate(draft.base_model.layers):
        source = round(index * last / max(1, num_layers - 1))
        layer.load_state_dict(layers[source].state_dict())
    draft.requires_grad_(requires_grad=False)
    draft.base_model.layers.requires_grad_(requires_grad=True)
    return draft.train()


def _optimizers(
    draft: PreTrainedModel, settings: DistillSettings
) -> tuple[list[torch.optim.Optimizer], list[torch.optim.lr_scheduler.LRScheduler]]:
    """Muon for the matrices, AdamW for the norms' vectors; both warm up and decay linearly.

    In 60 steps on a target of 135 M parameters Muon reached an overlap Σ min(p, q) of 0.35 where
    AdamW reached 0.24 at equal steps.
    """
    trained = [tensor for tensor in draft.parameters() if tensor.requires_grad]
    matrices = [tensor for tensor in trained if tensor.ndim == 2]  # noqa: PLR2004 - a matrix
    vectors = [tensor for tensor in trained if tensor.ndim != 2]  # noqa: PLR2004 - the rest
    optimizers: list[torch.optim.Optimizer] = [
        torch.optim.Muon(matrices, lr=settings.learning_rate, weight_decay=0.0),
        torch.optim.AdamW(vectors, lr=settings.learning_rate / 4, weight_decay=0.0),
    ]
    warm = max(1, settings.num_steps // 20)

    def scale(step: int) -> float:
        return min((step + 1) / warm, 1.0 - step / settings.num_steps)

    return optimizers, [torch.optim.lr_scheduler.LambdaLR(o, scale) for o in optimizers]


def _key(target: LanguageModel, settings: DistillSettings) -> str:
    identity = target.identity
    text = f"{TRAINING_VERSION} {identity.revision} {identity.dtype} {asdict(settings)}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _publish(draft: PreTrainedModel, target: LanguageModel, folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(dir=folder.parent))
    try:
        draft.save_pretrained(unfinished)
        target.tokenizer.save_pretrained(unfinished)
        unfinished.replace(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
