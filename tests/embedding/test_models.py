"""The embedding models: vectors of the original and of its export are comparable."""

import fcntl
import math
import os
import resource
import shutil
import signal
import subprocess
import sys
from array import array
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NoReturn

import msgspec
import pytest
from structlog.testing import capture_logs

from node.cli import main
from node.embedding import export as exporting
from node.embedding.choice import exported as export_of
from node.embedding.choice import is_path, load
from node.embedding.export import EXACT, QUANTISED, ExportFailed, export, least_cosine
from node.embedding.exported import DESCRIPTION, GRAPH, Description, ExportedModel, description_of
from node.embedding.model import Model, ModelUnavailable
from node.embedding.original import OriginalModel, load_original
from tests.support.models import exported_model
from tests.support.servers import until

BREAD = "Mix flour, water and yeast, then put the loaf into the oven."


def cosine(one: bytes, other: bytes) -> float:
    return sum(a * b for a, b in zip(array("f", one), array("f", other), strict=True))


@pytest.fixture(scope="module")
def graph(original: OriginalModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The graph traced from the default model, before it is quantised."""
    graph = tmp_path_factory.mktemp("graph") / "exact.onnx"
    exporting._trace(original.transformer, graph)  # pyright: ignore[reportPrivateUsage]
    return graph


@pytest.fixture
def traced(original: OriginalModel, graph: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip the slow parts of an export: loading the original, and tracing it."""
    monkeypatch.setattr(exporting, "load_original", {"": original}.__getitem__)

    def copied(_: object, to: Path) -> None:
        shutil.copyfile(graph, to)

    monkeypatch.setattr(exporting, "_trace", copied)


@pytest.fixture(params=["original", "exported"])
def model(request: pytest.FixtureRequest) -> Model:
    return request.getfixturevalue(request.param)


def test_vectors_have_length_one_and_the_models_dimension(model: Model) -> None:
    (vector,) = model.queries(["a question"])
    assert len(vector) == 4 * model.dimension == 4 * 384
    assert math.isclose(cosine(vector, vector), 1, abs_tol=1e-5)


def test_similar_texts_have_near_vectors(model: Model) -> None:
    (query,) = model.queries(["how do I bake bread"])
    near, far = model.passages([BREAD, "The proxy is slow."])
    assert cosine(query, near) > 0.4 > cosine(query, far)


def test_a_query_is_only_what_the_model_knows_of_it(exported: ExportedModel) -> None:
    nothing, plain, mixed = exported.queries(["🍅", "tomato", "🍅 tomato " + "z" * 101])
    assert nothing == b""
    assert plain == mixed
    assert all(exported.passages(["🍅"]))  # so that every thread has a vector


def test_a_text_longer_than_the_model_reads_has_a_vector(model: Model) -> None:
    (whole, begin) = model.passages([f"{BREAD} " * 400, f"{BREAD} " * 100])
    assert cosine(whole, begin) > 0.98


def test_padding_changes_little(model: Model) -> None:
    alone = model.passages(["short"])[0]
    among = model.passages(["short", "much longer than the other one, so that it must be padded"])[0]
    assert cosine(alone, among) > QUANTISED


def test_an_export_has_the_fingerprint_of_its_original_and_vectors_near_it(
    original: OriginalModel, exported: ExportedModel
) -> None:
    assert len(original.fingerprint) == 16
    assert exported.fingerprint == original.fingerprint == load_original("").fingerprint
    assert QUANTISED <= least_cosine(exported, original) < EXACT, "it is not quantised"


def test_a_model_that_loses_too_much_is_exported_without_quantisation(
    original: OriginalModel, traced: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporting, "QUANTISED", 0.999)
    export("", tmp_path / "model")
    assert least_cosine(ExportedModel(tmp_path / "model"), original) >= EXACT


def test_an_export_that_is_not_like_its_original_is_not_kept(
    traced: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporting, "QUANTISED", 1.1)
    monkeypatch.setattr(exporting, "EXACT", 1.1)
    monkeypatch.setattr(exporting, "_quantise", shutil.copyfile)
    with pytest.raises(ExportFailed, match="cosine"):
        export("", tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_a_graph_that_cannot_be_quantised_is_one_sentence_and_leaves_nothing(
    original: OriginalModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: object, graph: Path) -> None:
        graph.write_bytes(b"no graph")

    monkeypatch.setattr(exporting, "_trace", broken)
    monkeypatch.setattr(exporting, "load_original", {"": original}.__getitem__)
    with pytest.raises(ExportFailed, match=r"^[^\n]+$"):
        export("", tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_on_a_full_disk_an_export_says_so_and_leaves_nothing(
    traced: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A limit on file sizes stands in for the full disk: the traced graph fits, but the quantised one does not."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    quantise = exporting._quantise  # pyright: ignore[reportPrivateUsage]

    def without_room(exact: Path, graph: Path) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (exact.stat().st_size, before[1]))
        quantise(exact, graph)

    monkeypatch.setattr(exporting, "_quantise", without_room)
    try:
        with pytest.raises(ExportFailed, match=f"free some space in {tmp_path}"):
            export("", tmp_path / "model")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == []


def test_without_the_library_of_the_format_an_export_says_so(
    traced: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def trace(*_: object) -> NoReturn:
        raise ImportError("No module named 'onnx'")

    monkeypatch.setattr(exporting, "_trace", trace)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ExportFailed, match="No module named 'onnx'"):
        export("", tmp_path / "model")


def test_a_model_that_cannot_be_loaded_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither must the failed export, after which the original is tried, run a module of the current directory."""
    tmp_path.joinpath("node.py").write_text("raise SystemExit('that of the current directory')")
    tmp_path.joinpath("empty").mkdir()
    monkeypatch.chdir(tmp_path)
    with capture_logs() as logged, pytest.raises(ModelUnavailable, match=r"empty.* cannot be loaded: "):
        load(str(tmp_path / "empty"), tmp_path / "models")
    assert ["cannot be loaded" in line["reason"] for line in logged if "not exported" in line["event"]] == [True]
    with pytest.raises(ModelUnavailable, match="none"):
        load("none", tmp_path)


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        *((path, True) for path in ("/srv/model", "./model", "../model", "models/of/mine")),
        *((name, False) for name in ("", "all-MiniLM-L6-v2", "sentence-transformers/all-MiniLM-L6-v2", ".hidden")),
    ],
)
def test_a_name_of_the_hub_is_not_taken_for_a_path(name: str, is_one: bool) -> None:
    assert is_path(name) is is_one


def test_of_a_folder_that_is_not_there_or_is_damaged_only_that_is_said(tmp_path: Path) -> None:
    """The message must not mention what another kind of model would need, such as torch, if that is not installed."""
    folder = tmp_path / "model"
    with capture_logs() as logged, pytest.raises(ModelUnavailable, match="model does not exist"):
        load(str(folder), tmp_path / "models")
    shutil.copytree(exported_model(), folder)
    (folder / GRAPH).write_bytes(b"no graph")
    with capture_logs() as logged_then, pytest.raises(ModelUnavailable, match="the exported model in"):
        load(str(folder), tmp_path / "models")
    assert logged + logged_then == []


def test_an_export_that_is_damaged_or_of_another_format_says_so(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(exported_model(), tmp_path / "model"))
    (folder / GRAPH).write_bytes(b"no graph")
    with pytest.raises(ModelUnavailable, match="cannot be loaded"):
        ExportedModel(folder)
    described = msgspec.json.decode((folder / DESCRIPTION).read_bytes(), type=Description)
    (folder / DESCRIPTION).write_bytes(msgspec.json.encode(msgspec.structs.replace(described, format=99)))
    with pytest.raises(ModelUnavailable, match="format 99"):
        ExportedModel(folder)


def test_the_first_start_exports_and_the_next_finds_it(tmp_path: Path) -> None:
    shutil.copytree(exported_model(), tmp_path / ".relay-node-export-killed" / "model")
    folder = export_of("", tmp_path)
    assert sorted(path.name for path in folder.iterdir()) == ["export.json", "model.onnx", "tokenizer.json"]
    (folder / DESCRIPTION).touch()
    made = (folder / DESCRIPTION).stat().st_mtime_ns
    assert export_of("", tmp_path) == folder
    assert (folder / DESCRIPTION).stat().st_mtime_ns == made
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]


def test_who_waits_for_another_process_that_exports_takes_what_it_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def not_loaded(_: str) -> NoReturn:
        raise AssertionError("the original was loaded")

    monkeypatch.setattr(exporting, "load_original", not_loaded)
    folder = tmp_path / "model"
    models = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(models, fcntl.LOCK_EX)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(export, "", folder)
        made = Path(shutil.copytree(exported_model(), tmp_path / ".relay-node-export-other"))
        made.rename(folder)
        os.close(models)
        assert waiting.result() == description_of(folder)
    assert list(tmp_path.iterdir()) == [folder]


def test_where_exporting_fails_the_original_runs(tmp_path: Path) -> None:
    tmp_path.joinpath("models").write_text("a file where the folder should be")
    assert isinstance(load("", tmp_path / "models"), OriginalModel)


def test_an_exported_model_needs_neither_torch_nor_transformers() -> None:
    program = (
        "import sys\n"
        "for name in ('torch', 'transformers', 'sentence_transformers'): sys.modules[name] = None\n"
        "from pathlib import Path\n"
        "from node.embedding.choice import load\n"
        f"print(len(load({exported_model()!r}, Path('.')).queries(['a question'])[0]))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == f"{4 * 384}\n"


def test_an_export_ends_with_the_worker_that_asked_for_it(tmp_path: Path) -> None:
    # In a thread, as in a worker: the kernel signals the child when this thread ends.
    program = (
        "import threading\n"
        "from pathlib import Path\n"
        "from node.embedding.choice import exported\n"
        f"threading.Thread(target=exported, args=('', Path({str(tmp_path)!r}))).start()\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.DEVNULL) as worker:
        until(lambda: list(tmp_path.glob(".relay-node-export-*/model")), "it is being exported")
        (export_process,) = children_of(worker.pid)
        worker.kill()
    until(lambda: not Path(f"/proc/{export_process}").exists(), "the export has ended")
    assert list(tmp_path.iterdir()) == []


def test_an_export_that_is_told_to_end_again_removes_what_it_has_made(tmp_path: Path) -> None:
    program = (
        "import os, shutil, signal, sys\n"
        "from node.cli import main\n"
        "remove = shutil.rmtree\n"
        "def told_again(*given, **named):\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    remove(*given, **named)\n"
        "shutil.rmtree = told_again\n"
        f"sys.exit(main(['model', 'export', {str(tmp_path / 'model')!r}]))\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.DEVNULL) as exporting:
        until(lambda: list(tmp_path.glob(".relay-node-export-*/model")), "it is being exported")
        exporting.terminate()
    assert exporting.returncode == 128 + signal.SIGTERM
    assert list(tmp_path.iterdir()) == []


def test_an_export_that_is_told_to_end_while_python_ignores_exceptions_removes_what_it_has_made(tmp_path: Path) -> None:
    """Python ignores exceptions in callbacks of weak references, and calls such callbacks at each import."""
    program = (
        "import os, signal, sys, weakref\n"
        "from node.cli import main\n"
        "from node.embedding import export\n"
        "def told(original, folder):\n"
        "    module = set()\n"
        "    imported = weakref.ref(module, lambda _: os.kill(os.getpid(), signal.SIGTERM))\n"
        "    del module\n"
        "    sys.exit('it goes on')\n"
        "export.load_original, export._write = print, told\n"
        f"sys.exit(main(['model', 'export', {str(tmp_path / 'model')!r}]))\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (128 + signal.SIGTERM, "")
    assert list(tmp_path.iterdir()) == []


def children_of(pid: int) -> list[int]:
    """Return the processes that any thread of that process has started."""
    files = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for file in files for child in file.read_text().split()]


def test_a_model_is_not_exported_to_where_something_else_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The export must refuse at once and in our words: not after a minute's work, and not as done where another model
    is.
    """
    (tmp_path / "model.onnx").touch()
    assert main(["model", "export", str(tmp_path)]) == 1
    assert capsys.readouterr().err == f"relay-node: {tmp_path} is not empty: name a new directory\n"


def test_the_runtime_reports_to_nobody(tmp_path: Path) -> None:
    """Reports that the runtime cannot send at once are kept in a database below the home directory."""
    program = (
        "import sys; from pathlib import Path; from node.embedding.exported import *; ExportedModel(Path(sys.argv[1]))"
    )
    told = {name: value for name, value in os.environ.items() if not name.startswith(("CI", "ORT_", "XDG_"))}
    subprocess.run([sys.executable, "-c", program, exported_model()], check=True, env=told | {"HOME": str(tmp_path)})
    assert list(tmp_path.iterdir()) == []
