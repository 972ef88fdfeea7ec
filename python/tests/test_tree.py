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


def test_where_to_look_first_names_files_that_are_there():
    """Each path of HACKING.md's table exists; a bare name lies beside the path before it."""
    table = (ROOT / "HACKING.md").read_text(encoding="utf-8").split("## Where to look first")[1]
    beside = ROOT
    paths = [
        path
        for row in re.findall(r"(?m)^\|.*\|$", table.split("\n## ")[0])[2:]
        for path in re.findall(r"`([^`]+)`", row.split("|")[2])
    ]
    assert len(paths) > 10
    for path in paths:
        found = ROOT / path if "/" in path else beside / path
        assert found.exists(), path
        beside = found.parent


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("problems/rates.h", "python/fusednorm/measure/rates.py"),
        ("bindings/torch/register.cc", "python/fusednorm/_vmap.py"),
        ("problems/problem.h", "python/fusednorm/measure/grammar.py"),
    ],
)
def test_two_halves_of_one_idea_name_each_other(one: str, other: str):
    assert other in (ROOT / one).read_text()
    assert one in (ROOT / other).read_text()


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="a source archive: git lists no files")
def test_the_checks_of_the_text_pass():
    """Licence lines, spelling, shell scripts and workflows; a missing tool is named."""
    result = subprocess.run(["tools/lint", "text"], cwd=ROOT, capture_output=True, text=True)
    print(result.stdout)
    assert result.returncode == 0, result.stdout + result.stderr
