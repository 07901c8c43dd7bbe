"""The README's tour runs as it stands, and its figures are those of the service."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from app.core.budget import Cost
from app.core.mechanisms import pmg
from app.settings import Settings
from tests.conftest import ADMIN_KEY
from tests.server import running

README = (Path(__file__).parents[1] / "README.md").read_text()


@pytest.mark.skipif(shutil.which("curl") is None, reason="the tour uses curl, which is not on this machine")
def test_every_command_of_the_tour_works(database_url: str, tmp_path: Path) -> None:
    commands = "\n".join(re.findall(r"^```sh\n(.*?)^```$", README, re.MULTILINE | re.DOTALL))
    with running(database_url) as server:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", commands.replace("curl -sS", r"curl -sS -w '\n'")],
            env={**os.environ, "URL": server.url, "KEY": ADMIN_KEY},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
    answers = [line for line in done.stdout.splitlines() if line]
    refusals = [line for line in answers if "urn:discreet:problem" in line]
    assert len(refusals) == 1
    assert "budget-exhausted" in refusals[0]
    assert '{"accepted":1502}' in answers
    assert '{"accepted":3}' in answers
    assert "key,count,low,high" in answers
    assert "/secret-offer" not in done.stdout
    assert '"scopes":["ingest"]' in answers[-1]
    assert (tmp_path / "histogram.svg").read_text().startswith("<svg")


def test_the_example_snapshot_has_the_true_parameters() -> None:
    calibrated = pmg.calibrate(1024, Cost.charged(epsilon="0.5", delta="1e-6"))
    bound = calibrated.error_bound(0.05, 2000)
    assert f'"threshold": {calibrated.threshold}' in README
    assert (
        f'"noise_low": {bound.noise_low}, "noise_high": {bound.noise_high}, "sketch_low": {bound.sketch_low}' in README
    )


def test_the_table_of_settings_is_complete() -> None:
    for name in Settings.__dataclass_fields__:
        assert f"`DISCREET_{name.upper()}`" in README
    assert f"| `DISCREET_MAX_BODY_BYTES` | {Settings().max_body_bytes} |" in README
    assert f"| `DISCREET_MAX_BATCH_ITEMS` | {Settings().max_batch_items} |" in README
