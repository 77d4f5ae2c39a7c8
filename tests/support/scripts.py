"""Every Lua step of the node."""

from node.store.scripts import FOLDER, Script, script


def all_scripts() -> list[Script]:
    """Return all steps of the folder, sorted by name."""
    return [script(path.stem) for path in sorted(FOLDER.glob("*.lua"))]
