# SPDX-License-Identifier: Apache-2.0
"""The tree as such: one version, licence lines, and the checks of the text."""

import re
import subprocess
from pathlib import Path

import pytest

import fusednorm

ROOT = Path(__file__).parents[2]


def test_one_version():
    header = (ROOT / "include/fusednorm/version.h").read_text()
    found = re.search(r'#define FUSEDNORM_VERSION "(\d+\.\d+\.\d+)"', header)
    assert found
    assert fusednorm.__version__ == found[1]
    assert f"\nversion: {found[1]}\n" in (ROOT / "CITATION.cff").read_text()


def test_the_changelog_has_the_form_of_keep_a_changelog():
    """Newest first, a date for each release, and only the six kinds of change."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    releases = re.findall(r"(?m)^## (.*)$", text)
    assert releases[0] == "[Unreleased]"
    for release in releases[1:]:
        assert re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", release), release
    kinds = set(re.findall(r"(?m)^### (.*)$", text))
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="a source archive: git lists no files")
def test_the_checks_of_the_text_pass():
    """Licence lines, spelling, shell scripts and workflows; a missing tool is named."""
    result = subprocess.run(["tools/lint", "text"], cwd=ROOT, capture_output=True, text=True)
    print(result.stdout)
    assert result.returncode == 0, result.stdout + result.stderr
