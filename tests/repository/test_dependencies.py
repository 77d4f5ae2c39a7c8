"""The node's dependencies are pinned, within the declared ranges, tied to no particular host, and under known
licences.
"""

import importlib.metadata
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions
from pathlib import Path
from typing import Any

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.repository.audit import verdict
from tests.repository.test_layers import files, imports

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
PINS = {
    canonicalize_name(name): Version(version)
    for name, version in (line.split("==") for line in (ROOT / "constraints.txt").read_text().split())
}
HASHED = (ROOT / "requirements.txt", ROOT / "requirements-torch.txt", ROOT / "requirements-build.txt")
_PIN = re.compile(
    r"^([a-z0-9-]+)==(\S+)(?: ; (.+?))? \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", re.MULTILINE
)
UNPINNED = ("peers", "audit", "pins")
"""Dependency groups used in their newest versions, because nothing of them runs with the node."""

BRING_ALONG = ("pip", "setuptools", "wheel")
"""Packages that an environment has before anything is installed."""

BROUGHT_ALONG = {"torch", "transformers", "uvloop"}
"""Packages that the node imports, but that another package or one of its extras requires."""

PERMISSIVE = re.compile(r"\b(?:MIT|BSD|Apache|ISC|MPL|PSF|Python Software|Mozilla|Zlib|0BSD|CC0)", re.IGNORECASE)
COPYLEFT = re.compile(r"\b(?:A?GPL|GNU|SSPL|Commons Clause|BUSL)", re.IGNORECASE)


def declared() -> list[Requirement]:
    """Return the declared requirements of the node, its extras, its tests and its benchmarks."""
    groups = [one for name, one in PROJECT["dependency-groups"].items() if name not in UNPINNED]
    return [*needed_to_run(), *(Requirement(one) for group in groups for one in group if isinstance(one, str))]


def needed_to_run() -> list[Requirement]:
    """Return the declared requirements of the node and its extras."""
    project = PROJECT["project"]
    lists: list[list[str]] = [project["dependencies"], *project["optional-dependencies"].values()]
    return [Requirement(one) for some in lists for one in some]


def installed_for(wanted: list[Requirement]) -> Iterator[importlib.metadata.Distribution]:
    """Return the installed packages that satisfy these requirements, and their own dependencies."""
    seen: set[str] = set()
    while wanted:
        asked = wanted.pop()
        name = canonicalize_name(asked.name)
        if name in seen:
            continue
        seen.add(name)
        try:
            found = distribution(asked.name)
        except PackageNotFoundError:  # for another platform, or required by an extra that is not installed
            continue
        yield found
        for line in found.requires or []:
            needed = Requirement(line)
            extras = asked.extras or {""}
            if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in extras):
                wanted.append(needed)


def test_what_the_node_imports_is_declared() -> None:
    """The tests' environment has more packages than an installed node has."""
    declared = {canonicalize_name(one.name) for one in needed_to_run()}
    providers = {module: set(map(canonicalize_name, names)) for module, names in packages_distributions().items()}
    imported = {name.partition(".")[0] for file in files() for name in imports(file)}
    foreign = imported - sys.stdlib_module_names - {"node"} - BROUGHT_ALONG
    assert {name for name in foreign if not providers[name] & declared} == set()


@pytest.mark.parametrize("wanted", declared(), ids=str)
def test_what_is_declared_is_pinned_to_a_version_in_its_range(wanted: Requirement) -> None:
    assert wanted.specifier.contains(PINS[canonicalize_name(wanted.name)])


def test_whatever_those_bring_along_is_pinned_too() -> None:
    names = {canonicalize_name(one.metadata["Name"]) for one in installed_for(declared())}
    assert names - PINS.keys() - set(BRING_ALONG) == set()


def test_what_is_installed_is_what_is_pinned() -> None:
    found = {canonicalize_name(one.metadata["Name"]): Version(one.version) for one in installed_for(declared())}
    drifted = {name for name, version in found.items() if name in PINS and Version(version.public) != PINS[name]}
    assert drifted == set()


