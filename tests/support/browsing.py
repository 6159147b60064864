"""Debian's chromium for tests, and a window that notes what must not happen."""

import shutil
from pathlib import Path

import pytest

CHROMIUM = shutil.which("chromium")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
AXE = Path(__file__).parents[2] / "build/npm/node_modules/axe-core/axe.min.js"
PATIENCE = 8_000  # milliseconds


def new_context(browser, **options):
    """Make a window's surroundings: storage, cache, sizes, colours."""
    context = browser.new_context(reduced_motion="reduce", locale="en-GB", **options)
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    return context


class Visitor:
    """A browser window that notes what must not happen: script errors, blocked content, dialogs, foreign requests."""

    def __init__(self, context):
        self.page = context.new_page()
        self.page.set_default_timeout(PATIENCE)
        self.faults: list = []
        self.page.on("pageerror", lambda error: self.faults.append(f"script error: {error}"))
        self.page.on("dialog", self._dialog)
        self.page.on("console", self._console)
        self.page.on("request", self._request)

    def open(self, server, route=""):
        """Go to a page of a service."""
        self.url = server.url
        self.page.goto(f"{server.url}#/{route}")
        return self.page

    def _dialog(self, dialog):
        self.faults.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _console(self, message):
        expected = "Failed to load resource" in message.text  # refused requests are part of some tests
        if message.type == "error" and not expected:
            self.faults.append(f"console: {message.text}")

    def _request(self, request):
        if not request.url.startswith((self.url, "blob:", "data:")):
            self.faults.append(f"foreign request: {request.url}")


def violations(page, rules=()):
    """Serious and critical violations that axe-core finds; by all rules, or by those named."""
    if not AXE.exists():
        pytest.skip("axe-core is not installed; scripts/install-browser.sh installs it where that is possible")
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE.read_text(encoding="utf-8"))
    run = "rules => axe.run(document, {resultTypes: ['violations'], ...rules}).then(found => found.violations)"
    found = page.evaluate(run, {"runOnly": list(rules)} if rules else {})
    bad = [one for one in found if one["impact"] in ("serious", "critical")]
    return [f"{one['id']}: {node['target']} {node['failureSummary']}" for one in bad for node in one["nodes"]]
