"""``make size``: the statements of each room, without docstrings."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = {
    "kafkaguard": ROOT / "kafkaguard",
    "policies": ROOT / "policies/kafkaguard_policies",
    "adapters": ROOT / "adapters/kafkaguard_adapters",
}


def statements(source: str) -> int:
    """Count the statements of a module; a string alone is a docstring."""
    return sum(
        isinstance(node, ast.stmt)
        and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        for node in ast.walk(ast.parse(source))
    )


def main() -> None:
    """Print each room, and the sum."""
    rooms: Counter[str] = Counter()
    for name, folder in PACKAGES.items():
        for file in folder.rglob("*.py"):
            parts = file.relative_to(folder).parts
            room = f"{name}/{parts[0]}" if len(parts) > 1 else name
            rooms[room] += statements(file.read_text())
    for room, count in sorted(rooms.items()):
        print(f"{count:7,}  {room}")
    print(f"{rooms.total():7,}  in all")


if __name__ == "__main__":
    main()
