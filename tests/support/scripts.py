"""Every Lua step of the node."""

from node.store.scripts import FOLDER, Script, script


def all_scripts() -> list[Script]:
    """The folder's steps, in order of their names."""
    return [script(path.stem) for path in sorted(FOLDER.glob("*.lua"))]
