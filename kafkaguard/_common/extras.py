"""The error for a package that is not installed: it names the extra."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

#: What writing from Spark needs: the extra ``spark``. Spark asks for pandas, too.
SPARK: Final = ("pyspark", "pyarrow", "pandas", "confluent_kafka")


def require(what: str, extra: str, *packages: str) -> None:
    """Check that packages are installed, without importing them.

    Args:
        what: What needs them.
        extra: The extra that brings them, as ``spark`` or ``cli,spark``.
        packages: The names they are imported by.

    Raises:
        ModuleNotFoundError: Some are not installed; names them and the extra.
    """
    if missing := [name for name in packages if find_spec(name) is None]:
        raise ModuleNotFoundError(
            f"{what} needs packages that are not installed ({', '.join(missing)}): "
            f"pip install 'kafkaguard[{extra}]'",
            name=missing[0],
        )
