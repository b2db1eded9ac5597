"""Drives headless Chromium over its DevTools protocol, through a pipe.  Standard library only."""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def find():
    """The path of a browser, or None."""
    return os.environ.get("HEADROOM_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


class Failed(Exception):
    pass


class Browser:
    def __init__(self, width=1280, height=900, scale=1, local=False):
        """Without a network; local: but for this machine's own."""
        self.folder = tempfile.mkdtemp(prefix="headroom-page-")
        to_us, from_browser = os.pipe()
        from_us, to_browser = os.pipe()
        command = [find(), "--headless=new", "--no-sandbox", "--remote-debugging-pipe", "--no-first-run",
                   "--disable-extensions", "--disable-background-networking", "--disable-component-update",
                   "--disable-sync", "--metrics-recording-only", "--disable-dev-shm-usage", "--hide-scrollbars",
                   "--force-color-profile=srgb", "--host-resolver-rules=MAP * ~NOTFOUND" + (", EXCLUDE 127.0.0.1" if local else ""),
                   f"--user-data-dir={self.folder}", f"--window-size={width},{height}"]

        def fds():  # the browser reads from 3 and writes to 4
            a, b = os.dup(from_us), os.dup(from_browser)
            os.dup2(a, 3)
            os.dup2(b, 4)
            os.set_inheritable(3, True)
            os.set_inheritable(4, True)

        self.process = subprocess.Popen(command, preexec_fn=fds, close_fds=False, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(from_us)
        os.close(from_browser)
        self.read, self.write = to_us, to_browser
        self.buffer, self.serial, self.events, self.session = b"", 0, [], None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Performance"):
            self.call(domain + ".enable")
        self.call("Network.emulateNetworkConditions", offline=not local, latency=0, downloadThroughput=0, uploadThroughput=0)
        self.size(width, height, scale)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def message(self, until):
        while b"\0" not in self.buffer:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.read], [], [], left)[0]:
                raise Failed("the browser did not answer in time")
            more = os.read(self.read, 1 << 20)
            if not more:
                raise Failed("the browser went away")
            self.buffer += more
        text, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(text)

    def call(self, method, timeout=60, **parameters):
        self.serial += 1
        request = {"id": self.serial, "method": method, "params": parameters}
        if self.session:
            request["sessionId"] = self.session
        data = json.dumps(request).encode() + b"\0"
        while data:
            data = data[os.write(self.write, data):]
        until = time.monotonic() + timeout
        while True:
            answer = self.message(until)
            if answer.get("id") == self.serial:
                if "error" in answer:
                    raise Failed(f"{method}: {answer['error'].get('message')}")
                return answer["result"]
            self.events.append(answer)

    def size(self, width, height, scale=1):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=False)

    def js(self, expression, timeout=60):
        result = self.call("Runtime.evaluate", timeout=timeout, expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            raise Failed(f"{expression[:80]}: {result['exceptionDetails'].get('exception', {}).get('description')}")
        return result["result"].get("value")

    def open(self, path, query="", timeout=60):
        """Opens a file and waits until its table is filled."""
        self.events.clear()
        self.call("Page.navigate", url="file://" + os.path.abspath(path) + query)
        self.wait("performance.getEntriesByName('table').length > 0", timeout)

    def wait(self, condition, timeout=20):
        until = time.monotonic() + timeout
        while not self.js(f"!!({condition})"):
            if time.monotonic() > until:
                raise Failed(f"never came true: {condition}; " + "; ".join(self.complaints()))
            time.sleep(.05)

    def complaints(self):
        """Console errors, exceptions, and requests that are neither for the page itself nor for its own blobs."""
        found = []
        for event in self.events:
            p, method = event.get("params", {}), event.get("method")
            if method == "Runtime.exceptionThrown":
                found.append("exception: " + str(p["exceptionDetails"].get("exception", {}).get("description")))
            elif method == "Runtime.consoleAPICalled" and p["type"] in ("error", "warning", "assert"):
                found.append("console: " + str(p["args"]))
            elif method == "Log.entryAdded" and p["entry"]["level"] in ("error", "warning"):
                found.append("log: " + p["entry"]["text"])
            elif method == "Network.requestWillBeSent" and not p["request"]["url"].startswith(("file://", "blob:", "data:")):
                found.append("request: " + p["request"]["url"])
        return found

    def screenshot(self, path, whole=True):
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def pdf(self, path):
        data = self.call("Page.printToPDF", printBackground=True, paperWidth=8.27, paperHeight=11.69)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, x, y):
        self.mouse("mouseMoved", x, y)
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, x, y, button="left", clickCount=1)

    def key(self, key, text=None):
        code = {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Escape": 27, "Tab": 9}.get(key, ord(key[0]))
        more = {} if len(key) > 1 else {"text": text or key}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, **more)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def heap(self):
        """Bytes of JavaScript objects and of their buffers."""
        use = self.call("Runtime.getHeapUsage")
        return use["usedSize"] + use.get("backingStorageSize", 0)

    def throttle(self, rate):
        self.call("Emulation.setCPUThrottlingRate", rate=rate)
