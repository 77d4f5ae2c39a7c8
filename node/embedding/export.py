"""Exports a sentence-transformers model for ONNX Runtime: once per model, in a process that loads torch and then ends.

Weights become 8-bit integers with one scale per output channel. With these, a query takes a seventh of the time and
passages take two fifths, and searches find the same (figures in bench/README.md). One scale for a whole matrix would
lose too much precision. An export is compared with the original before it is used. If its vectors differ too much, the
model is exported without quantisation.
"""

import os
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
"""Smallest accepted cosine between a vector of the export and that of the original, with and without 8-bit weights."""

OPSET = 17
"""Version of the ONNX operator set: the newest that torch's exporter can write."""

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
"""Texts of many kinds on which an export is compared with the original."""


_REFUSALS = (AssertionError, AttributeError, ImportError, LookupError, OSError, RuntimeError, TypeError, ValueError)
"""Exceptions that torch, tokenizers and quantisation raise for a model that they cannot handle."""


_UNFINISHED = ".relay-node-export-"
"""Prefix of the names of temporary folders in which exports are made."""


class ExportFailed(Exception):
    """A model cannot be exported. The message gives the reason."""


def export(name: str, folder: Path) -> Description:
    """Export the model with this path or name (empty: the default model) to a folder that does not exist yet.

    If another process finishes first, its export is kept. Raises ExportFailed, ModelUnavailable, OSError.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)  # before torch is loaded, which takes seconds
    with _alone(folder.parent):
        if is_export(folder):
            return description_of(folder)
        original = load_original(name)
        with tempfile.TemporaryDirectory(prefix=_unfinished(), dir=folder.parent) as parent:
            made = Path(parent) / "model"
            made.mkdir()
            try:
                described = _write(original, made)
            except (*_REFUSALS, *runtime_errors(), *_format_errors()) as error:
                raise ExportFailed(str(error).partition("\n")[0] or type(error).__name__) from error
            except _cut_short() as error:  # the library does not notice a full disk until it reads what it wrote
                raise ExportFailed(
                    f"a graph was cut short while it was written: free some space in {folder.parent}"
                ) from error
            sync_all(made)  # an export truncated by a power failure would never be replaced
            try:
                made.rename(folder)  # atomic
            except OSError:
                if not is_export(folder):
                    raise
    return described


def remove_unfinished(models: Path) -> None:
    """Remove what this process has written into this folder, if it has not finished an export there."""
    for left in models.glob(f"{_unfinished()}*"):
        shutil.rmtree(left, ignore_errors=True)


def _unfinished() -> str:
    return f"{_UNFINISHED}{os.getpid()}-"


@contextmanager
def _alone(models: Path) -> Generator[None]:
    """Wait until no other process exports into this folder, and remove what killed exports have left there.

    Each of them leaves 90 MB. On a machine with too little memory for torch, this would fill the disk.
    """
    with ExitStack() as stack:
        with suppress(OSError):  # some file systems do not support file locks
            stack.enter_context(locked(models, wait=True))
            for left in models.glob(f"{_UNFINISHED}*"):
                shutil.rmtree(left, ignore_errors=True)
        yield


def least_cosine(exported: Model, original: Model) -> float:
    """Return the cosine between the two models' vectors for the text of SAMPLE for which these differ most."""
    numpy: Any = import_module("numpy")
    least = 1.0
    for ours, theirs in ((exported.queries, original.queries), (exported.passages, original.passages)):
        # Queries one by one, as in operation; passages in one batch, because padding must not change a vector.
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
    """Write the whole model, from tokens to unit vectors, as one graph."""
    torch: Any = import_module("torch")
    # Attention as single operators: fused attention is exported with NaN checks that take a fifth of a passage's time.
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
        warnings.simplefilter("ignore")  # warnings of the tracer, and that this exporter is the older of two
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
    """Return the exceptions that the `onnx` library raises for an invalid graph."""
    if sys.modules.get("onnx") is None:  # not installed, which is then the reason for the failure
        return ()
    onnx: Any = import_module("onnx")
    return onnx.checker.ValidationError, onnx.shape_inference.InferenceError


def _cut_short() -> tuple[type[Exception], ...]:
    """Return the exceptions that the `onnx` library raises, through protobuf, for a truncated graph."""
    message: Any = sys.modules.get("google.protobuf.message")
    return (message.DecodeError,) if message else ()


def _quantise(exact: Path, graph: Path) -> None:
    quantization: Any = import_module("onnxruntime.quantization")
    quantization.quantize_dynamic(exact, graph, weight_type=quantization.QuantType.QInt8, per_channel=True)
