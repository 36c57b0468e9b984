"""A tiny target and draft of our own, trained from nothing in seconds, for tests and examples.

Text: questions and short reports from a small grammar, with repetitions that a lookup can find.
Tokenizer: byte-level BPE trained on that text. Same seed and thread count, same weights.
"""

import random
from dataclasses import dataclass
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from transformers.utils import logging as transformers_logging

VOCAB_SIZE = 384
EOS = "<|end|>"
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)
NAMES = ("Ada", "Boris", "Chen", "Dina", "Emil", "Farah", "Goran", "Hana")
THINGS = ("lamp", "boat", "letter", "garden", "engine", "map", "violin", "bridge")
COLOURS = ("red", "green", "blue", "yellow", "white", "black")
PLACES = ("harbour", "market", "valley", "station", "library", "tower")
VERBS = ("painted", "carried", "repaired", "sold", "found", "described")


@dataclass(frozen=True)
class TinySettings:
    """Sizes and training of the pair."""

    num_texts: int = 1500
    text_tokens: int = 64
    batch_size: int = 16
    target_steps: int = 220
    draft_steps: int = 160
    seed: int = 7


@dataclass(frozen=True)
class TinyPair:
    """Hugging Face folders of the trained pair."""

    target: Path
    draft: Path


def write_tiny_pair(folder: Path, settings: TinySettings = TinySettings()) -> TinyPair:
    """Train both models on the grammar's text and save them under `folder`."""
    transformers_logging.disable_progress_bar()
    rng = random.Random(settings.seed)
    texts = [conversation(rng) for _ in range(settings.num_texts)]
    tokenizer = train_tokenizer(texts)
    token_ids = _pack(tokenizer, texts, settings.text_tokens)  # [N, S]
    pair = TinyPair(folder / "tiny-target", folder / "tiny-draft")
    sizes = ((pair.target, 2, 96, settings.target_steps), (pair.draft, 1, 48, settings.draft_steps))
    for path, num_layers, width, steps in sizes:
        model = random_model(num_layers, width, settings.seed)
        _train(model, token_ids, steps, settings)
        model.generation_config.eos_token_id = tokenizer.eos_token_id
        model.save_pretrained(path)
        tokenizer.save_pretrained(path)
    return pair


def random_model(
    num_layers: int, width: int, seed: int, vocab_size: int = VOCAB_SIZE
) -> LlamaForCausalLM:
    """An untrained Llama with seeded normal weights; no global random state is touched."""
    config = LlamaConfig(
        vocab_size=vocab_size,
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=num_layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=0,
        pad_token_id=0,
        attn_implementation="sdpa",
    )
    with torch.random.fork_rng(devices=[]):  # the constructor draws from the global stream
        model = LlamaForCausalLM(config)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(0.0, parameter.shape[-1] ** -0.5, generator=generator)
    return model


def conversation(rng: random.Random) -> str:
    """One user turn and its answer; the answer repeats names and things of the question."""
    name, thing, colour = rng.choice(NAMES), rng.choice(THINGS), rng.choice(COLOURS)
    place, verb = rng.choice(PLACES), rng.choice(VERBS)
    if rng.random() < 0.5:  # noqa: PLR2004 - a coin
        question = f"Who {verb} the {colour} {thing} at the {place}?"
        answer = f"{name} {verb} the {colour} {thing} at the {place}."
    else:
        question = f"List what {name} saw at the {place}."
        seen = [f"a {rng.choice(COLOURS)} {rng.choice(THINGS)}" for _ in range(rng.randint(2, 5))]
        answer = f"{name} saw " + ", ".join(seen) + f" at the {place}."
    return f"user: {question}\nassistant: {answer}{EOS}"


def train_tokenizer(texts: list[str]) -> PreTrainedTokenizerFast:
    """Byte-level BPE of `VOCAB_SIZE` tokens with the end token at id 0."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE,
        special_tokens=[EOS],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=EOS, pad_token=EOS)
    wrapped.chat_template = CHAT_TEMPLATE
    return wrapped


def _pack(tokenizer: PreTrainedTokenizerFast, texts: list[str], length: int) -> torch.Tensor:
    stream = [token for text in texts for token in tokenizer(text)["input_ids"]]
    rows = len(stream) // length
    return torch.tensor(stream[: rows * length]).view(rows, length)


def _train(
    model: LlamaForCausalLM, token_ids: torch.Tensor, steps: int, settings: TinySettings
) -> None:
    generator = torch.Generator().manual_seed(settings.seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=steps)
    for _ in range(steps):
        rows = torch.randint(len(token_ids), (settings.batch_size,), generator=generator)
        batch = token_ids[rows]
        logits = model(input_ids=batch[:, :-1], use_cache=False).logits  # [B, S - 1, V]
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    model.eval()
