"""Chooses the model that runs: an existing export, a new export, or the original model if exporting fails."""

import os
import subprocess
import sys
from functools import cache
from hashlib import blake2b
from pathlib import Path

import structlog

from node.common import process
from node.embedding.exported import FORMAT, ExportedModel, is_export
from node.embedding.model import NO_MODEL, Model, ModelUnavailable
from node.embedding.original import bundled, load_original

log = structlog.get_logger()

EXPORT_SECONDS = 3600
"""Timeout of an export. An export takes about ten seconds on an idle machine, but on a busy one a process with the
worker's low priority may get a hundredth of a processor."""


@cache
def load(name: str, models: Path) -> Model:
    """Return the model with this path or name (empty: the default model), loaded once per process.

    A folder that holds an export is loaded as it is. Any other model is exported into `models` at the first start, by a
    separate process. If that fails, the original model is used. Raises ModelUnavailable.
    """
    if name == NO_MODEL:
        raise ModelUnavailable("RELAY_EMBEDDING_MODEL is none")
    folder = Path(name)
    if is_path(name) and not folder.exists():
        raise ModelUnavailable(f"{name} does not exist")
    if name and is_export(folder):
        return ExportedModel(folder)
    try:
        return ExportedModel(exported(name, models))
    except (OSError, subprocess.SubprocessError, ModelUnavailable) as error:
        log.warning("embedding model not exported", reason=str(error))
        return load_original(name)


def is_path(name: str) -> bool:
    """Return whether a name can only be a path. Names of models on the hub are relative and have at most one slash."""
    return name.startswith((os.sep, f".{os.sep}", f"..{os.sep}")) or name.count(os.sep) > 1


def exported(name: str, models: Path) -> Path:
    """Return the folder of a model's export. Export the model first if the folder does not exist.

    Raises ModelUnavailable, OSError, SubprocessError.
    """
    folder = models / _key(name)
    if not is_export(folder):
        _export(name, folder)
    return folder


def _key(name: str) -> str:
    """Return the name of the folder for a model's export. Raises ModelUnavailable."""
    try:
        path = Path(name or bundled())
    except ImportError as error:
        raise ModelUnavailable(f"the default model is not installed: {error}") from error
    return key_of(path) if path.is_dir() else f"{name.replace('/', '--')}-{FORMAT}"


def key_of(path: Path) -> str:
    """Return a name for the weights in a model's folder, a digest of all its files. Takes 0.1 to 0.5 s for 90 MB."""
    digest = blake2b(str(FORMAT).encode(), digest_size=8)
    for file in sorted(path.rglob("*")):
        if file.is_file():
            digest.update(str(file.relative_to(path)).encode())
            with file.open("rb") as content:
                while block := content.read(1 << 20):
                    digest.update(block)
    return digest.hexdigest()


def _export(name: str, folder: Path) -> None:
    """Export a model in a separate process, so that torch's memory is freed when it ends.

    That process ends when this one does: otherwise a worker that dies repeatedly would leave a process of 800 MB behind
    each time. Raises OSError, SubprocessError.
    """
    log.info("embedding model is being exported", folder=str(folder))
    done = subprocess.run(  # noqa: S603 - the command is ours and no shell reads it
        # -P keeps Python from importing a directory called `node` in the operator's current directory.
        [
            *(sys.executable, "-P", "-m", "node", "model", "export", str(folder), "--model", name),
            *("--parent", str(os.getpid())),
        ],
        env={**os.environ, **process.import_path()},
        timeout=EXPORT_SECONDS,
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise subprocess.SubprocessError(done.stderr.strip().rpartition("\n")[2] or f"exit status {done.returncode}")
