"""The local model against sentence-transformers' own vectors, and its manners under load."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from rag.embedding.local import (
    BATCH_TOKENS,
    LocalEmbedder,
    batches_by_length,
    open_session,
    pool,
    read_config,
    read_tensors,
    wheel_folder,
)
from rag.errors import EmbeddingError

# Written by sentence-transformers on torch with max_seq_length 256; the file says which versions.
REFERENCE = json.loads((Path(__file__).parent / "reference.json").read_text("utf-8"))
TEXTS = cast(list[str], REFERENCE["texts"])
VECTORS = np.array(REFERENCE["vectors"], np.float32)
THREE_DECIMALS = 0.0005
LONG_TEXT = "ownership moves between functions " * 80


@pytest.fixture(scope="module")
def embedder() -> LocalEmbedder:
    return LocalEmbedder.load()


@pytest.fixture
def tiny_model(tmp_path: Path) -> Path:
    """A folder with a one-layer BERT of eight dimensions and MiniLM's tokenizer."""
    folder = tmp_path / "tiny-bert"
    folder.mkdir()
    shutil.copy(wheel_folder() / "tokenizer.json", folder)
    write_json(
        folder / "config.json",
        model_type="bert",
        hidden_act="gelu",
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        layer_norm_eps=1e-12,
        max_position_embeddings=64,
    )
    save_file(tiny_tensors(), folder / "model.safetensors")
    return folder


def tiny_tensors() -> dict[str, NDArray[np.float32]]:
    layer = "encoder.layer.0"
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (30522, 8),
        "embeddings.position_embeddings.weight": (64, 8),
        "embeddings.token_type_embeddings.weight": (2, 8),
        f"{layer}.intermediate.dense.weight": (16, 8),
        f"{layer}.intermediate.dense.bias": (16,),
        f"{layer}.output.dense.weight": (8, 16),
        f"{layer}.output.dense.bias": (8,),
    }
    for name in ("self.query", "self.key", "self.value", "output.dense"):
        shapes[f"{layer}.attention.{name}.weight"] = (8, 8)
        shapes[f"{layer}.attention.{name}.bias"] = (8,)
    for name in ("embeddings", f"{layer}.attention.output", f"{layer}.output"):
        shapes[f"{name}.LayerNorm.weight"] = (8,)
        shapes[f"{name}.LayerNorm.bias"] = (8,)
    random = np.random.default_rng(7)
    return {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def write_json(path: Path, **content: Any) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content), "utf-8")


def change_json(path: Path, **changes: Any) -> None:
    write_json(path, **(json.loads(path.read_text("utf-8")) | changes))


def assert_close(vectors: NDArray[np.float32], expected: NDArray[np.float32]) -> None:
    assert vectors.shape == expected.shape
    assert vectors.dtype == np.float32
    assert np.abs(vectors - expected).max() < THREE_DECIMALS


# The vectors


async def test_passages_match_sentence_transformers(embedder: LocalEmbedder):
    assert_close(await embedder.embed_passages(TEXTS), VECTORS)


@pytest.mark.parametrize("i", range(len(TEXTS)))
async def test_a_query_matches_sentence_transformers(embedder: LocalEmbedder, i: int):
    assert_close(await embedder.embed_query(TEXTS[i]), VECTORS[i])


async def test_vectors_keep_the_order_of_their_passages(embedder: LocalEmbedder):
    order = np.random.default_rng(3).permutation(np.repeat(np.arange(len(TEXTS)), 3))
    assert_close(await embedder.embed_passages([TEXTS[i] for i in order]), VECTORS[order])


async def test_padding_does_not_change_a_vector(embedder: LocalEmbedder):
    alone = await embedder.embed_passages(["What is a trait?"])
    padded = await embedder.embed_passages([LONG_TEXT, "What is a trait?"])
    np.testing.assert_allclose(padded[1], alone[0], atol=1e-5)


async def test_no_passages_give_no_vectors(embedder: LocalEmbedder):
    assert (await embedder.embed_passages([])).shape == (0, 384)


@pytest.mark.parametrize(
    "text",
    ["", "\x00\x07\x1b", "\ud83d alone", "🤖" * 500, "a" * 100_000, "long text " * 10_000],
    ids=["empty", "control", "surrogate", "emoji", "one word", "100k characters"],
)
async def test_any_text_has_a_unit_vector(embedder: LocalEmbedder, text: str):
    vector = await embedder.embed_query(text)
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)


# Tokens