def is_for_unix(marker: str) -> bool:
    """Return whether a package is for any Python and system that a node runs on, even if the tests do not run on it."""
    places = [
        {"python_full_version": python, "python_version": python.rpartition(".")[0], "sys_platform": system}
        for python in ("3.11.2", "3.12.0", "3.13.5", "3.14.0")
        for system in ("linux", "darwin")
    ]
    return not marker or any(Marker(marker).evaluate(place) for place in places)


@pytest.mark.parametrize("file", HASHED, ids=lambda file: file.name)
def test_the_hashes_are_of_the_pinned_versions(file: Path) -> None:
    text = file.read_text()
    found = _PIN.findall(text)
    # Nothing else is in the file: no address, no option, no package without a hash.
    rest = [line for line in _PIN.sub("", text).splitlines() if not line.startswith("#")]
    assert rest == []
    assert found
    for name, version, marker, _ in found:
        if name in PINS or is_for_unix(marker):
            assert Version(Version(version).public) == PINS[canonicalize_name(name)], name


def test_torch_is_a_build_without_cuda_wherever_there_is_one_with_it() -> None:
    torch = PINS[canonicalize_name("torch")]
    builds = {(version, marker) for _, version, marker, _ in _PIN.findall(HASHED[1].read_text())}
    assert builds == {(f"{torch}+cpu", "sys_platform != 'darwin'"), (str(torch), "sys_platform == 'darwin'")}
    assert not [name for name, _, _, _ in _PIN.findall(HASHED[0].read_text()) if re.match(r"nvidia|triton", name)]


def test_all_that_the_node_installs_has_a_hash() -> None:
    """With hashes, pip does not install a package of the same version that comes from another index or was changed."""
    hashed = {name for file in HASHED for name, _, _, _ in _PIN.findall(file.read_text())}
    extras = PROJECT["project"]["optional-dependencies"]
    image = [*PROJECT["project"]["dependencies"], *extras["embedded"], *extras["worker"]]
    installed = {canonicalize_name(one.metadata["Name"]) for one in installed_for([Requirement(one) for one in image])}
    assert installed - hashed - set(BRING_ALONG) == set()


def test_what_the_node_runs_with_is_under_a_permissive_licence() -> None:
    odd: list[str] = []
    for one in installed_for(needed_to_run()):
        told: dict[str, Any] = one.metadata.json
        classifiers = [line for line in told.get("classifier", []) if line.startswith("License")]
        licence = " ".join([told.get("license_expression", ""), told.get("license", "")[:200], *classifiers])
        if not PERMISSIVE.search(licence) or COPYLEFT.search(licence):
            odd.append(f"{told['name']}: {licence}")
    assert odd == []


def test_no_file_of_the_build_names_a_host_to_fetch_from() -> None:
    files = [ROOT / "Makefile", ROOT / "constraints.txt", ROOT / "pyproject.toml", *HASHED, *ROOT.glob(".ci/*")]
    files += [*ROOT.glob("tests/*/js/package.json"), *ROOT.glob("tests/*/js/.npmrc")]
    named = [
        f"{file.name}: {line}"
        for file in files
        for line in file.read_text().splitlines()
        if re.search(r"https?://|index-url|find-links|trusted-host|registry\s*=", line) and "127.0.0.1" not in line
    ]
    assert named == []


def test_javascript_packages_are_pinned_to_one_version() -> None:
    for file in ROOT.glob("tests/*/js/package.json"):
        for name, version in re.findall(r'"([@\w/.-]+)": "([^"]+)"', file.read_text().partition('"dependencies"')[2]):
            assert re.fullmatch(r"\d+\.\d+\.\d+[\w.-]*", version), (file, name)


def test_an_audit_says_what_it_could_not_look_up() -> None:
    assert verdict([([], []), ([], [])]) == (0, "No known vulnerabilities.")
    status, told = verdict([([], ["litestar"]), ([], ["the packages of js"])])
    assert status == 2
    assert "NOT AUDITED: litestar, the packages of js" in told
    status, told = verdict([(["a 1.0: PYSEC-1, fixed in 1.1"], ["b"])])
    assert status == 1
    assert "VULNERABLE a 1.0: PYSEC-1" in told
