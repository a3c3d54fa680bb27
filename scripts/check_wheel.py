"""Build the wheel, look into it, and use it from outside the checkout.

An installed wheel shows what an editable install hides: files that are not packed,
entry points that do not resolve, imports that only work in the checkout.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = {"kafkaguard", "kafkaguard_policies", "kafkaguard_adapters"}
PRESETS = ROOT / "policies/kafkaguard_policies/presets"

TRY_OUT = """
import sys
import kafkaguard
assert "site-packages" in kafkaguard.__file__, kafkaguard.__file__
heavy = {"kafka", "confluent_kafka", "aiokafka", "pydantic", "pyspark"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
for name in kafkaguard.__all__:
    getattr(kafkaguard, name)
verdict = kafkaguard.classify(9, api="Metadata")
assert verdict.action == "IGNORE", verdict
error = kafkaguard.errors.for_code(87)("refused", topic="t")
assert "INVALID_RECORD (87)" in str(error)
from kafkaguard.protocol import broker_registration
assert broker_registration.serialize_request({"broker_id": 1}, 4)
print("wheel", kafkaguard.__version__, "works outside the checkout")
"""


def run(*command: str | Path, cwd: str) -> str:
    """Run a command that must succeed, and return what it printed."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def build(folder: str) -> Path:
    """Build the wheel into a folder."""
    run(sys.executable, "-m", "build", "--wheel", "--outdir", folder, cwd=str(ROOT))
    return next(Path(folder).glob("*.whl"))


def check_contents(wheel: Path) -> None:
    """Hold what is in the wheel against what must be there, and nothing else."""
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


def try_out(wheel: Path, folder: str) -> None:
    """Install the wheel with its plain dependencies and use it."""
    venv.create(Path(folder) / "venv", with_pip=True)
    python = Path(folder) / "venv/bin/python"
    run(python, "-m", "pip", "install", "--quiet", wheel, cwd=folder)
    print(run(python, "-c", TRY_OUT, cwd=folder).strip())
    without_extra = subprocess.run(
        [python.with_name("kafkaguard"), "--version"],
        cwd=folder,
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    if without_extra.returncode != 2 or "kafkaguard[cli]" not in without_extra.stderr:  # noqa: PLR2004 - the documented exit code
        sys.exit(f"without the cli extra: {without_extra}")
    run(python, "-m", "pip", "install", "--quiet", f"{wheel}[cli]", cwd=folder)
    command = python.with_name("kafkaguard")
    if "INVALID_RECORD" not in run(command, "explain", "87", cwd=folder):
        sys.exit("`kafkaguard explain 87` does not explain")


def main() -> None:
    """Build, look, try."""
    with tempfile.TemporaryDirectory() as folder:
        wheel = build(folder)
        check_contents(wheel)
        try_out(wheel, folder)


if __name__ == "__main__":
    main()