@pytest.mark.parametrize(
    ("text", "count"),
    [("", 2), ("robot", 3), ("What is ownership?", 6), ("word " * 400, 402), ("\ud83d", 3)],
)
def test_count_tokens_includes_the_special_ones_and_does_not_truncate(
    embedder: LocalEmbedder, text: str, count: int
):
    assert embedder.count_tokens(text) == count


async def test_text_is_cut_at_256_tokens_not_at_the_128_of_the_tokenizer_file(
    embedder: LocalEmbedder,
):
    words = "alpha " * 254
    whole, longer, shorter = await embedder.embed_passages(
        [words, words + "omega " * 50, "alpha " * 126 + "omega " * 128]
    )
    np.testing.assert_allclose(longer, whole, atol=1e-5)
    assert np.abs(shorter - whole).max() > 0.01


def test_batches_hold_every_row_once_and_keep_to_the_budget():
    lengths = [5, 256, 2, 90, 256, 256, 17, 2, 256, 256, 140]
    batches = batches_by_length([[0] * length for length in lengths])
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    assert all(lengths[batch[0]] * len(batch) <= BATCH_TOKENS for batch in batches)
    assert [lengths[i] for batch in batches for i in batch] == sorted(lengths, reverse=True)


def test_a_row_longer_than_the_budget_is_a_batch_of_its_own():
    assert batches_by_length([[0] * 9999, [0] * 9998]) == [[0], [1]]


@pytest.mark.parametrize(("pooling", "vector"), [("mean", [0.6, 0.8]), ("cls", [1, 0])])
def test_pooling_ignores_what_follows_a_rows_length(pooling: str, vector: list[float]):
    hidden = np.array([[[6, 0], [0, 8], [99, -99]]], np.float32)
    vectors = pool(hidden, np.array([2], np.int32), pooling)
    np.testing.assert_allclose(vectors, [vector], rtol=1e-6)


# Concurrency


async def test_simultaneous_queries_get_their_own_vectors(embedder: LocalEmbedder):
    wanted = [i % len(TEXTS) for i in range(50)]
    vectors = await asyncio.gather(*(embedder.embed_query(TEXTS[i]) for i in wanted))
    assert_close(np.array(vectors), VECTORS[wanted])


async def test_queries_and_passages_do_not_disturb_each_other(embedder: LocalEmbedder):
    passages, *queries = await asyncio.gather(
        embedder.embed_passages(TEXTS), *(embedder.embed_query(text) for text in TEXTS)
    )
    assert_close(passages, VECTORS)
    assert_close(np.array(queries), VECTORS)


async def test_passages_are_embedded_on_all_cores(tiny_model: Path):
    before = set(threading.enumerate())
    embedder = LocalEmbedder.load(tiny_model)
    await embedder.embed_passages([LONG_TEXT] * 200)
    started = set(threading.enumerate()) - before
    assert sum(thread.name.startswith("embed-passages") for thread in started) == os.cpu_count()


async def test_a_query_does_not_queue_behind_passages(embedder: LocalEmbedder):
    passages = asyncio.create_task(embedder.embed_passages([LONG_TEXT] * 32))
    await asyncio.sleep(0.05)
    await embedder.embed_query("What is ownership?")
    assert not passages.done()
    await passages


async def test_the_event_loop_runs_on_while_passages_are_embedded(embedder: LocalEmbedder):
    passages = asyncio.create_task(embedder.embed_passages([LONG_TEXT] * 16))
    turns = 0
    while not passages.done():
        await asyncio.sleep(0.001)
        turns += 1
    # A blocked loop would get one turn for tokenizing and one a batch.
    assert turns > 2 * len(batches_by_length([[0] * embedder.max_tokens] * 16))


async def test_a_cancelled_query_leaves_the_others_alone(embedder: LocalEmbedder):
    tasks = [asyncio.create_task(embedder.embed_query(text)) for text in TEXTS]
    await asyncio.sleep(0)
    tasks[3].cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(results[3], asyncio.CancelledError)
    assert_close(np.array(results[4:]), VECTORS[4:])


async def test_a_query_that_fails_says_so_instead_of_hanging(embedder: LocalEmbedder):
    with pytest.raises(AttributeError):
        await asyncio.wait_for(embedder.embed_query(cast(str, None)), 5)
    assert_close(await embedder.embed_query(TEXTS[0]), VECTORS[0])


# Models and their folders


def test_the_default_model_describes_itself(embedder: LocalEmbedder):
    assert embedder.model == "all-MiniLM-L6-v2"
    assert (embedder.dimension, embedder.max_tokens) == (384, 256)


