# SPDX-License-Identifier: Apache-2.0
"""The documentation is true: its code runs, its links lead somewhere, its commands exist.

Python blocks of a page run one after the other, as a reader types them. Pages may take for granted
what PREAMBLE defines. C++ blocks that are marked ``<!-- test: compile-and-run -->`` are compiled
and run by tests/documentation.cmake. ``<!-- test: skip REASON -->`` leaves a block out.
"""

import re
import shlex
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from fusednorm.measure import command, evidence, page

ROOT = Path(__file__).parents[2]
PREAMBLE = """
import torch, fusednorm
torch.manual_seed(0)
x = torch.randn(4, 768)
residual = torch.randn(4, 768)
weight, bias = torch.ones(768), torch.zeros(768)
model = torch.nn.Sequential(torch.nn.Linear(768, 768), torch.nn.LayerNorm(768))
"""
# Not run: shell, build files and what programs print.
NOT_CODE = {"", "cmake", "bash", "console", "text", "diff", "json", "toml", "yaml"}


class Block(NamedTuple):
    page: str
    line: int
    language: str
    mark: str
    code: str


def pages() -> list[Path]:
    try:
        listed = subprocess.run(
            ["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.split()
    except (OSError, subprocess.CalledProcessError):  # a source archive
        listed = [str(path.relative_to(ROOT)) for path in ROOT.glob("docs/**/*.md")] + ["README.md"]
    hidden = (".github/",)
    return [ROOT / name for name in sorted(listed) if not name.startswith(hidden)]


def blocks(path: Path) -> list[Block]:
    found: list[Block] = []
    fence, mark, language, begin = "", "", "", 0
    code: list[str] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        opened = re.match(r"^( *)```(\w*)", line)
        if fence:
            if line.rstrip() == fence:
                text = "\n".join(part.removeprefix(fence[:-3]) for part in code)
                found.append(Block(str(path.relative_to(ROOT)), begin, language, mark, text))
                fence = mark = ""
            else:
                code.append(line)
        elif opened:
            fence, language, begin, code = opened[1] + "```", opened[2], number, []
        else:
            marked = re.match(r"<!-- test: (.*?) -->", line)
            mark = marked[1] if marked else ""
    assert not fence, f"{path}:{begin}: a block is not closed"
    return found


BLOCKS = [block for path in pages() for block in blocks(path)]


def test_every_block_is_run_or_says_why_not():
    unknown = [
        f"{b.page}:{b.line}: a block of {b.language} that nothing runs"
        for b in BLOCKS
        if not (
            b.language in NOT_CODE
            or re.match(r"skip \S", b.mark)
            or b.language == "python"
            or (b.language == "cpp" and b.mark == "compile-and-run")
        )
    ]
    assert not unknown, "\n".join(unknown)
    assert sum(b.language == "python" for b in BLOCKS) > 5
    assert sum(b.mark == "compile-and-run" for b in BLOCKS) > 4


def test_marked_programs_are_where_ctest_looks():
    for block in BLOCKS:
        if block.mark == "compile-and-run":
            assert block.page == "README.md" or block.page.startswith("docs/"), block.page


# Packages that examples use and that not every Python and torch has.
OPTIONAL = {"transformers", "accelerate", "diffusers", "peft", "timm", "torchvision", "onnx"}


@pytest.mark.parametrize("name", sorted({b.page for b in BLOCKS if b.language == "python"}))
def test_python_blocks(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "documentation"}
    exec(PREAMBLE, names)
    skipped = []
    for block in BLOCKS:
        if block.page != name or block.language != "python":
            continue
        if block.mark.startswith("skip "):
            skipped.append(f"{name}:{block.line}: {block.mark.removeprefix('skip ')}")
            continue
        code = "\n" * block.line + block.code  # so that a traceback names the page's line
        try:
            exec(compile(code, str(ROOT / name), "exec"), names)
        except ModuleNotFoundError as error:
            if error.name not in OPTIONAL:
                raise
            pytest.skip(f"{error.name} is not installed: tools/requirements-test.txt")
    if skipped:
        print("left out:", *skipped, sep="\n")


def anchors(path: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and mkdocs make them."""
    found = set()
    text = re.sub(r"(?ms)^ *```.*?^ *```", "", path.read_text(encoding="utf-8"))
    for heading in re.findall(r"(?m)^#+ (.*)$", text):
        plain = re.sub(r"[`*]|\[(.*?)\]\(.*?\)", r"\1", heading).strip().lower()
        found.add(re.sub(r" ", "-", re.sub(r"[^\w\- ]", "", plain)))
    return found


@pytest.mark.parametrize("path", pages(), ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path):
    text = re.sub(r"(?ms)^ *```.*?^ *```", "", path.read_text(encoding="utf-8"))
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"https://", target):
            continue
        file, _, anchor = target.partition("#")
        linked = (path.parent / file).resolve() if file else path
        if file.endswith("cpp/index.html"):  # Doxygen makes it
            continue
        if not linked.exists() or (
            anchor and linked.suffix == ".md" and anchor not in anchors(linked)
        ):
            broken.append(target)
    assert not broken


def test_commands_exist():
    """``make TARGET`` and ``tools/NAME``, wherever a page tells the reader to type them."""
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"(?m)^([a-z][\w-]*):", makefile))
    wrong = []
    for path in pages():
        text = path.read_text(encoding="utf-8")
        for target in re.findall(r"(?:^|`)make ([a-z][\w-]*)", text, re.MULTILINE):
            if target not in targets:
                wrong.append(f"{path.name}: make {target}")
        for tool in re.findall(r"\btools/([a-z][\w-]*)", text):
            if not (ROOT / "tools" / tool).exists() and not list(ROOT.glob(f"tools/{tool}*")):
                wrong.append(f"{path.name}: tools/{tool}")
    assert not wrong


def lines_of_commands() -> list[tuple[str, list[str]]]:
    """Every line of a block that begins with ``python -m fusednorm``, split as a shell does."""
    found = []
    for block in BLOCKS:
        for line in block.code.splitlines() if block.language in NOT_CODE else []:
            if line.startswith("python -m fusednorm "):
                plain = line.replace("[", "").replace("]", "")  # optional words
                found.append((f"{block.page}:{block.line}", shlex.split(plain, comments=True)[3:]))
    return found


@pytest.mark.parametrize(("place", "words"), lines_of_commands())
def test_commands_are_understood(place, words):
    """The parser takes each command line that a page shows."""
    assert command.parser().parse_args(words).command == words[0], place


def test_build_files_are_those_of_the_consumer():
    """What a page tells to write in CMake is what the consumer's or the emulator's tests build."""
    tried = "".join(
        (ROOT / name).read_text()
        for name in ("tests/consumer/CMakeLists.txt", "emulator/tests/CMakeLists.txt")
    )
    for block in BLOCKS:
        for function in (
            re.findall(r"(?m)^(\w+)\(", block.code) if block.language == "cmake" else []
        ):
            if function != "add_subdirectory":
                assert re.search(rf"(?m)^ *{function}\(", tried), f"{block.page}:{block.line}"


def test_how_we_know_repeats_the_evidence():
    text = (ROOT / "docs/how-we-know.md").read_text(encoding="utf-8").replace("`", "")
    for claim in evidence.CLAIMS:
        assert f"| {claim.name} | {claim.meaning} | {', '.join(claim.tests)} |" in text
    for row in (*evidence.HAS_RUN, *evidence.HAS_NOT_RUN):
        assert "| " + " | ".join(row) + " |" in text


def test_the_report_says_how_we_know():
    text = page.render({"rows": [], "environment": {"machine": "none"}}, [])
    assert '<h2 id="how-we-know">' in text
    for claim in evidence.CLAIMS:
        assert f"<td>{claim.name}</td>" in text
    for what, *_ in (*evidence.HAS_RUN, *evidence.HAS_NOT_RUN):
        assert f"<td>{what}</td>" in text


def test_the_evidence_names_tests_that_exist():
    for claim in evidence.CLAIMS:
        for test in claim.tests:
            path, name = test.split(": ")
            assert name in (ROOT / path).read_text(encoding="utf-8"), test
