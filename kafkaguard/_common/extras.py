"""The error for a package that is not installed: it names the extra."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

#: The packages of the extra ``spark``, to write from Spark. Spark itself needs pandas.
SPARK: Final = ("pyspark", "pyarrow", "pandas", "confluent_kafka")


def require(feature: str, extra: str, *packages: str) -> None:
    """Check that packages are installed, without importing them.

    Args:
        feature: What needs the packages.
        extra: The extra that installs them, such as ``spark`` or ``cli,spark``.
        packages: Their import names.

    Raises:
        ModuleNotFoundError: Some are not installed; the text names them and the extra.
    """
    if absent := [name for name in packages if find_spec(name) is None]:
        raise ModuleNotFoundError(
            f"{feature} needs packages that are not installed ({', '.join(absent)}): "
            f"pip install 'kafkaguard[{extra}]'",
            name=absent[0],
        )