async def test_a_folder_model_describes_itself(tiny_model: Path):
    embedder = LocalEmbedder.load(tiny_model)
    assert embedder.model == "tiny-bert"
    assert (embedder.dimension, embedder.max_tokens) == (8, 64)
    assert (await embedder.embed_passages([LONG_TEXT, "short"])).shape == (2, 8)


@pytest.mark.parametrize(("limit", "max_tokens"), [(32, 32), (None, 64), (512, 64)])
def test_a_folder_model_limits_its_tokens(tiny_model: Path, limit: int | None, max_tokens: int):
    write_json(tiny_model / "sentence_bert_config.json", max_seq_length=limit)
    assert LocalEmbedder.load(tiny_model).max_tokens == max_tokens


async def test_a_folder_model_may_prefix_its_tensors_and_halve_their_precision(tiny_model: Path):
    expected = await LocalEmbedder.load(tiny_model).embed_query("robot")
    tensors = load_file(tiny_model / "model.safetensors")
    halves = {f"bert.{name}": tensor.astype(np.float16) for name, tensor in tensors.items()}
    save_file(halves, tiny_model / "model.safetensors")
    vector = await LocalEmbedder.load(tiny_model).embed_query("robot")
    np.testing.assert_allclose(vector, expected, atol=0.02)


@pytest.mark.parametrize(
    "config",
    [{"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, {"pooling_mode": "cls"}],
)
def test_a_folder_model_may_pool_by_cls(tiny_model: Path, config: dict[str, Any]):
    assert read_config(tiny_model).pooling == "mean"
    write_json(tiny_model / "1_Pooling" / "config.json", **config)
    assert read_config(tiny_model).pooling == "cls"


def test_neither_torch_nor_sentence_transformers_is_loaded():
    """A module that is None cannot be imported."""
    program = (
        "import sys; sys.modules |= dict.fromkeys(['torch', 'transformers',"
        " 'sentence_transformers'])\n"
        "from rag.embedding.local import LocalEmbedder; print(LocalEmbedder.load().dimension)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert run.stdout.strip() == b"384"


def test_the_session_owns_its_weights(tiny_model: Path):
    """Loading frees the tensors, which is safe only as long as the runtime copies them."""
    tensors = read_tensors(tiny_model)
    session = cast(Any, open_session(read_config(tiny_model), tensors))
    inputs = {"ids": np.array([[101, 102]], np.int32), "lengths": np.array([2], np.int32)}
    before = session.run(None, inputs)[0]
    for tensor in tensors.values():
        tensor[...] = 0
    np.testing.assert_array_equal(session.run(None, inputs)[0], before)


def test_a_missing_folder_is_one_sentence(tmp_path: Path):
    with pytest.raises(EmbeddingError, match=r"^The embedding model's folder .* does not exist\.$"):
        LocalEmbedder.load(tmp_path / "nowhere")


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_missing_file_is_named(tiny_model: Path, name: str):
    (tiny_model / name).unlink()
    with pytest.raises(EmbeddingError, match=f"has no {name}"):
        LocalEmbedder.load(tiny_model)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_damaged_file_is_named(tiny_model: Path, name: str):
    (tiny_model / name).write_bytes(b"{ damaged")
    with pytest.raises(EmbeddingError, match=name):
        LocalEmbedder.load(tiny_model)


@pytest.mark.parametrize("change", [{"model_type": "roberta"}, {"hidden_act": "relu"}])
def test_another_architecture_is_refused(tiny_model: Path, change: dict[str, str]):
    change_json(tiny_model / "config.json", **change)
    with pytest.raises(EmbeddingError, match="is not a BERT with GELU"):
        LocalEmbedder.load(tiny_model)


def test_another_pooling_is_refused(tiny_model: Path):
    write_json(tiny_model / "1_Pooling" / "config.json", pooling_mode_max_tokens=True)
    with pytest.raises(EmbeddingError, match="pools neither by mean nor by CLS"):
        LocalEmbedder.load(tiny_model)


def test_a_missing_tensor_is_named(tiny_model: Path):
    change_json(tiny_model / "config.json", num_hidden_layers=2)
    with pytest.raises(EmbeddingError, match=r"lacks 'encoder\.layer\.1\."):
        LocalEmbedder.load(tiny_model)


def test_a_tokenizer_of_another_model_is_refused(tiny_model: Path):
    tensors = load_file(tiny_model / "model.safetensors")
    words = "embeddings.word_embeddings.weight"
    save_file(tensors | {words: tensors[words][:100].copy()}, tiny_model / "model.safetensors")
    with pytest.raises(EmbeddingError, match="belongs to another model"):
        LocalEmbedder.load(tiny_model)
