"""Build the wheel, check its content, and use it outside the checkout.

An installed wheel shows problems that an editable install hides: missing files, entry
points that do not resolve, imports that only work in the checkout, packages that are
installed only because of another extra.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from check_installs import ROOT, check

PACKAGES = {"kafkaguard", "kafkaguard_policies", "kafkaguard_adapters"}
PRESETS = ROOT / "policies/kafkaguard_policies/presets"


def build(folder: Path) -> Path:
    """Build the wheel into a folder."""
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(folder)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    if done.returncode:
        sys.exit(f"the wheel cannot be built:\n{done.stdout}{done.stderr}")
    return next(folder.glob("*.whl"))


def check_contents(wheel: Path) -> None:
    """Check that the wheel contains exactly the files that it must contain."""
    names = set(zipfile.ZipFile(wheel).namelist())
    tops = {name.partition("/")[0] for name in names}
    packages = {top for top in tops if not top.endswith(".dist-info")}
    if packages != PACKAGES:
        sys.exit(f"the wheel holds {sorted(packages)}, not {sorted(PACKAGES)}")
    wanted = {f"{package}/py.typed" for package in PACKAGES}
    presets = [*PRESETS.glob("*.yaml")]
    if not presets:
        sys.exit(f"there are no presets in {PRESETS}")
    wanted |= {f"kafkaguard_policies/presets/{preset.name}" for preset in presets}
    if missing := wanted - names:
        sys.exit(f"the wheel lacks {sorted(missing)}")
    licences = {Path(n).name for n in names if ".dist-info/licenses/" in n}
    if licences != {"LICENSE", "NOTICE"}:
        sys.exit(f"the wheel has the licence files {sorted(licences)}")


def main() -> None:
    """Build the wheel, check it, and use it."""
    with tempfile.TemporaryDirectory() as folder:
        wheel = build(Path(folder))
        check_contents(wheel)
        if failures := check(wheel):
            sys.exit("\n".join(failures))


if __name__ == "__main__":
    main()
