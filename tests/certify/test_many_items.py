"""What a call costs follows the items that a request names, not those that exist."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.certify.many_items import CASES


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the size of a process is read from /proc")
def test_two_thousand_million_items_take_no_room() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.certify.many_items"], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert done.stdout.splitlines() == [*CASES]
