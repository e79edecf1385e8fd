"""A real Chromium without a window, by the WebDriver protocol of ``chromedriver`` (Debian's `chromium-driver`)."""

import base64
import json
import os
import re
import shutil
import subprocess
import urllib.error
import urllib.request
from contextlib import contextmanager

import pytest

SECS = 60


class Browser:
    """A session of a browser.

    Args:
        driver: the address of chromedriver.
    """

    def __init__(self, driver):
        self._driver = driver
        flags = ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--no-first-run"]
        options = {"binary": shutil.which("chromium"), "args": flags}
        wanted = {"alwaysMatch": {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}}
        self._session = f"/session/{self._post('/session', capabilities=wanted)['sessionId']}"

    def _post(self, path, **content):
        data = json.dumps(content).encode()
        request = urllib.request.Request(self._driver + path, data, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=SECS) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(json.load(error)["value"]["message"]) from error

    def resize(self, width, height=1000):
        """Show pages as in a window of this size in pixels."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._post(f"{self._session}/goog/cdp/execute", cmd="Emulation.setDeviceMetricsOverride", params=metrics)

    def open(self, address):
        """Open a page."""
        self._post(f"{self._session}/url", url=address)

    def run(self, code):
        """Run the body of a function of JavaScript; return its value."""
        return self._post(f"{self._session}/execute/sync", script=code, args=[])

    def wait_for(self, condition):
        """Wait until an expression of JavaScript is true in the page."""
        code = f"""const done = arguments[0];
            function look() {{ if ({condition}) done(true); else setTimeout(look, 20); }}
            look();"""
        self._post(f"{self._session}/timeouts", script=1000 * SECS)
        self._post(f"{self._session}/execute/async", script=code, args=[])

    def errors(self):
        """Return what the console said since the last time."""
        return [entry["message"] for entry in self._post(f"{self._session}/se/log", type="browser")]

    def picture(self, path):
        """Write what is shown as PNG."""
        request = urllib.request.Request(f"{self._driver}{self._session}/screenshot")
        with urllib.request.urlopen(request, timeout=SECS) as answer:
            path.write_bytes(base64.b64decode(json.load(answer)["value"]))

    def close(self):
        """End the browser."""
        request = urllib.request.Request(self._driver + self._session, method="DELETE")
        urllib.request.urlopen(request, timeout=SECS).close()


@contextmanager
def chromium():
    """Provide a `Browser` for a block; a test is skipped where there is none."""
    if not (shutil.which("chromium") and shutil.which("chromedriver")):
        pytest.skip("there is no Chromium: apt-get install chromium chromium-driver")
    environment = {key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")}
    with subprocess.Popen(
        ["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    ) as driver:
        try:
            port = next(found[1] for line in driver.stdout if (found := re.search(r"successfully on port (\d+)", line)))
            browser = Browser(f"http://127.0.0.1:{port}")
            try:
                yield browser
            finally:
                browser.close()
        finally:
            driver.terminate()
