"""An exported model: a folder with graph, tokenizer and description, which runs in ONNX Runtime without torch."""

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import msgspec

from node.embedding.model import MAX_QUERY_CHARACTERS, ModelUnavailable, threads

DESCRIPTION, GRAPH, TOKENIZER = "export.json", "model.onnx", "tokenizer.json"

FORMAT = 1
"""Version of the format of the folder. A node with another version exports the model again."""


class Description(msgspec.Struct, frozen=True):
    """The description in the folder of an export."""

    format: int
    fingerprint: str
    """Fingerprint of the original model, to whose vectors those of the export are close enough to be compared
    (`node.embedding.export`)."""
    dimension: int
    query_prompt: str
    """Text that the model expects before a query."""
    passage_prompt: str
    """Text that the model expects before a passage."""


class ExportedModel:
    """The exported model in a folder."""

    def __init__(self, folder: Path) -> None:
        """Load the model, in a quarter of a second. Raises ModelUnavailable."""
        try:
            described = description_of(folder)
            if described.format != FORMAT:
                raise ModelUnavailable(f"{folder} is an export of format {described.format}, not {FORMAT}")
            tokenizers: Any = import_module("tokenizers")
            self._tokenizer: Any = tokenizers.Tokenizer.from_file(str(folder / TOKENIZER))
            self._tokenizer.no_padding()
            self._unknown = self._tokenizer.token_to_id(getattr(self._tokenizer.model, "unk_token", None) or "")
            """The token for everything that the model does not know; None if it knows everything."""
            self._session = _session(folder / GRAPH)
        except (ImportError, LookupError, OSError, TypeError, ValueError, RuntimeError, *runtime_errors()) as error:
            reason = str(error).partition("\n")[0]
            raise ModelUnavailable(f"the exported model in {folder} cannot be loaded: {reason}") from error
        self._described = described
        self.dimension = described.dimension
        self.fingerprint = described.fingerprint

    def queries(self, texts: Sequence[str]) -> list[bytes]:
        prompt = self._described.query_prompt
        found = (self._tokens(prompt + text[:MAX_QUERY_CHARACTERS], only_known=True) for text in texts)
        return [self._vector(tokens) if tokens else b"" for tokens in found]

    def passages(self, texts: Sequence[str]) -> list[bytes]:
        return [self._vector(self._tokens(self._described.passage_prompt + text)) for text in texts]

    def _tokens(self, text: str, *, only_known: bool = False) -> Sequence[int]:
        """Return the tokens of a text, or only those that the model knows: nothing if it knows none.

        Whatever the model does not know is one and the same token. In a query it would be found in every other text
        that has it, whatever the texts say.
        """
        read = self._tokenizer.encode(text)  # `encode_batch` uses threads, which take cores from the web processes
        if not only_known:
            return read.ids
        known = [token for token in read.ids if token != self._unknown]
        return known if len(known) > sum(read.special_tokens_mask) else ()

    def _vector(self, tokens: Sequence[int]) -> bytes:
        """Return the vector of one text, which is always the same.

        Texts are not embedded in batches, because activations are rounded to 8 bits on a scale common to the batch. The
        vector of a text would depend on the other texts, enough to change one hit in ten, and no time would be saved.
        """
        numpy: Any = import_module("numpy")
        inputs = {"input_ids": tokens, "attention_mask": [1] * len(tokens)}
        (vectors,) = self._session.run(None, {name: numpy.array([each], "int64") for name, each in inputs.items()})
        return vectors[0].astype("float32").tobytes()


def is_export(folder: Path) -> bool:
    """Return whether a folder holds an exported model."""
    return (folder / DESCRIPTION).is_file()


def description_of(folder: Path) -> Description:
    """Return the description of the export in a folder. Raises OSError, ValueError."""
    return msgspec.json.decode((folder / DESCRIPTION).read_bytes(), type=Description)


def runtime_errors() -> list[type[Exception]]:
    """Return the exceptions that ONNX Runtime raises: a dozen classes without a common base."""
    if "onnxruntime" not in sys.modules:  # never imported, so it has raised nothing
        return []
    state = import_module("onnxruntime.capi.onnxruntime_pybind11_state")
    members = cast("dict[str, object]", vars(state)).values()
    return [each for each in members if isinstance(each, type) and issubclass(each, Exception)]


def _session(graph: Path) -> Any:
    runtime: Any = import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads()
    options.inter_op_num_threads = 1
    options.log_severity_level = 3  # errors
    # Waiting threads must not spin: the web processes need the cores.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # Addition and normalisation fused into one operator make the whole model slower by a fifteenth.
    slower = ["SkipLayerNormFusion"]
    return runtime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"], disabled_optimizers=slower)
