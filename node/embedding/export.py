"""Exports a sentence-transformers model for ONNX Runtime: once per model, in a process that loads torch and then ends.

Weights become 8-bit integers with a scale for each output channel: a query takes a seventh of the time, passages two
fifths, and what is found stays the same (bench/README.md has the figures). One scale for a whole matrix loses too much.
An export is compared with the original before it is used; one whose vectors differ by more than they may is made again
without quantisation.
"""

import shutil
import sys
import tempfile
import warnings
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from node.common.disk_sync import sync_all
from node.common.folder_lock import locked
from node.embedding.exported import (
    DESCRIPTION,
    FORMAT,
    GRAPH,
    TOKENIZER,
    Description,
    ExportedModel,
    description_of,
    is_export,
    runtime_errors,
)
from node.embedding.model import Model
from node.embedding.original import OriginalModel, load_original

QUANTISED, EXACT = 0.97, 0.9999
"""Smallest accepted cosine between an exported vector and the original's, with 8-bit weights and without."""

OPSET = 17
"""Version of the ONNX operators: the newest that torch's exporter writes."""

SAMPLE = (
    "parse a CSV file",
    "Who can translate a long report about wind turbines?",
    "prehistoric elephant skeleton excavation",
    "rate limit exceeded",
    "Looking for an agent that checks invoices against purchase orders, in plain English, twice a day.",
    "The search finds my threads quickly. Thank you.",
    "error: connection refused while fetching https://example.com/data.json (attempt 3 of 5)",
    "A solar panel turns sunlight into electric current. Its yield depends on the angle, the season, the temperature "
    "and the dust on the glass; a monthly report therefore compares the expected with the measured output.",
    "I can do that. Send the artifact id, the media type and the deadline, and say whether partial results are of use.",
    "Zürich, São Paulo and 東京 are cities.",
    "def add(a, b): return a + b",
    "weather tomorrow in Reykjavik, wind and temperature",
    "negotiate a price for ten hours of transcription with speaker labels and time stamps",
    "Thread about garden tools: which spade lasts longest in heavy clay?",
    "2026-11-22T18:00:00Z 42 17.5 true null",
    "x",
)
"""Texts of many kinds on which an export is compared with its original."""


_REFUSALS = (AssertionError, AttributeError, ImportError, LookupError, OSError, RuntimeError, TypeError, ValueError)
"""What torch, tokenizers and quantisation raise for a model that they cannot handle: any of these."""


_UNFINISHED = ".relay-node-export-"
"""The beginning of the names of folders in which exports are made."""


class ExportFailed(Exception):
    """A model cannot be exported; the message says why."""


def export(name: str, folder: Path) -> Description:
    """Export the model of that path or name (empty: the default one) to a folder that does not exist yet.

    If another process is faster, its export stays. Raises ExportFailed, ModelUnavailable.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)  # first: to load torch for nothing takes seconds
    with _alone(folder.parent):
        if is_export(folder):
            return description_of(folder)
        original = load_original(name)
        with tempfile.TemporaryDirectory(prefix=_UNFINISHED, dir=folder.parent) as parent:
            made = Path(parent) / "model"
            made.mkdir()
            try:
                described = _write(original, made)
            except (*_REFUSALS, *runtime_errors(), *_format_errors()) as error:
                raise ExportFailed(str(error).partition("\n")[0] or type(error).__name__) from error
            except _cut_short() as error:  # the library does not notice that a disk is full, and reads what it wrote
                raise ExportFailed(
                    f"a graph was cut short while it was written: free some space in {folder.parent}"
                ) from error
            sync_all(made)  # an export that lost its end with the power would never be made again
            try:
                made.rename(folder)  # all of it or nothing
            except OSError:
                if not is_export(folder):
                    raise
    return described


@contextmanager
def _alone(models: Path) -> Generator[None]:
    """Wait until no other process exports into this folder, and remove what killed exports have left there: 90 MB each
    time, which would fill the disk of a machine with too little memory for torch."""
    with ExitStack() as stack:
        with suppress(OSError):  # some file systems have no such locks
            stack.enter_context(locked(models, wait=True))
            for left in models.glob(f"{_UNFINISHED}*"):
                shutil.rmtree(left, ignore_errors=True)
        yield


def least_cosine(exported: Model, original: Model) -> float:
    """The cosine of the two models' vectors of a text, for the text of SAMPLE where they differ most."""
    numpy: Any = import_module("numpy")
    least = 1.0
    for ours, theirs in ((exported.queries, original.queries), (exported.passages, original.passages)):
        # Queries one by one, as they come; passages together, since padding must not matter.
        made = ours(SAMPLE) if ours == exported.passages else [ours([text])[0] for text in SAMPLE]
        for one, other in zip(made, theirs(SAMPLE), strict=True):
            least = min(least, float(numpy.frombuffer(one, "float32") @ numpy.frombuffer(other, "float32")))
    return least


