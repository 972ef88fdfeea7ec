# SPDX-License-Identifier: Apache-2.0
"""The page in a real browser, and the pictures on it."""

import json
import shutil
import subprocess

import pytest

from fusednorm.measure.command import main

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    directory = tmp_path_factory.mktemp("page")
    names = ["--op", "layer_norm", "--contestants", "2019,native,fusednorm", "--seconds", "0.01"]
    profile, bench = directory / "profile.json", directory / "bench.json"
    assert main(["profile", "--shape", "2048x256", *names, "--json", str(profile)]) == 0
    shapes = [w for s in ("64x48", "32x40") for w in ("--shape", s)]
    assert main(["bench", *shapes, "--dtype", "f32", *names, "--json", str(bench)]) == 0
    document = json.loads(bench.read_text())
    # A sweep of large shapes takes minutes: give the small one the sizes that are drawn.
    rows = document["rows"]
    document["rows"] = [
        r | {"rows": m, "cols": n, "minimal_bytes": 1 << 24}
        for m in (128, 1024, 8192)
        for n in (64, 256, 1024)
        for r in rows
        if r["cols"] == 48
    ]
    bench.write_text(json.dumps(document))
    output = directory / "report.html"
    words = ["--profile", str(profile), "--bench", str(bench), "--output", str(output)]
    assert main(["report", *words]) == 0
    return output


def browse(page):
    """Return the page after its scripts, and what was written to the console."""
    if BROWSER is None:
        pytest.skip("no chromium here; apt-get install chromium runs this test")
    done = subprocess.run(
        [
            *(BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"),
            *(f"--user-data-dir={page.parent / 'browser'}", "--virtual-time-budget=5000"),
            *("--host-resolver-rules=MAP * ~NOTFOUND", "--dump-dom", page.as_uri()),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def test_needs_nothing_from_elsewhere(page):
    text = page.read_text()
    assert "http:" not in text
    assert "https:" not in text
    assert "<script" not in text
    assert text.count("data:image/png;base64,") == 3  # bars, lines over columns, heat map


def test_content_in_a_browser_without_console_errors(page):
    dom, console = browse(page)
    assert console == []
    for text in ("what fusion saves", "AddcmulBackward0", "How to reproduce", "Environment"):
        assert text in dom
    assert dom.count('class="ours"') > 3


def test_every_picture_is_decoded(page):
    probe = page.with_name("probe.html")
    script = "document.title = [...document.images].map(i => i.naturalWidth > 600).join()"
    tag = f"<script>onload = () => {{ {script} }}</script>"
    probe.write_text(page.read_text().replace("</body>", tag + "</body>"))
    dom, _ = browse(probe)
    assert "<title>true,true,true</title>" in dom


def test_the_console_is_really_read(page):
    broken = page.with_name("broken.html")
    broken.write_text("<script>nothing.here()</script>")
    assert any("nothing is not defined" in line for line in browse(broken)[1])