def _write(original: OriginalModel, folder: Path) -> Description:
    transformer = original.transformer
    exact = folder / "exact.onnx"
    _trace(transformer, exact)
    tokenizer = transformer.tokenizer
    fast = tokenizer.backend_tokenizer
    fast.enable_truncation(transformer.max_seq_length)
    fast.enable_padding(pad_id=tokenizer.pad_token_id, pad_token=tokenizer.pad_token)
    fast.save(str(folder / TOKENIZER))
    prompts: dict[str, str] = transformer.prompts or {}
    described = Description(
        format=FORMAT,
        fingerprint=original.fingerprint,
        dimension=original.dimension,
        query_prompt=prompts.get("query", ""),
        passage_prompt=prompts.get("document", prompts.get("passage", "")),
    )
    (folder / DESCRIPTION).write_bytes(msgspec.json.format(msgspec.json.encode(described)))
    _quantise(exact, folder / GRAPH)
    if least_cosine(ExportedModel(folder), original) < QUANTISED:
        shutil.copyfile(exact, folder / GRAPH)
        if (least := least_cosine(ExportedModel(folder), original)) < EXACT:
            raise ExportFailed(f"the vectors of the export differ from the original's: their cosine is {least:.4f}")
    exact.unlink()
    return described


def _trace(transformer: Any, graph: Path) -> None:
    """Write the whole of a model, from tokens to unit vectors, as one graph."""
    torch: Any = import_module("torch")
    # Attention in single steps: the fused one is written with a check for NaN each time, a fifth of a passage's time.
    if model := getattr(transformer[0], "auto_model", None):
        model.set_attn_implementation("eager")

    class Whole(torch.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()  # pyright: ignore[reportUnknownMemberType]
            self.transformer = transformer  # so that its weights are parameters of the graph

        def forward(self, input_ids: Any, attention_mask: Any) -> Any:
            features = {"input_ids": input_ids, "attention_mask": attention_mask}
            for module in self.transformer:
                features = module(features)
            return torch.nn.functional.normalize(features["sentence_embedding"], dim=-1)

    read = transformer.tokenizer(["a short text", "and one that is longer"], padding=True, return_tensors="pt")
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of the tracer, and that this exporter is the older one of two
        torch.onnx.export(
            Whole().eval(),
            (read["input_ids"], read["attention_mask"]),
            str(graph),
            input_names=["input_ids", "attention_mask"],
            output_names=["vector"],
            dynamic_axes={"input_ids": {0: "text", 1: "token"}, "attention_mask": {0: "text", 1: "token"}},
            opset_version=OPSET,
            dynamo=False,  # the newer exporter needs onnxscript
        )


def _format_errors() -> tuple[type[Exception], ...]:
    """What the library of the ONNX format raises for an invalid graph."""
    if sys.modules.get("onnx") is None:  # not installed: that is what has failed
        return ()
    onnx: Any = import_module("onnx")
    return onnx.checker.ValidationError, onnx.shape_inference.InferenceError


def _cut_short() -> tuple[type[Exception], ...]:
    """What that library raises, by way of its own library, for a graph that has lost its end."""
    message: Any = sys.modules.get("google.protobuf.message")
    return (message.DecodeError,) if message else ()


def _quantise(exact: Path, graph: Path) -> None:
    quantization: Any = import_module("onnxruntime.quantization")
    quantization.quantize_dynamic(exact, graph, weight_type=quantization.QuantType.QInt8, per_channel=True)
